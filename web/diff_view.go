package web

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/patch"
)

// DiffOptions is what a page knows about a patch beside its bytes.
type DiffOptions struct {
	Revision int
	RawURL   string              // where the exact patch is downloaded
	Marks    map[string][]string // by path: more words to mark a file with, such as "outside the scope"
	PaintFor time.Duration       // how long the page may take to colour code; 0 means 400 ms
	Place    DiffPlace           // the page that it is shown on
	View     DiffChoice
	Notes    *LineNotes // nil: the lines take no comments
	Ticks    []Tick     // by file; nil: nobody is asked
	In       string     // begins the permalinks where several patches are on one page
	// Around finds the lines outside the hunks of a file, counted from 0; nil where none are known.
	Around func(file int) (patch.Around, bool)
}

// InlineBounds is how much of a patch a gate's page shows at once; the rest is counted and loaded file by file. A phone
// paints 2,000 lines in about two seconds.
func InlineBounds() patch.Bounds {
	return patch.Bounds{Files: 300, LinesPerFile: 400, Lines: 2000, LineBytes: 2000, Bytes: 512 << 10, Whole: true}
}

// FileBounds is how much of one file is shown when a person asks for it.
func FileBounds() patch.Bounds {
	return patch.Bounds{LinesPerFile: 20_000, Lines: 20_000, LineBytes: 2000, Bytes: 2 << 20}
}

// PullBounds is how much a page shows that has no other place for the rest.
func PullBounds() patch.Bounds {
	return patch.Bounds{Files: 300, LinesPerFile: 1500, Lines: 6000, LineBytes: 2000, Bytes: 1 << 20}
}

// NewDiffView turns a rendered patch into what DiffSection shows, with syntax colours.
func NewDiffView(d patch.Diff, o DiffOptions) *DiffView {
	view := &DiffView{Revision: o.Revision, RawURL: o.RawURL, Digest: d.Facts.Digest, View: o.View, Switches: o.switches(), Notes: o.Notes, Ticks: CountTicks(o.Ticks)}
	if o.View.IgnoreSpace {
		view.SpaceOnly = d.IgnoreSpace()
	}
	for _, om := range d.Omitted {
		n := NotShown{Path: om.Path, Reason: om.Why}
		if om.Lines > 0 {
			n.Reason = fmt.Sprintf("%s, %s more lines", om.Why, thousands(om.Lines))
		}
		if o.Place.files && om.Group == patch.UnshownLarge {
			n.Href = o.Place.FileURL(om.Index+1, o.View)
		}
		view.NotShown = append(view.NotShown, n)
	}
	paint, work := newPainter(cmp.Or(o.PaintFor, paintTime)), patch.NewWork()
	gaps := o.gapper(paint)
	for _, f := range d.Files {
		file := diffFileView(f, o, paint, work)
		gaps.file(&file, f)
		view.Files, view.Hidden = append(view.Files, file), view.Hidden+file.Hidden
	}
	view.filter(o)
	if o.Place.known() && o.Revision > 1 && o.View.Since != o.Revision-1 {
		c := o.View
		c.Since = o.Revision - 1
		view.Switches = append(view.Switches, Link{Text: fmt.Sprintf("What changed since revision %d", c.Since), Href: o.Place.DiffURL(c)})
	}
	return view
}

// NewDiffFile is one file by itself, as much of it as FileBounds allow.
func NewDiffFile(f patch.DiffFile, o DiffOptions) (file DiffFile, spaceOnly int) {
	if o.View.IgnoreSpace {
		spaceOnly = f.IgnoreSpace()
	}
	paint := newPainter(cmp.Or(o.PaintFor, paintTime))
	file = diffFileView(f, o, paint, patch.NewWork())
	file.Load, file.Alone = "", true
	o.gapper(paint).file(&file, f)
	return file, spaceOnly
}

func diffFileView(f patch.DiffFile, o DiffOptions, paint *painter, work *patch.Work) DiffFile {
	out := DiffFile{
		N: f.Index + 1, In: o.In, Place: o.Place, View: o.View, Notes: o.Notes,
		Path: f.File.Path(), Status: string(f.File.Status), Binary: f.File.Binary, Note: f.Why,
		Ends: endCounts(f.Ends), Added: f.File.Added, Removed: f.File.Removed, OldMode: f.File.OldMode, NewMode: f.File.NewMode,
	}
	if f.Index < len(o.Ticks) {
		out.Tick = &o.Ticks[f.Index]
	}
	if f.File.Status == patch.Renamed || f.File.Status == patch.Copied {
		out.OldPath = f.File.OldPath
	}
	if o.Place.files && f.Lines > 0 && len(f.Hunks) == 0 {
		out.Note, out.Load = "", fmt.Sprintf("Load the diff (%s)", lineCount(f.Lines))
	}
	for _, c := range f.File.Classes {
		out.Marks = append(out.Marks, classWords(c))
	}
	if f.File.Symlink {
		out.Marks = append(out.Marks, "symbolic link")
	}
	if f.File.Submodule {
		out.Marks = append(out.Marks, "submodule")
	}
	out.Marks = append(out.Marks, o.Marks[out.Path]...)
	f.MarkWords(work, o.View.IgnoreSpace)
	for _, h := range f.Hunks {
		hunk := DiffHunk{Header: fmt.Sprintf("@@ −%d,%d +%d,%d @@ %s", h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section)}
		spans := paint.hunk(out.Path, h)
		for i, l := range h.Lines {
			out.Hidden += countHidden(diffSpans(spans[i], l))
			hunk.Lines = append(hunk.Lines, diffLine(l, spans[i]))
		}
		out.Hunks = append(out.Hunks, hunk)
	}
	return out
}

// diffLine is a line with its coloured text, hidden characters and its cut as chips.
func diffLine(l patch.DiffLine, painted []Span) DiffLine {
	line := DiffLine{Op: opOf(l.Kind), Old: l.Old, New: l.New, Pair: l.Pair, NoEOL: l.NoEOL, Space: l.Space, End: endWords(l), Spans: diffSpans(painted, l)}
	if l.Cut {
		line.Spans = append(line.Spans, Span{Class: "hid", Text: "line cut here"})
	}
	return line
}

func opOf(k patch.LineKind) byte {
	switch k {
	case patch.LineAdded:
		return '+'
	case patch.LineRemoved:
		return '-'
	default:
		return ' '
	}
}

func classWords(c patch.Class) string {
	switch c {
	case patch.ClassCI:
		return "CI configuration"
	case patch.ClassCodeowners:
		return "code owners"
	case patch.ClassAgentSettings:
		return "agent settings"
	case patch.ClassGitSettings:
		return "git settings"
	case patch.ClassBuild:
		return "build"
	case patch.ClassAuth:
		return "authentication"
	default:
		return strings.ReplaceAll(string(c), "_", " ")
	}
}

func countHidden(spans []Span) int {
	n := 0
	for _, s := range spans {
		if s.Class == "hid" {
			n++
		}
	}
	return n
}
