package db_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// A6: the first terminal verdict wins; who comes later is told what it was, and nothing is approved.
func TestLateVerdicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for verdict, says := range map[policy.GateVerdict]string{policy.RequestChanges: "Approver 2 requested changes", policy.Reject: "Approver 2 rejected it"} {
		at := w.at(t, run.WaitingForApproval)
		late := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
		got(w.Decide(t.Context(), at.Ref, w.Approvers[1], verdict, "Because."))(t)
		w.undecided(t, at.Ref, late, fault.Conflict, "Nothing was approved: "+says)
		got(w.Store.CancelTask(t.Context(), w.Request(w.Requester, "c"), at.Task.Task, "x"))(t)
	}
	// A23: a cancelled request.
	at := w.at(t, run.WaitingForApproval)
	late := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	got(w.Cancel(t.Context(), at.Ref))(t)
	w.undecided(t, at.Ref, late, fault.Gone, "Nothing was approved: the run was cancelled by ")
	// A5 is for those who may decide and saw what was approved; nobody else's is kept.
	at = w.at(t, run.WaitingForApproval)
	good := got(w.Verdict(t.Context(), at.Ref, w.Approvers[1], policy.Approve, ""))(t)
	must(t, w.Approve(t.Context(), at.Ref))
	unseen := good
	unseen.Digest = strings.Repeat("0", 64)
	w.undecided(t, at.Ref, unseen, fault.Conflict, "Nothing was approved")
	token := good
	token.By.Live = false
	w.undecided(t, at.Ref, token, fault.Forbidden, "Nothing was decided")
	reject := good
	reject.Verdict, reject.Text = policy.Reject, "Too late."
	w.undecided(t, at.Ref, reject, fault.Conflict, "Nothing was rejected: Approver 1 approved it")
	if a := got(w.Store.Decide(t.Context(), good))(t); a.Outcome != "extra" {
		t.Errorf("outcome %+v", a)
	}
}

// A31: an approval can be withdrawn until a worker has claimed what it started; afterwards only cancel is left.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	gate := w.info(t, at.Ref).Gate
	must(t, w.Approve(t.Context(), at.Ref))
	if a := got(w.Withdraw(t.Context(), gate.ID, w.Approvers[0]))(t); a.State != run.WaitingForApproval {
		t.Errorf("answer %+v", a)
	}
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 0 {
		t.Error("the item is still there")
	}
	info := w.info(t, at.Ref)
	if info.Gate == nil || info.Gate.ID != gate.ID || info.ApprovedPatchID != "" {
		t.Errorf("gate %+v, approved patch %q", info.Gate, info.ApprovedPatchID)
	}
	// The same gate is decided again, also by the same person.
	if a := got(w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t); a.Outcome != "satisfied" {
		t.Errorf("answer %+v", a)
	}
	got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
	_, err := w.Withdraw(t.Context(), gate.ID, w.Approvers[0])
	refusal(t, err, fault.Conflict, "Nothing was withdrawn: a worker already started at ")
	w.replays(t)
}

// Withdrawing races the claim: either the worker has it or the person, never both.
func TestWithdrawRacesTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	withdrawn := 0
	for range 15 {
		at := w.at(t, run.WaitingForApproval)
		gate := w.info(t, at.Ref).Gate.ID
		must(t, w.Approve(t.Context(), at.Ref))
		var lease *drive.Lease
		errs := all(2, func(i int) (err error) {
			if i == 0 {
				lease, err = w.Claim(t.Context(), w.Workers[0])
				return err
			}
			_, err = w.Withdraw(t.Context(), gate, w.Approvers[0])
			return err
		})
		must(t, errs[0])
		if (lease != nil) == (errs[1] == nil) {
			t.Errorf("leased %t and withdrawn %t", lease != nil, errs[1] == nil)
		}
		if errs[1] == nil {
			withdrawn++
		} else {
			refusal(t, errs[1], fault.Conflict, "Nothing was withdrawn")
		}
		if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 0 {
			t.Errorf("%d items are left", n)
		}
		got(w.Cancel(t.Context(), at.Ref))(t)
	}
	t.Logf("withdrawn %d of 15", withdrawn)
	w.replays(t)
}

