package db_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-RCV-3, R-COST-1: the newest effects come first with the server's times, and never more than were asked for; what a model cost
// is summed up for each source alone, and another run's or tenant's numbers are not among it.
func TestEffectsAndModelsOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at, other := w.at(t, run.PRCreating), w.at(t, run.Executing)
	must(t, at.Lease.Effect(t.Context(), "push_branch", "push", "failed"))
	must(t, at.Lease.Effect(t.Context(), "open_pull_request", "pull", ""))
	got(w.Store.Intend(t.Context(), at.Lease.Holder(), "comment", "comment", nil))(t)
	all := got(w.Store.LatestOperations(t.Context(), at.Ref, 10))(t)
	var words []string
	for _, o := range all {
		word := o.Identity + " " + o.State
		for _, when := range []*time.Time{&o.Intended, o.Dispatched, o.Observed} {
			if when != nil && !when.IsZero() {
				word += " +"
			}
		}
		words = append(words, word)
	}
	if diff := cmp.Diff([]string{"comment intended +", "pull dispatched + +", "push observed + + +"}, words); diff != "" {
		t.Error(diff)
	}
	if two := got(w.Store.LatestOperations(t.Context(), at.Ref, 2))(t); len(two) != 2 || two[1].Identity != "pull" {
		t.Errorf("the newest two: %+v", two)
	}
	if n := got(w.Store.LatestOperations(t.Context(), other.Ref, 10))(t); len(n) != 0 {
		t.Errorf("another run has %+v", n)
	}

	w.write(t, `DELETE FROM usages`)
	for _, u := range []struct {
		ref           db.Ref
		model, source string
		in, calls     int
		micros        int
	}{
		{at.Ref, "dear", "reported", 10, 2, 500}, {at.Ref, "dear", "reported", 20, 1, 100}, {at.Ref, "dear", "estimated", 1, 1, 7}, {at.Ref, "cheap", "reported", 900, 3, 90},
		{at.Ref, "", "unknown", 4, 0, 0}, {at.Ref, "tools only", "unknown", 0, 0, 0}, {other.Ref, "dear", "reported", 1000, 1, 1000},
	} {
		w.write(t, `INSERT INTO usages (tenant_id, run_id, attempt_no, lease_id, model, source, input_tokens, provider_calls, cost_micros) VALUES ($1, $2, 1, $2, $3, $4, $5, $6, $7)`,
			u.ref.Tenant, u.ref.Run, u.model, u.source, u.in, u.calls, u.micros)
	}
	want := []db.ModelCost{
		{Model: "dear", Source: "estimated", TokensIn: 1, Calls: 1, Micros: 7}, {Model: "dear", Source: "reported", TokensIn: 30, Calls: 3, Micros: 600},
		{Model: "cheap", Source: "reported", TokensIn: 900, Calls: 3, Micros: 90}, {Source: "unknown", TokensIn: 4, UnknownCalls: 1},
	}
	if diff := cmp.Diff(want, got(w.Store.ModelCosts(t.Context(), at.Ref, 10))(t)); diff != "" {
		t.Error(diff)
	}
	if n := len(got(w.Store.ModelCosts(t.Context(), at.Ref, 3))(t)); n != 3 {
		t.Errorf("%d rows where 3 were asked for", n)
	}
}
