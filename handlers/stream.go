package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
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
	// frame is the message as it goes out, where it was rendered for many; body is nil then.
	frame []byte
	// last says that nothing further will come.
	last bool
}

// look reads what is new past a client's cursor, from a state that is not older than since.
type look func(after int64, since time.Time) (message, bool, error)

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
	live, leave := s.live.enter(liveKey{who(r).tenant, id})
	defer leave()
	sent := sentParts{bare: r.URL.Query().Get("rows") == "none", raw: level == web.LevelRaw}
	return s.stream(w, r, id, func(after int64, since time.Time) (message, bool, error) {
		return s.runMessage(who(r), live.since(since), after, &sent)
	})
}

// sentParts remembers what one client has of the steps, attempts and artifacts, which change without an event.
type sentParts struct {
	// parts and ladders are the numbers that liveRun.count gave them.
	parts, ladders int
	by             onlooker
	at             time.Time
	// bare says that the client's timeline does not reach the end, so that no row belongs behind it.
	bare bool
	// raw says that each row says all. A stream folds nothing: its rows are few, and the page has them in order.
	raw bool
}

// news reports whether the parts are others than those that were sent, not more often than every partsGap.
func (s *sentParts) news(k *liveLook, by onlooker) bool {
	return k.now.Sub(s.at) >= partsGap && k.partsNo != s.parts || k.ladders != s.ladders || by.mayForce != s.by.mayForce
}

// runMessage is what a person is sent of a look.
func (s *server) runMessage(p *principal, k *liveLook, after int64, sent *sentParts) (message, bool, error) {
	if err := s.readFirst(k); err != nil {
		return message{}, false, err
	}
	ended := k.info.State.Terminal()
	if k.info.Version <= after && (ended || k.now.Sub(sent.at) < partsGap) {
		return message{seq: after, last: ended}, false, nil
	}
	if err := s.readCloser(k); err != nil {
		return message{}, false, err
	}
	by := k.seenBy(p)
	if k.info.Version <= after && !sent.news(k, by) {
		return message{seq: after}, false, nil
	}
	sent.parts, sent.ladders, sent.by, sent.at = k.partsNo, k.ladders, by, k.now
	if err := s.readAround(k); err != nil {
		return message{}, false, err
	}
	b := s.body(k, bodyKey{by, after, sent.bare, sent.raw})
	return message{seq: b.seq, frame: b.frame, last: ended && b.seq >= k.info.Version}, true, b.err
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
	return s.stream(w, r, shown.Run, func(after int64, _ time.Time) (message, bool, error) {
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
func (s *server) stream(w http.ResponseWriter, r *http.Request, id uuid.UUID, next look) error {
	p := who(r)
	after, err := lastSeen(r)
	if err != nil {
		return err
	}
	// Subscribed before the first look, so that nothing falls between the two.
	changed, cancel := s.hub.Subscribe(id)
	defer cancel()
	ended, forget := s.hub.SubscribePerson(p.user)
	defer forget()
	looked := time.Now()
	m, fresh, err := next(after, looked)
	if err != nil {
		return err
	}
	if m.last && !fresh {
		// Nothing will come any more: 204 tells an event source not to come back.
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if !s.streams.enter(p.user) {
		return fault.New(fault.TooMany, "This page is not live: you have ten live pages open already. Close one and reload.").WithRetryAfter(streamPing)
	}
	defer s.streams.leave(p.user)
	c := newEventStream(w)
	life := time.NewTimer(min(streamLife, max(time.Until(p.expires), time.Second)))
	defer life.Stop()
	ping := time.NewTicker(streamPing)
	defer ping.Stop()
	poll := time.NewTicker(streamPoll)
	defer poll.Stop()
	for {
		if fresh {
			after = m.seq
			if !c.send(r.Context(), m) {
				return nil
			}
		}
		if m.last {
			c.end("ended")
			return nil
		}
		since := time.Time{}
		for since.IsZero() {
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
			case <-ended:
				// A login of this person was ended, perhaps this one: nobody waits for the next ping to be sure (O14).
				if live, err := s.stillLive(r); err != nil || !live {
					s.note(r, err)
					c.end("reauth")
					return nil
				}
			case <-poll.C:
				since = time.Now().Add(-lookAge)
			case <-changed:
				since = time.Now()
			}
		}
		if !sleep(r.Context(), time.Until(looked.Add(streamGap))) {
			return nil
		}
		looked = time.Now()
		if m, fresh, err = next(after, since); err != nil {
			s.note(r, err)
			return nil
		}
		if !fresh {
			continue
		}
		// Authority is also looked at before anything is sent: a session that ended gets nothing more.
		live, err := s.stillLive(r)
		if err != nil {
			s.note(r, err)
			return nil
		}
		if !live {
			c.end("reauth")
			return nil
		}
	}
}

// stillLive reports whether the session behind a stream lives, just before something is sent to it.
func (s *server) stillLive(r *http.Request) (bool, error) {
	hash, ok := s.sessionHash(r)
	if !ok {
		return false, nil
	}
	return s.store.SessionLives(r.Context(), hash)
}

// still reports whether the session behind a stream is alive, and begins its idle time again.
func (s *server) still(r *http.Request) bool {
	hash, ok := s.sessionHash(r)
	if !ok {
		return false
	}
	_, err := s.store.Session(r.Context(), hash, sessionIdle)
	return err == nil || fault.KindOf(err) != fault.NotFound
}

// sessionHash is what the database knows of the request's cookie; false where there is none.
func (s *server) sessionHash(r *http.Request) ([]byte, bool) {
	session, err := s.sessions.Get(r, s.sessions.cookie)
	if err != nil {
		return nil, false
	}
	hash, ok := session.Values[valueHash].([]byte)
	return hash, ok
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
	c.write([]byte("retry: 2000\n\n"))
	return c
}

// write sends bytes at once; false when the client is gone.
func (c *eventStream) write(text []byte) bool {
	// A client that takes nothing for half a minute is gone.
	if err := c.rc.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return false
	}
	if _, err := c.w.Write(text); err != nil {
		return false
	}
	return c.rc.Flush() == nil
}

// ping is a named event: htmx drops comments without a word, and the live chip needs the last byte.
func (c *eventStream) ping() bool { return c.write([]byte("event: ping\ndata: \n\n")) }

func (c *eventStream) end(event string) { c.write([]byte("event: " + event + "\ndata: \n\n")) }

func (c *eventStream) send(ctx context.Context, m message) bool {
	if m.body == nil {
		return c.write(m.frame)
	}
	var body bytes.Buffer
	if err := m.body.Render(ctx, &body); err != nil {
		return false
	}
	return c.write(frame(m.seq, body.Bytes()))
}

// frame is a rendered message as it goes out.
func frame(seq int64, body []byte) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %d\n", seq)
	for line := range bytes.SplitSeq(web.Reveal(bytes.ReplaceAll(body, []byte("\r"), nil)), []byte("\n")) {
		out.WriteString("data: ")
		out.Write(line)
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}
