package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

func admin(w *world, p drive.Person, key string) db.Request {
	return db.Request{Tenant: w.Tenant, By: p.Actor(), Roles: []policy.Role{policy.RoleAdmin}, Key: key, Hash: drive.Hash(key),
		Audit: &db.Audit{Tenant: w.Tenant, By: p.Actor(), Channel: "page", Action: "policy.change", ObjectType: "policy", Result: "recorded"}}
}

// A version of the policy is kept with who, when and why, and is in the audit; a version never changes.
func TestPolicyVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	if _, err := w.Store.ChangePolicy(ctx, admin(w, w.Requester, "no-reason"), "version: a-1\n", " "); fault.KindOf(err) != fault.Invalid {
		t.Errorf("without a reason: %v", err)
	}
	ack := got(w.Store.ChangePolicy(ctx, admin(w, w.Requester, "one"), "version: a-1\n", "First."))(t)
	if again := got(w.Store.ChangePolicy(ctx, admin(w, w.Requester, "one"), "version: a-1\n", "First."))(t); !ack.InForce || again != ack {
		t.Errorf("%+v, repeated %+v", ack, again)
	}
	for _, version := range []string{"a-1", policy.DefaultVersion} {
		if _, err := w.Store.ChangePolicy(ctx, admin(w, w.Requester, "taken"+version), "version: "+version+"\n", "Second."); fault.KindOf(err) != fault.Conflict {
			t.Errorf("version %s twice: %v", version, err)
		}
	}
	all, waits, err := w.Store.Policies(ctx, w.Tenant, 10)
	if err != nil || waits != nil || len(all) == 0 || all[0].Version != "a-1" || !all[0].InForce || all[0].Reason != "First." || all[0].By == "" {
		t.Errorf("%+v %+v %v", all, waits, err)
	}
	var lines int
	if err := w.Owner.QueryRow(ctx, `SELECT count(*) FROM audit_log WHERE action = 'policy.change' AND object_id = 'a-1' AND reason = 'First.'`).Scan(&lines); err != nil || lines != 1 {
		t.Errorf("%d lines in the audit, %v", lines, err)
	}
}

// Where the policy asks for a second administrator, a change waits for one, and nobody is both.
func TestPolicyNeedsASecondAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	first, second := w.Requester, w.Approvers[0]
	must(t, w.SetPolicy(ctx, "version: two-1\nchanges: {second_admin: true}\n"))
	if ack := got(w.Store.ChangePolicy(ctx, admin(w, first, "propose"), "version: two-2\n", "Alone again."))(t); ack.InForce {
		t.Fatal("one administrator changed the policy alone")
	}
	if rules := got(w.Store.Rules(ctx, w.Tenant))(t); rules.Version != "two-1" {
		t.Fatalf("%s is in force", rules.Version)
	}
	if _, err := w.Store.ConfirmPolicy(ctx, admin(w, first, "own"), "two-2"); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("one administrator did both: %v", err)
	}
	if _, err := w.Store.ChangePolicy(ctx, admin(w, second, "other"), "version: two-3\n", "Another."); fault.KindOf(err) != fault.Conflict {
		t.Errorf("two changes at a time: %v", err)
	}
	var wg sync.WaitGroup
	confirmed := make(chan error, 4)
	for _, key := range []string{"c1", "c2", "c3", "c4"} {
		wg.Go(func() {
			_, err := w.Store.ConfirmPolicy(ctx, admin(w, second, key), "two-2")
			confirmed <- err
		})
	}
	wg.Wait()
	close(confirmed)
	n := 0
	for err := range confirmed {
		if err == nil {
			n++
		}
	}
	all, waits, err := w.Store.Policies(ctx, w.Tenant, 10)
	if err != nil || n != 1 || waits != nil || all[0].Version != "two-2" || all[0].ConfirmedBy == "" || all[0].ConfirmedBy == all[0].By {
		t.Errorf("%d confirmed: %+v %+v %v", n, all, waits, err)
	}
}

// A change that was proposed for a policy which is not in force any more is not confirmed; it can be withdrawn.
func TestPolicyProposalThatIsOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	must(t, w.SetPolicy(ctx, "version: two-1\nchanges: {second_admin: true}\n"))
	got(w.Store.ChangePolicy(ctx, admin(w, w.Requester, "propose"), "version: two-2\n", "For two-1."))(t)
	must(t, w.SetPolicy(ctx, "version: other-1\nchanges: {second_admin: true}\n"))
	if _, err := w.Store.ConfirmPolicy(ctx, admin(w, w.Approvers[0], "late"), "two-2"); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "other-1") {
		t.Errorf("%v", err)
	}
	must(t, w.Store.WithdrawPolicy(ctx, admin(w, w.Requester, "withdraw"), "two-2"))
	if _, waits, err := w.Store.Policies(ctx, w.Tenant, 10); waits != nil || err != nil {
		t.Errorf("%+v %v", waits, err)
	}
}

// A policy that becomes looser while a run waits loosens nothing for that run; a stricter one tightens it.
func TestPolicyOnlyTightensWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	must(t, w.SetPolicy(ctx, "version: strict-1\ngates:\n  patch: {when: always, quorum: 2}\n"))
	gate := got(w.Verdict(ctx, w.at(t, run.WaitingForApproval).Ref, w.Approvers[0], policy.Approve, ""))(t).Gate
	must(t, w.SetPolicy(ctx, "version: loose-1\ngates:\n  patch: {quorum: 1}\nauto_pr: {allowed: true}\n"))
	by := db.Decider{User: w.Approvers[0].ID, Name: "A", Roles: w.Approvers[0].Roles, Live: true}
	s := got(w.Store.Standing(ctx, w.Tenant, gate, by))(t)
	if s.Tally.Needed != 2 || s.Version != "loose-1" {
		t.Errorf("%d approvals are needed under %s", s.Tally.Needed, s.Version)
	}
	must(t, w.SetPolicy(ctx, "version: stricter-1\ngates:\n  patch: {quorum: 3}\n"))
	if s := got(w.Store.Standing(ctx, w.Tenant, gate, by))(t); s.Tally.Needed != 3 {
		t.Errorf("%d approvals are needed under %s", s.Tally.Needed, s.Version)
	}
	must(t, w.SetPolicy(ctx, "version: ruled-1\nrules:\n  - name: all\n    when: changed_files > 0\n    then: {gates: [patch], approvals: 4}\n"))
	if s := got(w.Store.Standing(ctx, w.Tenant, gate, by))(t); s.Tally.Needed != 4 {
		t.Errorf("%d approvals are needed under %s", s.Tally.Needed, s.Version)
	}
}

// A draft is tried on past runs: those that it would have decided differently are counted and listed, with the reason.
func TestSimulatePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: one\ngates:\n  patch: {when: always, quorum: 1}\n"})
	ctx := t.Context()
	judged, young := w.at(t, run.WaitingForApproval), w.at(t, run.Executing)
	sim := got(w.Store.SimulatePolicy(ctx, w.Tenant, "version: draft-1\ngates:\n  patch: {when: always, quorum: 2}\n", 500))(t)
	if sim.Runs != 2 || sim.Changed != 1 || sim.Kinds[policy.ChangeMore] != 1 || len(sim.List) != 1 || sim.List[0].Run != judged.Ref.Run || sim.Against != "one" {
		t.Errorf("%+v", sim)
	}
	sim = got(w.Store.SimulatePolicy(ctx, w.Tenant, "version: draft-2\ngates:\n  patch: {when: always}\nrules:\n  - name: go\n    when: paths.exists(p, p.glob('**/*.go'))\n    then: {risk: CRITICAL, deny: true}\n", 500))(t)
	if sim.Changed != 1 || sim.Kinds[policy.ChangeRefused] != 1 || !strings.Contains(sim.List[0].Changes[0].Words, `"go"`) {
		t.Errorf("%+v", sim)
	}
	sim = got(w.Store.SimulatePolicy(ctx, w.Tenant, "version: draft-3\nadmission: {repositories: []}\n", 1))(t)
	if sim.Runs != 1 || sim.Changed != 1 || sim.List[0].Run != young.Ref.Run {
		t.Errorf("the newest alone: %+v", sim)
	}
}

// A tenant tries one draft at a time, on whatever server; the second is told so, and another tenant's goes on.
func TestOneSimulationAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	elsewhere := got(pgx.Connect(t.Context(), w.db.AppURL))(t)
	defer elsewhere.Close(context.Background())
	tx := got(elsewhere.Begin(t.Context()))(t)
	var mine bool
	must(t, tx.QueryRow(t.Context(), queryTexts(t)["TakeSimulation"], w.Tenant.String()).Scan(&mine))
	if !mine {
		t.Fatal("nobody simulates, and it is not another server's turn")
	}
	_, err := w.Store.SimulatePolicy(t.Context(), w.Tenant, "version: draft-1\n", 500)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.TooMany || f.Code != "simulation_under_way" || f.RetryAfter <= 0 {
		t.Errorf("a second simulation: %v", err)
	}
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	got(w.Store.SimulatePolicy(t.Context(), other.Tenant, "version: draft-1\n", 500))(t)
	must(t, tx.Rollback(t.Context()))
	for range 2 {
		got(w.Store.SimulatePolicy(t.Context(), w.Tenant, "version: draft-1\n", 500))(t)
	}
}

