// Package bytea is a byte string that JSON carries in Postgres' own hex form, so
// that a row can travel to the database as one json parameter.
package bytea

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Bytes is the content of a bytea column.
type Bytes []byte

// MarshalJSON writes the hex form that Postgres reads as bytea.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	out := make([]byte, 0, 2*len(b)+5)
	out = append(out, `"\\x`...)
	out = hex.AppendEncode(out, b)
	return append(out, '"'), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s == nil {
		*b = nil
		return nil
	}
	digits, ok := strings.CutPrefix(*s, `\x`)
	if !ok {
		return fmt.Errorf("not a bytea value in hex form")
	}
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return err
	}
	*b = raw
	return nil
}
