package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"signalbox/internal/wire"
)

// A turn goes to exactly one person: a name that two share, or nobody has, is refused.
func TestPassToOnePerson(t *testing.T) {
	t.Parallel()
	people := []wire.Person{{Id: "user_1", Name: "Ana"}, {Id: "user_2", Name: "Ben"}, {Id: "user_3", Name: "ben"}}
	for want, id := range map[string]string{"ana": "user_1", "user_2": "user_2", "user_3": "user_3"} {
		if got, err := oneOf(people, want); err != nil || got != id {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
	for want, words := range map[string]string{"Ben": "2 people are called", "Carl": "nobody called", "": "nobody called"} {
		if got, err := oneOf(people, want); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
}

func TestShowTurn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		turn wire.GateTurn
		want string
	}{
		"nothing":  {wire.GateTurn{}, "nobody said anything"},
		"snoozed":  {wire.GateTurn{Snoozed: true}, "until a new revision"},
		"for long": {wire.GateTurn{Snoozed: true, SnoozedUntil: at}, "until 2026-12-01 09:00:00 UTC"},
		"claimed":  {wire.GateTurn{Claims: []wire.TurnClaim{{Name: "A\x1b[31m", Until: at}}}, "A\uFFFD[31m"},
		"passed":   {wire.GateTurn{PassedTo: "Ben", GivenBy: "Ana"}, "given by   Ana"},
	} {
		var out bytes.Buffer
		if err := (remote{}).show(&out, c.turn, func(w io.Writer) { showTurn(w, c.turn) }); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
