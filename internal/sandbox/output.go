package sandbox

import (
	"bytes"
	"io"
	"sync"
)

// meter counts output and cuts it at the limit of the box.
type meter struct {
	mu             sync.Mutex
	limit          int64
	total, dropped int64
}

// admit says how many of n bytes may pass.
func (m *meter) admit(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := max(0, m.limit-m.total)
	m.total += int64(n)
	pass := min(int64(n), room)
	m.dropped += int64(n) - pass
	return int(pass)
}

func (m *meter) totals() (total, dropped int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, m.dropped
}

// meteredWriter never fails towards the payload: a full limit or a broken
// receiver must not end it by SIGPIPE.
type meteredWriter struct {
	meter *meter
	early *headWriter
	w     io.Writer
}

func (w *meteredWriter) Write(p []byte) (int, error) {
	if w.early != nil {
		w.early.add(p)
	}
	pass := w.meter.admit(len(p))
	if w.w != nil && pass > 0 {
		if _, err := w.w.Write(p[:pass]); err != nil {
			w.w = nil
		}
	}
	return len(p), nil
}

// headWriter keeps the first bytes.
type headWriter struct {
	mu  sync.Mutex
	max int
	buf bytes.Buffer
}

func (h *headWriter) add(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := h.max - h.buf.Len(); room > 0 {
		h.buf.Write(p[:min(room, len(p))])
	}
}

func (h *headWriter) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// outputs wraps the command's writers. One writer for both streams stays one,
// so that exec serialises the calls.
func (s *session) outputs() (stdout, stderr io.Writer) {
	if s.cmd.Stdout != nil && sameWriter(s.cmd.Stdout, s.cmd.Stderr) {
		w := &meteredWriter{meter: s.meter, early: s.early, w: s.cmd.Stdout}
		return w, w
	}
	return &meteredWriter{meter: s.meter, w: s.cmd.Stdout},
		&meteredWriter{meter: s.meter, early: s.early, w: s.cmd.Stderr}
}

// sameWriter compares interfaces whose values may not be comparable.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}
