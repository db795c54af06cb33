package db

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
)

// sparse sends a statement of many writing parts without those parts that have no rows. Preparing a part for execution
// costs Postgres about as much as running it, so an ordinary transition, which writes into three tables, would pay for
// all of them otherwise. What is left out would have done nothing.
type sparse struct {
	sqlc.DBTX
	shapes *shapes
}

// Query implements sqlc.DBTX.
func (s sparse) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	sh := s.shapes.of(text, args)
	kept := make([]any, 0, len(sh.args))
	for _, i := range sh.args {
		kept = append(kept, args[i])
	}
	return s.DBTX.Query(ctx, sh.text, kept...)
}

// shapes keeps the shortened texts by which arguments are empty, so that each is cut once and prepared once for each
// connection.
type shapes struct {
	mu  sync.Mutex
	cut map[whole]shape
}

// whole is a statement and which of its arguments are empty.
type whole struct{ text, empty string }

type shape struct {
	text string
	args []int // positions of the arguments that are left
}

func (s *shapes) of(text string, args []any) shape {
	marks := bytes.Repeat([]byte{'+'}, len(args))
	for i, a := range args {
		if raw, ok := a.(json.RawMessage); ok && string(raw) == noRows {
			marks[i] = '-'
		}
	}
	key := whole{text, string(marks)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh, ok := s.cut[key]; ok {
		return sh
	}
	if s.cut == nil {
		s.cut = map[whole]shape{}
	}
	sh := shorten(text, key.empty)
	s.cut[key] = sh
	return sh
}

const noRows = "[]"

var (
	partStart = regexp.MustCompile(`(?m)^(?:WITH |\), )([a-z_]+) AS \(\n`)
	parameter = regexp.MustCompile(`\$[0-9]+`)
	reference = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|USING) ([a-z_]+)\b`)
)

// shorten leaves out every part of a WITH whose own arguments are all empty, and every part that reads from one that
// was left out. The first part and the final SELECT stay. empty has a '-' for each empty argument.
func shorten(text, empty string) shape {
	starts := partStart.FindAllStringSubmatchIndex(text, -1)
	end := strings.LastIndex(text, "\n)\n")
	if len(starts) == 0 || end < 0 {
		return shape{text, allOf(len(empty))}
	}
	var out strings.Builder
	gone := map[string]bool{}
	for n, at := range starts {
		name, until := text[at[2]:at[3]], end+1
		if n+1 < len(starts) {
			until = starts[n+1][0]
		}
		body := text[at[1]:until]
		if n > 0 && (unfed(body, empty) || readsFrom(body, gone)) {
			gone[name] = true
			continue
		}
		if n == 0 {
			out.WriteString(text[:at[0]] + "WITH ")
		} else {
			out.WriteString("), ")
		}
		out.WriteString(name + " AS (\n" + body)
	}
	out.WriteString(text[end+1:])
	return renumber(out.String())
}

// unfed reports a part that has arguments and all of them empty.
func unfed(body, empty string) bool {
	used := parameter.FindAllString(body, -1)
	return len(used) > 0 && !slices.ContainsFunc(used, func(p string) bool { return empty[position(p)] == '+' })
}

func readsFrom(body string, gone map[string]bool) bool {
	return slices.ContainsFunc(reference.FindAllStringSubmatch(body, -1), func(m []string) bool { return gone[m[1]] })
}

// renumber gives the parameters that are left numbers without gaps.
func renumber(text string) shape {
	sh := shape{}
	sh.text = parameter.ReplaceAllStringFunc(text, func(p string) string {
		i := slices.Index(sh.args, position(p))
		if i < 0 {
			i = len(sh.args)
			sh.args = append(sh.args, position(p))
		}
		return "$" + strconv.Itoa(i+1)
	})
	return sh
}

// position is the index of the argument of a parameter.
func position(p string) int {
	n, err := strconv.Atoi(p[1:])
	if err != nil || n < 1 {
		// The expression above finds digits only, and Postgres counts from one.
		panic("parameter " + p)
	}
	return n - 1
}

func allOf(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
