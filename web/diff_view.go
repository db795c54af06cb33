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
}

// InlineBounds is how much of a patch a page shows; the rest is counted and offered for download.
func InlineBounds() patch.Bounds {
	return patch.Bounds{Files: 300, LinesPerFile: 1500, Lines: 6000, LineBytes: 2000}
}

// NewDiffView turns a rendered patch into what DiffSection shows, with syntax colours.
func NewDiffView(d patch.Diff, o DiffOptions) *DiffView {
	view := &DiffView{Revision: o.Revision, RawURL: o.RawURL, Digest: d.Facts.Digest}
	for _, om := range d.Omitted {
		reason := om.Why
		if om.Lines > 0 {
			reason = fmt.Sprintf("%s, %d more lines", om.Why, om.Lines)
		}
		view.NotShown = append(view.NotShown, NotShown{Path: om.Path, Reason: reason})
	}
	paint := newPainter(cmp.Or(o.PaintFor, paintTime))
	for _, f := range d.Files {
		view.Files = append(view.Files, diffFileView(f, o, paint))
	}
	return view
}

func diffFileView(f patch.DiffFile, o DiffOptions, paint *painter) DiffFile {
	out := DiffFile{
		Path: f.File.Path(), Status: string(f.File.Status), Binary: f.File.Binary, Note: f.Why,
		Added: f.File.Added, Removed: f.File.Removed, OldMode: f.File.OldMode, NewMode: f.File.NewMode,
	}
	if f.File.Status == patch.Renamed || f.File.Status == patch.Copied {
		out.OldPath = f.File.OldPath
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
	for _, h := range f.Hunks {
		hunk := DiffHunk{Header: fmt.Sprintf("@@ −%d,%d +%d,%d @@ %s", h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section)}
		spans := paint.hunk(out.Path, h)
		for i, l := range h.Lines {
			line := DiffLine{Op: opOf(l.Kind), Old: l.Old, New: l.New, NoEOL: l.NoEOL, Spans: spans[i]}
			if l.Hidden {
				line.Spans = markHidden(line.Spans)
				out.Hidden += countHidden(line.Spans)
			}
			if l.Cut {
				line.Spans = append(line.Spans, Span{Class: "hid", Text: "line cut here"})
			}
			hunk.Lines = append(hunk.Lines, line)
		}
		out.Hunks = append(out.Hunks, hunk)
	}
	return out
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

// markHidden gives the written-out code points their own chips. Package patch writes them as ⟦U+202E⟧.
func markHidden(spans []Span) []Span {
	var out []Span
	for _, s := range spans {
		rest := s.Text
		for {
			before, tail, ok := strings.Cut(rest, "⟦")
			if !ok {
				break
			}
			point, after, ok := strings.Cut(tail, "⟧")
			if !ok || !strings.HasPrefix(point, "U+") {
				break
			}
			if before != "" {
				out = append(out, Span{Class: s.Class, Text: before})
			}
			out = append(out, Span{Class: "hid", Text: point})
			rest = after
		}
		if rest != "" {
			out = append(out, Span{Class: s.Class, Text: rest})
		}
	}
	return out
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
