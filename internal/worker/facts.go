package worker

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"signalbox/internal/wire"
)

// facts sends steps, log output and usage in batches. They are no transitions: each kind has its own sequence per
// lease, and a batch is repeated under its number until it is stored, so that order holds and nothing is there twice.
type facts struct {
	l     *lease
	every time.Duration

	mu      sync.Mutex
	room    *sync.Cond
	steps   []wire.StepReport
	logs    []wire.LogChunkReport
	logSize int
	usage   usages
	busy    bool // a batch is on its way
	hurry   int  // somebody waits in drain
	closed  bool

	wake chan struct{}
	done chan struct{}
}

// maxBuffered is how much log output waits in memory before the program that prints it has to wait.
const maxBuffered = 8 << 20

// maxChunk is the contract's bound of one chunk, in bytes.
const maxChunk = 64 << 10

func newFacts(l *lease, every time.Duration) *facts {
	f := &facts{l: l, every: every, wake: make(chan struct{}, 1), done: make(chan struct{})}
	f.room = sync.NewCond(&f.mu)
	go f.run()
	return f
}

func (f *facts) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// step reports a step's start, end or both; the same call id again changes it.
func (f *facts) step(s wire.StepReport) {
	s.Name, s.Summary = clip(s.Name, 400), clip(s.Summary, 4000)
	if s.Name == "" {
		s.Name = s.Kind
	}
	f.mu.Lock()
	f.steps = append(f.steps, s)
	f.mu.Unlock()
	f.nudge()
}

// log appends output. It blocks while too much waits, and drops when the lease has ended.
func (f *facts) log(stream, call string, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.logSize > maxBuffered && !f.closed && f.l.ctx.Err() == nil {
		f.room.Wait()
	}
	for len(p) > 0 && f.l.ctx.Err() == nil {
		// Small writes to one stream join into one chunk.
		if n := len(f.logs); n > 0 && f.logs[n-1].Stream == stream && f.logs[n-1].CallId == call && len(f.logs[n-1].Data) < maxChunk {
			take := min(len(p), maxChunk-len(f.logs[n-1].Data))
			f.logs[n-1].Data = append(f.logs[n-1].Data, p[:take]...)
			f.logSize += take
			p = p[take:]
			continue
		}
		take := min(len(p), maxChunk)
		f.logs = append(f.logs, wire.LogChunkReport{Stream: stream, CallId: call, Data: append([]byte(nil), p[:take]...)})
		f.logSize += take
		p = p[take:]
	}
	f.nudge()
}

// use adds to what was used since the last report. An agent that names ever new models waits until those are sent.
func (f *facts) use(u wire.UsageReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.usage.add(u) && !f.closed && f.l.ctx.Err() == nil {
		f.nudge()
		f.room.Wait()
	}
	f.nudge()
}

// run sends until close; the timer gathers what comes in quick succession.
func (f *facts) run() {
	defer close(f.done)
	defer f.ended()
	var seq sequences
	for {
		select {
		case <-f.wake:
		case <-f.l.ctx.Done():
			return
		}
		f.mu.Lock()
		wait, closed := f.hurry == 0 && !f.closed, f.closed
		f.mu.Unlock()
		if wait {
			timer := time.NewTimer(f.every)
			select {
			case <-timer.C:
			case <-f.l.ctx.Done():
			}
			timer.Stop()
		}
		for f.send(&seq) {
		}
		if closed {
			return
		}
	}
}

// ended lets everybody go who waits for room or for a drain.
func (f *facts) ended() {
	f.mu.Lock()
	f.closed = true
	f.steps, f.logs, f.logSize, f.usage, f.busy = nil, nil, 0, nil, false
	f.room.Broadcast()
	f.mu.Unlock()
}

// drain waits until everything that was said before is stored, or the lease has ended. It comes before each command
// that may end the lease, because what comes after that is refused.
func (f *facts) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurry++
	f.nudge()
	for !f.closed && (f.busy || len(f.usage) > 0 || len(f.steps) > 0 || len(f.logs) > 0) {
		f.nudge()
		f.room.Wait()
	}
	f.hurry--
}

// close drains and ends.
func (f *facts) close() {
	f.drain()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.nudge()
	<-f.done
}

type sequences struct{ steps, logs, usage int64 }

// send sends one batch of each kind and reports whether more waits.
func (f *facts) send(seq *sequences) bool {
	f.mu.Lock()
	steps := take(&f.steps, 200)
	logs := take(&f.logs, 16)
	for _, c := range logs {
		f.logSize -= len(c.Data)
	}
	used := f.usage
	f.usage = nil
	f.busy = len(steps) > 0 || len(logs) > 0 || len(used) > 0
	f.room.Broadcast()
	f.mu.Unlock()

	id, token := f.l.as.LeaseId, f.l.as.FencingToken
	client := f.l.api.client
	if len(steps) > 0 {
		seq.steps++
		b := wire.StepBatch{LeaseId: id, FencingToken: token, Sequence: seq.steps, Steps: steps}
		f.post("steps", func(ctx context.Context) (*http.Response, error) { return client.PostRunSteps(ctx, f.l.as.RunId, b) })
	}
	if len(logs) > 0 {
		seq.logs++
		b := wire.LogBatch{LeaseId: id, FencingToken: token, Sequence: seq.logs, Chunks: logs}
		f.post("logs", func(ctx context.Context) (*http.Response, error) { return client.PostRunLogs(ctx, f.l.as.RunId, b) })
	}
	for _, usage := range used {
		seq.usage++
		usage.LeaseId, usage.FencingToken, usage.Sequence = id, token, seq.usage
		f.post("usage", func(ctx context.Context) (*http.Response, error) {
			return client.PostRunUsage(ctx, f.l.as.RunId, usage)
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
	f.room.Broadcast()
	return f.l.ctx.Err() == nil && (len(f.steps) > 0 || len(f.logs) > 0 || len(f.usage) > 0)
}

func (f *facts) post(op string, send sender) {
	// What the server refuses for good is dropped: facts never hold up the work.
	_ = f.l.api.until(f.l.ctx, op, requestTime, send, nil)
}

func take[T any](list *[]T, n int) []T {
	n = min(n, len(*list))
	out := (*list)[:n:n]
	*list = append([]T(nil), (*list)[n:]...)
	return out
}

// writer is a program's output going to one stream of the log.
type writer struct {
	f            *facts
	stream, call string
}

func (w *writer) Write(p []byte) (int, error) {
	w.f.log(w.stream, w.call, p)
	return len(p), nil
}

func (f *facts) writer(stream, call string) io.Writer { return &writer{f, stream, call} }
