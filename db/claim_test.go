package db_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

// R-Q-2: a claim is one transaction: item gone, lease, attempt, token, event and state, all or nothing.
func TestClaimIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	l := got(w.ClaimRun(t.Context(), w.Workers[0], ref))(t)
	if n := w.count(t, `SELECT count(DISTINCT xid) FROM (
			SELECT xid::text FROM run_events WHERE run_id = $1 AND kind = 'lease_acquired'
			UNION ALL SELECT xmin::text FROM run_leases WHERE run_id = $1
			UNION ALL SELECT xmin::text FROM attempts WHERE run_id = $1
			UNION ALL SELECT xmin::text FROM runs WHERE id = $1) x`, ref.Run); n != 1 {
		t.Errorf("written by %d transactions, want 1", n)
	}
	if l.State != run.Leased || l.Lease.Token == 0 || l.TTL == 0 {
		t.Errorf("claimed %+v", l.Claimed)
	}
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 0 {
		t.Error("the item is still in the queue")
	}
}

// R-Q-2, R-LEASE-1: any number of claimers at once share the items out: each item goes to one, tokens are unique and
// grow, nothing is left and nothing is given twice.
func TestManyClaimersShareTheItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	const runs, claimers = 60, 12
	for range runs {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
	}
	var mu sync.Mutex
	leases := map[uuid.UUID]db.Claimed{}
	tokens := map[int64]bool{}
	for _, err := range all(claimers, func(i int) error {
		worker := w.Workers[i%2]
		for n := 0; ; n++ {
			got, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: fmt.Sprintf("c-%d-%d", i, n), Worker: worker.WorkerID, Boot: worker.Boot,
				Phases: run.Phases(), Max: 1 + i%3})
			if err != nil {
				return err
			}
			if len(got) == 0 {
				return nil
			}
			mu.Lock()
			for _, c := range got {
				if _, twice := leases[c.Ref.Run]; twice {
					t.Errorf("run %s was given twice", c.Ref.Run)
				}
				if tokens[c.Lease.Token] {
					t.Errorf("token %d was given twice", c.Lease.Token)
				}
				leases[c.Ref.Run], tokens[c.Lease.Token] = c, true
			}
			mu.Unlock()
		}
	}) {
		must(t, err)
	}
	if len(leases) != runs {
		t.Errorf("%d of %d items were given", len(leases), runs)
	}
	if n := w.count(t, `SELECT count(*) FROM run_leases`); n != runs {
		t.Errorf("%d leases", n)
	}
	w.replays(t)
}

// Items go first in, first out.
func TestClaimsAreFirstInFirstOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	var want []uuid.UUID
	for range 7 {
		want = append(want, got(w.Run(t.Context(), drive.Ordinary()))(t).Run)
	}
	var order []uuid.UUID
	for _, most := range []int{3, 1, 5} {
		cs, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("c"), Worker: w.Workers[0].WorkerID, Boot: w.Workers[0].Boot, Phases: run.Phases(), Max: most})
		must(t, err)
		for _, c := range cs {
			order = append(order, c.Ref.Run)
		}
	}
	if !slices.Equal(order, want) {
		t.Errorf("claimed %v, want %v", order, want)
	}
}

// A claim that is repeated gets the leases it got, and no others; also at the same time.
func TestRepeatedClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for range 4 {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
	}
	in := db.ClaimRequest{ClaimID: "same", Worker: w.Workers[0].WorkerID, Boot: w.Workers[0].Boot, Phases: run.Phases(), Max: 2}
	answers := make([][]db.Claimed, 6)
	for _, err := range all(len(answers), func(i int) (err error) {
		answers[i], _, err = w.Store.Claim(t.Context(), in)
		return err
	}) {
		must(t, err)
	}
	for _, a := range answers {
		if len(a) != 2 || a[0].Lease != answers[0][0].Lease || a[1].Lease != answers[0][1].Lease || a[0].State != run.Leased {
			t.Errorf("answer %+v, want %+v", a, answers[0])
		}
	}
	if n := w.count(t, `SELECT count(*) FROM run_leases`); n != 2 {
		t.Errorf("%d leases, want 2", n)
	}
	// Another worker's equal claim id is another claim.
	in.Worker, in.Boot = w.Workers[1].WorkerID, w.Workers[1].Boot
	cs, again, err := w.Store.Claim(t.Context(), in)
	must(t, err)
	if again || len(cs) != 2 || cs[0].Ref == answers[0][0].Ref {
		t.Errorf("another worker was answered with %+v", cs)
	}
}

