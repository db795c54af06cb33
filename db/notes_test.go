package db_test

import (
	"testing"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// A16: what each of several approvers noted reaches the agent under their own names, in their order, and stands in the event.
func TestNotesOfAQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: two\ngates: {patch: {when: always, quorum: 2}}\n"})
	at := w.at(t, run.WaitingForApproval)
	gate := w.info(t, at.Ref).Gate.ID
	first := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, "Mind the tests."))(t)
	first.Notes = 2
	if a := got(w.Store.Decide(t.Context(), first))(t); a.Outcome != "recorded" || a.Notes != 2 {
		t.Errorf("first: %+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM feedback`); n != 0 {
		t.Errorf("%d notes are given to the agent before anything is approved", n)
	}
	if a := got(w.Decide(t.Context(), at.Ref, w.Approvers[1], policy.Approve, "And the docs."))(t); a.Outcome != "satisfied" || a.Notes != 3 {
		t.Errorf("second: %+v", a)
	}
	given := func() (all string) {
		t.Helper()
		must(t, w.Owner.QueryRow(t.Context(), `SELECT coalesce(string_agg(author || ': ' || text, ' | ' ORDER BY id), '') FROM feedback WHERE run_id = $1`, at.Ref.Run).Scan(&all))
		return all
	}
	if want := w.Approvers[0].Name + ": Mind the tests. | " + w.Approvers[1].Name + ": And the docs."; given() != want {
		t.Errorf("the agent gets %q, want %q", given(), want)
	}
	if n := w.count(t, `SELECT (payload -> 'payload' ->> 'note_count')::int FROM run_events WHERE run_id = $1 AND kind = 'approved'`, at.Ref.Run); n != 3 {
		t.Errorf("the event counts %d notes", n)
	}
	// What was withdrawn before anybody worked on it is not for the agent any more; the record keeps it.
	got(w.Withdraw(t.Context(), gate, w.Approvers[0]))(t)
	if given() != "" {
		t.Errorf("after the withdrawal the agent gets %q", given())
	}
	got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	if a := got(w.Decide(t.Context(), at.Ref, w.Approvers[2], policy.Approve, "Now."))(t); a.Notes != 1 || given() != w.Approvers[2].Name+": Now." {
		t.Errorf("approved again: %+v, the agent gets %q", a, given())
	}
	if n := w.count(t, `SELECT sum(notes) FROM decisions WHERE gate_id = $1`, gate); n != 4 {
		t.Errorf("%d notes on the record", n)
	}
	w.replays(t)
}
