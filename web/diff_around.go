package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"signalbox/internal/patch"
	"signalbox/web/ui"
)

// LineRange are lines of a file outside its hunks: the file counted from 1, the lines by their numbers on the new side, both ends
// included.
type LineRange struct{ File, From, To int }

func (r LineRange) String() string { return fmt.Sprintf("%d-%d-%d", r.File, r.From, r.To) }

// LineRanges are ranges as they stand in an address, such as 2-41-60.3-1-20. What is not of that form names no lines.
type LineRanges string

// maxLineRanges bounds what one address names; the rest is left out.
const maxLineRanges = 50

func (s LineRanges) all() (list []LineRange) {
	for part := range strings.SplitSeq(string(s), ".") {
		numbers := strings.Split(part, "-")
		if len(numbers) != 3 || len(list) == maxLineRanges {
			continue
		}
		file, _ := strconv.Atoi(numbers[0])
		from, _ := strconv.Atoi(numbers[1])
		to, _ := strconv.Atoi(numbers[2])
		if file > 0 && from > 0 && to >= from {
			list = append(list, LineRange{file, from, to})
		}
	}
	return list
}

// joined writes ranges in their order, those that touch as one.
func joined(list []LineRange) LineRanges {
	slices.SortFunc(list, func(a, b LineRange) int { return cmp.Or(a.File-b.File, a.From-b.From) })
	var words []string
	for at := 0; at < len(list); {
		r := list[at]
		for at++; at < len(list) && list[at].File == r.File && list[at].From <= r.To+1; at++ {
			r.To = max(r.To, list[at].To)
		}
		words = append(words, r.String())
	}
	return LineRanges(strings.Join(words, "."))
}

// with are the ranges and one more; false where an address names no more of them.
func (s LineRanges) with(r LineRange) (LineRanges, bool) {
	more := joined(append(s.all(), r))
	return more, strings.Count(string(more), ".") < maxLineRanges
}

// stretch is lines of one file of which all are named, or none.
type stretch struct {
	from, to int
	named    bool
}

// cut divides lines of a file into those that are named and those that are not.
func (s LineRanges) cut(file, from, to int) (list []stretch) {
	for _, r := range s.all() {
		start, end := max(r.From, from), min(r.To, to)
		if r.File != file || start > end {
			continue
		}
		if start > from {
			list = append(list, stretch{from, start - 1, false})
		}
		list, from = append(list, stretch{start, end, true}), end+1
	}
	if from <= to {
		list = append(list, stretch{from, to, false})
	}
	return list
}

// LineStretch reads from an address which lines of a file are asked about.
func LineStretch(q url.Values) (from, to int) {
	from, _ = strconv.Atoi(q.Get("from"))
	to, _ = strconv.Atoi(q.Get("to"))
	return from, to
}

// AroundBounds is how many lines outside its hunks a page shows of a patch; more stay offered.
func AroundBounds() patch.Bounds { return patch.Bounds{Lines: 2000, LineBytes: 2000, Bytes: 512 << 10} }

const (
	fewLines = 20   // that one step shows
	allLines = 1000 // that one step shows at most
)

// DiffGap are the lines between two hunks, before the first or after the last, in their order: shown or offered.
type DiffGap []GapPart

// GapPart are lines that are shown, or else that are offered.
type GapPart struct {
	From, To int // numbers on the new side
	Lines    []DiffLine
	Offers   []LineOffer
	Fresh    bool // what was just asked for: it gets the focus
}

// LineOffer is a link to lines that are not shown.
type LineOffer struct {
	Text string // "Show 20 lines below"
	Name string // ", lines 41 to 60 of web/gate.go"
	Href string // the page with them
	Load string // where they are loaded from in place of what is offered
}

// gapper makes the gaps of one page's files.
type gapper struct {
	around func(file int) (patch.Around, bool)
	paint  *painter
	left   patch.Bounds
}

func (o DiffOptions) gapper(paint *painter) *gapper {
	return &gapper{around: o.Around, paint: paint, left: AroundBounds()}
}

// file fills the gaps of a file of which all hunks are shown.
func (g *gapper) file(f *DiffFile, src patch.DiffFile) {
	if g.around == nil || !f.Place.known() || src.Why != "" || len(f.Hunks) == 0 {
		return
	}
	around, ok := g.around(src.Index)
	if !ok || len(around.Gaps) != len(f.Hunks)+1 {
		return
	}
	f.Gaps = make([]DiffGap, len(around.Gaps))
	for i, gap := range around.Gaps {
		f.Gaps[i] = g.parts(*f, around, i, gap.New, gap.New+gap.Lines-1)
	}
}

