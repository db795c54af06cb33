package db_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// U5, U6, R-TRN-7: a thousand random races at gates: approvals of what is open and of what was open before, a second approver,
// a request for changes, a cancel and the clock meet in every mixture. No stale approval is accepted, at most one of them
// decides, and a satisfied gate has exactly one piece of work in the queue.
func TestThousandRaces(t *testing.T) {
	t.Parallel()
	rounds, lanes := 1000, 4
	switch {
	case testing.Short():
		rounds = 80
	case os.Getenv("SIGNALBOX_TEST_LONG") != "":
		rounds = 10000
	}
	seed := uint64(time.Now().UnixNano())
	begun := time.Now()
	tally := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range lanes {
		r := &races{t: t, world: newWorld(t, drive.Options{MaxConns: 8, Approvers: 4}), rng: rand.New(rand.NewPCG(seed, uint64(i))), tally: map[string]int{}}
		wg.Go(func() {
			for range rounds / lanes {
				if !r.round() {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for what, n := range r.tally {
				tally[what] += n
			}
		})
	}
	wg.Wait()
	t.Logf("seed %d: %d races in %s: %v", seed, tally["races"], time.Since(begun).Round(time.Millisecond), tally)
	for _, what := range []string{"stale approvals sent", "ends PR_CREATING", "ends EXECUTING", "ends WAITING_FOR_APPROVAL", "ends CANCELLED"} {
		if tally[what] == 0 {
			t.Errorf("no race with %s", what)
		}
	}
}

// races is one run after another whose gates are raced at.
type races struct {
	*world
	t     *testing.T
	rng   *rand.Rand
	at    *drive.At
	old   []db.Verdict // approvals of what is not open any more
	n     int
	tally map[string]int
}

type racer struct {
	what string
	do   func() error
}

// round lets some of them meet at the open gate and holds what must be true afterwards; then it makes the next gate.
func (r *races) round() bool {
	ctx := r.t.Context()
	if r.at == nil {
		at, err := r.To(ctx, run.WaitingForApproval)
		if err != nil {
			r.t.Errorf("drive: %v", err)
			return false
		}
		r.at, r.old = &at, nil
	}
	before := r.info(r.t, r.at.Ref)
	racers, stale := r.racers()
	errs := all(len(racers), func(i int) error { return racers[i].do() })
	r.tally["races"]++
	var names []string
	for i, err := range errs {
		names = append(names, racers[i].what)
		f, ok := fault.Find(err)
		if err != nil && (!ok || f.Kind != fault.Conflict && f.Kind != fault.Gone) {
			r.t.Errorf("%s: %v", racers[i].what, err)
			return false
		}
	}
	for _, i := range stale {
		r.tally["stale approvals sent"]++
		if errs[i] == nil {
			r.t.Errorf("a stale approval was accepted in %v", names)
		}
	}
	return r.holds(before, names) && r.next(before)
}

// racers draws who meets, and says which of them approve what is not open any more.
func (r *races) racers() (all []racer, stale []int) {
	ctx, ref := r.t.Context(), r.at.Ref
	decide := func(what string, person int, v policy.GateVerdict, chance float64) {
		if r.rng.Float64() < chance {
			d := got(r.Verdict(ctx, ref, r.Approvers[person], v, "Because."))(r.t)
			all = append(all, racer{what, func() error { _, err := r.Store.Decide(ctx, d); return err }})
		}
	}
	decide("approve", 0, policy.Approve, 0.8)
	decide("second approve", 1, policy.Approve, 0.7)
	decide("revise", 2, policy.RequestChanges, 0.3)
	if r.rng.Float64() < 0.05 {
		all = append(all, racer{"cancel", func() error { _, err := r.Cancel(ctx, ref); return err }})
	}
	if r.rng.Float64() < 0.3 {
		must(r.t, r.GateDue(ctx, r.info(r.t, ref).Gate.ID))
		due := got(r.Store.DueGates(ctx, uuid.Nil, 1))(r.t)
		all = append(all, racer{"expire", func() error { return r.Store.ExpireGate(ctx, due[0]) }})
	}
	if len(r.old) > 0 {
		d := r.old[r.rng.IntN(len(r.old))]
		d.Key = r.Key("stale")
		d.Hash = drive.Hash(d.Key)
		all = append(all, racer{"stale approve", func() error { _, err := r.Store.Decide(ctx, d); return err }})
	}
	r.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i, x := range all {
		if x.what == "stale approve" {
			stale = append(stale, i)
		}
	}
	return all, stale
}

// holds says what is true after every race.
func (r *races) holds(before db.RunInfo, names []string) bool {
	ref := r.at.Ref
	after := r.info(r.t, ref)
	r.tally["ends "+string(after.State)]++
	approved := r.count(r.t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND seq > $2 AND kind = 'approved'`, ref.Run, before.Version)
	decided := r.count(r.t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND seq > $2 AND kind IN ('approved', 'changes_requested', 'rejected')`, ref.Run, before.Version)
	queued := r.count(r.t, `SELECT count(*) FROM run_queue WHERE run_id = $1`, ref.Run)
	want := map[run.State][2]int64{run.PRCreating: {1, 1}, run.Executing: {0, 1}, run.WaitingForApproval: {0, 0}, run.Cancelled: {approved, 0}}
	if w, ok := want[after.State]; !ok || decided > 1 || approved != w[0] || queued != w[1] {
		r.t.Errorf("%v: the run is %s, %d decisions took effect, %d approvals among them, %d pieces of work in the queue", names, after.State, decided, approved, queued)
		return false
	}
	r.tally["dispatches"] += int(approved)
	return true
}

// next makes a gate that is open again, the cheapest way from where the run is.
func (r *races) next(before db.RunInfo) bool {
	ctx, ref := r.t.Context(), r.at.Ref
	g := before.Gate
	p := r.Approvers[3]
	was := db.Verdict{Tenant: ref.Tenant, Gate: g.ID, Revision: g.Revision, Digest: g.Digest, Verdict: policy.Approve, By: p.Decider(), Audit: &db.Audit{Channel: "page"}}
	var err error
	switch after := r.info(r.t, ref); after.State {
	case run.PRCreating:
		_, err = r.Withdraw(ctx, g.ID, r.Approvers[0])
	case run.WaitingForApproval:
		if after.Gate.Expired {
			r.old = append(r.old, was)
			_, err = r.AskAgain(ctx, g.ID, r.Requester, "")
		}
	case run.Executing:
		r.old = append(r.old, was)
		err = r.rework()
	default:
		r.at = nil
	}
	if err != nil {
		r.t.Errorf("the next gate: %v", err)
	}
	return err == nil
}

// rework hands in another patch, up to its gate.
func (r *races) rework() error {
	ctx, ref := r.t.Context(), r.at.Ref
	r.n++
	l, err := r.ClaimRun(ctx, r.Workers[0], ref)
	if err != nil {
		return err
	}
	if _, err := l.HandIn(ctx, drive.Diff("main.go", fmt.Sprintf("try %d", r.n))); err != nil {
		return err
	}
	if l, err = r.ClaimRun(ctx, r.Workers[1], ref); err != nil {
		return err
	}
	if _, err := l.Verify(ctx, db.VerificationRecord{Passed: true}); err != nil {
		return err
	}
	if _, err = l.Judge(ctx, run.VerdictPass, 1); err != nil {
		return err
	}
	return r.Is(ctx, ref, run.WaitingForApproval)
}
