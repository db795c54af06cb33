package db_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

// R-Q-7, R-Q-8: a paused queue gives out nothing, says who paused it and why, and goes on where it was when it is resumed.
// Both are in the audit, and neither is done twice.
func TestPausedQueueGivesNoWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	waiting := w.at(t, run.Queued)
	request := func(what, action string) db.Request {
		in := w.Request(w.Admin, what)
		in.Audit = &db.Audit{Tenant: w.Tenant, By: w.Admin.Actor(), Channel: "page", Action: action, ObjectType: "queue", ObjectID: "default", Result: "recorded", Reason: "The registry is down."}
		return in
	}
	refusal(t, w.Store.PauseQueue(ctx, request("pause", "queue.pause"), "default", "  "), fault.Invalid, "Nothing was paused: say why")
	pause := request("pause", "queue.pause")
	must(t, w.Store.PauseQueue(ctx, pause, "default", "The registry is down."))
	must(t, w.Store.PauseQueue(ctx, pause, "default", "The registry is down.")) // the same form sent twice
	refusal(t, w.Store.PauseQueue(ctx, request("again", "queue.pause"), "default", "Another reason."), fault.Conflict, "Nothing was changed: queue default is paused already")
	for _, worker := range w.Workers {
		if l := got(w.Claim(ctx, worker))(t); l != nil {
			t.Fatalf("a paused queue gave out %v", l.Ref)
		}
	}
	want := "Queue default was paused by " + w.Admin.Name + " at "
	items := got(w.Store.Waiting(ctx, w.Tenant, 50))(t)
	if len(items) != 1 || items[0].Run != waiting.Ref.Run || items[0].Reason.Code != schedule.CodeQueuePaused || !strings.HasPrefix(items[0].Reason.Words, want) {
		t.Errorf("waiting: %+v", items)
	}
	why := got(w.Store.Why(ctx, w.Tenant, waiting.Ref.Run))(t)
	if !strings.HasPrefix(why.Reason.Words, want) || !strings.Contains(why.Reason.Words, "The registry is down.") {
		t.Errorf("why: %+v", why)
	}
	queues := got(w.Store.Queues(ctx, w.Tenant))(t)
	if len(queues) != 1 || queues[0].Depth != 1 || queues[0].Oldest.IsZero() || queues[0].Came <= 0 || queues[0].Pause == nil || queues[0].Pause.Reason != "The registry is down." || queues[0].Workers != 2 {
		t.Errorf("queues: %+v", queues)
	}
	must(t, w.Store.ResumeQueue(ctx, request("resume", "queue.resume"), "default"))
	refusal(t, w.Store.ResumeQueue(ctx, request("resume again", "queue.resume"), "default"), fault.Conflict, "Nothing was changed: queue default is not paused")
	if l := got(w.Claim(ctx, w.Workers[0]))(t); l == nil || l.Ref != waiting.Ref {
		t.Errorf("after the pause %v was given", l)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action IN ('queue.pause', 'queue.resume')`); n != 2 {
		t.Errorf("%d lines in the audit, want 2", n)
	}
}

// R-TEN: a tenant's pause is its own; the installation's holds for all, and tells others neither who nor why.
func TestPauseOfAnotherTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	other := drive.New(t, w.db, drive.Options{Tenant: "blue", Store: w.Store})
	must(t, w.Store.PauseQueue(ctx, other.Request(other.Admin, "pause"), "default", "Blue's own business."))
	mine := w.at(t, run.Queued)
	if l := got(w.Claim(ctx, w.Workers[0]))(t); l == nil || l.Ref != mine.Ref {
		t.Fatalf("another tenant's pause held up %v", l)
	}
	if q := got(w.Store.Queues(ctx, w.Tenant))(t); len(q) != 1 || q[0].Pause != nil {
		t.Errorf("another tenant's pause is shown: %+v", q)
	}
	must(t, w.Store.ResumeQueue(ctx, other.Request(other.Admin, "resume"), "default"))
	must(t, w.Store.PauseQueue(ctx, w.Request(w.Admin, "pause"), "default", "A secret of the operators."))
	theirs := got(other.To(ctx, run.Queued))(t)
	if l := got(other.Claim(ctx, other.Workers[0]))(t); l != nil {
		t.Fatalf("the installation's pause did not hold: %v", l.Ref)
	}
	why := got(w.Store.Why(ctx, other.Tenant, theirs.Ref.Run))(t)
	if why.Reason.Code != schedule.CodeQueuePaused || strings.Contains(why.Reason.Words, "secret") || strings.Contains(why.Reason.Words, w.Admin.Name) {
		t.Errorf("why: %+v", why)
	}
	refusal(t, w.Store.ResumeQueue(ctx, other.Request(other.Admin, "resume"), "default"), fault.Conflict, "Nothing was changed")
}

// R-WRK-1, R-WRK-3: a drained worker is told with its next heartbeat and gets nothing more; the page sees what it holds.
func TestDrainWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	held := w.at(t, run.Leased)
	worker := held.Lease.Worker
	w.at(t, run.Queued)
	must(t, w.Store.DrainWorker(ctx, w.Request(w.Admin, "drain"), worker.ID))
	_, drain, err := w.Store.Extend(ctx, worker.WorkerID, worker.Boot, false, nil)
	must(t, err)
	if !drain {
		t.Error("the heartbeat's answer does not ask to drain")
	}
	for _, boot := range w.Workers {
		if l := got(w.Claim(ctx, boot))(t); boot.ID == worker.ID && l != nil {
			t.Error("a draining worker got work, in a boot with room")
		}
	}
	var seen bool
	for _, b := range got(w.Store.Boots(ctx, w.Tenant))(t) {
		if b.Boot == worker.Boot {
			seen = b.Draining && b.Held == 1 && b.MaxConcurrent == 1 && time.Since(b.Heartbeat) < time.Minute
		}
	}
	if !seen {
		t.Errorf("boots: %+v", got(w.Store.Boots(ctx, w.Tenant))(t))
	}
	must(t, w.Lapse(ctx, held.Ref))
	leases := got(w.Store.Leases(ctx, w.Tenant))(t)
	if len(leases) != 2 || leases[0].Run != held.Ref.Run || !leases[0].Overdue || leases[1].Overdue {
		t.Errorf("leases: %+v", leases)
	}
	refusal(t, w.Store.DrainWorker(ctx, w.Request(w.Admin, "drain nobody"), held.Ref.Run), fault.NotFound, "Nothing was changed")
}
