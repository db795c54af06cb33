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

// redactor replaces known secrets in a stream before it is stored or sent: every byte that belongs to one, however the
// stream is cut into writes. It holds back only what may still become one.
type redactor struct {
	next    io.Writer
	secrets [][]byte
	held    []byte
	// left is how many of the coming bytes belong to a secret that has been seen.
	left int
}

// minSecret is the length below which a value is too common to be taken for a secret.
const minSecret = 8

func newRedactor(next io.Writer, secrets []string) *redactor {
	r := &redactor{next: next}
	for _, s := range secrets {
		if len(s) >= minSecret {
			r.secrets = append(r.secrets, []byte(s))
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
	if err := r.pass(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass passes on what is held, up to where a secret may have begun that has not ended; at the end of the stream all of it.
func (r *redactor) pass(end bool) error {
	out, i := make([]byte, 0, len(r.held)), 0
	for ; i < len(r.held); i++ {
		n, open := r.begins(r.held[i:])
		if open && !end {
			break
		}
		if n > 0 && r.left == 0 {
			out = append(out, "[redacted]"...)
		}
		if r.left = max(r.left, n); r.left > 0 {
			r.left--
			continue
		}
		out = append(out, r.held[i])
	}
	r.held = append(r.held[:0], r.held[i:]...)
	_, err := r.next.Write(out)
	return err
}

// begins is the length of the longest secret with which b begins, 0 for none; open says that b may be the beginning of a longer one.
func (r *redactor) begins(b []byte) (n int, open bool) {
	for _, s := range r.secrets {
		if bytes.HasPrefix(b, s) {
			return len(s), open
		}
		open = open || bytes.HasPrefix(s, b)
	}
	return 0, open
}

// flush passes on what was held back.
func (r *redactor) flush() {
	_ = r.pass(true)
	r.held = nil
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
