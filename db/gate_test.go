package db_test

import (
	"strings"
	"sync"
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-TRN-7, R-UI-2, A3, A5: twenty people approve one gate at once: one `approved` event, one queue row, nineteen answered and
// stored as extra.
func TestTwentyApproveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Approvers: 20, MaxConns: 20})
	for round := range 3 {
		at := w.at(t, run.WaitingForApproval)
		verdicts := make([]db.Verdict, 20)
		for i, p := range w.Approvers {
			verdicts[i] = got(w.Verdict(t.Context(), at.Ref, p, policy.Approve, ""))(t)
		}
		acks := make([]db.VerdictAck, 20)
		for i, err := range all(20, func(i int) (err error) {
			acks[i], err = w.Store.Decide(t.Context(), verdicts[i])
			return err
		}) {
			if err != nil {
				t.Errorf("round %d, person %d: %v", round, i, err)
			}
		}
		outcomes := map[string]int{}
		for _, a := range acks {
			outcomes[a.Outcome]++
			if a.State != run.GateSatisfied {
				t.Errorf("answer %+v", a)
			}
			if a.Outcome == "extra" && !strings.HasPrefix(a.Words, "Already approved by Approver ") {
				t.Errorf("words %q", a.Words)
			}
		}
		if outcomes["satisfied"] != 1 || outcomes["extra"] != 19 {
			t.Errorf("outcomes %v, want one satisfied and 19 extra", outcomes)
		}
		gate := verdicts[0].Gate
		for what, want := range map[string]int64{
			`SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'approved'`:                                          1,
			`SELECT count(*) FROM run_queue WHERE run_id = $1 AND phase = 'publish'`:                                           1,
			`SELECT count(*) FROM decisions d JOIN gates g ON g.id = d.gate_id WHERE g.run_id = $1 AND NOT d.extra`:            1,
			`SELECT count(*) FROM decisions d JOIN gates g ON g.id = d.gate_id WHERE g.run_id = $1 AND d.extra`:                19,
			`SELECT count(DISTINCT user_id) FROM decisions d JOIN gates g ON g.id = d.gate_id WHERE g.run_id = $1`:             20,
			`SELECT count(*) FROM gates WHERE run_id = $1 AND state = 'satisfied'`:                                             1,
			`SELECT count(*) FROM idempotency_keys WHERE scope LIKE 'gate:` + gate.String() + `:%' AND $1::uuid IS NOT NULL`:   20,
			`SELECT count(*) FROM audit_log WHERE action = 'gate.approve' AND detail ->> 'run' <> '' AND $1::uuid IS NOT NULL`: int64(20 * (round + 1)),
		} {
			if n := w.count(t, what, at.Ref.Run); n != want {
				t.Errorf("%d of %s, want %d", n, what, want)
			}
		}
		got(w.Cancel(t.Context(), at.Ref))(t)
	}
	w.replays(t)
}

// A2, A3: with a quorum of two the first approval is recorded and the second one moves the run; one person counts once.
func TestQuorumOfTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: two\ngates: {patch: {when: always, quorum: 2}}\n", MaxConns: 16})
	at := w.at(t, run.WaitingForApproval)
	a, b := w.Approvers[0], w.Approvers[1]
	// A4 where the verdict alone would not move the run: what she did not see is not even recorded.
	stale := got(w.Verdict(t.Context(), at.Ref, a, policy.Approve, ""))(t)
	stale.Digest = strings.Repeat("0", 64)
	w.undecided(t, at.Ref, stale, fault.Conflict, "Nothing was")
	first := got(w.Decide(t.Context(), at.Ref, a, policy.Approve, ""))(t)
	if first.Outcome != "recorded" || first.RunState != run.WaitingForApproval || first.Words != "1 of 2 approvals; 1 more needed." {
		t.Errorf("first approval: %+v", first)
	}
	again := got(w.Decide(t.Context(), at.Ref, a, policy.Approve, ""))(t)
	if again.Outcome != "recorded" || again.Words != first.Words {
		t.Errorf("the same person again: %+v", again)
	}
	if n := w.count(t, `SELECT count(*) FROM decisions`); n != 1 {
		t.Errorf("%d decisions of one person are stored", n)
	}
	second := got(w.Decide(t.Context(), at.Ref, b, policy.Approve, "Mind the tests."))(t)
	if second.Outcome != "satisfied" || second.RunState != run.PRCreating {
		t.Errorf("second approval: %+v", second)
	}
	// A16: what an approver adds reaches the agent's next try.
	if n := w.count(t, `SELECT count(*) FROM feedback WHERE run_id = $1 AND source = 'human' AND text = 'Mind the tests.' AND author = $2`, at.Ref.Run, b.Name); n != 1 {
		t.Errorf("%d notes stored, want 1", n)
	}
	// Both deciders stand in the event.
	var deciders int
	must(t, w.Owner.QueryRow(t.Context(), `SELECT jsonb_array_length(payload -> 'payload' -> 'deciders') FROM run_events WHERE run_id = $1 AND kind = 'approved'`, at.Ref.Run).Scan(&deciders))
	if deciders != 2 {
		t.Errorf("%d deciders in the event, want 2", deciders)
	}
	// All at once, over a quorum of two: exactly one of them moves the run, one is counted before it.
	race := w.at(t, run.WaitingForApproval)
	outcomes := map[string]int{}
	var mu sync.Mutex
	for _, err := range all(3, func(i int) error {
		ack, err := w.Decide(t.Context(), race.Ref, w.Approvers[i], policy.Approve, "")
		if err != nil && strings.Contains(err.Error(), "has no gate") {
			return nil // looked after it was decided
		}
		mu.Lock()
		outcomes[ack.Outcome]++
		mu.Unlock()
		return err
	}) {
		must(t, err)
	}
	if outcomes["satisfied"] != 1 || outcomes["recorded"] != 1 {
		t.Errorf("outcomes %v", outcomes)
	}
	w.replays(t)
}

// R-UI-2, A8, A10, A11: who may not decide is refused, whoever asks in whatever way, and nothing is stored.
func TestWhoMayNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	both := got(w.NewPerson(t.Context(), "Both", policy.RoleApprover, policy.RoleRequester))(t)
	mine := w.Requester
	w.Requester = both // a run of somebody who may approve the runs of others
	own := w.at(t, run.WaitingForApproval)
	w.Requester = mine
	viewer := got(w.NewPerson(t.Context(), "Viewer", policy.RoleViewer))(t)
	for name, c := range map[string]struct {
		ref    db.Ref
		by     drive.Person
		change func(*db.Verdict)
		begins string
	}{
		"requester": {own.Ref, both, nil, "Nothing was approved: you asked for this change"},
		"viewer":    {at.Ref, viewer, nil, "Nothing was decided: this gate asks for the role approver"},
		"admin":     {at.Ref, w.Admin, nil, "Nothing was decided: this gate asks for the role approver"},
		"token":     {at.Ref, w.Approvers[0], func(v *db.Verdict) { v.By.Live = false }, "Nothing was decided: only a person with a live login"},
	} {
		t.Run(name, func(t *testing.T) {
			v := got(w.Verdict(t.Context(), c.ref, c.by, policy.Approve, ""))(t)
			if c.change != nil {
				c.change(&v)
			}
			w.undecided(t, c.ref, v, fault.Forbidden, c.begins)
		})
	}
	// She may approve what others asked for.
	if a := got(w.Decide(t.Context(), at.Ref, both, policy.Approve, ""))(t); a.Outcome != "satisfied" {
		t.Errorf("outcome %+v", a)
	}
}

// undecided holds that a verdict is refused and that nothing of it is kept.
func (w *world) undecided(t testing.TB, ref db.Ref, v db.Verdict, kind fault.Kind, begins string) {
	t.Helper()
	const trace = `SELECT (SELECT count(*) FROM decisions) || '/' || (SELECT count(*) FROM run_events) || '/' || (SELECT count(*) FROM idempotency_keys)
		|| '/' || (SELECT count(*) FROM audit_log) || '/' || (SELECT count(*) FROM run_queue)`
	var before, after string
	must(t, w.Owner.QueryRow(t.Context(), trace).Scan(&before))
	_, err := w.Store.Decide(t.Context(), v)
	refusal(t, err, kind, begins)
	must(t, w.Owner.QueryRow(t.Context(), trace).Scan(&after))
	if before != after {
		t.Errorf("decisions/events/keys/audit/items moved from %s to %s", before, after)
	}
}

