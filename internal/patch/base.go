package patch

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's own names of objects
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Limits of the old texts that a worker stores beside a patch. What is over them is left out.
const (
	MaxBaseFiles = 300
	MaxBaseFile  = 1 << 20 // bytes of one text
	MaxBaseTexts = 8 << 20 // bytes of all texts
	// MaxBase bounds the stored document: the texts and a line before each.
	MaxBase = MaxBaseTexts + MaxBaseFiles*100
	// MaxBaseLines bounds the lines of all texts into which one Base is split, 16 bytes of memory each.
	MaxBaseLines = 500_000
)

// BaseName is the name under which the old texts for the patch of a digest are stored, so that both find each other.
func BaseName(digest string) string { return "before-" + digest[:min(len(digest), 16)] + ".txt" }

// Base are old texts of files, by the names that git has for them. Each name was computed here from the text, so a text can be
// missing, but none can stand under the name of another. It is for one goroutine; nil has no texts.
type Base struct {
	texts map[string]*oldText
	lines int // that may still be made of texts
}

type oldText struct {
	text  string
	split bool
	lines []string // with their ends; made once, however many files name the text
}

// ParseBase reads old texts in the form of `git cat-file --batch`. It is untrusted: a text that does not have the name it claims
// is left out, and so is everything from the first place on that is not of that form.
func ParseBase(raw []byte) *Base {
	base := &Base{texts: map[string]*oldText{}, lines: MaxBaseLines}
	for len(raw) > 0 && len(base.texts) < MaxBaseFiles {
		head, rest, ok := bytes.Cut(raw, []byte{'\n'})
		fields := strings.Split(string(head[:min(len(head), 100)]), " ")
		if !ok || len(fields) != 3 || fields[1] != "blob" {
			return base
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size < 0 || size >= len(rest) || rest[size] != '\n' {
			return base
		}
		if name := fields[0]; size <= MaxBaseFile && name != "" && blobName(len(name), rest[:size]) == name {
			base.texts[name] = &oldText{text: string(rest[:size])}
		}
		raw = rest[size+1:]
	}
	return base
}

// blobName is git's name for a content, in as many hexadecimal digits as asked for; empty where there is no such name.
func blobName(digits int, content []byte) string {
	var h hash.Hash
	switch digits {
	case 2 * sha1.Size:
		h = sha1.New() //nolint:gosec // see above
	case 2 * sha256.Size:
		h = sha256.New()
	default:
		return ""
	}
	h.Write([]byte("blob " + strconv.Itoa(len(content)) + "\x00"))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// find returns the text whose name begins as an index line says; false where none does, or more than one.
func (b *Base) find(name string) (text *oldText, ok bool) {
	if b == nil || len(name) < shortestName {
		return nil, false
	}
	if text, ok := b.texts[name]; ok {
		return text, true
	}
	found := 0
	for full, t := range b.texts {
		if strings.HasPrefix(full, name) {
			text, found = t, found+1
		}
	}
	return text, found == 1
}

// shortestName is how much of an object's name has to stand in an index line.
const shortestName = 7

// linesOf splits the text of a name; false where there is none, or more lines than may still be made.
func (b *Base) linesOf(name string) ([]string, bool) {
	t, ok := b.find(name)
	if !ok {
		return nil, false
	}
	if !t.split {
		if n := strings.Count(t.text, "\n") + 1; n <= b.lines {
			t.lines, t.split, b.lines = splitLines(t.text), true, b.lines-n
		}
	}
	return t.lines, t.split
}

// Gap is a run of lines that a patch does not show: before the hunk of its index, or after the last one. Its lines are the same
// on both sides.
type Gap struct{ Old, New, Lines int } // the numbers of its first line on either side; Lines may be 0

// Around are the lines of one file outside its hunks.
type Around struct {
	// Gaps has one entry more than the file has hunks.
	Gaps  []Gap
	lines []string // of the old text, with their ends
}

// HasAround reports whether lines outside the hunks of a file, counted from 0, can be known at all: it is a text on both sides,
// and the patch names what it was before.
func (p *Patch) HasAround(file int) bool {
	if file < 0 || file >= len(p.files) {
		return false
	}
	gf, f := p.files[file], p.facts.Files[file]
	return f.Status != Added && f.Status != Deleted && !f.Binary && !f.Symlink && !f.Submodule && len(gf.TextFragments) > 0 && len(gf.OldOIDPrefix) >= shortestName
}

// Around finds the lines outside the hunks of a file, counted from 0. It is false where they are not known for sure: no old text
// has the name that the patch gives it, or a hunk does not say what the text says, or the file has none on both sides; and where
// base has been split into as many lines as it may be.
func (p *Patch) Around(file int, base *Base) (Around, bool) {
	if !p.HasAround(file) {
		return Around{}, false
	}
	gf := p.files[file]
	lines, ok := base.linesOf(gf.OldOIDPrefix)
	if !ok {
		return Around{}, false
	}
	a := Around{lines: lines}
	at, shift := 0, 0 // lines of the old text that are accounted for, and how much further the new side is
	for _, t := range gf.TextFragments {
		start := first(t.OldPosition, t.OldLines) - 1
		// A hunk without old lines has none to hold against the text, so its place is.
		if start < at || start > len(a.lines) || first(t.NewPosition, t.NewLines)-1 != start+shift {
			return Around{}, false
		}
		a.Gaps = append(a.Gaps, Gap{Old: at + 1, New: at + shift + 1, Lines: start - at})
		at = start
		for _, l := range t.Lines {
			if l.Op == gitdiff.OpAdd {
				continue
			}
			if at >= len(a.lines) || a.lines[at] != l.Line {
				return Around{}, false
			}
			at++
		}
		shift += int(t.NewLines - t.OldLines)
	}
	a.Gaps = append(a.Gaps, Gap{Old: at + 1, New: at + shift + 1, Lines: len(a.lines) - at})
	return a, true
}

// first is the number of a range's first line. Where it has no lines, git names the line before.
func first(position, lines int64) int {
	if lines == 0 {
		position++
	}
	return int(position)
}

func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// Lines are lines of the gaps by their numbers on the new side, both ends included, made ready for showing as those of a hunk
// are. It takes what it shows off the lines and bytes that are left, and ends early where there are none.
func (a Around) Lines(gap, from, to int, left *Bounds) []DiffLine {
	g := a.Gaps[gap]
	from, to = max(from, g.New), min(to, g.New+g.Lines-1)
	var out []DiffLine
	for n := from; n <= to && left.Lines > 0 && left.Bytes > 0; n++ {
		old := n - g.New + g.Old
		line := showLine(gitdiff.Line{Op: gitdiff.OpContext, Line: a.lines[old-1]}, left.LineBytes, n == 1)
		line.Old, line.New = old, n
		out = append(out, line)
		left.Lines--
		left.Bytes -= min(len(a.lines[old-1]), left.LineBytes)
	}
	return out
}
