package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxLineNotes is how many lines of one patch take a comment of one person.
const MaxLineNotes = 100

// LineRef names a line of one revision of a patch: a file, counted from 1, and the line's number on the new side, or on
// the old one where the line is removed.
type LineRef struct {
	File int
	Old  bool
	Line int
}

// String is the reference as it stands in addresses, names of fields and keys of drafts, such as 2-R17.
func (l LineRef) String() string {
	side := "R"
	if l.Old {
		side = "L"
	}
	return strconv.Itoa(l.File) + "-" + side + strconv.Itoa(l.Line)
}

// Words say where the line is in its file.
func (l LineRef) Words() string {
	if l.Old {
		return "line " + strconv.Itoa(l.Line) + " of the old file"
	}
	return "line " + strconv.Itoa(l.Line) + " of the new file"
}

// ParseLineRef reads what String writes, and nothing else.
func ParseLineRef(s string) (LineRef, bool) {
	file, rest, ok := strings.Cut(s, "-")
	if !ok || rest == "" {
		return LineRef{}, false
	}
	l := LineRef{Old: rest[0] == 'L'}
	l.File, _ = strconv.Atoi(file)
	l.Line, _ = strconv.Atoi(rest[1:])
	return l, l.File > 0 && l.Line > 0 && l.String() == s
}

func lessRef(a, b LineRef) int {
	if a.File != b.File {
		return a.File - b.File
	}
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	if a.Old && !b.Old {
		return -1
	}
	return 1
}

// SortedRefs are the lines of comments, in the order of the patch.
func SortedRefs(texts map[LineRef]string) []LineRef {
	return slices.SortedFunc(maps.Keys(texts), lessRef)
}

// lineNotePrefix begins the names of the fields for comments on lines.
const lineNotePrefix = "line-"

// LineNoteField is the name of the field for a comment on a line.
func LineNoteField(l LineRef) string { return lineNotePrefix + l.String() }

// LineNoteFields are the comments of a form, empty ones too.
func LineNoteFields(v url.Values) map[LineRef]string {
	all := map[LineRef]string{}
	for name := range v {
		if ref, ok := strings.CutPrefix(name, lineNotePrefix); ok {
			if l, ok := ParseLineRef(ref); ok {
				all[l] = strings.TrimSpace(v.Get(name))
			}
		}
	}
	return all
}

// LineNoteDraft is the key of a comment on a line of a gate's patch.
func LineNoteDraft(gate string, revision int, l LineRef) string {
	return GateDraft(gate) + ":" + strconv.Itoa(revision) + ":" + l.String()
}

// GateNotesURL takes the POST that keeps all that is written at a gate, for those without a script. It leads back to the
// nth file's page, or with 0 to the gate's.
func GateNotesURL(id string, file int, c DiffChoice) string {
	to := sub("/gates", id, "notes") + c.query()
	if file > 0 {
		if c.query() == "" {
			return to + "?file=" + strconv.Itoa(file)
		}
		return to + "&file=" + strconv.Itoa(file)
	}
	return to
}

// GateNotesKeptURL is where keeping leads: the patch on the same page.
func GateNotesKeptURL(id string, file int, c DiffChoice) string {
	to, q := GateURL(id), c.query()
	if file > 0 {
		to = sub("/gates", id, "files", strconv.Itoa(file))
	}
	if q == "" {
		q = "?"
	} else {
		q += "&"
	}
	return to + q + "done=notes-kept"
}

// LineNotes are a person's comments on the lines of a patch that is decided.
type LineNotes struct {
	Gate     string
	Revision int
	Draft    Draft // of the gate's text: whose comments these are
	// Texts are the open fields by line; an empty one was just opened.
	Texts map[LineRef]string
	View  DiffChoice
	// File is the page of this file alone; 0: the gate's page.
	File int
}

func (n *LineNotes) draft(l LineRef) Draft {
	d := n.Draft
	if d.Key != "" {
		d.Key = LineNoteDraft(n.Gate, n.Revision, l)
	}
	return d
}

// opens is the address that opens a field at a line, as a link on the same page.
func (n *LineNotes) opens(l LineRef) string {
	q := n.View.query()
	if q == "" {
		q = "?"
	} else {
		q += "&"
	}
	return q + "note=" + l.String() + "#file-" + l.String()
}

// Open opens the fields that the address asks for.
func (n *LineNotes) Open(q url.Values) {
	for _, s := range q["note"] {
		if l, ok := ParseLineRef(s); ok && len(n.Texts) < MaxLineNotes {
			n.Texts[l] += ""
		}
	}
}

// refOf names a line as its permalink does.
func refOf(file int, l DiffLine) LineRef {
	if l.New > 0 {
		return LineRef{File: file, Line: l.New}
	}
	return LineRef{File: file, Old: true, Line: l.Old}
}

// at are the open fields at some lines of a file.
func (n *LineNotes) at(file int, lines ...*DiffLine) (open []LineRef) {
	if n == nil || len(n.Texts) == 0 {
		return nil
	}
	for _, l := range lines {
		if l == nil {
			continue
		}
		if ref := refOf(file, *l); !slices.Contains(open, ref) {
			if _, ok := n.Texts[ref]; ok {
				open = append(open, ref)
			}
		}
	}
	return open
}

// loose are the open fields of a file whose lines are not shown with it.
func (n *LineNotes) loose(f DiffFile) (open []LineRef) {
	if n == nil || len(n.Texts) == 0 {
		return nil
	}
	shown := map[LineRef]bool{}
	for _, h := range f.Hunks {
		for _, l := range h.Lines {
			shown[refOf(f.N, l)] = true
		}
	}
	for _, ref := range SortedRefs(n.Texts) {
		if ref.File == f.N && !shown[ref] {
			open = append(open, ref)
		}
	}
	return open
}

// elsewhere are the open fields of files that are not on the page at all.
func (n *LineNotes) elsewhere(files []DiffFile) (open []LineRef) {
	if n == nil || len(n.Texts) == 0 {
		return nil
	}
	shown := map[int]bool{}
	for _, f := range files {
		shown[f.N] = true
	}
	for _, ref := range SortedRefs(n.Texts) {
		if !shown[ref.File] {
			open = append(open, ref)
		}
	}
	return open
}

// count is how many comments a file has.
func (n *LineNotes) count(file int) int {
	all := 0
	if n != nil {
		for ref, text := range n.Texts {
			if ref.File == file && text != "" {
				all++
			}
		}
	}
	return all
}
