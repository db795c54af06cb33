package run_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"signalbox/internal/run"
)

// normative is the run's table, written down by hand a second time and apart from
// the code: from | event | to | actors. "=" is "unchanged"; E, V and P stand for
// the states of the phases. A state, an event or an actor more or fewer in the
// code fails the comparison until it is answered here.
const normative = `
- | run_created | CREATED | control_plane
CREATED | run_deferred | = | scheduler
CREATED | run_enqueued | QUEUED | scheduler
CREATED QUEUED E V P | policy_denied | FAILED | policy
QUEUED | lease_acquired | LEASED | worker
CONTEXT_BUILDING PLANNING EXECUTING V P | lease_acquired | = | worker
LEASED | worker_started | PREPARING | worker
PREPARING | sandbox_ready | CONTEXT_BUILDING | worker
CONTEXT_BUILDING | context_ready | PLANNING | worker
PLANNING | plan_created | EXECUTING | agent_runtime
PLANNING | plan_approval_required | WAITING_FOR_APPROVAL | policy
EXECUTING | patch_created | PATCH_READY | agent_runtime
EXECUTING | report_created | JUDGING | agent_runtime
EXECUTING | no_change_reported | JUDGING | agent_runtime
PATCH_READY | verification_started | VERIFYING | verifier
VERIFYING | verification_passed | JUDGING | verifier
VERIFYING | verification_failed_retryable | EXECUTING | verifier control_plane
JUDGING | judge_requires_fix | EXECUTING | judge control_plane
VERIFYING JUDGING | attempt_exhausted | QUEUED | control_plane
JUDGING | human_approval_required | WAITING_FOR_APPROVAL | policy
JUDGING | approval_carried | PR_CREATING | policy
JUDGING | auto_pr_allowed | PR_CREATING | policy
JUDGING PR_CREATED | completion_condition_met | SUCCEEDED | control_plane
JUDGING PR_CREATED | attestation_required | AWAITING_VERIFICATION | policy
WAITING_FOR_APPROVAL | approved | CONTEXT_BUILDING PLANNING EXECUTING VERIFYING JUDGING PR_CREATING PR_CREATED AWAITING_VERIFICATION SUCCEEDED | human
WAITING_FOR_APPROVAL | changes_requested | PLANNING EXECUTING | human
WAITING_FOR_APPROVAL | rejected | FAILED | human
WAITING_FOR_APPROVAL | approval_expired | = CANCELLED FAILED | scheduler
WAITING_FOR_APPROVAL | approval_reopened | = PLANNING PATCH_READY | human
WAITING_FOR_APPROVAL | gate_bypassed | CONTEXT_BUILDING PLANNING EXECUTING VERIFYING JUDGING PR_CREATING PR_CREATED AWAITING_VERIFICATION SUCCEEDED | human
EXECUTING PR_CREATING | approval_withdrawn | WAITING_FOR_APPROVAL | human
PR_CREATING | pr_created | PR_CREATED | git_integration
PR_CREATING | base_moved | PATCH_READY WAITING_FOR_APPROVAL | git_integration
PR_CREATING | branch_touched | FAILED | git_integration
PR_CREATING | reconciliation_required | WAITING_FOR_APPROVAL | git_integration scheduler
AWAITING_VERIFICATION | attestation_accepted | SUCCEEDED | attestor
AWAITING_VERIFICATION | attestation_refused | FAILED | attestor
AWAITING_VERIFICATION | attestation_expired | = FAILED EXPIRED | scheduler
E | attempt_failed | QUEUED FAILED | worker scheduler
E | worker_lost | QUEUED FAILED | scheduler
E | lease_released | QUEUED | worker scheduler
V P | attempt_failed | = FAILED | worker scheduler
V P | worker_lost | = FAILED | scheduler
V P | lease_released | = | worker scheduler
LEASED PREPARING CONTEXT_BUILDING | non_retryable_failure | FAILED | worker
PLANNING EXECUTING | non_retryable_failure | FAILED | agent_runtime
PATCH_READY | non_retryable_failure | FAILED | verifier
VERIFYING | non_retryable_failure | FAILED | verifier control_plane
JUDGING | non_retryable_failure | FAILED | judge control_plane
PR_CREATING | non_retryable_failure | FAILED | git_integration
CONTEXT_BUILDING PLANNING EXECUTING VERIFYING JUDGING | budget_exceeded | WAITING_FOR_APPROVAL FAILED | control_plane
CREATED QUEUED E V P | timeout | EXPIRED | scheduler
CREATED QUEUED E V P WAITING_FOR_APPROVAL PR_CREATED AWAITING_VERIFICATION | run_timeout | EXPIRED FAILED | scheduler
CREATED QUEUED WAITING_FOR_APPROVAL AWAITING_VERIFICATION | cancel_requested | CANCELLED | human policy control_plane
E V P | cancel_requested | CANCELLING CANCELLED | human policy control_plane
PR_CREATED CANCELLING | cancel_requested | = | human policy control_plane
CANCELLING | cancel_confirmed | CANCELLED | worker scheduler human
`

