package policy

import "strings"

// Line is one line of a comparison of two documents: Op is ' ', '-' or '+'.
type Line struct {
	Op   byte
	Text string
	// Old and New are the line's numbers in the two documents, from 1; 0 where it is in one of them only.
	Old, New int
}

// mostCompared is how many pairs of lines are compared: beyond that what differs is shown one after the other.
const mostCompared = 1 << 20

// DiffLines compares two documents line by line, with the fewest lines removed and added.
func DiffLines(a, b string) []Line {
	x, y := split(a), split(b)
	head := 0
	for head < len(x) && head < len(y) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	var out []Line
	for i := range head {
		out = append(out, Line{' ', x[i], i + 1, i + 1})
	}
	out = append(out, middle(x[head:len(x)-tail], y[head:len(y)-tail], head)...)
	for i := range tail {
		out = append(out, Line{' ', x[len(x)-tail+i], len(x) - tail + i + 1, len(y) - tail + i + 1})
	}
	return out
}

func split(s string) []string {
	if s = strings.TrimSuffix(strings.ReplaceAll(s, "\r\n", "\n"), "\n"); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// middle compares by the longest common subsequence; from is how many equal lines stand before.
func middle(x, y []string, from int) []Line {
	n, m := len(x), len(y)
	var longest [][]int32
	if n*m <= mostCompared {
		longest = make([][]int32, n+1)
	}
	for i := range longest {
		longest[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0 && longest != nil; i-- {
		for j := m - 1; j >= 0; j-- {
			if x[i] == y[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var out []Line
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case longest != nil && i < n && j < m && x[i] == y[j]:
			out = append(out, Line{' ', x[i], from + i + 1, from + j + 1})
			i, j = i+1, j+1
		case i < n && (longest == nil || j == m || longest[i+1][j] >= longest[i][j+1]):
			out = append(out, Line{'-', x[i], from + i + 1, 0})
			i++
		default:
			out = append(out, Line{'+', y[j], 0, from + j + 1})
			j++
		}
	}
	return out
}