// R-UI-2, A4: a decision about anything but exactly what is open is refused with "Nothing was …", and nothing is kept.
func TestStaleDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	for name, change := range map[string]func(*db.Verdict){
		"other digest":    func(v *db.Verdict) { v.Digest = strings.Repeat("0", 64) },
		"no digest":       func(v *db.Verdict) { v.Digest = "" },
		"older revision":  func(v *db.Verdict) { v.Revision-- },
		"coming revision": func(v *db.Verdict) { v.Revision++ },
	} {
		for _, verdict := range []policy.GateVerdict{policy.Approve, policy.RequestChanges, policy.Reject} {
			stale := v
			stale.Verdict, stale.Text, stale.Key = verdict, "why", w.Key(name)
			change(&stale)
			w.undecided(t, at.Ref, stale, fault.Conflict, "Nothing was")
		}
	}
	// The patch that was open when she looked is not the one that is open now.
	got(w.Decide(t.Context(), at.Ref, w.Approvers[1], policy.RequestChanges, "Rename it."))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	got(l.HandIn(t.Context(), drive.Diff("main.go", "renamed")))(t)
	l = got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	got(l.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	got(l.Judge(t.Context(), run.VerdictPass, 1))(t)
	must(t, w.Is(t.Context(), at.Ref, run.WaitingForApproval))
	w.undecided(t, at.Ref, v, fault.Conflict, "Nothing was approved: Approver 2 requested changes")
	if now := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t); now.Digest == v.Digest || now.Gate == v.Gate || now.Revision != 2 {
		t.Errorf("the new revision is %d with digest %s", now.Revision, now.Digest)
	}
	must(t, w.Approve(t.Context(), at.Ref))
	w.replays(t)
}

