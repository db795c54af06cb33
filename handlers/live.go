package handlers

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/google/uuid"

	"signalbox/web"
)

// Times of the looks that the viewers of one run share.
const (
	// lookGap lies between two looks at one run: who asks meanwhile shares the next one.
	lookGap = 100 * time.Millisecond
	// lookAge is how old a look may be for a viewer whom no hint woke.
	lookAge = time.Second
	// lookTime bounds a look. It goes on when the viewer that began it goes away, since others wait for it.
	lookTime = 20 * time.Second
	// maxBodies bounds the renderings that one look keeps; further ones are made for one viewer alone.
	maxBodies = 16
)

// liveRuns are the runs that somebody watches, each with the newest look at it. A run is known by its tenant too, so that a look is
// shared only between people of the tenant that it was read for.
type liveRuns struct {
	mu   sync.Mutex
	runs map[liveKey]*liveRun
}

type liveKey struct{ tenant, run uuid.UUID }

// enter is the run that a viewer watches until it calls leave.
func (l *liveRuns) enter(key liveKey) (run *liveRun, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[liveKey]*liveRun{}
	}
	run = l.runs[key]
	if run == nil {
		run = &liveRun{key: key}
		l.runs[key] = run
	}
	run.viewers++
	return run, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if run.viewers--; run.viewers == 0 {
			delete(l.runs, key)
		}
	}
}

// liveRun is a run that somebody watches.
type liveRun struct {
	key     liveKey
	viewers int // guarded by liveRuns.mu

	mu   sync.Mutex
	last *liveLook
	// parts and ladder are those that were found last; the numbers count how often they were others than before.
	parts            web.RunParts
	ladder           *web.Ladder
	partsNo, ladders int
}

// since is a look that began at a time or later, so that it has seen what was committed by then: the newest one, or a new one.
func (l *liveRun) since(at time.Time) *liveLook {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || !l.last.began.IsZero() && l.last.began.Before(at) {
		l.last = &liveLook{of: l, before: l.last, bodies: map[bodyKey]*liveBody{}}
	}
	return l.last
}

// count numbers the parts and the ladder that a look found.
func (l *liveRun) count(k *runLook) (parts, ladders int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !reflect.DeepEqual(l.parts, k.parts) {
		l.parts = k.parts
		l.partsNo++
	}
	if !reflect.DeepEqual(l.ladder, k.ladder) {
		l.ladder = k.ladder
		l.ladders++
	}
	return l.partsNo, l.ladders
}

// liveLook is a look that all viewers of a run share. Whoever needs a stage of it first reads it, the others wait for that. An
// error is everybody's: their streams end, and they come back for another look.
type liveLook struct {
	of     *liveRun
	before *liveLook // until it has begun
	began  time.Time // guarded by of.mu; zero until it began
	runLook
	partsNo, ladders int

	first, closer, around  sync.Once
	failed, blurred, blind error

	mu     sync.Mutex
	bodies map[bodyKey]*liveBody
}

// errLook is what a stage ended with that was broken off by a panic: whoever was first met that, and the others must not take what is
// half made for the whole.
var errLook = errors.New("a look that is shared was broken off")

// lookTimed runs one stage of a look.
func lookTimed(stage func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(context.Background(), lookTime)
	defer stop()
	return stage(ctx)
}

// readFirst reads the run itself, not before the last look at it has done so and lookGap is over.
func (s *server) readFirst(k *liveLook) error {
	k.first.Do(func() {
		if b := k.before; b != nil {
			b.first.Do(func() {}) // it has begun, so this waits until it is done
			<-time.After(lookGap - time.Since(b.began))
		}
		now := time.Now()
		k.of.mu.Lock()
		k.before, k.began = nil, now
		k.of.mu.Unlock()
		k.failed = errLook
		k.failed = lookTimed(func(ctx context.Context) (err error) {
			k.runLook, err = s.lookAt(ctx, k.of.key.tenant, k.of.key.run, now.UTC())
			return err
		})
	})
	return k.failed
}

// readCloser reads what changes without an event.
func (s *server) readCloser(k *liveLook) error {
	k.closer.Do(func() {
		k.blurred = errLook
		k.blurred = lookTimed(func(ctx context.Context) error { return s.lookCloser(ctx, &k.runLook) })
		k.partsNo, k.ladders = k.of.count(&k.runLook)
	})
	return k.blurred
}

// readAround reads the rest.
func (s *server) readAround(k *liveLook) error {
	k.around.Do(func() {
		k.blind = errLook
		k.blind = lookTimed(func(ctx context.Context) error { return s.lookAround(ctx, &k.runLook) })
	})
	return k.blind
}

// bodyKey is all that a message of a run depends on besides the look: two viewers with the same one are sent the same bytes.
type bodyKey struct {
	onlooker
	// after is the last event that the viewer has; bare, that it wants no rows; raw, that its rows say all.
	after     int64
	bare, raw bool
}

// liveBody is a message as it was rendered.
type liveBody struct {
	once  sync.Once
	seq   int64
	frame []byte
	err   error
}

// body is the message of a look for those with one key. It is made without a request, and so of nothing else.
func (s *server) body(k *liveLook, key bodyKey) *liveBody {
	k.mu.Lock()
	b := k.bodies[key]
	if b == nil {
		b = &liveBody{}
		if len(k.bodies) < maxBodies {
			k.bodies[key] = b
		}
	}
	k.mu.Unlock()
	b.once.Do(func() {
		b.err = errLook
		b.err = lookTimed(func(ctx context.Context) error { return s.makeBody(ctx, k, key, b) })
	})
	return b
}

func (s *server) makeBody(ctx context.Context, k *liveLook, key bodyKey, b *liveBody) (err error) {
	data := web.RunLiveData{RunParts: k.parts, Panel: k.panel(key.onlooker), Facts: k.facts}
	data.Rows = web.TimelineData{RunID: data.Panel.Run.ID, Created: k.info.CreatedAt, Now: k.now, PrevAttempt: -1}
	if key.raw {
		data.Rows.Level = web.LevelRaw
	}
	if data.Rows.Events, err = s.eventsAfter(ctx, k.info, key.after, maxReplay); err != nil {
		return err
	}
	b.seq = key.after
	for _, e := range data.Rows.Events {
		b.seq = e.Seq
		if e.From != e.To {
			data.Stage = web.StateSentence(data.Panel.Run, k.now)
		}
	}
	if key.bare {
		data.Rows.Events, b.seq = nil, k.info.Version
	}
	var body bytes.Buffer
	if err := web.RunLive(data).Render(ctx, &body); err != nil {
		return err
	}
	b.frame = frame(b.seq, body.Bytes())
	return nil
}