// A17 A20: the rows of the quorum are those of today's policy with who can still approve, and a decision under another
// policy than the gate's says both versions and what is asked now.
func TestPolicyMovedAtAGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: old-1\ngates:\n  patch: {when: always, quorum: 1}\n"})
	ctx := t.Context()
	at := w.at(t, run.WaitingForApproval)
	must(t, w.SetPolicy(ctx, "version: new-1\ngates:\n  patch: {when: always, quorum: 2}\n"))
	v := got(w.Verdict(ctx, at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	by := db.Decider{User: w.Approvers[0].ID, Roles: w.Approvers[0].Roles, Live: true}
	before := got(w.Store.Standing(ctx, w.Tenant, v.Gate, by))(t)
	ack := got(w.Store.Decide(ctx, v))(t)
	if ack.Outcome != "recorded" || !strings.Contains(ack.Words, "Policy new-1 holds now; this was asked for under old-1. It asks for 2 approvals instead of 1.") || !strings.Contains(ack.Words, "1 of 2") {
		t.Errorf("%+v", ack)
	}
	after := got(w.Store.Standing(ctx, w.Tenant, v.Gate, by))(t)
	q := after.Requirements[0]
	if q.Have != 1 || q.Need != 2 || len(q.Who) != len(before.Requirements[0].Who)-1 || after.Moved == "" {
		t.Errorf("%+v after %+v, %q", q, before.Requirements, after.Moved)
	}
}

// A18: where a rejection blocks, others may still approve, the gate stays undecided, and the words name who blocks.
func TestRejectionBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: block-1\ngates:\n  patch: {when: always, quorum: 1}\n  any_reject_blocks: true\n"})
	ctx := t.Context()
	at := w.at(t, run.WaitingForApproval)
	if ack := got(w.Decide(ctx, at.Ref, w.Approvers[0], policy.Reject, "Not like this."))(t); ack.Outcome != "blocked" || !strings.Contains(ack.Words, "blocked by") {
		t.Errorf("%+v", ack)
	}
	ack := got(w.Decide(ctx, at.Ref, w.Approvers[1], policy.Approve, ""))(t)
	if ack.Outcome != "blocked" || !strings.Contains(ack.Words, "1 of 1 approvals, blocked by the rejection of "+w.Approvers[0].Name+".") {
		t.Errorf("%+v", ack)
	}
	must(t, w.Is(ctx, at.Ref, run.WaitingForApproval))
}

// Who confirms names the version that they read: its name never stands for another text, and of a confirmation and a withdrawal
// that meet exactly one happens.
func TestPolicyIsConfirmedAsItWasRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	must(t, w.SetPolicy(ctx, "version: two-0\nchanges: {second_admin: true}\n"))
	got(w.Store.ChangePolicy(ctx, admin(w, w.Requester, "p"), "version: swap-1\nchanges: {second_admin: true}\n", "Harmless."))(t)
	must(t, w.Store.WithdrawPolicy(ctx, admin(w, w.Requester, "w"), "swap-1"))
	if _, err := w.Store.ChangePolicy(ctx, admin(w, w.Requester, "p2"), "version: swap-1\nauto_pr: {allowed: true}\n", "Harmless."); fault.KindOf(err) != fault.Conflict {
		t.Errorf("another text under the name of one that was proposed: %v", err)
	}
	for n := range 8 {
		version, before := fmt.Sprintf("race-%d", n), got(w.Store.Rules(ctx, w.Tenant))(t).Version
		got(w.Store.ChangePolicy(ctx, admin(w, w.Requester, "p-"+version), "version: "+version+"\nchanges: {second_admin: true}\n", "A race."))(t)
		var confirmed, withdrawn error
		var wg sync.WaitGroup
		wg.Go(func() { _, confirmed = w.Store.ConfirmPolicy(ctx, admin(w, w.Approvers[0], "c-"+version), version) })
		wg.Go(func() { withdrawn = w.Store.WithdrawPolicy(ctx, admin(w, w.Requester, "w-"+version), version) })
		wg.Wait()
		if confirmed == nil {
			before = version
		}
		if now := got(w.Store.Rules(ctx, w.Tenant))(t).Version; (confirmed == nil) == (withdrawn == nil) || now != before {
			t.Errorf("confirmed: %v, withdrawn: %v, in force is %s", confirmed, withdrawn, now)
		}
	}
}
