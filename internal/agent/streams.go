package agent

import (
	"io"
	"sync"
)

// logWriter passes stdout and stderr on, marks life and keeps the end.
type logWriter struct {
	mu   sync.Mutex
	w    io.Writer
	life *life
	tail tail
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.life.sign()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tail.add(p)
	if w.w != nil {
		return w.w.Write(p)
	}
	return len(p), nil
}

// reportWriter marks life for descriptor 3.
type reportWriter struct {
	life *life
	next io.Writer
}

func (w *reportWriter) Write(p []byte) (int, error) {
	w.life.sign()
	return w.next.Write(p)
}

// tail keeps the last bytes of a stream.
type tail struct {
	max int
	buf []byte
}

func (t *tail) add(p []byte) {
	t.buf = append(t.buf, p[max(0, len(p)-t.max):]...)
	if len(t.buf) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
}

func (t *tail) String() string { return string(t.buf[max(0, len(t.buf)-t.max):]) }
