package run_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/run"
)

// edge is one accepted event between two reachable runs.
type edge struct {
	from run.State
	kind run.Kind
	to   run.State
}

// world is every run that can be reached under tight limits, up to ids and
// numbers that only count: one run for each way of being different.
type world struct {
	runs  map[string]run.Run
	edges map[edge]int
	// byState lists the reachable runs of each state.
	byState           map[run.State][]run.Run
	accepted, refused int
	broken            []string
}

// sameness is what makes two runs behave alike: nothing that only counts, and
// nothing that the next step overwrites.
func sameness(r run.Run) string {
	phase := func(l *run.Lease) run.Phase {
		if l == nil {
			return ""
		}
		return l.Phase
	}
	if r.State.Terminal() || r.State == run.Cancelling {
		return fmt.Sprint(r.State, r.Mode, phase(r.Lease))
	}
	gate := func(g *run.Gate) string {
		if g == nil {
			return ""
		}
		return fmt.Sprint(g.Kind, g.Expired, g.ResumeTo)
	}
	approved := r.ApprovedPatchID != "" && (r.Patch == nil || r.Patch.PatchID == r.ApprovedPatchID)
	key := fmt.Sprintln(r.State, r.Mode.WantsPR(), r.Mode == run.ModeAnalysis, r.Mode.WantsPR() && r.Risk == run.RiskHigh, r.Lease != nil, r.AttemptsUsed(), r.Repairs, min(r.BaseMoves, r.Limits.MaxBaseMoves+1),
		gate(r.Gate), gate(r.Dispatched), approved)
	at := r.State
	if r.Gate != nil && r.Gate.Kind == run.GateBudget {
		at = r.Gate.ResumeTo
	}
	if at.Phase() == run.PhaseExecute || r.Gate != nil && r.Gate.Kind == run.GatePlan {
		return key
	}
	redeliveries := r.VerifyRedeliveries
	if at.Phase() == run.PhasePublish || at == run.WaitingForApproval {
		redeliveries = r.PublishRedeliveries
	}
	return key + fmt.Sprint(redeliveries, r.Outcome, r.Verification != "")
}

// explore walks breadth first through every variant of every event by every
// actor who may decide it, checking the invariants on each edge.
func explore() *world {
	w := &world{runs: map[string]run.Run{}, edges: map[edge]int{}, byState: map[run.State][]run.Run{}}
	type node struct {
		r run.Run
		l *ledger
	}
	todo := []node{{run.Run{}, newLedger()}}
	w.runs[sameness(run.Run{})] = run.Run{}
	for len(todo) > 0 && len(w.broken) < 10 {
		n := todo[0]
		todo = todo[1:]
		w.byState[n.r.State] = append(w.byState[n.r.State], n.r)
		for _, k := range run.Kinds() {
			if !run.Legal(n.r.State, k) {
				continue
			}
			every(func(c chooser) {
				by := oneOf(c, actorsOf(n.r.State, k)...)
				ev := event(n.r, payload(n.r, k, c), by)
				res, err := run.Reduce(n.r, ev)
				if err != nil {
					w.refused++
					return
				}
				w.accepted++
				w.edges[edge{n.r.State, k, res.Run.State}]++
				l := n.l.clone()
				if err := l.apply(n.r, res); err != nil {
					w.broken = append(w.broken, fmt.Sprintf("%s in %s (%s): effects: %v", k, n.r.State, sameness(n.r), err))
				}
				for _, why := range broken(n.r, ev, res) {
					w.broken = append(w.broken, fmt.Sprintf("%s in %s (%s): %s", k, n.r.State, sameness(n.r), why))
				}
				if key := sameness(res.Run); w.runs[key].Version == 0 && res.Run.State != "" {
					w.runs[key] = res.Run
					todo = append(todo, node{res.Run, l})
				}
			})
		}
	}
	return w
}

var reachable = sync.OnceValue(explore)