// R-WRK-1: a boot never holds more than its maximum, however many claims it sends at once.
func TestMaximumOfABoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 16})
	for range 10 {
		got(w.Run(t.Context(), drive.Ordinary()))(t)
	}
	small := got(w.NewWorker(t.Context(), "small", run.Phases(), 3))(t)
	claim := func(i int) error {
		_, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("c"), Worker: small.WorkerID, Boot: small.Boot, Phases: run.Phases(), Max: 2})
		return err
	}
	for _, err := range all(8, claim) {
		must(t, err)
	}
	if n := w.count(t, `SELECT count(*) FROM run_leases WHERE boot_id = $1`, small.Boot); n != 3 {
		t.Errorf("the boot holds %d leases, want 3", n)
	}
}

// R-WRK-1: only a boot that is known, of this worker, and ready is given work; nobody is given a phase that its
// credential does not allow.
func TestWhoIsGivenWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	claim := func(worker db.WorkerID, boot uuid.UUID, phases ...run.Phase) ([]db.Claimed, error) {
		cs, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("c"), Worker: worker, Boot: boot, Phases: phases, Max: 1})
		return cs, err
	}
	me, other := w.Workers[0], w.Workers[1]
	_, err := claim(me.WorkerID, uuid.New(), run.Phases()...)
	if f := refusal(t, err, fault.Conflict, "No work was given: this boot is not known"); !f.Stop {
		t.Error("the answer does not say stop")
	}
	_, err = claim(me.WorkerID, other.Boot, run.Phases()...)
	refusal(t, err, fault.Conflict, "No work was given: this boot is not known")
	for _, c := range []struct {
		state string
		drain bool
	}{{"DRAINING", false}, {"STOPPED", false}, {"DEAD", false}, {"READY", true}} {
		_, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET state = $2, drain_requested = $3 WHERE id = $1`, me.Boot, c.state, c.drain)
		must(t, err)
		cs, err := claim(me.WorkerID, me.Boot, run.Phases()...)
		if c.state == "STOPPED" || c.state == "DEAD" {
			// A worker that is not told so would ask for ever.
			refusal(t, err, fault.Conflict, "No work was given: this boot is over. Register again.")
		} else {
			must(t, err)
		}
		if len(cs) != 0 {
			t.Errorf("a boot that is %s (drain requested %t) was given work", c.state, c.drain)
		}
	}
	verifier := got(w.NewWorker(t.Context(), "verifier", []run.Phase{run.PhaseVerify}, 5))(t)
	if cs := got(claim(verifier.WorkerID, verifier.Boot, run.Phases()...))(t); len(cs) != 0 {
		t.Error("a verifier's credential was given the execute phase")
	}
	if cs := got(claim(other.WorkerID, other.Boot, run.PhaseVerify))(t); len(cs) != 0 {
		t.Error("a phase was given that was not asked for")
	}
	if cs := got(claim(other.WorkerID, other.Boot, run.PhaseExecute))(t); len(cs) != 1 {
		t.Error("the item was given to nobody")
	}
}

// R-WRK-3: a process that was stopped keeps its question open; work that gets ready later is not given to it. A question
// just asked is a sign of life.
func TestSilentWorkerIsGivenNoWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	me := w.Workers[0]
	silent := func() {
		_, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET heartbeat_at = now() - interval '1 hour' WHERE id = $1`, me.Boot)
		must(t, err)
	}
	silent()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	claim := func(ctx context.Context) ([]db.Claimed, error) {
		cs, _, err := w.Store.ClaimWait(ctx, db.ClaimRequest{ClaimID: w.Key("c"), Worker: me.WorkerID, Boot: me.Boot, Phases: run.Phases(), Max: 1}, time.Minute)
		return cs, err
	}
	asked := make(chan []db.Claimed, 1)
	go func() {
		cs, err := claim(ctx)
		if err != nil && fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
		asked <- cs
	}()
	// The first look of the waiting question comes before the item: it leaves its lock's mark on the row.
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for w.count(t, `SELECT count(*) FROM worker_boots WHERE id = $1 AND xmax::text <> '0'`, me.Boot) == 0 {
		if limit.Err() != nil {
			t.Fatal("the question never looked")
		}
	}
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	fresh := got(claim(t.Context()))(t)
	stop()
	if cs := <-asked; len(cs) != 0 {
		t.Error("work was given to a silent worker")
	}
	if len(fresh) != 1 {
		t.Error("a worker that asks now was given nothing")
	}
}