// A22: an expired gate takes no approval; asked again it is a new revision, and decisions about the old one do not count.
func TestExpiredGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	old := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t)
	due := func() []db.DueGate {
		t.Helper()
		return got(w.Store.DueGates(t.Context(), uuid.Nil, 10))(t)
	}
	if n := len(due()); n != 0 {
		t.Fatalf("%d gates are due", n)
	}
	dbtest.Advance(t, w.db, 3*24*time.Hour+time.Minute)
	gates := due()
	if len(gates) != 1 || gates[0].Parked {
		t.Fatalf("due gates %+v", gates)
	}
	must(t, w.Store.ExpireGate(t.Context(), gates[0]))
	if n := len(due()); n != 0 {
		t.Errorf("an expired gate is due again: %d", n)
	}
	_, err := w.Store.Decide(t.Context(), old)
	if f := refusal(t, err, fault.Gone, "Nothing was approved: this request expired at "); f.Code == "" {
		t.Error("the refusal has no code")
	}
	_, err = w.Decide(t.Context(), at.Ref, w.Approvers[0], policy.RequestChanges, "x")
	refusal(t, err, fault.Gone, "Nothing was sent back: this request expired at ")
	got(w.AskAgain(t.Context(), gates[0].Gate, w.Requester, ""))(t)
	old.Key = w.Key("again")
	w.undecided(t, at.Ref, old, fault.Conflict, "Nothing was decided: what you saw has changed")
	if now := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t); now.Revision != old.Revision+1 {
		t.Errorf("revision %d after %d", now.Revision, old.Revision)
	}
	must(t, w.Approve(t.Context(), at.Ref))
	// Nobody ever asks again: after the parking time the run is cancelled.
	at = w.at(t, run.WaitingForApproval)
	dbtest.Advance(t, w.db, 3*24*time.Hour+time.Minute)
	must(t, w.Store.ExpireGate(t.Context(), due()[0]))
	dbtest.Advance(t, w.db, 31*24*time.Hour)
	gates = due()
	if len(gates) != 1 || !gates[0].Parked {
		t.Fatalf("due gates %+v", gates)
	}
	must(t, w.Store.ExpireGate(t.Context(), gates[0]))
	must(t, w.Is(t.Context(), at.Ref, run.Cancelled))
}

// R-TRN-7: approval, rejection and cancel meet at one gate: exactly one of them decides, and nothing is left half done.
func TestVerdictsRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	ends := map[string]int{}
	for round := range 12 {
		at := w.at(t, run.WaitingForApproval)
		vs := []db.Verdict{
			got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.Approve, ""))(t),
			got(w.Verdict(t.Context(), at.Ref, w.Approvers[1], policy.RequestChanges, "x"))(t),
			got(w.Verdict(t.Context(), at.Ref, w.Approvers[2], policy.Reject, "x"))(t),
		}
		for i, err := range all(4, func(i int) (err error) {
			if i == 3 {
				_, err = w.Cancel(t.Context(), at.Ref)
				return err
			}
			_, err = w.Store.Decide(t.Context(), vs[(i+round)%3])
			return err
		}) {
			if err != nil && !db.Lost(err) && !strings.Contains(err.Error(), "gone") {
				t.Errorf("racer %d: %v", i, err)
			}
		}
		info := w.info(t, at.Ref)
		ends[string(info.State)]++
		n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run)
		if want := info.Queued != ""; (n == 1) != want {
			t.Errorf("run is %s, wants an item: %t, has %d", info.State, want, n)
		}
		if terminal := w.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind IN ('approved', 'changes_requested', 'rejected')`, at.Ref.Run); terminal > 1 {
			t.Errorf("%d decisions took effect", terminal)
		}
		_, _ = w.Cancel(t.Context(), at.Ref)
	}
	t.Log(fmt.Sprint("ends ", ends))
	w.replays(t)
}
