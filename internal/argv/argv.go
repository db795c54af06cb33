// Package argv reads a command as a person writes it on one line, and writes one so that it reads the same again. It
// owns the quoting rules of checks: those of a shell, as far as words go. It refuses whatever only a shell could carry
// out, because checks run without one and would be handed it as a word.
package argv

import (
	"errors"
	"fmt"
	"strings"
)

// acts are the characters that a shell would act upon outside quotes.
const acts = "|&;<>()$`*?"

// Parse splits line into program and arguments. Single quotes keep everything as it is, double quotes all but \" \\ \$
// and \`, a backslash keeps the next character. The error says what cannot be accepted and how to write it instead.
func Parse(line string) ([]string, error) {
	if strings.IndexByte(line, 0) >= 0 {
		return nil, errors.New("a NUL character cannot be part of a command")
	}
	p := parser{rest: line}
	for p.next() {
		if err := p.word(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(p.words) == 0 || p.words[0] == "":
		return nil, errors.New("no program is named")
	case p.assigns:
		return nil, fmt.Errorf("%q would set a variable in a shell; write env in front of it", p.words[0])
	}
	return p.words, nil
}

// parser is how far a line is read.
type parser struct {
	rest  string
	words []string
	// assigns says that the first word is NAME=value without quotes.
	assigns bool
}

// next skips the space before a word and reports whether there is one.
func (p *parser) next() bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest != ""
}

// word reads one word.
func (p *parser) word() error {
	if p.rest[0] == '~' || p.rest[0] == '#' {
		return fmt.Errorf("%c at the start of a word means something only to a shell; put the word in single quotes to pass it as it is", p.rest[0])
	}
	if len(p.words) == 0 {
		name, _, set := strings.Cut(p.rest, "=")
		p.assigns = set && isName(name)
	}
	var w strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			p.words = append(p.words, w.String())
			return nil
		case c == '\'':
			inside, after, closed := strings.Cut(p.rest, "'")
			if !closed {
				return errors.New("a single quote is not closed")
			}
			w.WriteString(inside)
			p.rest = after
		case c == '"':
			if err := p.double(&w); err != nil {
				return err
			}
		case c == '\\':
			if p.rest == "" {
				return errors.New("nothing follows the backslash at the end")
			}
			w.WriteByte(p.rest[0])
			p.rest = p.rest[1:]
		case strings.IndexByte(acts, c) >= 0:
			return fmt.Errorf("%c means something only to a shell, and checks run without one; put it in single quotes to pass it as it is, or run sh -c '…'", c)
		default:
			w.WriteByte(c)
		}
	}
	p.words = append(p.words, w.String())
	return nil
}

// double reads to the end of double quotes.
func (p *parser) double(w *strings.Builder) error {
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return nil
		case c == '$' || c == '`':
			return fmt.Errorf("%c between double quotes means something only to a shell; use single quotes to pass it as it is", c)
		case c == '\\' && p.rest != "" && strings.IndexByte("\"\\$`", p.rest[0]) >= 0:
			c = p.rest[0]
			p.rest = p.rest[1:]
		}
		w.WriteByte(c)
	}
	return errors.New("a double quote is not closed")
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Format writes words so that Parse reads them again; what needs no quotes has none.
func Format(words []string) string {
	out := make([]string, 0, len(words))
	for i, w := range words {
		name, _, set := strings.Cut(w, "=")
		if w != "" && !strings.ContainsAny(w, " \t\r\n'\"\\"+acts) && w[0] != '~' && w[0] != '#' && (i > 0 || !set || !isName(name)) {
			out = append(out, w)
			continue
		}
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}
