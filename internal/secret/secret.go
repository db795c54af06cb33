// Package secret owns values that are shown to nobody: a type that prints and marshals as redacted, and the ring of keys under
// which such values lie in the database.
//
// It refuses to keep keys anywhere, to open a value at another place than it was sealed for, and keys that nobody could have
// drawn by chance.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
)

const redacted = "[redacted]"

// Value shows itself only to Reveal: printed, logged or marshalled it says that it is set and no more. It cannot be read back
// from what it prints.
type Value struct {
	// A pointer, because fmt asks no method of a field that it cannot see, and prints what lies in it.
	value *string
}

// New is for a value that arrived as text.
func New(value string) Value {
	if value == "" {
		return Value{}
	}
	return Value{&value}
}

// Reveal is the value itself.
func (v Value) Reveal() string {
	if v.value == nil {
		return ""
	}
	return *v.value
}

// IsSet says whether there is a value.
func (v Value) IsSet() bool { return v.value != nil }

// Equal compares in a time that tells nothing about either value, nor about their lengths.
func (v Value) Equal(other Value) bool {
	a, b := sha256.Sum256([]byte(v.Reveal())), sha256.Sum256([]byte(other.Reveal()))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// String never shows the value.
func (v Value) String() string {
	if v.value == nil {
		return ""
	}
	return redacted
}

// GoString keeps %#v from showing the value.
func (v Value) GoString() string { return v.String() }

// MarshalText keeps JSON and its kind from showing the value.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// LogValue keeps slog from showing the value.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }
