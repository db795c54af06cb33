package policy

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// maxDepth is how deep lists and fields of a document may stand in each other. A policy needs six; the parser takes time by the square of
// the depth, so a small document could keep it busy for minutes.
const maxDepth = 32

// tooDeep finds where a document nests deeper than that, before anything is parsed; 0 is nowhere. In brackets each one is a level; without
// them each column is in which something begins that stands further right than what it belongs to. A dash in brackets is no policy, but the
// parser goes down for each one.
func tooDeep(tokens token.Tokens) (line int) {
	brackets, dashes, columns := 0, 0, []int{}
	for _, tk := range tokens {
		if tk.Type == token.CommentType || tk.Position == nil {
			continue
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets, dashes = max(brackets-1, 0), 0
			continue
		case token.CollectEntryType:
			dashes = 0
		case token.SequenceEntryType:
			if brackets > 0 {
				dashes++
			}
		}
		if brackets == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		if brackets+dashes+len(columns) > maxDepth {
			return tk.Position.Line
		}
	}
	return 0
}

func depthProblem(line int) Problem {
	return Problem{Line: line, Words: fmt.Sprintf("lists and fields stand more than %d deep in each other", maxDepth)}
}
