package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// 2.1: a gate that is put off leaves a person's list and count until its time or a new revision, one that is passed on is
// given to another by name, and a claim tells everybody and keeps nobody from deciding.
func TestTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	gate := w.info(t, at.Ref).Gate.ID
	ana, ben := w.Approvers[0], w.Approvers[1]
	take := func(p drive.Person) db.Take {
		return db.Take{Tenant: w.Tenant, Gate: gate, By: p.Decider(), Audit: &db.Audit{}}
	}
	in := func(p drive.Person, list string) *db.Turn {
		t.Helper()
		all := got(w.Store.WaitingGates(t.Context(), w.Tenant, db.WaitingFilter{User: p.ID, Roles: p.Roles, List: list, Limit: 10}))(t)
		n := got(w.Store.MyTurn(t.Context(), w.Tenant, p.ID, p.Roles))(t)
		if list == db.WaitingMine && int(n) != len(all) {
			t.Errorf("%d are counted, %d listed", n, len(all))
		}
		if len(all) == 0 {
			return nil
		}
		return &all[0].Turn
	}
	lists := func(p drive.Person, want string) {
		t.Helper()
		for _, list := range []string{db.WaitingMine, db.WaitingSnoozed, db.WaitingOthers} {
			if (in(p, list) != nil) != (list == want) {
				t.Errorf("%s: in %s is %t, want it in %s", p.Name, list, in(p, list) != nil, want)
			}
		}
	}
	lists(ana, db.WaitingMine)
	// Until a time.
	must(t, w.Store.Snooze(t.Context(), take(ana), time.Now().Add(time.Hour)))
	lists(ana, db.WaitingSnoozed)
	lists(ben, db.WaitingMine)
	dbtest.Advance(t, w.db, 61*time.Minute)
	lists(ana, db.WaitingMine)
	refusal(t, w.Store.Snooze(t.Context(), take(ana), time.Now()), fault.Invalid, "Nothing was put off")
	// Until a new revision.
	must(t, w.Store.Snooze(t.Context(), take(ana), time.Time{}))
	lists(ana, db.WaitingSnoozed)
	must(t, w.Store.Wake(t.Context(), take(ana)))
	lists(ana, db.WaitingMine)
	must(t, w.Store.Snooze(t.Context(), take(ana), time.Time{}))
	dbtest.Advance(t, w.db, 3*24*time.Hour)
	must(t, w.Store.ExpireGate(t.Context(), got(w.Store.DueGates(t.Context(), db.DueGate{}.Gate, 1))(t)[0]))
	lists(ana, db.WaitingMine)
	got(w.AskAgain(t.Context(), gate, w.Requester, ""))(t)
	lists(ana, db.WaitingMine)
	// Claimed, for half an hour, and anybody may still decide.
	must(t, w.Store.ClaimTurn(t.Context(), take(ana), true))
	if on := in(ben, db.WaitingMine).On; len(on) != 1 || on[0].Name != ana.Name || in(ben, db.WaitingMine).Mine || !in(ana, db.WaitingMine).Mine {
		t.Errorf("Ben sees %+v", on)
	}
	dbtest.Advance(t, w.db, 31*time.Minute)
	if on := in(ben, db.WaitingMine).On; len(on) != 0 {
		t.Errorf("after half an hour Ben sees %+v", on)
	}
	must(t, w.Store.ClaimTurn(t.Context(), take(ana), true))
	must(t, w.Store.ClaimTurn(t.Context(), take(ana), false))
	if in(ana, db.WaitingMine).Mine {
		t.Error("a claim that was given up holds")
	}
	// Passed on, and back.
	must(t, w.Store.Snooze(t.Context(), take(ben), time.Time{}))
	must(t, w.Store.PassTurn(t.Context(), take(ana), ben.ID))
	lists(ana, db.WaitingOthers)
	lists(ben, db.WaitingMine)
	if b, a := in(ben, db.WaitingMine), in(ana, db.WaitingOthers); b.GivenBy != ana.Name || a.PassedTo != ben.Name {
		t.Errorf("given by %q, passed to %q", b.GivenBy, a.PassedTo)
	}
	must(t, w.Store.PassTurn(t.Context(), take(ben), ana.ID))
	lists(ana, db.WaitingMine)
	lists(ben, db.WaitingOthers)
	must(t, w.Store.PassTurn(t.Context(), take(w.Requester), ben.ID)) // who asked may ask for a look
	lists(ben, db.WaitingMine)
	// Who may not.
	viewer := got(w.NewPerson(t.Context(), "Viewer", policy.RoleViewer))(t)
	refusal(t, w.Store.PassTurn(t.Context(), take(ana), viewer.ID), fault.Invalid, "Nothing was passed on: that person may not decide here.")
	refusal(t, w.Store.PassTurn(t.Context(), take(ana), w.Requester.ID), fault.Invalid, "Nothing was passed on: that person may not decide here.")
	refusal(t, w.Store.PassTurn(t.Context(), take(viewer), ben.ID), fault.Forbidden, "Nothing was changed")
	refusal(t, w.Store.Snooze(t.Context(), take(w.Requester), time.Time{}), fault.Forbidden, "Nothing was changed")
	token := take(ana)
	token.By.Live = false
	refusal(t, w.Store.ClaimTurn(t.Context(), token, true), fault.Forbidden, "Nothing was changed")
	// A claim of Ana keeps nobody from deciding, and afterwards nobody's turn it is.
	must(t, w.Store.ClaimTurn(t.Context(), take(ana), true))
	got(w.Decide(t.Context(), at.Ref, ben, policy.Approve, ""))(t)
	refusal(t, w.Store.ClaimTurn(t.Context(), take(ana), true), fault.Gone, "Nothing was changed: nobody is asked here any more")
}
