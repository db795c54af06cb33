package handlers_test

import (
	"net/http"
	"testing"
	"time"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// D-17: what the pages offer beside a decision is there by API, too, for the same people: a person's login and never a token.
func TestTakeTurnsByAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.", "title", "One word")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	path := "/gates/" + gate + "/turn"
	approver, other, asked := w.cli(t, ana), w.cli(t, ben), w.cli(t, rita)
	take := func(c client, do wire.TurnTake) wire.GateTurn {
		t.Helper()
		return into[wire.GateTurn](t, c.call(t, "POST", path, do).want(t, http.StatusOK))
	}
	look := func(c client) wire.GateTurn {
		t.Helper()
		return into[wire.GateTurn](t, c.call(t, "GET", path, nil).want(t, http.StatusOK))
	}
	until := time.Now().Add(4 * time.Hour).UTC().Truncate(time.Second)
	if got := take(approver, wire.TurnTake{Do: wire.TakeSnooze, Until: until}); !got.Snoozed || !got.SnoozedUntil.Equal(until) {
		t.Errorf("put off: %+v", got)
	}
	if got := take(approver, wire.TurnTake{Do: wire.TakeSnooze}); !got.Snoozed || !got.SnoozedUntil.IsZero() {
		t.Errorf("put off until a new revision: %+v", got)
	}
	if look(other).Snoozed {
		t.Error("what one puts off is put off for another")
	}
	if take(approver, wire.TurnTake{Do: wire.TakeWake}).Snoozed {
		t.Error("still put off")
	}
	for range 2 { // said twice, it holds as if said once
		if got := take(approver, wire.TurnTake{Do: wire.TakeClaim}); !got.Mine || len(got.Claims) != 1 {
			t.Errorf("claimed: %+v", got)
		}
	}
	if got := look(other); got.Mine || len(got.Claims) != 1 || got.Claims[0].Name != "Ana Approver" {
		t.Errorf("the other sees %+v", got)
	}
	if got := take(approver, wire.TurnTake{Do: wire.TakeRelease}); got.Mine || len(got.Claims) != 0 {
		t.Errorf("released: %+v", got)
	}
	people := look(approver).People
	if len(people) != 1 || people[0].Name != "Ben Approver" {
		t.Fatalf("may be passed to %+v", people)
	}
	if got := take(approver, wire.TurnTake{Do: wire.TakePass, To: people[0].Id}); got.PassedTo != "Ben Approver" {
		t.Errorf("passed on: %+v", got)
	}
	if got := look(other); got.GivenBy != "Ana Approver" {
		t.Errorf("the other sees %+v", got)
	}
	// Whoever asked for the change may ask for a look, and no more.
	if got := take(asked, wire.TurnTake{Do: wire.TakePass, To: people[0].Id}); got.PassedTo != "Ben Approver" {
		t.Errorf("a review was asked for: %+v", got)
	}
	asked.call(t, "POST", path, wire.TurnTake{Do: wire.TakeClaim}).want(t, http.StatusForbidden)
	w.user(t, vera)
	w.cli(t, vera).call(t, "POST", path, wire.TurnTake{Do: wire.TakeClaim}).want(t, http.StatusForbidden)
	if got := look(w.cli(t, vera)); len(got.People) != 0 {
		t.Errorf("who may not pass it on is told %+v", got.People)
	}
	// A token neither decides nor speaks for its person.
	token := w.token(t, ana, "read", "tasks")
	token.call(t, "POST", path, wire.TurnTake{Do: wire.TakeClaim}).want(t, http.StatusForbidden)
	if got := look(token); len(got.People) != 0 {
		t.Errorf("a token is told whom it may pass to: %+v", got.People)
	}
	for name, do := range map[string]wire.TurnTake{
		"over":    {Do: wire.TakeSnooze, Until: time.Now().Add(-time.Hour)},
		"nobody":  {Do: wire.TakePass},
		"oneself": {Do: wire.TakePass, To: typeid.Format(typeid.User, w.user(t, ana).User)},
		"asked":   {Do: wire.TakePass, To: typeid.Format(typeid.User, w.user(t, rita).User)},
		"until":   {Do: wire.TakeClaim, Until: until}, "to": {Do: wire.TakeWake, To: people[0].Id}, "dance": {Do: "dance"},
	} {
		if p := into[wire.Problem](t, approver.call(t, "POST", path, do).want(t, http.StatusUnprocessableEntity)); len(p.Errors) == 0 {
			t.Errorf("%s: no field is named: %+v", name, p)
		}
	}
	approver.call(t, "GET", "/gates/"+typeid.Format(typeid.Gate, typeid.New())+"/turn", nil).want(t, http.StatusNotFound)
}
