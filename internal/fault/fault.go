// Package fault owns the kinds of failure and the sentence a person may read
// about each. It refuses to know HTTP (handlers map kinds to answers) and to
// leak: an error that nobody classified is Internal and shows one generic
// sentence, whatever its cause says.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of failure an error is. The zero value is Internal, so
// that an error nobody thought about is never shown to a person.
type Kind int

const (
	// Internal is a failure of ours. Its cause is logged, never shown.
	Internal Kind = iota
	// Malformed is a request that could not be read at all (syntax).
	Malformed
	// Unauthenticated is a request without a usable identity.
	Unauthenticated
	// Forbidden is a missing right on an object the caller may see.
	Forbidden
	// NotFound is an object that does not exist, or not in this tenant.
	NotFound
	// Conflict is a request that was right for a state that has passed.
	Conflict
	// Gone is an object that existed and will not come back.
	Gone
	// TooLarge is content above a limit.
	TooLarge
	// Invalid is a readable request whose content is not acceptable.
	Invalid
	// TooMany is a caller that has to slow down; see Error.RetryAfter.
	TooMany
	// Unavailable is a dependency that cannot answer now; trying again helps.
	Unavailable
)

// String names the kind in lower snake case, as problem answers and logs do.
func (k Kind) String() string {
	switch k {
	case Malformed:
		return "malformed"
	case Unauthenticated:
		return "unauthenticated"
	case Forbidden:
		return "forbidden"
	case NotFound:
		return "not_found"
	case Conflict:
		return "conflict"
	case Gone:
		return "gone"
	case TooLarge:
		return "too_large"
	case Invalid:
		return "invalid"
	case TooMany:
		return "too_many"
	case Unavailable:
		return "unavailable"
	default:
		return "internal"
	}
}

// Kinds lists every kind, Internal first, for tests that must cover all.
func Kinds() []Kind {
	return []Kind{
		Internal, Malformed, Unauthenticated, Forbidden, NotFound, Conflict,
		Gone, TooLarge, Invalid, TooMany, Unavailable,
	}
}

// Generic is what a person reads about an Internal failure.
const Generic = "Something went wrong on our side. Nothing was changed by this request as far as we know; look at the current state before you try again."

// Error is a failure with a kind and a sentence that is safe to show.
type Error struct {
	Kind Kind
	// Sentence is a full sentence for a person: what did not happen, why,
	// and the way on. It never quotes a cause.
	Sentence string
	// Code is an optional stable word for machines ("stale_digest").
	Code string
	// Field names the input field the failure is about, or is empty.
	Field string
	// Stop tells a worker to stop before its next side effect: its lease no
	// longer holds.
	Stop bool
	// State is the present state of the object that the failure is about, for
	// machines, or empty.
	State string
	// RetryAfter is how long to wait before trying again; 0 means unknown.
	RetryAfter time.Duration

	cause error
}

// Error is for logs: kind, sentence and cause.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Sentence, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Sentence)
}

// Unwrap returns the cause, nil where there is none.
func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error by kind, and by code where the target has one:
// errors.Is(err, &fault.Error{Kind: fault.Conflict}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok {
		return false
	}
	return e.Kind == t.Kind && (t.Code == "" || t.Code == e.Code)
}

// WithField returns a copy that names the input field.
func (e *Error) WithField(field string) *Error { c := *e; c.Field = field; return &c }

// WithCode returns a copy with a stable word for machines.
func (e *Error) WithCode(code string) *Error { c := *e; c.Code = code; return &c }

// WithStop returns a copy that tells a worker to stop.
func (e *Error) WithStop() *Error { c := *e; c.Stop = true; return &c }

// WithState returns a copy that says the object's present state.
func (e *Error) WithState(state string) *Error { c := *e; c.State = state; return &c }

// WithRetryAfter returns a copy that says how long to wait.
func (e *Error) WithRetryAfter(d time.Duration) *Error { c := *e; c.RetryAfter = d; return &c }

// New makes an error of a kind with a sentence that a person may read.
func New(kind Kind, sentence string) *Error { return &Error{Kind: kind, Sentence: sentence} }

// Newf is New with a format. Arguments must be safe to show.
func Newf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Sentence: fmt.Sprintf(format, args...)}
}

// Wrap gives a cause a kind and a sentence. The cause is for the log only.
func Wrap(kind Kind, cause error, sentence string) *Error {
	return &Error{Kind: kind, Sentence: sentence, cause: cause}
}

// KindOf returns the kind of the outermost *Error in the chain. A deadline
// that passed is Unavailable; everything else unclassified is Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	return Internal
}

// Sentence returns what a person may read about err: its own sentence, or
// Generic for an Internal or unclassified error. It is empty for nil.
func Sentence(err error) string {
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case ok && e.Kind != Internal && e.Sentence != "":
		return e.Sentence
	case KindOf(err) == Unavailable:
		return "The answer took too long, so we stopped waiting. Look at the current state before you try again."
	default:
		return Generic
	}
}

// Find returns the outermost *Error in the chain, for its optional fields.
func Find(err error) (*Error, bool) { return errors.AsType[*Error](err) }
