package config

import "log/slog"

const redacted = "[redacted]"

// Secret is a value that shows itself only to Reveal: printed, logged or marshalled it says that it is set and no more.
type Secret struct{ value string }

// NewSecret is for values that come from elsewhere than the environment.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal is the value itself.
func (s Secret) Reveal() string { return s.value }

// IsSet says whether there is a value.
func (s Secret) IsSet() bool { return s.value != "" }

// String never shows the value.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from showing the value.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps JSON and its kind from showing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps slog from showing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
