package control_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/campaign"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// fleet is a campaign over repositories of a world.
type fleet struct {
	*world
	t  *testing.T
	id uuid.UUID
}

// spec is of a campaign over every repository named fleet/…, with a canary of two.
func fleetSpec() campaign.Spec {
	spec := campaign.Default()
	spec.Name, spec.Goal = "Move to v2", "Move {{thing}} to v2."
	spec.Targets.Match = []string{"fleet/*"}
	spec.Waves = []campaign.Wave{{Kind: campaign.Canary, Size: "2", Promotion: campaign.ByHand}, {Kind: campaign.Full, Promotion: campaign.ByHand}}
	spec.Limits = campaign.Limits{Concurrency: 3, Tolerance: "50%"}
	spec.Stop = campaign.Stop{Rate: 60, Last: 10, Sample: 3, First: 2}
	return spec
}

func newFleet(t *testing.T, w *world, repositories int, spec campaign.Spec) *fleet {
	t.Helper()
	for i := range repositories {
		name := fmt.Sprintf("fleet/r%02d", i)
		got(w.Store.CreateRepository(t.Context(), w.Tenant, w.Admin.ID, db.RepositoryInfo{Forge: db.LocalForge, Name: name, CloneURL: "file:///srv/" + name + ".git",
			DefaultBranch: "main", Verification: []run.Check{{Name: "test", Argv: []string{"true"}}}}))(t)
		spec.Targets.List = append(spec.Targets.List, campaign.Listed{Repository: name, Vars: map[string]string{"thing": name}})
	}
	f := &fleet{w, t, uuid.Nil}
	f.id = got(w.Store.CreateCampaign(t.Context(), w.Request(w.Admin, "campaign"), spec))(t).Campaign
	f.order(campaign.WasPreviewed, "")
	return f
}

func (f *fleet) order(kind campaign.Kind, reason string) db.CampaignAck {
	f.t.Helper()
	return got(f.Store.OrderCampaign(f.t.Context(), f.Request(f.Admin, string(kind)), db.CampaignOrder{Campaign: f.id, Kind: kind, Reason: reason}))(f.t)
}

// pass looks until nothing moves any more.
func (f *fleet) pass() {
	f.t.Helper()
	loop := &control.Campaigns{Store: f.Store, Log: slog.New(slog.NewTextHandler(f.t.Output(), nil))}
	for n := 1; n > 0; {
		n = got(loop.RunOnce(f.t.Context()))(f.t)
	}
}

func (f *fleet) look() (db.CampaignInfo, []db.CampaignTarget) {
	f.t.Helper()
	return got(f.Store.Campaign(f.t.Context(), f.Tenant, f.id))(f.t), got(f.Store.CampaignTargets(f.t.Context(), f.Tenant, f.id))(f.t)
}

func (f *fleet) is(s campaign.State) {
	f.t.Helper()
	if c, _ := f.look(); c.State != s {
		f.t.Fatalf("the campaign is %s (%s: %s), want %s", c.State, c.Pause.By, c.Pause.Cause, s)
	}
}

// end carries every run of the campaign that waits for a worker to an end.
func (f *fleet) end(to ...run.State) int {
	f.t.Helper()
	_, targets := f.look()
	n := 0
	for _, t := range targets {
		if t.Stage == campaign.Active {
			must(f.t, f.Carry(f.t.Context(), db.Ref{Tenant: f.Tenant, Run: t.Run}, to[n%len(to)]))
			n++
		}
	}
	return n
}

func stages(targets []db.CampaignTarget) map[string]int {
	out := map[string]int{}
	for _, t := range targets {
		out[string(t.Stage)+string(t.Outcome)]++
	}
	return out
}