// R-FAIL-8: policy is asked again at the claim, as it is then: a denied run ends, and a worker that is too weak leaves
// the item to others.
func TestPolicyAtTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	weak := got(w.NewWorker(t.Context(), "weak", run.Phases(), 5))(t)
	_, err := w.Owner.Exec(t.Context(), `UPDATE worker_boots SET isolation = 'process' WHERE id = $1`, weak.Boot)
	must(t, err)
	if l := got(w.Claim(t.Context(), weak))(t); l != nil {
		t.Fatal("a sandbox weaker than policy asks for was given work")
	}
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 1 {
		t.Fatalf("%d items are left for others, want 1", n)
	}
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: nothing\nadmission: {repositories: ['other/**']}\n"))
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l != nil {
		t.Fatal("a run that policy denies was leased")
	}
	info := w.info(t, ref)
	if info.State != run.Failed || info.Failure.Category != run.CatPolicyDenied || info.Failure.Code != run.CodePolicyDenied || info.Failure.Retryable {
		t.Errorf("run is %s: %+v", info.State, info.Failure)
	}
	if task := got(w.Store.Task(t.Context(), w.Tenant, info.Task))(t); task.State != run.TaskReady {
		t.Errorf("task is %s", task.State)
	}
	// The requester's role is looked at again, too.
	must(t, w.SetPolicy(t.Context(), "schema: 1\nversion: all\n"))
	ref = got(w.Run(t.Context(), drive.Ordinary()))(t)
	_, err = w.Owner.Exec(t.Context(), `UPDATE memberships SET roles = '{viewer}' WHERE user_id = $1`, w.Requester.ID)
	must(t, err)
	if l := got(w.Claim(t.Context(), w.Workers[0]))(t); l != nil {
		t.Error("the run of somebody who may request no longer was leased")
	}
	must(t, w.Is(t.Context(), ref, run.Failed))
	w.replays(t)
}

// R-ATT-1: where policy asks for another worker to verify, the patch's maker is passed over, however many such items
// stand in front of what it may take.
func TestSameWorkerIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: other\nexecution: {same_worker_may_verify: false}\n"})
	maker, other := w.Workers[0], w.Workers[1]
	const patches = 9
	for range patches {
		ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
		l := got(w.ClaimRun(t.Context(), maker, ref))(t)
		must(t, l.Prepare(t.Context()))
		got(l.Plan(t.Context(), w.Key("plan")))(t)
		got(l.HandIn(t.Context(), drive.Diff("a.go", w.Key("x"))))(t)
	}
	if l := got(w.Claim(t.Context(), maker))(t); l != nil {
		t.Fatal("the maker was given its own patch to verify")
	}
	behind := got(w.Run(t.Context(), drive.Ordinary()))(t)
	if l := got(w.Claim(t.Context(), maker))(t); l == nil || l.Ref != behind {
		t.Errorf("the maker was not given the run behind what it may not take: %+v", l)
	}
	for range patches {
		if l := got(w.Claim(t.Context(), other))(t); l == nil || l.Lease.Phase != run.PhaseVerify {
			t.Errorf("another worker was given %+v", l)
		}
	}
}