const letters = `E:LEASED PREPARING CONTEXT_BUILDING PLANNING EXECUTING
V:PATCH_READY VERIFYING JUDGING
P:PR_CREATING`

// lines expands a table to one line for each state and event.
func lines(table string) map[string]string {
	groups := map[string][]string{}
	for l := range strings.Lines(letters) {
		name, states, _ := strings.Cut(l, ":")
		groups[name] = strings.Fields(states)
	}
	out := map[string]string{}
	for l := range strings.Lines(strings.TrimSpace(table)) {
		cells := strings.Split(strings.TrimSpace(l), " | ")
		for _, from := range strings.Fields(cells[0]) {
			states := groups[from]
			if states == nil {
				states = []string{from}
			}
			for _, s := range states {
				to := strings.Fields(strings.ReplaceAll(cells[2], "=", s))
				by := strings.Fields(cells[3])
				slices.Sort(to)
				slices.Sort(by)
				out[s+" "+cells[1]] = fmt.Sprint(slices.Compact(to), by)
			}
		}
	}
	return out
}

// TestTableIsTheNormativeOne: R-TRN-2, R-DOM-11.
func TestTableIsTheNormativeOne(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, s := range append(run.States(), run.NoState) {
		for _, k := range run.Kinds() {
			if !run.Legal(s, k) {
				continue
			}
			by := actorsOf(s, k)
			slices.Sort(by)
			name := string(s)
			if s == run.NoState {
				name = "-"
			}
			got[name+" "+string(k)] = fmt.Sprint(targetsOf(s, k), by)
		}
	}
	if d := cmp.Diff(lines(normative), got); d != "" {
		t.Errorf("table differs (-normative +code):\n%s", d)
	}
	if n := len(run.States()); n != 19 {
		t.Errorf("%d states, want 19 (R-DOM-4)", n)
	}
	if n := len(run.Kinds()); n != 46 {
		t.Errorf("%d event kinds, want 46", n)
	}
}

// cases lists a run, and every reachable one, for each state, the empty run and a
// state that does not exist included.
func cases() map[run.State][]run.Run {
	out := map[run.State][]run.Run{"NO_SUCH_STATE": {{State: "NO_SUCH_STATE"}}}
	for s, rs := range reachable().byState {
		out[s] = rs
	}
	return out
}

// TestEveryPair: R-TRN-2, R-DOM-4. The full cross product of states and kinds:
// outside the table each pair is refused by an error that names both, whoever
// posts it and whatever it carries; inside it, some sample is accepted and leads
// where the table says, and a refusal is a typed one. Refused, nothing happened.
func TestEveryPair(t *testing.T) {
	t.Parallel()
	pairs, legal := 0, 0
	for s, rs := range cases() {
		for _, k := range run.Kinds() {
			pairs++
			if !run.Legal(s, k) {
				illegalPair(t, s, k, rs[0])
				continue
			}
			legal++
			if accepted := legalPair(t, s, k, rs); accepted == 0 && (s != run.PRCreated || k != run.KindCancelRequested) &&
				!unreachable(s, k, targetsOf(s, k)[0]) {
				t.Errorf("no sample of %s is accepted in %s", k, s)
			}
		}
	}
	if want := (len(run.States()) + 2) * len(run.Kinds()); pairs != want {
		t.Errorf("%d pairs walked, want %d: a state has no reachable run", pairs, want)
	}
	t.Logf("%d pairs, %d legal", pairs, legal)
}

func illegalPair(t *testing.T, s run.State, k run.Kind, r run.Run) {
	t.Helper()
	for _, by := range run.ActorKinds() {
		every(func(c chooser) {
			ev := event(r, payload(r, k, c), by)
			if r.Lease != nil {
				ev.Lease = &run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}
			}
			res, err := run.Reduce(r, ev)
			e, ok := err.(*run.IllegalError)
			if !ok || e.State != s || e.Kind != k || !strings.Contains(err.Error(), string(k)) || !strings.Contains(err.Error(), string(s)) {
				t.Errorf("%s by %s in %s: got %v, want an IllegalError that names both", k, by, s, err)
			}
			if !reflect.DeepEqual(res, run.Result{}) {
				t.Errorf("%s in %s was refused and gave %+v", k, s, res)
			}
		})
	}
}