// A campaign goes from its canary over a promotion to all, never with more at work than it may, each target's task is made
// once and is an ordinary one, and the campaign ends with what was left over.
func TestCampaign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	f := newFleet(t, w, 8, fleetSpec())
	f.order(campaign.Launched, "")
	f.pass()
	_, targets := f.look()
	if s := stages(targets); s["RUNNING"] != 2 || s["WAITING"] != 6 {
		t.Fatalf("the canary: %v", s)
	}
	task := got(w.Store.Task(t.Context(), w.Tenant, targets[slices.IndexFunc(targets, func(t db.CampaignTarget) bool { return t.Task != uuid.Nil })].Task))(t)
	if !strings.HasPrefix(task.Goal, "Move fleet/r") || task.Title != "Move to v2" || task.RequestedBy != w.Admin.ID {
		t.Errorf("the task is %q: %q, by %s", task.Title, task.Goal, task.Requester)
	}
	f.end(run.Succeeded)
	f.pass()
	f.is(campaign.AwaitingPromotion)
	f.pass() // nothing happens before a person promotes
	f.is(campaign.AwaitingPromotion)
	f.order(campaign.Promoted, "")
	for range 10 {
		f.pass()
		if _, targets = f.look(); stages(targets)["RUNNING"] > 3 {
			t.Fatalf("more at work than three: %v", stages(targets))
		}
		if f.end(run.Succeeded, run.Succeeded, run.Failed) == 0 {
			break
		}
	}
	f.is(campaign.CompletedWithFailures)
	_, targets = f.look()
	if s := stages(targets); s["ENDEDDELIVERED"] != 6 || s["ENDEDFAILED"] != 2 {
		t.Errorf("it ends with %v", s)
	}
	events := got(w.Store.CampaignEvents(t.Context(), w.Tenant, f.id, 0, 1000))(t)
	started := map[uuid.UUID]int{}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
		if e.Kind == campaign.TargetStarted {
			started[e.Target]++
		}
	}
	for id, n := range started {
		if n != 1 {
			t.Errorf("target %s was started %d times", id, n)
		}
	}
	if len(started) != 8 {
		t.Errorf("%d of 8 were started", len(started))
	}
}

// A canary that fails pauses its campaign, which says why; the rest never starts, and nobody but a person ends the pause.
func TestCampaignCanaryFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	f := newFleet(t, w, 6, fleetSpec())
	f.order(campaign.Launched, "")
	f.pass()
	f.end(run.Failed)
	f.pass()
	f.is(campaign.Paused)
	c, targets := f.look()
	if c.Pause.By != campaign.ByRule || c.Pause.Cause != "2 failures before 3 runs had finished; 2 pause it." {
		t.Errorf("paused by %s: %q", c.Pause.By, c.Pause.Cause)
	}
	if s := stages(targets); s["ENDEDFAILED"] != 2 || s["WAITING"] != 4 {
		t.Errorf("%v", s)
	}
	if targets[0].Cause == "" && targets[1].Cause == "" {
		t.Error("the failures have no signature")
	}
	cause := ""
	for _, t := range targets {
		if t.Outcome == campaign.Failed {
			cause = t.Cause
		}
	}
	// An operator takes the cluster out and resumes; the canary is done, and the rest waits for a promotion.
	ack := got(w.Store.ExcludeTargets(t.Context(), w.Request(w.Admin, "exclude"), db.TargetsOrder{Campaign: f.id, Cause: cause, Reason: "They are frozen."}))(t)
	if ack.Targets != 2 || ack.Skipped != 0 {
		t.Errorf("%+v", ack)
	}
	f.order(campaign.Resumed, "")
	f.pass()
	f.is(campaign.AwaitingPromotion)
	f.order(campaign.Promoted, "")
	f.pass()
	if _, targets = f.look(); stages(targets)["RUNNING"] != 3 {
		t.Errorf("after the promotion: %v", stages(targets))
	}
	// Stop, cancelling what runs: their tasks are cancelled, and then the campaign is stopped.
	got(w.Store.OrderCampaign(t.Context(), w.Request(w.Admin, "stop"), db.CampaignOrder{Campaign: f.id, Kind: campaign.StopRequested, CancelRunning: true}))(t)
	f.pass()
	f.is(campaign.Stopped)
	if _, targets = f.look(); stages(targets)["ENDEDCANCELLED"] != 3 {
		t.Errorf("after the stop: %v", stages(targets))
	}
}

