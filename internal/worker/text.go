package worker

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// clip makes untrusted text fit a member of the contract: valid UTF-8, no NUL, at most n bytes.
func clip(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	const mark = "…"
	if n <= len(mark) {
		return ""
	}
	cut := n - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// redactor replaces known secrets in a stream before it is stored or sent. It holds back as many bytes as a secret
// could still need, so that one that is split over two writes is found as well.
type redactor struct {
	next    io.Writer
	secrets [][]byte
	held    []byte
	keep    int
}

// minSecret is the length below which a value is too common to be taken for a secret.
const minSecret = 8

func newRedactor(next io.Writer, secrets []string) *redactor {
	r := &redactor{next: next}
	for _, s := range secrets {
		if len(s) >= minSecret {
			r.secrets = append(r.secrets, []byte(s))
			r.keep = max(r.keep, len(s)-1)
		}
	}
	// The longest first: a secret may be the beginning of another.
	slices.SortFunc(r.secrets, func(a, b []byte) int { return len(b) - len(a) })
	return r
}

func (r *redactor) Write(p []byte) (int, error) {
	if len(r.secrets) == 0 {
		return r.next.Write(p)
	}
	r.held = append(r.held, p...)
	r.replace()
	if n := len(r.held) - r.keep; n > 0 {
		if _, err := r.next.Write(r.held[:n]); err != nil {
			return 0, err
		}
		r.held = append(r.held[:0], r.held[n:]...)
	}
	return len(p), nil
}

func (r *redactor) replace() {
	for _, s := range r.secrets {
		r.held = bytes.ReplaceAll(r.held, s, []byte("[redacted]"))
	}
}

// flush passes on what was held back.
func (r *redactor) flush() {
	if len(r.held) > 0 {
		r.replace()
		_, _ = r.next.Write(r.held)
		r.held = nil
	}
}

// bounded passes on at most limit bytes and says once that more was dropped.
type bounded struct {
	next io.Writer
	left int64
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.over {
		return len(p), nil
	}
	if int64(len(p)) > b.left {
		_, _ = b.next.Write(p[:b.left])
		_, _ = io.WriteString(b.next, "\n[signalbox: the output limit of this run is reached; the rest was not kept]\n")
		b.over = true
		return len(p), nil
	}
	b.left -= int64(len(p))
	return b.next.Write(p)
}