func legalPair(t *testing.T, s run.State, k run.Kind, rs []run.Run) (accepted int) {
	t.Helper()
	for _, r := range rs {
		every(func(c chooser) {
			by := oneOf(c, actorsOf(s, k)...)
			res, err := run.Reduce(r, event(r, payload(r, k, c), by))
			switch {
			case err == nil:
				accepted++
				if !slices.Contains(targetsOf(s, k), res.Run.State) {
					t.Errorf("%s from %s reached %s", k, s, res.Run.State)
				}
			case !typed(err):
				t.Errorf("%s in %s: refusal without a type: %v", k, s, err)
			case !reflect.DeepEqual(res, run.Result{}):
				t.Errorf("%s in %s was refused and gave %+v", k, s, res)
			}
		})
	}
	return accepted
}

// typed reports whether the error is one of the package's own.
func typed(err error) bool {
	switch err.(type) {
	case *run.IllegalError, *run.ActorError, *run.StaleLeaseError, *run.LeaseHeldError, *run.EvidenceError, *run.GuardError, *run.GateError:
		return err.Error() != ""
	}
	return false
}

// TestEveryWrongActor: R-DOM-11. For each legal pair every actor but the listed
// ones is refused, with a lease or without.
func TestEveryWrongActor(t *testing.T) {
	t.Parallel()
	for s, rs := range reachable().byState {
		for _, k := range run.Kinds() {
			if !run.Legal(s, k) {
				continue
			}
			for _, by := range run.ActorKinds() {
				if slices.Contains(actorsOf(s, k), by) {
					continue
				}
				for _, r := range []run.Run{rs[0], rs[len(rs)-1]} {
					ev := event(r, payload(r, k, first{}), by)
					_, err := run.Reduce(r, ev)
					if e, ok := err.(*run.ActorError); !ok || e.State != s || e.Kind != k || e.Actor != by {
						t.Errorf("%s by %s in %s: got %v, want an ActorError", k, by, s, err)
					}
				}
			}
		}
	}
}

// TestEveryLeaseRule: R-TRN-5, D-5. For each legal pair and actor: a stale lease
// is always refused; the holder's events need the active one; what overrules a
// lease needs one to overrule; what needs a free run is refused while one is held.
func TestEveryLeaseRule(t *testing.T) {
	t.Parallel()
	checked := 0
	for s, rs := range reachable().byState {
		for _, k := range run.Kinds() {
			for _, by := range actorsOf(s, k) {
				for _, r := range rs {
					checked++
					leaseRule(t, r, k, by)
				}
			}
		}
	}
	t.Logf("%d runs and events", checked)
}

func leaseRule(t *testing.T, r run.Run, k run.Kind, by run.ActorKind) {
	t.Helper()
	ev := event(r, payload(r, k, first{}), by)
	try := func(ref *run.LeaseRef) error {
		ev.Lease = ref
		_, err := run.Reduce(r, ev)
		return err
	}
	stale := func(err error) bool { _, ok := err.(*run.StaleLeaseError); return ok }
	held := func(err error) bool { _, ok := err.(*run.LeaseHeldError); return ok }
	wrong := []*run.LeaseRef{{ID: uid("another lease"), Token: r.Token}, {ID: uuid.Nil, Token: 0}}
	if r.Lease != nil {
		wrong = append(wrong, &run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token - 1}, &run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token + 1})
	}
	for _, ref := range wrong {
		if err := try(ref); !stale(err) {
			t.Errorf("%s by %s in %s with a stale lease: %v", k, by, r.State, err)
		}
	}
	without := try(nil)
	switch rule := run.LeaseRuleOf(r.State, k, by); {
	case rule == run.LeaseHolder && r.Lease != nil && !held(without):
		t.Errorf("%s by %s in %s while another holds the lease: %v", k, by, r.State, without)
	case rule == run.LeaseHolder && r.Lease == nil && !stale(without):
		t.Errorf("%s by %s in %s without any lease: %v", k, by, r.State, without)
	case rule == run.LeaseOverruled && r.Lease == nil && !stale(without):
		t.Errorf("%s by %s in %s with no lease to overrule: %v", k, by, r.State, without)
	case rule == run.LeaseNone && r.Lease != nil && !held(without):
		t.Errorf("%s by %s in %s although a lease is active: %v", k, by, r.State, without)
	case (rule == run.LeaseAny || rule == run.LeaseOverruled && r.Lease != nil || rule == run.LeaseNone && r.Lease == nil) && (stale(without) || held(without)) &&
		k != run.KindLeaseAcquired:
		t.Errorf("%s by %s in %s was refused for its lease: %v", k, by, r.State, without)
	}
	if r.Lease != nil {
		if err := try(&run.LeaseRef{ID: r.Lease.ID, Token: r.Lease.Token}); stale(err) || held(err) && run.LeaseRuleOf(r.State, k, by) != run.LeaseNone {
			t.Errorf("%s by %s in %s with the right lease: %v", k, by, r.State, err)
		}
	}
}
