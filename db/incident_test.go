package db_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

const incident = "schema: 1\nversion: incident-1\nadmission: {incident: {on: true, message: 'Storage is down.'}}\n"

// R-ADM-2, R-ADM-3, R-ADM-5: an incident holds back what was admitted before it. The queued run stays READY and says why, what
// began goes on through verification, and when the incident is over the run is given to whoever waits, without anything else.
func TestIncidentHoldsBackQueuedWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	started, queued := w.at(t, run.Executing), w.at(t, run.Queued)
	got(w.Store.SavePolicy(ctx, w.Tenant, incident))(t)
	for _, worker := range w.Workers {
		if l := got(w.Claim(ctx, worker))(t); l != nil {
			t.Fatalf("%v was given during the incident", l.Ref)
		}
	}
	why := got(w.Store.Why(ctx, w.Tenant, queued.Ref.Run))(t).Reason
	if why.Code != schedule.CodeIncident || !strings.Contains(why.Words, "Storage is down.") {
		t.Errorf("%+v", why)
	}
	if i := w.info(t, queued.Ref); i.State != run.Queued || w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, queued.Ref.Run) != 1 {
		t.Errorf("%s, and its item is gone", i.State)
	}
	got(started.Lease.HandIn(ctx, drive.Diff("a.go", "after")))(t)
	var check *drive.Lease
	for _, worker := range w.Workers {
		if check == nil {
			check = got(w.Claim(ctx, worker))(t)
		}
	}
	if check == nil || check.Ref != started.Ref || check.Lease.Phase != run.PhaseVerify {
		t.Fatalf("what began does not go on: %+v", check)
	}
	given := make(chan []db.Claimed, 1)
	idle := w.Workers[1]
	go func() {
		cs, _, err := w.Store.ClaimWait(ctx, db.ClaimRequest{ClaimID: w.Key("c"), Worker: idle.WorkerID, Boot: idle.Boot, Phases: run.Phases(), Max: 1}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		given <- cs
	}()
	got(w.Store.SavePolicy(ctx, w.Tenant, "schema: 1\nversion: calm-1\n"))(t)
	if cs := <-given; len(cs) != 1 || cs[0].Ref != queued.Ref || cs[0].State != run.Leased {
		t.Errorf("after the incident %+v was given", cs)
	}
}
