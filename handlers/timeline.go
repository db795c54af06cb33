package handlers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// What a timeline shows at once: of a long log its beginning and its end, or a window anywhere in it.
const (
	timelineHead   = 200
	timelineTail   = 50
	timelineWindow = timelineHead + timelineTail
	// timelineBefore is how many events stand before the one that was asked for.
	timelineBefore = 100
	// siftedStretch is how many events are looked through for those of one sort.
	siftedStretch = 2000
	// maxMoves bounds what rail and times are made of; of a longer log both ends are looked at.
	maxMoves = 2000
)

// window is the part of a log that was asked for, and how it is shown.
type window struct {
	from  int64 // begins there; 0: not asked for
	at    int64 // lies around it; 0: not asked for
	level string
	show  string
}

func readWindow(r *http.Request) (w window, err error) {
	if w.from, err = queryInt(r, "from", 0, 0, 1<<40); err != nil {
		return w, err
	}
	if w.at, err = queryInt(r, "at", 0, 0, 1<<40); err != nil {
		return w, err
	}
	if w.level, err = readLevel(r); err != nil {
		return w, err
	}
	w.show = r.URL.Query().Get("show")
	if _, _, known := web.Shown(w.show); !known {
		return w, noSuchFilter("show", w.show, web.Shows()[1:])
	}
	return w, nil
}

func readLevel(r *http.Request) (string, error) {
	level := cmp.Or(r.URL.Query().Get("level"), web.LevelSummary)
	if !slices.Contains(web.Levels(), level) {
		return "", noSuchFilter("level", level, web.Levels())
	}
	return level, nil
}

// after is the last event before the window, and whether one was asked for at all.
func (w window) after(version int64) (int64, bool) {
	switch {
	case version <= timelineWindow:
		return 0, true
	case w.at > 0:
		return min(max(w.at-timelineBefore-1, 0), version-timelineWindow), true
	case w.from > 0:
		return min(w.from-1, version), true
	}
	return 0, false
}

// timeline reads a part of the run's log, never more than timelineWindow events of it.
func (s *server) timeline(r *http.Request, info db.RunInfo, w window, now time.Time) (web.TimelineData, error) {
	id := typeid.Format(typeid.Run, info.ID)
	data := web.TimelineData{RunID: id, Created: info.CreatedAt, Now: now, PrevAttempt: -1, At: w.at, From: w.from, Level: w.level, Show: w.show, Attempt: info.AttemptNo}
	if w.show != "" {
		return data, s.sifted(r, info, w, &data)
	}
	if w.at > info.Version {
		data.Note = fmt.Sprintf("Event #%d is not there: the log of this run ends with #%d. The end is shown.", w.at, info.Version)
	}
	after, whole := w.after(info.Version)
	if !whole {
		return data, s.bothEnds(r, info, &data)
	}
	var err error
	if data.Events, err = s.eventsAfter(r.Context(), info, after, timelineWindow); err != nil {
		return data, err
	}
	last := after + int64(len(data.Events))
	data.Before, data.After = int(after), int(max(info.Version-last, 0))
	if after > 0 {
		data.BeforeURL = web.RunWindowURL(id, max(after-timelineWindow+1, 1), w.level, "")
	}
	if data.After > 0 {
		data.AfterURL = web.RunWindowURL(id, last+1, w.level, "")
	}
	return data, nil
}

// bothEnds reads the beginning and the end of a long log.
func (s *server) bothEnds(r *http.Request, info db.RunInfo, data *web.TimelineData) error {
	head, err := s.eventsAfter(r.Context(), info, 0, timelineHead)
	if err != nil {
		return err
	}
	tail, err := s.eventsAfter(r.Context(), info, info.Version-timelineTail, timelineTail)
	if err != nil {
		return err
	}
	data.Events = append(head, tail...)
	data.GapAt, data.Gap, data.GapURL = len(head), int(info.Version)-len(head)-len(tail), web.RunWindowURL(data.RunID, timelineHead+1, data.Level, "")
	return nil
}

// eventsAfter reads at most limit events, none newer than the rest of what is shown.
func (s *server) eventsAfter(ctx context.Context, info db.RunInfo, after int64, limit int32) ([]web.TimelineEvent, error) {
	events, err := s.store.Events(ctx, info.Tenant, info.ID, after, limit)
	if err != nil {
		return nil, err
	}
	return shownEvents(events, info.Version)
}

// sifted reads the events of one sort in a stretch of the log. The stretch is bounded, so that a long log in which few are of
// that sort costs no more than a short one.
func (s *server) sifted(r *http.Request, info db.RunInfo, w window, data *web.TimelineData) error {
	kinds, actors, _ := web.Shown(w.show)
	after := min(max(max(w.from, w.at)-1, 0), info.Version)
	upto := min(after+siftedStretch, info.Version)
	events, err := s.store.EventsOf(r.Context(), info.Tenant, info.ID, kinds, actors, after, upto, timelineWindow)
	if err != nil {
		return err
	}
	if data.Events, err = shownEvents(events, info.Version); err != nil {
		return err
	}
	if len(events) == timelineWindow {
		upto = events[len(events)-1].Seq
	}
	if w.show == web.ShowTool {
		if err := s.toolSteps(r, info, after, upto, data); err != nil {
			return err
		}
	}
	data.Before, data.After = int(after), int(info.Version-upto)
	if after > 0 {
		data.BeforeURL = web.RunWindowURL(data.RunID, max(after-siftedStretch+1, 1), w.level, w.show)
	}
	if data.After > 0 {
		data.AfterURL = web.RunWindowURL(data.RunID, upto+1, w.level, w.show)
	}
	return nil
}

func shownEvents(events []db.EventInfo, version int64) ([]web.TimelineEvent, error) {
	var shown []web.TimelineEvent
	for _, e := range events {
		if e.Seq > version {
			// Newer than the rest of what is shown. A client that had it would not be sent the rest again.
			break
		}
		t, err := timelineEvent(e)
		if err != nil {
			return nil, err
		}
		shown = append(shown, t)
	}
	return shown, nil
}

// moves are the run's events without what they carry: enough for the rail and the times.
func (s *server) moves(ctx context.Context, info db.RunInfo) ([]web.TimelineEvent, error) {
	moves, err := s.store.Moves(ctx, info.Tenant, info.ID, info.Version, maxMoves)
	if err != nil {
		return nil, err
	}
	events := make([]web.TimelineEvent, 0, len(moves))
	for _, m := range moves {
		events = append(events, web.TimelineEvent{Seq: m.Seq, Kind: string(m.Kind), From: string(m.From), To: string(m.To), At: m.At})
	}
	return events, nil
}

// waitedFor is what the last event says that the run had waited for.
func (s *server) waitedFor(ctx context.Context, info db.RunInfo) (string, error) {
	last, err := s.eventsAfter(ctx, info, info.Version-1, 1)
	if err != nil || len(last) == 0 {
		return "", err
	}
	return web.WaitedFor(last[0]), nil
}
