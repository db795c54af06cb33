package db_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// withProvider makes a run whose agent is served by the provider stoic, and a worker that has that agent.
func (w *world) withProvider(t *testing.T) db.Ref {
	t.Helper()
	key := w.Key("task")
	a := got(w.Store.CreateTask(t.Context(), db.Request{Tenant: w.Tenant, By: w.Requester.Actor(), Roles: w.Requester.Roles, Key: key, Hash: drive.Hash(key)},
		db.TaskSpec{Repository: w.Repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", AgentProfile: "fast", Contract: drive.Ordinary()}))(t)
	return db.Ref{Tenant: w.Tenant, Run: *a.Run}
}

// stoic is a world in real time with workers whose agent is served by the provider stoic.
func stoic(t *testing.T) *world {
	w := newWorld(t, drive.Options{Timing: db.Timing{BackoffScale: 1}, Policy: "version: stoic-1\nrouting:\n  agents:\n    fast: {provider: stoic}\n"})
	if _, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET capabilities = '{agent:fast}'`); err != nil {
		t.Fatal(err)
	}
	return w
}

// parked is such a world in which somebody's provider asked for 90 seconds.
func parked(t *testing.T) (w *world, failed, waiting db.Ref) {
	w = stoic(t)
	failed = w.withProvider(t)
	l := w.asked(t)
	waiting = w.withProvider(t)
	must(t, l.All(t.Context(), run.Start{}, run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "429", RetryAfter: 90 * time.Second}))
	return w, failed, waiting
}

// ask is one question of a worker for as much as there is.
func (w *world) ask(t *testing.T) []*drive.Lease {
	t.Helper()
	return got(w.ClaimAll(t.Context(), w.Workers[0], 10))(t)
}

// asked is ask where exactly one run is to be given.
func (w *world) asked(t *testing.T) *drive.Lease {
	t.Helper()
	ls := w.ask(t)
	if len(ls) != 1 {
		t.Fatalf("%d runs were given, want exactly one", len(ls))
	}
	return ls[0]
}

// R-TEST-17, SQ 32 drill 5: a provider that asks to slow down parks the work of everybody, burns nobody's attempts, is
// asked again by exactly one run, and opens for all when that run gets an answer.
func TestRateLimitParksTheProviderForEverybody(t *testing.T) {
	t.Parallel()
	w, failed, waiting := parked(t)
	var until, due time.Time
	must(t, w.Owner.QueryRow(t.Context(), `SELECT p.until, d.available_at FROM provider_pauses p, run_delayed d WHERE d.run_id = $1`, failed.Run).Scan(&until, &due))
	asked := 90 * time.Second
	if left := time.Until(until); left < asked-10*time.Second || left > asked*12/10 || due.Before(until.Add(-time.Second)) {
		t.Errorf("paused for %s, the run comes back %s after that", left, due.Sub(until))
	}
	if i := w.info(t, failed); i.AttemptsUsed() != 0 || i.RateLimited != 1 || i.State != run.Queued {
		t.Errorf("%s, %d attempts used, %d rate limits", i.State, i.AttemptsUsed(), i.RateLimited)
	}
	if n := len(w.ask(t)); n != 0 {
		t.Fatalf("%d were given out during the pause", n)
	}
	why := got(w.Store.Why(t.Context(), w.Tenant, waiting.Run))(t).Reason
	if why.Code != "PROVIDER_PARKED" || !strings.Contains(why.Words, "rovider stoic asked to slow down; it is tried again at") {
		t.Errorf("%+v", why)
	}
	dbtest.Advance(t, w.db, 3*time.Minute)
	got(w.Store.Deliver(t.Context(), 10))(t)
	l := w.asked(t)
	if n := len(w.ask(t)); n != 0 {
		t.Fatalf("%d more were given beside the one that tries first", n)
	}
	other := waiting
	if l.Ref == waiting {
		other = failed
	}
	if why := got(w.Store.Why(t.Context(), w.Tenant, other.Run))(t).Reason; why.Code != "PROVIDER_PROBED" {
		t.Errorf("%+v", why)
	}
	got(w.Store.Append(t.Context(), l.Holder(), db.Batch{Sequence: 1, Used: &db.Used{InputTokens: 10, ProviderCalls: 1}}))(t)
	if n := w.count(t, `SELECT count(*) FROM provider_pauses`); n != 0 {
		t.Error("the pause stands although the provider answered")
	}
	if then := w.asked(t); then.Ref != other {
		t.Errorf("then %v was given", then.Ref)
	}
}

// A probe that is turned away parks the provider again and for longer; one that ends without an answer makes way for
// the next; one that stores its plan has had an answer.
func TestProbes(t *testing.T) {
	t.Parallel()
	w, _, _ := parked(t)
	dbtest.Advance(t, w.db, 3*time.Minute)
	got(w.Store.Deliver(t.Context(), 10))(t)
	failures := func() int64 { return w.count(t, `SELECT failures FROM provider_pauses`) }
	if failures() != 1 {
		t.Fatalf("%d failures", failures())
	}
	must(t, w.asked(t).All(t.Context(), run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "429"}))
	if failures() != 2 {
		t.Errorf("%d failures after the probe's", failures())
	}
	if n := w.count(t, `SELECT extract(epoch FROM until - clock_timestamp())::bigint FROM provider_pauses`); n < 55 || n > 73 {
		t.Errorf("the second pause lasts %d s, want twice the first 30 and something on top", n)
	}
	dbtest.Advance(t, w.db, 3*time.Minute)
	must(t, w.asked(t).All(t.Context(), run.Release{Reason: "drain"}))
	l := w.asked(t)
	must(t, l.Prepare(t.Context()))
	got(l.Plan(t.Context(), "Only one file."))(t)
	if n := w.count(t, `SELECT count(*) FROM provider_pauses`); n != 0 {
		t.Error("the pause stands although a plan was made")
	}
}

// R-TEST-17: what one worker says that its provider asked for stops its own run for as long, up to a day, and everybody's
// work no longer than the longest pause; then one run tries.
func TestOneWorkersWordStopsNobodyForADay(t *testing.T) {
	t.Parallel()
	w := stoic(t)
	failed := w.withProvider(t)
	l := w.asked(t)
	waiting := w.withProvider(t)
	must(t, l.All(t.Context(), run.Start{}, run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "429", RetryAfter: 24 * time.Hour}))
	if n := w.count(t, `SELECT extract(epoch FROM until - clock_timestamp())::bigint FROM provider_pauses`); n < 29*60 || n > 36*60 {
		t.Errorf("everybody waits %d s, want the longest pause and something on top", n)
	}
	if n := w.count(t, `SELECT extract(epoch FROM available_at - clock_timestamp())::bigint FROM run_delayed WHERE run_id = $1`, failed.Run); n < 23*3600 {
		t.Errorf("the run that was turned away waits %d s, want the day that was asked for", n)
	}
	dbtest.Advance(t, w.db, 37*time.Minute)
	if l := w.asked(t); l.Ref != waiting {
		t.Errorf("%v tries first", l.Ref)
	}
}

// R-TEST-17, R-Q-7, R-TEN: who is paused since when, until when and by whose run is there to see, the run in its own tenant
// only; an administrator of the installation ends the pause, once and on record, and whoever waits is given work.
func TestPauseIsSeenAndEnded(t *testing.T) {
	t.Parallel()
	w, failed, waiting := parked(t)
	ctx := t.Context()
	other := drive.New(t, w.db, drive.Options{Tenant: "blue", Store: w.Store})
	ps := got(w.Store.ProviderPauses(ctx, w.Tenant))(t)
	if len(ps) != 1 || ps[0].Provider != "stoic" || ps[0].Run != failed.Run || ps[0].Title != "A change" || ps[0].By != w.Requester.Name || ps[0].Reason != "429" ||
		ps[0].Failures != 1 || ps[0].Due || ps[0].Probing || !ps[0].Since.Before(ps[0].Until) {
		t.Errorf("%+v", ps)
	}
	if ps := got(w.Store.ProviderPauses(ctx, other.Tenant))(t); len(ps) != 0 {
		t.Errorf("a tenant without work of the provider sees %+v", ps)
	}
	got(other.To(ctx, run.Queued))(t)
	got(w.Owner.Exec(ctx, `UPDATE run_queue SET provider = 'stoic' WHERE tenant_id = $1`, other.Tenant))(t)
	ps = got(w.Store.ProviderPauses(ctx, other.Tenant))(t)
	if len(ps) != 1 || ps[0].Title != "" || ps[0].By != "" || ps[0].Reason != "" || ps[0].Run == failed.Run {
		t.Errorf("another tenant sees %+v", ps)
	}
	refusal(t, w.Store.ResumeProvider(ctx, other.Request(other.Admin, "resume"), "stoic"), fault.Forbidden, "Nothing was changed: the pause of a provider holds for all tenants")
	if n := len(w.ask(t)); n != 0 {
		t.Fatalf("%d were given out during the pause", n)
	}
	in := w.Request(w.Admin, "resume")
	in.Audit = &db.Audit{Tenant: w.Tenant, By: w.Admin.Actor(), Channel: "page", Action: "provider.resume", ObjectType: "provider", ObjectID: "stoic", Result: "recorded"}
	must(t, w.Store.ResumeProvider(ctx, in, "stoic"))
	must(t, w.Store.ResumeProvider(ctx, in, "stoic")) // the same form sent twice
	refusal(t, w.Store.ResumeProvider(ctx, w.Request(w.Admin, "again"), "stoic"), fault.Conflict, "Nothing was changed: provider stoic is not paused")
	if l := w.asked(t); l.Ref != waiting {
		t.Errorf("%v was given", l.Ref)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE action = 'provider.resume'`); n != 1 {
		t.Errorf("%d lines in the audit, want 1", n)
	}
}

// Runs that fail at once are one wave: the pause is not doubled for each of them.
func TestOneWaveIsOneFailure(t *testing.T) {
	t.Parallel()
	w := stoic(t)
	for range 8 {
		w.withProvider(t)
	}
	leases := w.ask(t)
	if len(leases) != 8 {
		t.Fatalf("%d leases", len(leases))
	}
	for _, err := range all(len(leases), func(i int) error {
		return leases[i].All(t.Context(), run.Start{}, run.AttemptHasFailed{Code: run.CodeProviderRateLimit, Summary: "429"})
	}) {
		must(t, err)
	}
	if n := w.count(t, `SELECT failures FROM provider_pauses`); n != 1 {
		t.Errorf("%d failures in a row, want 1", n)
	}
	if n := w.count(t, `SELECT count(DISTINCT available_at) FROM run_delayed`); n != 8 {
		t.Errorf("8 runs come back at %d instants", n)
	}
}

// A worker that was draining when it vanished burns none of the run's tries.
func TestDrainedWorkerIsNotHeldAgainstTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	if _, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET drain_requested = true`); err != nil {
		t.Fatal(err)
	}
	must(t, w.Lapse(t.Context(), at.Ref))
	got(w.Reap(t.Context(), at.Ref))(t)
	if i := w.info(t, at.Ref); i.State != run.Queued || i.AttemptsUsed() != 0 || i.Crashed != 0 {
		t.Errorf("%s, %d attempts used, %d crashes", i.State, i.AttemptsUsed(), i.Crashed)
	}
	if n := w.count(t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, at.Ref.Run); n != 1 {
		t.Error("the run does not wait ready")
	}
	w.replays(t)
}
