package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// What a report keeps of an output; the whole goes to the caller's writer.
const (
	keepHead = 32 << 10
	keepTail = 96 << 10
)

// Output is what is kept of a command's output.
type Output struct {
	Bytes   int64  `json:"bytes"`
	Dropped int64  `json:"dropped_bytes,omitempty"` // above the box's limit, seen by nobody
	SHA256  string `json:"sha256"`                  // of all that was seen
	Head    string `json:"head"`
	Tail    string `json:"tail,omitempty"` // the end, when it did not fit into Head
	Omitted int64  `json:"omitted_bytes,omitempty"`
}

// last is the end of the output, at most max bytes of valid UTF-8.
func (o Output) last(max int) string {
	s := o.Head
	if o.Tail != "" {
		s = o.Tail
		if o.Omitted == 0 {
			s = o.Head + o.Tail
		}
	}
	if len(s) <= max {
		return s
	}
	cut := len(s) - max
	for cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut++
	}
	return s[cut:]
}

// capture keeps head and tail of a stream and passes all of it on.
type capture struct {
	mu   sync.Mutex
	w    io.Writer
	sum  hash.Hash
	n    int64
	head []byte
	tail []byte
}

func newCapture(w io.Writer) *capture { return &capture{w: w, sum: sha256.New()} }

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += int64(len(p))
	c.sum.Write(p)
	rest := p
	if room := keepHead - len(c.head); room > 0 {
		take := min(room, len(rest))
		c.head = append(c.head, rest[:take]...)
		rest = rest[take:]
	}
	c.tail = append(c.tail, rest[max(0, len(rest)-keepTail):]...)
	if len(c.tail) > 2*keepTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keepTail:]...)
	}
	if c.w != nil {
		if _, err := c.w.Write(p); err != nil {
			// The report still gets its part; only the live copy ends.
			c.w = nil
		}
	}
	return len(p), nil
}

func (c *capture) output(total, dropped int64) Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.tail[max(0, len(c.tail)-keepTail):]
	return Output{
		Bytes: max(total, c.n), Dropped: dropped, SHA256: hex.EncodeToString(c.sum.Sum(nil)),
		Head: text(c.head), Tail: text(tail), Omitted: c.n - int64(len(c.head)) - int64(len(tail)),
	}
}

// text makes output storable: valid UTF-8 without NUL.
func text(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}