// broken lists the invariants of lifecycles that the step does not keep
// (R-DOM-4, R-DOM-13, R-DOM-5, R-DOM-10, R-TRN-5).
func broken(before run.Run, ev run.Event, res run.Result) []string {
	var out []string
	r := res.Run
	check := func(holds bool, format string, args ...any) {
		if !holds {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	check(r.Version == before.Version+1, "version went from %d to %d", before.Version, r.Version)
	check(r.Token >= before.Token, "token fell from %d to %d", before.Token, r.Token)
	check(r.AttemptNo == before.AttemptNo || r.AttemptNo == before.AttemptNo+1 && ev.Kind() == run.KindLeaseAcquired, "attempt number jumped")
	check(r.AttemptsUsed() <= max(r.Limits.MaxAttempts, before.Limits.MaxAttempts), "%d attempts used", r.AttemptsUsed())
	check(r.Repairs <= r.Limits.RepairRounds, "%d repairs", r.Repairs)
	check(r.VerifyRedeliveries <= r.Limits.Redeliveries && r.PublishRedeliveries <= r.Limits.Redeliveries, "too many redeliveries")
	check(!before.State.Terminal(), "a terminal run moved")
	check(before.State != run.Cancelling || r.State == run.Cancelling || r.State == run.Cancelled, "CANCELLING left to %s", r.State)
	check(r.PlanRevision >= before.PlanRevision && r.PatchRevision >= before.PatchRevision, "a revision fell")
	check(r.ID == before.ID || before.State == run.NoState, "the id changed")
	leased, queued := r.Lease != nil, r.Queued != ""
	check(r.State.NeedsWork() == (leased != queued) || r.State == run.Cancelling, "%s with lease %t and item %t", r.State, leased, queued)
	check(r.State != run.Cancelling || leased && !queued && r.Cancel != nil, "CANCELLING without the lease that it waits for")
	check(!leased || r.State == run.Cancelling || r.Lease.Phase == r.State.Phase(), "lease of phase %v in %s", r.Lease, r.State)
	check(!queued || r.Queued == r.State.Phase(), "item of phase %s in %s", r.Queued, r.State)
	check((r.Gate != nil) == (r.State == run.WaitingForApproval), "%s with gate %v", r.State, r.Gate)
	check(r.Dispatched == nil || queued, "a dispatched approval without its item")
	check(len(res.Follow) == 0 || r.State == run.PRCreated, "%s is followed by %d events", ev.Kind(), len(res.Follow))
	if p, ok := ev.Payload.(run.LeaseReleasedEvent); ok {
		wait, n := time.Duration(-1), 0
		for _, e := range res.Effects {
			if q, ok := e.(run.Enqueue); ok {
				wait, n = q.Delay, n+1
			}
		}
		check(n == 1 && wait == run.ReleaseDelay(p.Before), "given back after %d times: %d items, the last after %s", p.Before, n, wait)
		used := before.AttemptsUsed()
		if before.State.Phase() == run.PhaseExecute {
			used-- // the attempt that was under way counts no more
		}
		check(r.AttemptsUsed() == used && r.Crashed == before.Crashed && r.RateLimited == before.RateLimited, "a release was charged")
		check(before.State.Phase() == run.PhaseExecute || r.VerifyRedeliveries == before.VerifyRedeliveries && r.PublishRedeliveries == before.PublishRedeliveries, "a release was charged as a redelivery")
	}
	switch r.State {
	case run.Judging:
		check(r.Outcome == run.OutcomePatch && r.Patch != nil && r.Verification != "" ||
			(r.Outcome == run.OutcomeReport || r.Outcome == run.OutcomeNoChange) && r.Report != "" && r.Patch == nil, "JUDGING without evidence")
	case run.PatchReady, run.Verifying:
		check(r.Patch != nil && r.Patch.Digest != "" && r.Patch.Revision == r.PatchRevision, "%s without its patch", r.State)
	case run.PRCreating:
		check(r.Patch != nil && r.Verification != "" && r.Mode.WantsPR(), "PR_CREATING without a verified patch")
	case run.PRCreated:
		check(r.PR != nil && r.PR.URL != "" && r.PR.SHA != "" && r.PR.Branch != "" && len(res.Follow) == 1, "PR_CREATED without its pull request or its next event")
	case run.AwaitingVerification:
		check(r.Verdict != "", "AWAITING_VERIFICATION without a verdict")
	case run.Succeeded:
		check(r.Verdict != "", "SUCCEEDED without a verdict")
		check(r.Failure == nil && r.Cancel == nil, "SUCCEEDED with a failure")
		check(!r.Mode.WantsPR() || r.PR != nil || r.Outcome == run.OutcomeNoChange, "SUCCEEDED without the pull request that was asked for")
	case run.Failed:
		check(r.Failure != nil && slices.Contains(run.Categories(), r.Failure.Category) && r.Failure.Code != "" && r.Failure.Summary != "", "FAILED without saying why")
	case run.Cancelled:
		check(r.Cancel != nil && r.Cancel.Reason != "" && r.Cancel.By.Kind != "", "CANCELLED without saying why")
	case run.Expired:
		check(r.Reason != "", "EXPIRED without saying why")
	}
	if r.State.Terminal() {
		check(!leased && !queued && r.Gate == nil && r.Dispatched == nil && r.FinishedAt != nil, "a terminal run holds something")
		check(slices.ContainsFunc(res.Effects, func(e run.Effect) bool { _, ok := e.(run.CleanUp); return ok }), "no clean-up was asked for")
		check((r.EndCode() == "") == (r.State == run.Succeeded), "%s ended with code %q", r.State, r.EndCode())
	}
	return out
}

// TestEveryReachableRun: R-DOM-4, R-DOM-13, R-DOM-10, R-CAN-1. Under tight limits
// the reachable runs are finitely many, so every one is visited and every edge
// keeps every invariant; each transition of the table is walked to each target.
func TestEveryReachableRun(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := reachable()
	t.Logf("%d different runs, %d edges walked, %d refused by guards, %v", len(w.runs), w.accepted, w.refused, time.Since(began).Round(time.Millisecond))
	for _, why := range w.broken {
		t.Error(why)
	}
	for _, s := range run.States() {
		if len(w.byState[s]) == 0 {
			t.Errorf("state %s is never reached", s)
		}
		for _, k := range run.Kinds() {
			if s == run.PRCreated && k == run.KindCancelRequested {
				continue // refused by a guard, with a follow-up offered
			}
			for _, to := range targetsOf(s, k) {
				if w.edges[edge{s, k, to}] == 0 && !unreachable(s, k, to) {
					t.Errorf("%s in %s never leads to %s", k, s, to)
				}
			}
		}
	}
	for e := range w.edges {
		if unreachable(e.from, e.kind, e.to) {
			t.Errorf("%v was thought impossible", e)
		}
	}
}

// unreachable lists what the table allows by grouping states but what cannot be.
func unreachable(s run.State, k run.Kind, to run.State) bool {
	alwaysLeased := s == run.Leased || s == run.Preparing
	return alwaysLeased && (k == run.KindTimeout || k == run.KindCancelRequested && to == run.Cancelled)
}

// TestReduceLeavesItsArgumentsAlone: R-TRN-3. Neither the run nor the event that
// goes in is changed, whatever comes out.
func TestReduceLeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	for s, rs := range reachable().byState {
		for _, k := range run.Kinds() {
			r := rs[len(rs)/2]
			every(func(c chooser) {
				ev := event(r, payload(r, k, c), append(actorsOf(s, k), run.ControlPlane)[0])
				runBefore, eventBefore := deep(t, r), deep(t, ev)
				_, _ = run.Reduce(r, ev)
				if d := cmp.Diff(runBefore, deep(t, r)); d != "" {
					t.Errorf("%s in %s changed the run: %s", k, s, d)
				}
				if d := cmp.Diff(eventBefore, deep(t, ev)); d != "" {
					t.Errorf("%s in %s changed the event: %s", k, s, d)
				}
			})
		}
	}
}
