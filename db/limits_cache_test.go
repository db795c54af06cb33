package db

import (
	"encoding/json"
	"fmt"
	"testing"
)

// What is kept is bounded, and a text that cannot be read is an error each time.
func TestLimitsCache(t *testing.T) {
	t.Parallel()
	var c limitsCache
	for n := range 3 * limitsKept {
		l, err := c.parse(json.RawMessage(fmt.Sprintf(`{"max_attempts": %d}`, n)))
		if err != nil || l.MaxAttempts != n {
			t.Fatalf("%d: %+v, %v", n, l, err)
		}
	}
	if l, err := c.parse(json.RawMessage(`{"max_attempts": 700}`)); err != nil || l.MaxAttempts != 700 {
		t.Errorf("a text again: %+v, %v", l, err)
	}
	if kept := len(c.parsed); kept > limitsKept {
		t.Errorf("%d texts are kept, want at most %d", kept, limitsKept)
	}
	for range 2 {
		if l, err := c.parse(json.RawMessage(`{"max_attempts": "many"}`)); err == nil {
			t.Errorf("a text that cannot be read gives %+v", l)
		}
	}
}