// parts are lines of a gap, by their numbers on the new side.
func (g *gapper) parts(f DiffFile, around patch.Around, i, from, to int) (list DiffGap) {
	hide := func(from, to int) {
		if last := len(list) - 1; last >= 0 && len(list[last].Lines) == 0 {
			list[last].To = to
		} else {
			list = append(list, GapPart{From: from, To: to})
		}
	}
	for _, s := range f.View.Lines.cut(f.N, from, to) {
		if s.named {
			// What the page is too small for stays offered.
			lines := around.Lines(i, s.from, s.to, &g.left)
			if n := len(lines); n > 0 {
				list = append(list, GapPart{From: s.from, To: s.from + n - 1, Lines: g.lines(f.Path, lines)})
				s.from += n
			}
		}
		if s.from <= s.to {
			hide(s.from, s.to)
		}
	}
	gap := around.Gaps[i]
	for k := range list {
		if p := &list[k]; len(p.Lines) == 0 {
			p.Offers = offers(f, *p, i > 0 || p.From > gap.New, i < len(around.Gaps)-1 || p.To < gap.New+gap.Lines-1)
		}
	}
	return list
}

// lines colours lines outside the hunks as it does those within.
func (g *gapper) lines(path string, lines []patch.DiffLine) (out []DiffLine) {
	spans := g.paint.hunk(path, patch.Hunk{Lines: lines})
	for i, l := range lines {
		line := diffLine(l, spans[i])
		line.Around = true
		out = append(out, line)
	}
	return out
}

// offers are the ways to see hidden lines: those next to what stands above them, those next to what stands below, and all.
func offers(f DiffFile, p GapPart, above, below bool) (list []LineOffer) {
	n := p.To - p.From + 1
	offer := func(text string, from, to int) {
		c := f.View
		var ok bool
		if c.Lines, ok = c.Lines.with(LineRange{f.N, from, to}); !ok {
			return // the link would not show them
		}
		page := f.Place.page + c.query()
		if f.Alone && f.Place.files {
			page = f.Place.FileURL(f.N, c)
		}
		list = append(list, LineOffer{
			Text: text, Name: fmt.Sprintf(", lines %d to %d of %s", from, to, f.Path),
			Href: page + "#" + lineAnchor(f, DiffLine{New: from}), Load: f.Place.linesURL(LineRange{f.N, p.From, p.To}, c),
		})
	}
	if n > fewLines {
		few := fmt.Sprintf("Show %d lines ", fewLines)
		if above {
			offer(few+"below", p.From, p.From+fewLines-1)
		}
		if below {
			offer(few+"above", p.To-fewLines+1, p.To)
		}
	}
	if n <= allLines {
		offer("Show "+map[bool]string{true: "all "}[n > 1]+ui.Count(n, "line", "lines"), p.From, p.To)
	}
	return list
}

// LinesData are lines of a file outside its hunks, as they take the place of what offered them.
type LinesData struct {
	File DiffFile
	Gap  DiffGap
}

// NewLines are the lines of the nth file that an address asks about; false where they are in no gap, or not known.
func NewLines(n int, path string, from, to int, o DiffOptions) (LinesData, bool) {
	file := DiffFile{N: n, Path: path, Place: o.Place, View: o.View, Alone: true}
	if o.Around == nil {
		return LinesData{}, false
	}
	around, ok := o.Around(n - 1)
	if !ok {
		return LinesData{}, false
	}
	for i, gap := range around.Gaps {
		if from < gap.New || to < from || to >= gap.New+gap.Lines {
			continue
		}
		g := o.gapper(newPainter(cmp.Or(o.PaintFor, paintTime)))
		data := LinesData{File: file, Gap: g.parts(file, around, i, from, to)}
		for k := range data.Gap {
			if len(data.Gap[k].Lines) > 0 {
				data.Gap[k].Fresh = true
				break
			}
		}
		return data, true
	}
	return LinesData{}, false
}

func gapID(f DiffFile, p GapPart) string { return fmt.Sprintf("lines-%d-%d", f.N, p.From) }

// freshness puts the focus on what was just asked for, and says it.
func freshness(f DiffFile, p GapPart) templ.Attributes {
	if !p.Fresh {
		return nil
	}
	return templ.Attributes{"id": gapID(f, p), "tabindex": "-1", "data-focus": gapID(f, p), "data-announce": p.words() + " are shown.", "aria-label": p.words()}
}

// words say which lines are shown.
func (p GapPart) words() string {
	if p.From == p.To {
		return fmt.Sprintf("Line %d", p.From)
	}
	return fmt.Sprintf("Lines %d to %d", p.From, p.To)
}

// gap is the one before the hunk of an index, or after the last one.
func (f DiffFile) gap(i int) DiffGap {
	if i >= len(f.Gaps) {
		return nil
	}
	return f.Gaps[i]
}