// A7: the same key gets the first answer, whatever has happened since; other content under it is refused.
func TestRepeatedVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	at := w.at(t, run.WaitingForApproval)
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	acks := make([]db.VerdictAck, 10)
	for _, err := range all(len(acks), func(i int) (err error) {
		acks[i], err = w.Store.Decide(t.Context(), v)
		return err
	}) {
		must(t, err)
	}
	for _, a := range acks {
		if a.Outcome != "satisfied" {
			t.Errorf("outcome %+v", a)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM decisions`); n != 1 {
		t.Errorf("%d decisions, want 1", n)
	}
	w.undecided(t, at.Ref, func() db.Verdict { o := v; o.Hash = drive.Hash("other"); return o }(), fault.Invalid, "Nothing was changed: this Idempotency-Key")
	// Two people may well use equal keys on one run.
	w2 := w.at(t, run.WaitingForApproval)
	other := got(w.Verdict(t.Context(), w2.Ref, w.Approvers[1], policy.RequestChanges, "x"))(t)
	other.Key = v.Key
	if a := got(w.Store.Decide(t.Context(), other))(t); a.Replayed || a.Outcome != "changes_requested" {
		t.Errorf("outcome %+v", a)
	}
}

// A13, A15: changes and rejections need words; the instruction reaches the agent, the rejection ends the run for good.
func TestChangesAndRejection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	for verdict, begins := range map[policy.GateVerdict]string{policy.RequestChanges: "Nothing was sent back: say what should change", policy.Reject: "Nothing was rejected: say why"} {
		v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], verdict, ""))(t)
		w.undecided(t, at.Ref, v, fault.Invalid, begins)
	}
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], "shrug", ""))(t)
	w.undecided(t, at.Ref, v, fault.Forbidden, "Nothing was decided: the decision must be")
	if a := got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.RequestChanges, "Use the other API."))(t); a.RunState != run.Executing || a.State != run.GateChangesRequested {
		t.Errorf("answer %+v", a)
	}
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	as := got(w.Store.Assignments(t.Context(), []db.Ref{at.Ref}, w.Workers[0].ID))(t)[0]
	if len(as.Feedback) != 1 || as.Feedback[0].Text != "Use the other API." || as.Feedback[0].Author != "Approver 1" || as.Feedback[0].Gate != v.Gate {
		t.Errorf("the agent hears %+v", as.Feedback)
	}
	got(l.HandIn(t.Context(), drive.Diff("main.go", "other api")))(t)
	l = got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	got(l.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	got(l.Judge(t.Context(), run.VerdictPass, 1))(t)
	if a := got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.Reject, "Not at all."))(t); a.RunState != run.Failed || a.State != run.GateRejected {
		t.Errorf("answer %+v", a)
	}
	info := w.info(t, at.Ref)
	if info.Failure.Code != run.CodeHumanRejected || info.Failure.Summary != "Not at all." {
		t.Errorf("failure %+v", info.Failure)
	}
	task := got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t)
	if task.State != run.TaskReady {
		t.Errorf("task is %s", task.State)
	}
	if n := w.count(t, `SELECT count(*) FROM tasks WHERE auto_run`); n != 0 {
		t.Error("a rejected task runs again by itself")
	}
	w.replays(t)
}

// A9: where the quorum is two, the author of the change request may not approve what came of it.
func TestLastInstructor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: two\ngates: {patch: {when: always, quorum: 2}}\n"})
	at := w.at(t, run.WaitingForApproval)
	got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.RequestChanges, "Do it my way."))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	got(l.HandIn(t.Context(), drive.Diff("main.go", "my way")))(t)
	l = got(w.ClaimRun(t.Context(), w.Workers[1], at.Ref))(t)
	got(l.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	got(l.Judge(t.Context(), run.VerdictPass, 1))(t)
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	w.undecided(t, at.Ref, v, fault.Forbidden, "Nothing was approved: you wrote the last change request")
	for _, p := range w.Approvers[1:3] {
		got(w.Decide(t.Context(), at.Ref, p, policy.Approve, ""))(t)
	}
	must(t, w.Is(t.Context(), at.Ref, run.PRCreating))
}

// R-TRN-8: what no person may override is looked at again when the approval arrives, with the policy of that moment.
func TestHardGuardsCannotBeApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: forbidden\npaths: {forbidden: ['main.go']}\n"))
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	w.undecided(t, at.Ref, v, fault.Forbidden, "Nothing was approved: forbidden content")
	// A patch that holds a secret never reaches a person.
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: back\n"))
	secret := w.at(t, run.Executing)
	l := secret.Lease
	got(l.HandIn(t.Context(), drive.Diff("key.txt", "aws_secret_access_key = \"wJalrXUtnFEMIK7MDENGbPxRfiCYzzbqu8TqzP2W\"")))(t)
	l = got(w.ClaimRun(t.Context(), w.Workers[1], secret.Ref))(t)
	got(l.Verify(t.Context(), db.VerificationRecord{Passed: true}))(t)
	if ack := got(l.Judge(t.Context(), run.VerdictPass, 1))(t); ack.State != run.Executing {
		t.Errorf("a patch with a secret led to %s, want EXECUTING (repair)", ack.State)
	}
}

// A plan gate: approving it lets the agent go on, asking for changes brings it back to planning, and the same plan is
// not asked about twice (R-PLAN-1).
func TestPlanGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	c := drive.Ordinary()
	c.PlanGate = true
	ref := got(w.Run(t.Context(), c))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.Prepare(t.Context()))
	if a := got(l.Plan(t.Context(), "the first plan"))(t); a.State != run.WaitingForApproval || a.Leased {
		t.Fatalf("answer %+v", a)
	}
	if a := got(w.Decide(t.Context(), ref, w.Approvers[0], policy.RequestChanges, "Smaller."))(t); a.RunState != run.Planning {
		t.Fatalf("answer %+v", a)
	}
	l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	got(l.Plan(t.Context(), "the second plan"))(t)
	must(t, w.Approve(t.Context(), ref))
	l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.All(t.Context(), run.AttemptHasFailed{Code: run.CodeDiskFull}))
	must(t, w.Due(t.Context(), ref))
	l = got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, l.Prepare(t.Context()))
	if a := got(l.Plan(t.Context(), "the second plan"))(t); a.State != run.Executing {
		t.Errorf("the approved plan was asked about again: %+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM gates WHERE run_id = $1`, ref.Run); n != 2 {
		t.Errorf("%d gates, want 2", n)
	}
	w.replays(t)
}
