package patch

import "strings"

// IgnoreSpace turns pairs of a removed and an added line that differ only in
// blanks and tabs into lines of context with the new text, and returns how
// many pairs it turned. Cut lines stay changes: nobody knows their ends.
func (d *Diff) IgnoreSpace() int {
	n := 0
	for i := range d.Files {
		n += d.Files[i].IgnoreSpace()
	}
	return n
}

// IgnoreSpace does for one file what Diff.IgnoreSpace does for all.
func (df *DiffFile) IgnoreSpace() int {
	n := 0
	for i := range df.Hunks {
		h := &df.Hunks[i]
		var out []DiffLine
		for at := 0; at < len(h.Lines); {
			removed := run(h.Lines[at:], LineRemoved)
			added := run(h.Lines[at+len(removed):], LineAdded)
			if len(removed)+len(added) == 0 {
				out = append(out, h.Lines[at])
				at++
				continue
			}
			at += len(removed) + len(added)
			pairs := match(keys(removed), keys(added))
			n += len(pairs)
			r, a := 0, 0
			for _, p := range append(pairs, [2]int{len(removed), len(added)}) {
				out = append(append(out, removed[r:p[0]]...), added[a:p[1]]...)
				if p[0] < len(removed) && p[1] < len(added) {
					line := added[p[1]]
					line.Kind, line.Old, line.Space = LineContext, removed[p[0]].Old, true
					line.EndChanged = line.CRLF != removed[p[0]].CRLF
					out = append(out, line)
				}
				r, a = p[0]+1, p[1]+1
			}
		}
		h.Lines = out
	}
	return n
}

// run is the lines of one kind that lines begin with.
func run(lines []DiffLine, kind LineKind) []DiffLine {
	n := 0
	for n < len(lines) && lines[n].Kind == kind {
		n++
	}
	return lines[:n]
}

// keys are the lines without blanks and tabs; a line that equals nothing but
// itself has none. Other blanks of Unicode are no white space: they are used
// to deceive.
func keys(lines []DiffLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		if !l.Cut {
			out[i] = "=" + strings.NewReplacer(" ", "", "\t", "").Replace(l.Text)
		}
		if l.NoEOL {
			out[i] += "\n"
		}
	}
	return out
}

// maxMatch bounds the table of one comparison, in cells; larger ones match
// what is equal at the beginning and at the end.
const maxMatch = 1 << 20

// match pairs equal entries of a and b in order, as many as there can be. An
// empty entry matches nothing.
func match(a, b []string) [][2]int {
	cells := maxMatch
	return matchWithin(a, b, &cells)
}

// matchWithin is match with cells that several comparisons share.
func matchWithin(a, b []string, cells *int) [][2]int {
	var pairs [][2]int
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] && a[start] != "" {
		pairs = append(pairs, [2]int{start, start})
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] && a[len(a)-1-end] != "" {
		end++
	}
	n, m := len(a)-start-end, len(b)-start-end
	if n > 0 && m > 0 && n <= *cells/m {
		*cells -= n * m
		pairs = append(pairs, longest(a[start:start+n], b[start:start+m], start)...)
	}
	for i := end; i > 0; i-- {
		pairs = append(pairs, [2]int{len(a) - i, len(b) - i})
	}
	return pairs
}

// longest is the longest common subsequence as pairs of indexes plus offset.
func longest(a, b []string, offset int) [][2]int {
	width := len(b) + 1
	table := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] && a[i] != "" {
				table[i*width+j] = table[(i+1)*width+j+1] + 1
			} else {
				table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
			}
		}
	}
	var pairs [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j] && a[i] != "":
			pairs = append(pairs, [2]int{offset + i, offset + j})
			i, j = i+1, j+1
		case table[(i+1)*width+j] >= table[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}
