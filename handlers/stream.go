package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// Times of an event stream (D-19).
const (
	streamPing = 15 * time.Second
	streamLife = 15 * time.Minute
	// streamPoll finds what a lost hint missed.
	streamPoll = 5 * time.Second
	// streamGap coalesces bursts: at most four messages a second.
	streamGap = 250 * time.Millisecond
	// partsGap bounds how often steps and artifacts are sent while no event happens; streamPoll finds what waits.
	partsGap = 2 * time.Second
	// maxReplay is how many events a message carries; a client further behind reads the page again.
	maxReplay = 500
	// maxStreams one person may hold at once.
	maxStreams = 10
)

// streamCounter bounds the open streams of each person (B9).
type streamCounter struct {
	mu   sync.Mutex
	open map[uuid.UUID]int
}

func (c *streamCounter) enter(user uuid.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[uuid.UUID]int{}
	}
	if c.open[user] >= maxStreams {
		return false
	}
	c.open[user]++
	return true
}

func (c *streamCounter) leave(user uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[user]--; c.open[user] <= 0 {
		delete(c.open, user)
	}
}

// message is one rendering of the current state, under the run's version.
type message struct {
	seq  int64
	body templ.Component
	// last says that nothing further will come.
	last bool
}

// streamRun sends the run page's live regions whenever the run moved past the client's cursor.
func (s *server) streamRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return err
	}
	level, err := readLevel(r)
	if err != nil {
		return err
	}
	parts := sentParts{bare: r.URL.Query().Get("rows") == "none", level: level}
	return s.stream(w, r, id, func(after int64) (message, bool, error) { return s.runMessage(r, id, after, &parts) })
}

// sentParts remembers what one client has of the steps, attempts and artifacts, which change without an event.
type sentParts struct {
	parts  web.RunParts
	ladder *web.Ladder
	at     time.Time
	// bare says that the client's timeline does not reach the end, so that no row belongs behind it.
	bare bool
	// level is how much each row says. A stream folds nothing: its rows are few, and the page has them in order.
	level string
}

// news reports whether the parts are others than those that were sent, not more often than every partsGap.
func (s *sentParts) news(p web.RunParts, l *web.Ladder, now time.Time) bool {
	return now.Sub(s.at) >= partsGap && !reflect.DeepEqual(s.parts, p) || !reflect.DeepEqual(s.ladder, l)
}

func (s *server) runMessage(r *http.Request, id uuid.UUID, after int64, sent *sentParts) (message, bool, error) {
	ctx, p := r.Context(), who(r)
	info, err := s.store.RunInfo(ctx, p.tenant, id)
	if err != nil {
		return message{}, false, err
	}
	now := time.Now().UTC()
	if info.Version <= after && (info.State.Terminal() || now.Sub(sent.at) < partsGap) {
		return message{seq: after, last: info.State.Terminal()}, false, nil
	}
	gates, err := s.store.GatesOfRun(ctx, p.tenant, id, 100)
	if err != nil {
		return message{}, false, err
	}
	parts, err := s.runParts(r, info, gates)
	if err != nil {
		return message{}, false, err
	}
	ladder, err := s.ladder(r, info, now)
	if err != nil {
		return message{}, false, err
	}
	if info.Version <= after && !sent.news(parts, ladder, now) {
		return message{seq: after}, false, nil
	}
	sent.parts, sent.ladder, sent.at = parts, ladder, now
	data := web.RunLiveData{RunParts: parts, Rows: web.TimelineData{RunID: typeid.Format(typeid.Run, id), Created: info.CreatedAt, Now: now, PrevAttempt: -1}}
	if sent.level == web.LevelRaw {
		data.Rows.Level = web.LevelRaw
	}
	if data.Panel, err = s.runPanel(r, info, gates, now); err != nil {
		return message{}, false, err
	}
	if data.Facts, err = s.runFacts(r, info); err != nil {
		return message{}, false, err
	}
	if data.Rows.Events, err = s.eventsAfter(r, info, after, maxReplay); err != nil {
		return message{}, false, err
	}
	last := after
	for _, e := range data.Rows.Events {
		last = e.Seq
		if e.From != e.To {
			data.Stage = web.StateSentence(data.Panel.Run, now)
		}
	}
	if sent.bare {
		data.Rows.Events, last = nil, info.Version
	}
	return message{seq: last, body: web.RunLive(data), last: info.State.Terminal() && last >= info.Version}, true, nil
}

