package handlers

import (
	"fmt"

	"signalbox/web"
)

// OnStep is a comment on a step, for Instruction.
func OnStep(step int, quote, text string) comment { return onStep(step, quote, text) }

// OnLine is a comment on a line, for Instruction.
func OnLine(l web.LineRef, path, quote, text string) comment { return onLine(l, path, quote, text) }

// Instruction is what the agent gets.
func Instruction(text string, revision int, comments ...comment) string {
	return instruction(text, fmt.Sprintf("the plan, revision %d", revision), comments)
}
