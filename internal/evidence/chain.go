// Package evidence owns what makes a record trustworthy after the fact: the
// exact bytes of an event, the hash chain of a run, and the digest that a
// person's decision is bound to. It refuses to store, to sign with keys that
// it looked up itself, and to encode one thing in two ways.
package evidence

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// magic begins every event body; another encoding would get another one.
const magic = "signalbox event v1\n"

// maxField is the largest field of a body, in bytes.
const maxField = 16 << 20

// Event is what a run's log records about one transition (D-9).
type Event struct {
	Tenant uuid.UUID
	Run    uuid.UUID
	Seq    int64 // 1, 2, …: the run's version after the event
	Schema int16 // of the payload
	Kind   string
	Actor  Actor
	// At is the database's clock, kept to the microsecond.
	At time.Time
	// Payload is the exact text that was recorded, normally JSON.
	Payload []byte
}

// Actor is who decided the event.
type Actor struct {
	Kind string // worker, human, scheduler, …
	ID   string // empty for the server's own loops
}

// Body returns the canonical bytes of e: every field with its length before
// it, so that two different events never give the same bytes.
func Body(e Event) []byte {
	b := make([]byte, 0, len(magic)+96+len(e.Kind)+len(e.Actor.Kind)+len(e.Actor.ID)+len(e.Payload))
	b = append(b, magic...)
	b = append(b, e.Tenant[:]...)
	b = append(b, e.Run[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq))
	b = binary.BigEndian.AppendUint16(b, uint16(e.Schema))
	b = appendField(b, []byte(e.Kind))
	b = appendField(b, []byte(e.Actor.Kind))
	b = appendField(b, []byte(e.Actor.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixMicro()))
	return appendField(b, e.Payload)
}

func appendField(b, f []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(f)))
	return append(b, f...)
}

// ParseBody reads what Body wrote, and nothing else. At comes back in UTC.
func ParseBody(body []byte) (Event, error) {
	rest, ok := bytes.CutPrefix(body, []byte(magic))
	if !ok {
		return Event{}, errors.New("event body: unknown encoding")
	}
	r := reader{rest: rest}
	var e Event
	copy(e.Tenant[:], r.take(16))
	copy(e.Run[:], r.take(16))
	e.Seq = int64(r.number())
	if two := r.take(2); r.err == nil {
		e.Schema = int16(binary.BigEndian.Uint16(two))
	}
	e.Kind = string(r.field())
	e.Actor.Kind = string(r.field())
	e.Actor.ID = string(r.field())
	e.At = time.UnixMicro(int64(r.number())).UTC()
	e.Payload = bytes.Clone(r.field())
	switch {
	case r.err != nil:
		return Event{}, fmt.Errorf("event body: %w", r.err)
	case len(r.rest) > 0:
		return Event{}, fmt.Errorf("event body: %d bytes too many", len(r.rest))
	}
	return e, nil
}

type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = errors.New("ends early")
	}
	if r.err != nil {
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) number() uint64 {
	b := r.take(8)
	if r.err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) field() []byte {
	n := r.number()
	if r.err == nil && n > maxField {
		r.err = errors.New("a field is too large")
	}
	if r.err != nil {
		return nil
	}
	return r.take(int(n))
}

// Hash chains a body to the hash before it (nil or empty for the first event
// of a run): SHA-256(previous ‖ body). The result has 32 bytes.
func Hash(previous, body []byte) []byte {
	h := sha256.New()
	h.Write(previous)
	h.Write(body)
	return h.Sum(nil)
}

// Link is one stored event: its bytes and the hash that was stored with them.
type Link struct {
	Body []byte
	Hash []byte
}

// BrokenError says where a chain does not hold. Its words are safe to show.
type BrokenError struct {
	Run uuid.UUID // uuid.Nil where the body cannot be read
	Seq int64     // expected sequence number
	Why string
}

// Error names the event and the reason.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("event %d of run %s: %s", e.Seq, e.Run, e.Why)
}

// Verify checks one run's whole log: every body readable and of the run and
// tenant given, sequence numbers 1, 2, … without a gap, every stored hash
// equal to the computed one, and the last equal to head (nil: not checked).
// It returns the events, or a *BrokenError for the first thing wrong.
func Verify(tenant, run uuid.UUID, chain []Link, head []byte) ([]Event, error) {
	events := make([]Event, 0, len(chain))
	var previous []byte
	for i, l := range chain {
		seq := int64(i) + 1
		broken := func(why string) ([]Event, error) {
			return nil, &BrokenError{Run: run, Seq: seq, Why: why}
		}
		e, err := ParseBody(l.Body)
		if err != nil {
			return broken(err.Error())
		}
		sum := Hash(previous, l.Body)
		switch {
		case e.Tenant != tenant:
			return broken("it belongs to another tenant")
		case e.Run != run:
			return broken("it belongs to another run")
		case e.Seq != seq:
			return broken(fmt.Sprintf("its number is %d", e.Seq))
		case subtle.ConstantTimeCompare(sum, l.Hash) != 1:
			return broken("its hash does not fit its bytes and the events before it")
		}
		events, previous = append(events, e), sum
	}
	if head != nil && subtle.ConstantTimeCompare(previous, head) != 1 {
		return nil, &BrokenError{Run: run, Seq: int64(len(chain)) + 1, Why: "the run's recorded head is not the last event's hash: events are missing at the end, or the head was changed"}
	}
	return events, nil
}

// Hex writes a hash for people and JSON.
func Hex(hash []byte) string { return hex.EncodeToString(hash) }
