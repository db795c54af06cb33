package handlers

import (
	"net/http"
	"strings"

	"signalbox/db"
	"signalbox/internal/loglines"
	"signalbox/web"
)

// What a search looks at: of a line, of a log. A search reads chunk by chunk and keeps the hits of one page.
const (
	searchedLine  = 64 << 10
	searchedBytes = 64 << 20
	// hitsShown is how many hits a page lists, hitContext how many lines stand on both sides of each.
	hitsShown  = 50
	hitContext = 2
)

// eachLine goes through a log from its beginning and says how far it came.
func (s *server) eachLine(r *http.Request, log db.LogInfo, query string, each func(l loglines.Line, hit bool)) (upto int64, whole bool, err error) {
	want := web.FoldCase(query)
	whole, err = loglines.Scan(s.logSource(r.Context(), log.LogKey), 1, loglines.Limits{Line: searchedLine, Bytes: searchedBytes}, func(l loglines.Line) bool {
		if l.No > log.Lines() {
			return false
		}
		upto = l.No
		each(l, strings.Contains(web.FoldCase(web.PlainLine(l.Text)), want))
		return true
	})
	return upto, whole, err
}

// hitList gathers hits from one on, with the lines around them.
type hitList struct {
	query  string
	first  int64 // number of the first hit that is wanted
	total  int64
	lines  []web.LogLine
	before []loglines.Line // the last lines that are not in lines
	after  int             // lines that still belong behind a hit
}

func (h *hitList) take(l loglines.Line, hit bool) {
	if hit {
		h.total++
	}
	wanted := hit && h.total >= h.first && h.total < h.first+hitsShown
	switch {
	case wanted:
		for _, b := range h.before {
			h.add(b, false)
		}
		h.before = h.before[:0]
		h.add(l, true)
		h.after = hitContext
	case h.after > 0 && (!hit || h.total < h.first+hitsShown):
		h.add(l, false)
		h.after--
	default:
		h.after = 0
		if h.before = append(h.before, l); len(h.before) > hitContext {
			h.before = h.before[1:]
		}
	}
}

func (h *hitList) add(l loglines.Line, hit bool) {
	line := web.LogLine{No: l.No, Text: strings.ToValidUTF8(l.Text, "\uFFFD"), At: l.At, Cut: l.Cut}
	if len(line.Text) > shownLine {
		line.Text, line.Cut = h.excerpt(line.Text, hit), true
	}
	line.Gap = len(h.lines) > 0 && h.lines[len(h.lines)-1].No != l.No-1
	h.lines = append(h.lines, line)
}

// excerpt is the part of an overlong line that holds the hit.
func (h *hitList) excerpt(text string, hit bool) string {
	at := 0
	if hit {
		plain := web.PlainLine(text)
		if i := strings.Index(web.FoldCase(plain), web.FoldCase(h.query)); i > shownLine-500 && i < len(plain) {
			text, at = plain, i-500
		}
	}
	text = text[at:min(at+shownLine, len(text))]
	text = strings.ToValidUTF8(text, "")
	if at > 0 {
		text = "… " + text
	}
	return text
}

// listHits shows the hits of a search with what stands around them.
func (s *server) listHits(r *http.Request, log db.LogInfo, ask logAsk, v *web.LogView) error {
	h := hitList{query: ask.query, first: ask.hit}
	upto, whole, err := s.eachLine(r, log, ask.query, h.take)
	if err != nil {
		return err
	}
	v.Lines = h.lines
	last := min(ask.hit+hitsShown-1, h.total)
	v.Find = &web.LogFind{Total: int(h.total), List: true, First: int(min(ask.hit, h.total)), Last: int(last), Upto: upto, Whole: whole}
	if ask.hit > 1 {
		v.Find.Prev = max(ask.hit-hitsShown, 1)
	}
	if last < h.total {
		v.Find.Next = last + 1
	}
	return nil
}

// aroundHits counts the hits and finds the nearest before and after the line that is looked at.
func (s *server) aroundHits(r *http.Request, log db.LogInfo, ask logAsk, v *web.LogView) error {
	here := max(v.At, ask.from)
	f := &web.LogFind{}
	var err error
	f.Upto, f.Whole, err = s.eachLine(r, log, ask.query, func(l loglines.Line, hit bool) {
		if !hit {
			return
		}
		f.Total++
		switch {
		case l.No < here:
			f.Before, f.Prev = f.Total, l.No
		case l.No == here:
			f.Before = f.Total
		case f.Next == 0:
			f.Next = l.No
		}
	})
	v.Find = f
	return err
}