// Any number of replicas look at once, each dies at any step, and each target has one task.
func TestCampaignReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 12})
	spec := fleetSpec()
	spec.Waves, spec.Limits.Concurrency, spec.Limits.Tolerance = spec.Waves[1:], 20, "100%"
	f := newFleet(t, w, 12, spec)
	f.order(campaign.Launched, "")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 4 {
				if _, err := w.Store.PassCampaign(t.Context(), db.CampaignRef{Tenant: w.Tenant, Campaign: f.id}); err != nil && fault.KindOf(err) != fault.Conflict {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// A replica that died after it made a task, and before it wrote that down, is followed by one that finds the same task.
	_, targets := f.look()
	w.exec(t, `UPDATE campaign_targets SET task_id = NULL WHERE id = $1`, targets[0].ID)
	f.pass()
	_, again := f.look()
	if again[0].Task != targets[0].Task || again[0].Attempt != 1 {
		t.Errorf("target 1 has the task %s, had %s", again[0].Task, targets[0].Task)
	}
	var tasks int
	must(t, w.Owner.QueryRow(t.Context(), `SELECT count(*) FROM tasks WHERE campaign_id = $1`, f.id).Scan(&tasks))
	if tasks != 12 {
		t.Errorf("12 targets have %d tasks", tasks)
	}
}

// A request that is repeated is answered again; one about a campaign that moved on, or that the table does not hold, changes nothing.
func TestCampaignRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	f := newFleet(t, w, 3, fleetSpec())
	in := w.Request(w.Admin, "launch")
	first := got(w.Store.OrderCampaign(t.Context(), in, db.CampaignOrder{Campaign: f.id, Kind: campaign.Launched}))(t)
	second := got(w.Store.OrderCampaign(t.Context(), in, db.CampaignOrder{Campaign: f.id, Kind: campaign.Launched}))(t)
	if !second.Replayed || second.Version != first.Version {
		t.Errorf("%+v, then %+v", first, second)
	}
	for what, o := range map[string]db.CampaignOrder{
		"an old look":           {Kind: campaign.WasPaused, Version: first.Version - 1, Reason: "x"},
		"a second launch":       {Kind: campaign.Launched},
		"a resume of what runs": {Kind: campaign.Resumed},
	} {
		o.Campaign = f.id
		if _, err := w.Store.OrderCampaign(t.Context(), w.Request(w.Admin, what), o); fault.KindOf(err) != fault.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	if c, _ := f.look(); c.Version != first.Version {
		t.Errorf("the campaign moved to version %d", c.Version)
	}
	if _, err := w.Store.OrderCampaign(t.Context(), w.Request(w.Admin, "x"), db.CampaignOrder{Campaign: uuid.New(), Kind: campaign.Launched}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of no campaign: %v", err)
	}
}

// A stop that cancels tells each task once, however often it is looked at while a worker still holds it; and a campaign whose maker may
// not sign in any more is paused, and loses no target.
func TestCampaignStopIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	f := newFleet(t, w, 2, fleetSpec())
	f.order(campaign.Launched, "")
	f.pass()
	_, targets := f.look()
	ref := db.Ref{Tenant: w.Tenant, Run: targets[0].Run}
	lease := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	must(t, lease.All(t.Context(), run.Start{}, run.SandboxIsReady{Tier: "bwrap", Base: drive.Base}))
	got(w.Store.OrderCampaign(t.Context(), w.Request(w.Admin, "stop"), db.CampaignOrder{Campaign: f.id, Kind: campaign.StopRequested, CancelRunning: true}))(t)
	for range 3 {
		f.pass()
	}
	f.is(campaign.Stopping)
	var asked, audited int
	must(t, w.Owner.QueryRow(t.Context(), `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'cancel_requested'`, ref.Run).Scan(&asked))
	must(t, w.Owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE channel = 'campaign' AND action = 'task_cancel_requested'`).Scan(&audited))
	if asked != 1 || audited != 2 {
		t.Errorf("one run was asked %d times to end; %d lines of audit for two tasks", asked, audited)
	}
	must(t, lease.All(t.Context(), run.ConfirmCancel{}))
	f.pass()
	f.is(campaign.Stopped)
}

// Nobody behind its tasks any more: the campaign is paused and says so, and no target is lost.
func TestCampaignWhoseMakerLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	f := newFleet(t, w, 3, fleetSpec())
	f.order(campaign.Launched, "")
	w.exec(t, `UPDATE users SET disabled_at = now() WHERE id = $1`, w.Admin.ID)
	f.pass()
	f.is(campaign.Paused)
	c, targets := f.look()
	if !strings.Contains(c.Pause.Cause, "may not sign in any more") || stages(targets)["ENDEDREJECTED"] != 0 {
		t.Errorf("%q, %v", c.Pause.Cause, stages(targets))
	}
	w.exec(t, `UPDATE users SET disabled_at = NULL WHERE id = $1`, w.Admin.ID)
	f.order(campaign.Resumed, "")
	f.pass()
	if _, targets = f.look(); targets[0].Task == uuid.Nil && targets[1].Task == uuid.Nil {
		t.Errorf("after they are back: %v", stages(targets))
	}
}
