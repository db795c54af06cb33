package run_test

import (
	"encoding/json"
	"testing"
)

// deep is a value's whole content as text, so that a later change of anything it
// points to shows.
func deep(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
