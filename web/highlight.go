package web

import (
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"

	"signalbox/internal/patch"
)

// painter colours the hunks of one page. Lexers are regular expressions that run on hostile text, so size and time are
// limited for the whole page; what is over the limit is shown without colours, never left out.
type painter struct {
	bytesLeft int
	deadline  time.Time
	lexer     map[string]chroma.Lexer // by path; nil: none
}

const (
	paintBytes = 256 << 10
	paintHunk  = 64 << 10
	paintTime  = 400 * time.Millisecond
)

func newPainter(d time.Duration) *painter {
	return &painter{bytesLeft: paintBytes, deadline: time.Now().Add(d), lexer: map[string]chroma.Lexer{}}
}

// hunk returns the spans of each line of h. Old and new side are lexed apart, so that a removed quote does not colour
// what follows.
func (p *painter) hunk(path string, h patch.Hunk) [][]Span {
	out := make([][]Span, len(h.Lines))
	for i, l := range h.Lines {
		out[i] = plain(l.Text)
	}
	lexer := p.lexerFor(path)
	if lexer == nil {
		return out
	}
	p.side(lexer, h, out, patch.LineRemoved)
	p.side(lexer, h, out, patch.LineAdded)
	return out
}

// side colours the lines of one side; context lines take their colours from the new side.
func (p *painter) side(lexer chroma.Lexer, h patch.Hunk, out [][]Span, kind patch.LineKind) {
	var text strings.Builder
	var index []int
	for i, l := range h.Lines {
		if l.Kind == kind || l.Kind == patch.LineContext {
			text.WriteString(l.Text)
			text.WriteByte('\n')
			index = append(index, i)
		}
	}
	if text.Len() > paintHunk || text.Len() > p.bytesLeft || time.Now().After(p.deadline) {
		return
	}
	p.bytesLeft -= text.Len()
	lines, ok := p.lex(lexer, text.String(), len(index))
	if !ok {
		return
	}
	for n, i := range index {
		if lineText(lines[n]) == h.Lines[i].Text { // a lexer that changes text is not believed
			out[i] = lines[n]
		}
	}
}

func (p *painter) lex(lexer chroma.Lexer, text string, want int) ([][]Span, bool) {
	tokens, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
	if err != nil {
		return nil, false
	}
	lines := [][]Span{nil}
	for t := tokens(); t != chroma.EOF; t = tokens() {
		if time.Now().After(p.deadline) {
			return nil, false
		}
		class := tokenClass(t.Type)
		for i, part := range strings.Split(t.Value, "\n") {
			if i > 0 {
				lines = append(lines, nil)
			}
			if part == "" {
				continue
			}
			last := &lines[len(lines)-1]
			if n := len(*last); n > 0 && (*last)[n-1].Class == class {
				(*last)[n-1].Text += part
			} else {
				*last = append(*last, Span{Class: class, Text: part})
			}
		}
	}
	return lines, len(lines) >= want
}

func (p *painter) lexerFor(path string) chroma.Lexer {
	if l, ok := p.lexer[path]; ok {
		return l
	}
	l := lexers.Match(path[strings.LastIndexByte(path, '/')+1:])
	p.lexer[path] = l
	return l
}

// tokenClass maps the lexers' many types to the eight classes of the style sheet. The list is closed.
func tokenClass(t chroma.TokenType) string {
	switch {
	case t == chroma.KeywordType:
		return "tt"
	case t.InCategory(chroma.Keyword):
		return "tk"
	case t == chroma.NameFunction, t == chroma.NameFunctionMagic:
		return "tf"
	case t == chroma.NameClass, t == chroma.NameNamespace, t == chroma.NameTag:
		return "tt"
	case t == chroma.NameBuiltin, t == chroma.NameBuiltinPseudo, t == chroma.NameDecorator, t == chroma.NameAttribute:
		return "tb"
	case t.InSubCategory(chroma.LiteralString):
		return "ts"
	case t.InCategory(chroma.Literal):
		return "tn"
	case t.InCategory(chroma.Comment):
		return "tc"
	case t.InCategory(chroma.Operator), t.InCategory(chroma.Punctuation):
		return "tp"
	default:
		return ""
	}
}

func plain(text string) []Span {
	if text == "" {
		return nil
	}
	return []Span{{Text: text}}
}

func lineText(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}
