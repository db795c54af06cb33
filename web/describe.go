package web

import (
	"regexp"
	"strings"
)

// block is a part of a pull request's text as it is shown here. Only the few forms are known in which our own texts are
// written; all else stays the words that they are, and nothing becomes an element by what it says.
type block struct {
	Heading string
	Text    string
	Items   []string
	Rows    [][2]string
	Code    string
}

// describe reads a pull request's text.
func describe(body string) []block {
	var all []block
	last := func() *block {
		if len(all) == 0 {
			all = append(all, block{})
		}
		return &all[len(all)-1]
	}
	gap, fence := true, ""
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case fence != "" && strings.TrimSpace(line) == fence:
			fence, gap = "", true
		case fence != "":
			last().Code += line + "\n"
		case strings.HasPrefix(line, "```"):
			fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
			all = append(all, block{})
		case strings.HasPrefix(line, "<!--") && strings.HasSuffix(line, "-->"):
		case strings.TrimSpace(line) == "":
			gap = true
		case strings.HasPrefix(line, "### "):
			all, gap = append(all, block{Heading: unmarked(line[4:])}), true
		case strings.HasPrefix(line, "- "):
			if gap || len(last().Items) == 0 {
				all = append(all, block{})
			}
			last().Items, gap = append(last().Items, unmarked(line[2:])), false
		case strings.HasPrefix(line, "| ") && strings.HasSuffix(line, " |"):
			if gap || len(last().Rows) == 0 {
				all = append(all, block{})
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line[2:], " |"), " | ")
			if gap = false; strings.Trim(name+value, "-| ") != "" {
				last().Rows = append(last().Rows, [2]string{unmarked(name), unmarked(value)})
			}
		default:
			if gap || last().Text == "" {
				all = append(all, block{})
			} else {
				last().Text += " "
			}
			last().Text, gap = last().Text+unmarked(line), false
		}
	}
	return all
}

// markup are links, code spans and escapes; what they hold is kept, what marks them goes.
func markup() *regexp.Regexp {
	return regexp.MustCompile("\\\\([[:punct:]])|\\[([^\\]]*)\\]\\([^)]*\\)|`([^`]*)`")
}

func unmarked(line string) string {
	return strings.TrimSpace(markup().ReplaceAllString(line, "$1$2$3"))
}
