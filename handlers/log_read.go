package handlers

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/loglines"
	"signalbox/web"
)

// What a window of a log may cost, in bytes: of a line that is shown, of all that is shown, of what is read for it.
const (
	shownLine  = 4000
	shownBytes = 256 << 10
	readBytes  = 4 << 20
	// linesBefore is how many lines stand before the one that was asked for.
	linesBefore = 100
)

// outputLimit is what a worker writes where it stops keeping output.
const outputLimit = "[signalbox: the output limit of this run is reached"

func isOutputLimit(line string) bool { return strings.HasPrefix(line, outputLimit) }

func (s *server) logSource(ctx context.Context, key db.LogKey) loglines.Source {
	return func(after loglines.Place, limit int32) ([]loglines.Part, error) {
		parts, err := s.store.LogParts(ctx, key, db.LogPlace(after), limit)
		if err != nil {
			return nil, err
		}
		out := make([]loglines.Part, 0, len(parts))
		for _, p := range parts {
			out = append(out, loglines.Part(p))
		}
		return out, nil
	}
}

// lines reads up to n lines from one on, none beyond upto; false where what may be read ended first.
func (s *server) lines(ctx context.Context, key db.LogKey, from, upto int64, n int) (all []web.LogLine, whole bool, err error) {
	n = int(min(int64(n), upto-from+1))
	if n <= 0 {
		return nil, true, nil
	}
	whole, err = loglines.Scan(s.logSource(ctx, key), from, loglines.Limits{Line: shownLine, Bytes: readBytes}, func(l loglines.Line) bool {
		all = append(all, web.LogLine{No: l.No, Text: strings.ToValidUTF8(l.Text, "\uFFFD"), At: l.At, Cut: l.Cut})
		return len(all) < n
	})
	return all, whole, err
}

// tail reads the last lines up to one, as many of n as fit.
func (s *server) tail(ctx context.Context, key db.LogKey, upto int64, n int) (all []web.LogLine, err error) {
	for whole := false; !whole; n /= 8 {
		if all, whole, err = s.lines(ctx, key, max(upto-int64(n)+1, 1), upto, n); err != nil || n == 1 {
			return all, err
		}
	}
	shown := 0
	for i := len(all) - 1; i >= 0; i-- {
		if shown += len(all[i].Text); shown > shownBytes && i < len(all)-1 {
			return all[i+1:], nil
		}
	}
	return all, nil
}

// readWindow reads the end of a log, or the window that was asked for.
func (s *server) readWindow(r *http.Request, log db.LogInfo, ask logAsk, v *web.LogView) (err error) {
	from, n := ask.from, web.LogWindow
	switch {
	case ask.at > 0:
		from = max(min(ask.at-linesBefore, v.Total-int64(n)+1), 1)
	case ask.all && v.Total <= web.LogMost:
		from, n = 1, web.LogMost
	}
	if from == 0 || from > v.Total {
		v.Lines, err = s.tail(r.Context(), log.LogKey, v.Total, web.LogWindow)
	} else {
		v.Lines, v.Short, err = s.window(r, log.LogKey, from, v.Total, n, ask.at)
	}
	if err != nil {
		return err
	}
	for i, l := range v.Lines {
		v.Lines[i].Mark = v.At > 0 && l.No >= v.At && l.No <= v.To
		v.Stopped = v.Stopped || isOutputLimit(l.Text)
	}
	v.Tail = len(v.Lines) == 0 || v.Lines[len(v.Lines)-1].No == v.Total
	return nil
}

// window reads lines from one on as far as they fit. The line that was asked for is among them: where those before it take
// all the room, they are left out.
func (s *server) window(r *http.Request, key db.LogKey, from, upto int64, n int, at int64) (all []web.LogLine, short bool, err error) {
	all, whole, err := s.lines(r.Context(), key, from, upto, n)
	if err != nil {
		return nil, false, err
	}
	short, shown := !whole, 0
	for i := range all {
		if shown += len(all[i].Text); shown > shownBytes && i > 0 {
			all, short = all[:i], true
			break
		}
	}
	if at > from && (len(all) == 0 || all[len(all)-1].No < at) {
		return s.window(r, key, at, upto, n, at)
	}
	return all, short, nil
}

// stepTail reads the last lines of a step's log for the run's page.
func (s *server) stepTail(ctx context.Context, tenant, id uuid.UUID, step db.StepInfo) (lines []string, total int, err error) {
	log, err := s.store.Log(ctx, db.LogKey{Tenant: tenant, Run: id, Lease: step.Lease, Call: step.Call})
	if err != nil || log.Bytes == 0 {
		return nil, 0, err
	}
	tail, err := s.tail(ctx, log.LogKey, log.Lines(), maxTailLines)
	for _, l := range tail {
		lines = append(lines, l.Text)
	}
	return lines, int(log.Lines()), err
}

// logLines cuts a text into its last lines; total counts all, cut the characters dropped from overlong ones.
func logLines(log []byte, most int) (lines []string, total, cut int) {
	log = bytes.TrimSuffix(log, []byte("\n"))
	if len(log) == 0 {
		return nil, 0, 0
	}
	all := bytes.Split(log, []byte("\n"))
	total = len(all)
	for _, l := range all[max(len(all)-most, 0):] {
		if len(l) > shownLine {
			cut += len(l) - shownLine
			l = l[:shownLine]
		}
		lines = append(lines, strings.ToValidUTF8(string(l), "\uFFFD"))
	}
	return lines, total, cut
}