// R-ATT-1, T8: a policy that became looser does not loosen who may work on what was admitted before: not the isolation that was asked
// for, and not that another worker verifies.
func TestClaimsAreHeldToTheAdmission(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: strict\nexecution: {same_worker_may_verify: false, min_isolation: bwrap}\n"})
	ctx, maker, other := t.Context(), w.Workers[0], w.Workers[1]
	weak := got(w.NewWorker(ctx, "weak", run.Phases(), 10))(t)
	got(w.Owner.Exec(ctx, `UPDATE worker_boots SET isolation = 'process' WHERE id = $1`, weak.Boot))(t)
	made, waits := got(w.Run(ctx, drive.Ordinary()))(t), got(w.Run(ctx, drive.Ordinary()))(t)
	l := got(w.ClaimRun(ctx, maker, made))(t)
	must(t, l.Prepare(ctx))
	got(l.Plan(ctx, w.Key("plan")))(t)
	got(l.HandIn(ctx, drive.Diff("a.go", w.Key("x"))))(t)
	must(t, w.SetPolicy(ctx, "schema: 1\nversion: loose\nexecution: {same_worker_may_verify: true, min_isolation: process}\n"))
	if l := got(w.Claim(ctx, weak))(t); l != nil {
		t.Errorf("a worker without a sandbox was given %+v", l)
	}
	if why := got(w.Store.Why(ctx, w.Tenant, waits.Run))(t); why.Reason.Code != schedule.CodeNext {
		t.Errorf("%+v", why.Reason)
	}
	got(w.Owner.Exec(ctx, `UPDATE worker_boots SET isolation = 'process' WHERE id = $1`, other.Boot))(t)
	if l := got(w.Claim(ctx, maker, run.PhaseVerify))(t); l != nil {
		t.Errorf("the maker was given its own patch to verify: %+v", l)
	}
	if why := got(w.Store.Why(ctx, w.Tenant, made.Run))(t); why.Reason.Code != schedule.CodeNoWorker || !strings.Contains(why.Reason.Words, "admitted under wants another worker") {
		t.Errorf("%+v", why.Reason)
	}
	// What is admitted today is today's.
	if l := got(w.Claim(ctx, maker))(t); l == nil || l.Ref != waits {
		t.Errorf("the maker was given %+v", l)
	}
	fresh := got(w.Run(ctx, drive.Ordinary()))(t)
	if l := got(w.Claim(ctx, weak))(t); l == nil || l.Ref != fresh {
		t.Errorf("a worker without a sandbox was given %+v", l)
	}
}

// A claim that waits is given work as soon as there is some, and answers nothing when its time is over.
func TestClaimWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	in := db.ClaimRequest{ClaimID: "wait-1", Worker: w.Workers[0].WorkerID, Boot: w.Workers[0].Boot, Phases: run.Phases(), Max: 1}
	cs, _, err := w.Store.ClaimWait(t.Context(), in, 20*time.Millisecond)
	if err != nil || len(cs) != 0 {
		t.Fatalf("an empty queue gave %v, %v", cs, err)
	}
	type answer struct {
		cs  []db.Claimed
		err error
	}
	done := make(chan answer, 1)
	heard := make(chan struct{}, 64)
	stop := w.Store.Watch(func(db.Change) { heard <- struct{}{} })
	defer stop()
	go func() {
		cs, _, err := w.Store.ClaimWait(t.Context(), in, time.Minute)
		done <- answer{cs, err}
	}()
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	<-heard
	a := <-done
	must(t, a.err)
	if len(a.cs) != 1 || a.cs[0].Ref != ref {
		t.Errorf("the waiting claim was given %+v", a.cs)
	}
}
