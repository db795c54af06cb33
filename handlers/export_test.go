package handlers

// OnStep is a comment on a step, for Instruction.
func OnStep(step int, quote, text string) stepComment { return stepComment{step, quote, text} }

// Instruction is what the agent gets.
func Instruction(text string, revision int, comments ...stepComment) string {
	return instruction(text, revision, comments)
}
