package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
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

// stream carries one of the payload's pipes to its receiver.
type stream struct {
	r    *os.File
	done chan struct{}
}

// stream makes a pipe whose other end the payload gets, and starts carrying
// what comes. A receiver that fails is not told any more; the payload goes on.
func (s *session) stream(w io.Writer) (theirs *os.File, err error) {
	r, theirs, err := s.pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	st := &stream{r: r, done: make(chan struct{})}
	s.streams = append(s.streams, st)
	go st.carry(w)
	return theirs, nil
}

func (st *stream) carry(w io.Writer) {
	defer close(st.done)
	buf := make([]byte, 32<<10)
	draining := false
	for {
		n, err := st.r.Read(buf)
		if n > 0 && w != nil {
			if _, err := w.Write(buf[:n]); err != nil {
				w = nil
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !draining:
			draining = true // the payload has ended; what is in the pipe is all there is
		case err != nil:
			return
		}
		if draining {
			// Anew for every read: time that the receiver takes does not count.
			if st.r.SetReadDeadline(time.Now().Add(drainTime)) != nil {
				return
			}
		}
	}
}

// drain waits until everything the payload wrote has been received. A pipe that
// somebody else still holds open is given up after drainTime without a byte.
func (s *session) drain() error {
	for _, st := range s.streams {
		_ = st.r.SetReadDeadline(time.Now())
	}
	limit := time.NewTimer(receiverTime)
	defer limit.Stop()
	for _, st := range s.streams {
		select {
		case <-st.done:
		case <-limit.C:
			return fmt.Errorf("the receiver of the output has not taken it for %s", receiverTime)
		}
	}
	return nil
}

// outputs makes the pipes of standard output and standard error. One writer for
// both means one pipe, so that the order is the payload's.
func (s *session) outputs() (stdout, stderr *os.File, err error) {
	if s.cmd.Stdout != nil && sameWriter(s.cmd.Stdout, s.cmd.Stderr) {
		both, err := s.stream(&meteredWriter{meter: s.meter, early: s.early, w: s.cmd.Stdout})
		return both, both, err
	}
	if stdout, err = s.stream(&meteredWriter{meter: s.meter, w: s.cmd.Stdout}); err != nil {
		return nil, nil, err
	}
	stderr, err = s.stream(&meteredWriter{meter: s.meter, early: s.early, w: s.cmd.Stderr})
	return stdout, stderr, err
}

// sameWriter compares interfaces whose values may not be comparable.
func sameWriter(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}
