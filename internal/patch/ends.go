package patch

import (
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// LineEnds counts the lines of a file that the patch changes in nothing but their ends, in all of the file, shown or not.
type LineEnds struct{ ToLF, ToCRLF int }

// lineEnds counts them. Lines that take each other's places are found as for the marks of words, by their texts.
func lineEnds(gf *gitdiff.File) LineEnds {
	var n LineEnds
	cells := maxMatch
	for _, t := range gf.TextFragments {
		for at := 0; at < len(t.Lines); {
			removed := ends(t.Lines[at:], gitdiff.OpDelete)
			added := ends(t.Lines[at+len(removed.texts):], gitdiff.OpAdd)
			at += max(len(removed.texts)+len(added.texts), 1)
			if !removed.crlf && !added.crlf {
				continue
			}
			for _, p := range matchWithin(removed.texts, added.texts, &cells) {
				switch was, is := removed.ends[p[0]], added.ends[p[1]]; {
				case was && !is:
					n.ToLF++
				case is && !was:
					n.ToCRLF++
				}
			}
		}
	}
	return n
}

// endsOf are lines without their ends, and which of those have a carriage return.
type endsOf struct {
	texts []string
	ends  []bool
	crlf  bool
}

// ends are the lines of one kind that lines begin with.
func ends(lines []gitdiff.Line, op gitdiff.LineOp) endsOf {
	var out endsOf
	for _, l := range lines {
		if l.Op != op {
			break
		}
		text, crlf := strings.CutSuffix(strings.TrimSuffix(l.Line, "\n"), "\r")
		out.texts, out.ends, out.crlf = append(out.texts, "="+text), append(out.ends, crlf), out.crlf || crlf
	}
	return out
}
