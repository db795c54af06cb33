package patch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Piece is a range of bytes of a line's text.
type Piece struct{ From, To int }

// Work bounds what one page spends on finding changed words; what is over it is shown without marks. Share one between the
// files of a page.
type Work struct{ cells, words int }

// NewWork is the amount for one page.
func NewWork() *Work { return &Work{cells: 2 << 20, words: 1 << 20} }

const (
	// maxTokens bounds the words of a line that is looked into: longer lines are data, not text.
	maxTokens = 400
	// maxTries bounds the pairs of a removed and an added line that are tried in one place, where their numbers differ.
	maxTries = 256
	// alike is the part of a pair's text, in percent, that both have at least; marks on others would say nothing.
	alike = 40
)

// MarkWords pairs removed lines with the added ones that took their places, and marks in both what is not in the other.
// Lines that are cut, long or have little in common stay without marks. The text of lines is not changed. With ignoreSpace
// blanks and tabs are never marked.
func (df *DiffFile) MarkWords(w *Work, ignoreSpace bool) {
	for i := range df.Hunks {
		lines := df.Hunks[i].Lines
		for at := 0; at < len(lines); {
			removed := run(lines[at:], LineRemoved)
			added := run(lines[at+len(removed):], LineAdded)
			at += max(len(removed)+len(added), 1)
			if len(removed) == 0 || len(added) == 0 {
				continue
			}
			for _, p := range w.pairs(tokenLines(removed), tokenLines(added)) {
				r, a := &removed[p[0]], &added[p[1]]
				r.Pair, a.Pair = a.New, r.Old
				if r.CRLF != a.CRLF {
					r.EndChanged, a.EndChanged = true, true
				}
				r.Words, a.Words = w.differ(r.Text, a.Text, ignoreSpace)
			}
		}
	}
}

// tokenLine is a line with its words; few is false where it is not looked into.
type tokenLine struct {
	text   string
	cut    bool
	tokens []string
	few    bool
}

func tokenLines(lines []DiffLine) []tokenLine {
	out := make([]tokenLine, len(lines))
	for i, l := range lines {
		out[i] = tokenLine{text: l.Text, cut: l.Cut}
		if !l.Cut {
			out[i].tokens, out[i].few = tokens(l.Text)
		}
	}
	return out
}

// pairs finds which added line took the place of which removed one, in order. What is equal but for its line end belongs
// together; between those, lines belong together one by one where there are as many, else those that are most alike.
func (w *Work) pairs(removed, added []tokenLine) [][2]int {
	texts := func(lines []tokenLine) []string {
		out := make([]string, len(lines))
		for i, l := range lines {
			if !l.cut {
				out[i] = "=" + l.text
			}
		}
		return out
	}
	var all [][2]int
	r, a := 0, 0
	for _, p := range append(matchWithin(texts(removed), texts(added), &w.cells), [2]int{len(removed), len(added)}) {
		n, m := p[0]-r, p[1]-a
		switch {
		case n == m:
			for i := range n {
				if w.like(removed[r+i], added[a+i]) >= alike {
					all = append(all, [2]int{r + i, a + i})
				}
			}
		case n > 0 && m > 0 && n*m <= maxTries:
			for _, q := range w.best(removed[r:p[0]], added[a:p[1]]) {
				all = append(all, [2]int{r + q[0], a + q[1]})
			}
		}
		if p[0] < len(removed) && p[1] < len(added) {
			all = append(all, p)
		}
		r, a = p[0]+1, p[1]+1
	}
	return all
}

// best pairs lines in order so that the sum of their likeness is the greatest.
func (w *Work) best(removed, added []tokenLine) [][2]int {
	n, m := len(removed), len(added)
	score := make([]int, n*m)
	sum := make([]int, (n+1)*(m+1))
	at := func(i, j int) *int { return &sum[i*(m+1)+j] }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			if s := w.like(removed[i], added[j]); s >= alike {
				score[i*m+j] = s
				*at(i, j) = max(*at(i, j), s+*at(i+1, j+1))
			}
		}
	}
	var all [][2]int
	for i, j := 0, 0; i < n && j < m; {
		switch s := score[i*m+j]; {
		case s > 0 && *at(i, j) == s+*at(i+1, j+1):
			all = append(all, [2]int{i, j})
			i, j = i+1, j+1
		case *at(i, j) == *at(i+1, j):
			i++
		default:
			j++
		}
	}
	return all
}

