package handlers

import (
	"io"
	"net/http"
	"time"
)

// Times in which a body has to arrive. They hold while the body is read and no longer: a long poll and an event stream
// read nothing for minutes and must not be cut off.
const (
	bodyTime      = 30 * time.Second
	largeBodyTime = 10 * time.Minute
)

// timedBody keeps a slow sender from holding a connection for ever.
type timedBody struct {
	io.ReadCloser
	rc      *http.ResponseController
	within  time.Duration
	started bool
}

func newTimedBody(w http.ResponseWriter, body io.ReadCloser, limit int64) *timedBody {
	within := bodyTime
	if limit > 4<<20 {
		within = largeBodyTime
	}
	return &timedBody{ReadCloser: body, rc: http.NewResponseController(w), within: within}
}

func (b *timedBody) Read(p []byte) (int, error) {
	if !b.started {
		b.started = true
		b.deadline(time.Now().Add(b.within))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.deadline(time.Time{})
	}
	return n, err
}

func (b *timedBody) Close() error {
	b.deadline(time.Time{})
	return b.ReadCloser.Close()
}

// deadline is best effort: a connection that knows none (a test's recorder) has none.
func (b *timedBody) deadline(at time.Time) {
	_ = b.rc.SetReadDeadline(at)
}