// streamGate tells a reader of a gate page that the gate moved, without touching the form.
func (s *server) streamGate(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	p := who(r)
	shown, err := s.store.Gate(r.Context(), p.tenant, id)
	if err != nil {
		return err
	}
	revision, err := queryInt(r, "revision", int64(shown.Revision), 0, 1<<30)
	if err != nil {
		return err
	}
	return s.stream(w, r, shown.Run, func(after int64) (message, bool, error) {
		info, err := s.store.RunInfo(r.Context(), p.tenant, shown.Run)
		if err != nil || info.Version <= after {
			return message{seq: after}, false, err
		}
		g, err := s.store.Gate(r.Context(), p.tenant, id)
		if err != nil {
			return message{}, false, err
		}
		notice := web.GateNoticeData{
			GateID: typeid.Format(typeid.Gate, g.ID), Revision: g.Revision, Shown: int(revision), State: string(g.State), By: g.LastDecider, At: ended(g.ClosedAt), Now: time.Now().UTC(),
		}
		return message{seq: info.Version, body: web.GateLive(notice)}, true, nil
	})
}

// stream holds one connection: it sends what is new past the client's cursor, waits for a hint or a slow poll, and
// looks again. Every message is a rendering of the current state, so one too many does no harm.
func (s *server) stream(w http.ResponseWriter, r *http.Request, id uuid.UUID, next func(after int64) (message, bool, error)) error {
	p := who(r)
	after, err := lastSeen(r)
	if err != nil {
		return err
	}
	first, fresh, err := next(after)
	if err != nil {
		return err
	}
	if first.last && !fresh {
		// Nothing will come any more: 204 tells an event source not to come back.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !s.streams.enter(p.user) {
		return fault.New(fault.TooMany, "This page is not live: you have ten live pages open already. Close one and reload.").WithRetryAfter(streamPing)
	}
	defer s.streams.leave(p.user)
	changed, cancel := s.hub.Subscribe(id)
	defer cancel()
	c := newEventStream(w)
	life := time.NewTimer(min(streamLife, max(time.Until(p.expires), time.Second)))
	defer life.Stop()
	ping := time.NewTicker(streamPing)
	defer ping.Stop()
	poll := time.NewTicker(streamPoll)
	defer poll.Stop()
	for {
		if fresh {
			after = first.seq
			if !c.send(r.Context(), first) {
				return nil
			}
		}
		if first.last {
			c.end("ended")
			return nil
		}
		for wait := true; wait; {
			select {
			case <-r.Context().Done():
				return nil
			case <-s.closing:
				return nil
			case <-life.C:
				return nil
			case <-ping.C:
				// Authority is looked at again while the connection lives (B9).
				if !s.still(r) {
					c.end("reauth")
					return nil
				}
				if !c.ping() {
					return nil
				}
			case <-poll.C:
				wait = false
			case <-changed:
				wait = false
				if !sleep(r.Context(), streamGap) {
					return nil
				}
			}
		}
		if first, fresh, err = next(after); err != nil {
			s.note(r, err)
			return nil
		}
	}
}

// still reports whether the session behind a stream is alive.
func (s *server) still(r *http.Request) bool {
	cookie, err := r.Cookie(s.sessions.cookie)
	if err != nil {
		return false
	}
	_, err = s.store.Session(r.Context(), s.sessions.hash(cookie.Value), sessionIdle)
	return err == nil || fault.KindOf(err) != fault.NotFound
}

// lastSeen is the client's cursor: Last-Event-ID after a reconnection, else the page's own.
func lastSeen(r *http.Request) (int64, error) {
	if raw := r.Header.Get("Last-Event-ID"); raw != "" {
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil && n >= 0 {
			return n, nil
		}
		return 0, nil
	}
	return queryInt(r, "after", 0, 0, 1<<40)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// eventStream writes server-sent events.
type eventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func newEventStream(w http.ResponseWriter) *eventStream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	c := &eventStream{w: w, rc: http.NewResponseController(w)}
	c.write("retry: 2000\n\n")
	return c
}

// write sends bytes at once; false when the client is gone.
func (c *eventStream) write(text string) bool {
	// A client that takes nothing for half a minute is gone.
	if err := c.rc.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return false
	}
	if _, err := c.w.Write([]byte(text)); err != nil {
		return false
	}
	return c.rc.Flush() == nil
}

// ping is a named event: htmx drops comments without a word, and the live chip needs the last byte.
func (c *eventStream) ping() bool { return c.write("event: ping\ndata: \n\n") }

func (c *eventStream) end(event string) { c.write("event: " + event + "\ndata: \n\n") }

func (c *eventStream) send(ctx context.Context, m message) bool {
	var body bytes.Buffer
	if err := m.body.Render(ctx, &body); err != nil {
		return false
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %d\n", m.seq)
	for line := range bytes.SplitSeq(web.Reveal(bytes.ReplaceAll(body.Bytes(), []byte("\r"), nil)), []byte("\n")) {
		out.WriteString("data: ")
		out.Write(line)
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return c.write(out.String())
}