// like is how much of two lines' text, blanks aside and in whatever order, both have, in percent of the longer; 0 where one
// is not looked into or the work is used up.
func (w *Work) like(a, b tokenLine) int {
	if !a.few || !b.few || len(a.tokens)+len(b.tokens) > w.words {
		return 0
	}
	w.words -= len(a.tokens) + len(b.tokens)
	count, all, other, both := map[string]int{}, 0, 0, 0
	for _, t := range a.tokens {
		if !blank(t) {
			count[t]++
			all += weight(t)
		}
	}
	for _, t := range b.tokens {
		if blank(t) {
			continue
		}
		other += weight(t)
		if count[t] > 0 {
			count[t]--
			both += weight(t)
		}
	}
	if longer := max(all, other); longer > 0 {
		return 100 * both / longer
	}
	return 100 // both blank
}

// differ marks in two lines what is not in the other; nothing where they are equal or the work is used up.
func (w *Work) differ(old, fresh string, ignoreSpace bool) (inOld, inNew []Piece) {
	if old == fresh {
		return nil, nil
	}
	a, okA := tokens(old)
	b, okB := tokens(fresh)
	if !okA || !okB || !within(a, b, w.cells) {
		return nil, nil
	}
	pairs := matchWithin(a, b, &w.cells)
	left, right := make([]bool, len(a)), make([]bool, len(b))
	for _, p := range pairs {
		left[p[0]], right[p[1]] = true, true
	}
	return pieces(a, left, ignoreSpace), pieces(b, right, ignoreSpace)
}

// within reports whether matchWithin compares all of a and b within so many cells.
func within(a, b []string, cells int) bool {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a)*len(b) <= cells
}

// pieces are the tokens that are not in both, joined where only blanks are between them.
func pieces(all []string, both []bool, ignoreSpace bool) []Piece {
	var out []Piece
	at, open := 0, false
	for i, t := range all {
		end := at + len(t)
		switch {
		case both[i] && blank(t) || ignoreSpace && blank(t): // may join what is around it
		case both[i]:
			open = false
		case open:
			out[len(out)-1].To = end
		default:
			out, open = append(out, Piece{at, end}), true
		}
		at = end
	}
	return out
}

// tokens cuts text into words, blanks and single other characters; false where there are too many. A hidden character that
// is written out is one token.
func tokens(text string) ([]string, bool) {
	var out []string
	for len(text) > 0 {
		if len(out) == maxTokens {
			return nil, false
		}
		n := tokenLength(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out, true
}

func tokenLength(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	of := func(in func(rune) bool) int {
		if n := strings.IndexFunc(text, func(r rune) bool { return !in(r) }); n >= 0 {
			return n
		}
		return len(text)
	}
	switch {
	case wordRune(r):
		return of(wordRune)
	case r == ' ' || r == '\t':
		return of(func(r rune) bool { return r == ' ' || r == '\t' })
	}
	if n := RevealedLength(text); n > 0 {
		return n
	}
	return size
}

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
}

// weight is a token's part in what two lines have in common.
func weight(token string) int {
	if RevealedLength(token) > 0 {
		return 1
	}
	return len(token)
}

func blank(token string) bool { return token[0] == ' ' || token[0] == '\t' }

// RevealedLength is the length, in bytes, of the written-out hidden character that text begins with; 0 where it begins with
// none.
func RevealedLength(text string) int {
	rest, ok := strings.CutPrefix(text, "⟦U+")
	if !ok {
		return 0
	}
	n := 0
	for n < len(rest) && n < 6 && (rest[n] >= '0' && rest[n] <= '9' || rest[n] >= 'A' && rest[n] <= 'F') {
		n++
	}
	if n < 4 || !strings.HasPrefix(rest[n:], "⟧") {
		return 0
	}
	return len("⟦U+") + n + len("⟧")
}
