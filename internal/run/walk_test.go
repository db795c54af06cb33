package run_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// The steps of a flow speak as a worker, a person or a clock would: commands go
// through Decide with facts that a server would hold.

// command decides and applies what a lease holder posts.
func (f *flow) command(c run.Command) *flow {
	f.t.Helper()
	p, err := run.Decide(f.run, c, f.known(c))
	if err != nil {
		f.t.Fatalf("%s in %s: %v", c.Name(), f.run.State, err)
	}
	spec, ok := run.SpecOf(c.Name())
	if !ok || !slices.Contains(spec.Phases, f.run.Lease.Phase) {
		f.t.Fatalf("%s does not belong to phase %s", c.Name(), f.run.Lease.Phase)
	}
	ev := event(f.run, p, run.ActorFor(f.run.State, p.Kind(), spec.Actor))
	ev.Lease = &run.LeaseRef{ID: f.run.Lease.ID, Token: f.run.Lease.Token}
	ev.Cause = &run.Cause{Command: c.Name(), Lease: new(f.run.Lease.ID)}
	return f.postEvent(ev)
}

// known are the facts for a command: what the test set, and sensible answers for
// what the command names.
func (f *flow) known(c run.Command) run.Facts {
	k := f.facts
	k.Rules = f.rules
	k.Minted = run.Minted{Gate: uid("gate", f.run.ID, f.run.Version), Now: t0.Add(time.Duration(f.run.Version) * time.Minute), Draw: 0.5}
	k.Digest = fmt.Sprintf("revision-%d", f.run.Version)
	switch c := c.(type) {
	case run.ContextIsReady:
		k.Context = &run.PlanEvidence{Artifact: c.Artifact, Digest: "context", Base: "c0ffee"}
	case run.PlanSubmitted:
		k.Plan = &run.PlanEvidence{Artifact: c.Artifact, Digest: c.Artifact, Base: "c0ffee"}
	case run.PatchSubmitted:
		if k.Patch == nil {
			k.Patch = &run.Patch{Artifact: c.Artifact, Digest: "bytes-" + c.Artifact, PatchID: c.Artifact, Base: c.Base, Tree: c.Tree, Files: 2, Added: 9, Removed: 1}
		}
	case run.ReportSubmitted:
		k.Report = &run.PlanEvidence{Artifact: c.Artifact, Digest: "report", Base: "c0ffee"}
	case run.PRReported:
		k.PR = &c.PR
	case run.VerifyReported:
		if k.Verification == nil {
			k.Verification = &run.VerificationFacts{}
		}
		v := *k.Verification
		v.Evidence.Artifact, v.Evidence.Digest = c.Artifact, fmt.Sprintf("verification-%d", f.run.Version)
		if f.run.Patch != nil {
			v.Evidence.Patch = f.run.Patch.Digest
		}
		k.Verification = &v
	}
	return k
}

func (f *flow) admit() *flow {
	f.t.Helper()
	facts := f.facts.Policy
	facts.Risk, facts.Mode = policy.Risk(f.run.Risk), policy.Mode(f.run.Mode)
	d := policy.Admission(f.rules, facts)
	if d.Verdict != policy.Admit {
		f.t.Fatalf("not admitted: %v", d.Reasons)
	}
	return f.post(run.EnqueuedEvent{PolicyVersion: d.PolicyVersion, Reasons: d.Reasons, Limits: run.LimitsOf(d.Limits, f.rules)}).in(run.Queued)
}

// prepare claims and goes to PLANNING.
func (f *flow) prepare() *flow {
	f.t.Helper()
	return f.claim().in(run.Leased).command(run.Start{}).in(run.Preparing).
		command(run.SandboxIsReady{Tier: "bwrap", Base: "c0ffee"}).in(run.ContextBuilding).
		command(run.ContextIsReady{Artifact: "art-context"}).in(run.Planning)
}

func (f *flow) plan(name string) *flow {
	f.t.Helper()
	return f.command(run.PlanSubmitted{Artifact: name})
}

func (f *flow) patch(name string) *flow {
	f.t.Helper()
	return f.command(run.PatchSubmitted{Artifact: name, Base: "c0ffee", Tree: "7ree"})
}

// patched is the way to PATCH_READY where nobody is asked about the plan.
func (f *flow) patched() *flow {
	f.t.Helper()
	return f.admit().prepare().plan("plan-a").in(run.Executing).patch("change-a").in(run.PatchReady)
}

// verify claims, runs the checks and reports.
func (f *flow) verify(passed bool, fingerprint string) *flow {
	f.t.Helper()
	f.claim()
	if f.run.State == run.PatchReady {
		f.command(run.VerifyStarted{Commands: []string{"make test"}, Digest: "commands"}).in(run.Verifying)
	}
	was := f.facts.Verification
	f.facts.Verification = &run.VerificationFacts{Passed: passed, Evidence: run.VerificationEvidence{Summary: "One test failed.", Fingerprint: fingerprint}}
	if was != nil {
		f.facts.Verification.Previous = was.Evidence.Fingerprint
	}
	return f.command(run.VerifyReported{Artifact: "art-verification"})
}

func (f *flow) judge(verdict string, confidence float64) *flow {
	f.t.Helper()
	return f.command(run.JudgeReported{Judge: run.JudgeEvidence{Artifact: "art-judge", Verdict: verdict, Confidence: confidence, Reasons: []string{"As judged."}}})
}

// judged is the way to the judge's pass.
func (f *flow) judged() *flow {
	f.t.Helper()
	return f.patched().verify(true, "").in(run.Judging).judge(run.VerdictPass, 0.9)
}

func (f *flow) publish() *flow {
	f.t.Helper()
	return f.claim().command(run.PRReported{PR: pullRequest()})
}

func (f *flow) approve() *flow {
	f.t.Helper()
	a := run.Approval{Gate: gateRef(f.run), Policy: run.PolicyWords{Version: f.rules.Version}, Deciders: []run.Actor{{Kind: run.Human, ID: "u-ben"}}}
	if f.run.Gate.Kind == run.GateBudget {
		raised := f.run.Limits
		raised.CostCents *= 2
		a.Limits = &raised
	}
	facts := f.facts.Policy
	if attest, why := policy.Attest(f.rules, facts); attest {
		a.Attest, a.AttestExpiresAt, a.Policy.Reasons = true, t0.Add(7*24*time.Hour), []string{why}
	}
	return f.post(run.ApprovedEvent{Approval: a})
}

func (f *flow) gateOf(kind run.GateKind) *flow {
	f.t.Helper()
	f.in(run.WaitingForApproval)
	if f.run.Gate.Kind != kind {
		f.t.Fatalf("gate is %s, want %s", f.run.Gate.Kind, kind)
	}
	return f
}

// lose lets the active lease expire.
func (f *flow) lose() *flow {
	f.t.Helper()
	p, err := run.DecideLost(f.run, f.known(nil))
	if err != nil {
		f.t.Fatalf("lose in %s: %v", f.run.State, err)
	}
	return f.postAs(run.Scheduler, p)
}

// ended holds that the run ended so and that its log, written and read again,
// gives the same run (R-TRN-3); the log is kept as a sample for ever.
func (f *flow) ended(s run.State, code run.Code) *flow {
	f.t.Helper()
	f.in(s)
	if got := f.run.EndCode(); got != code {
		f.t.Errorf("ended with code %q, want %q", got, code)
	}
	f.replays()
	sample(f)
	return f
}

func (f *flow) replays() {
	f.t.Helper()
	var again []run.Event
	for _, ev := range f.log {
		b, err := run.Encode(ev)
		if err != nil {
			f.t.Fatal(err)
		}
		back, err := run.Decode(run.Schema, b)
		if err != nil {
			f.t.Fatalf("%s: %v", b, err)
		}
		again = append(again, back)
	}
	r, err := run.Replay(again)
	if err != nil {
		f.t.Fatal(err)
	}
	if d := cmp.Diff(f.run, r); d != "" {
		f.t.Errorf("replay differs (-live +replayed):\n%s", d)
	}
}

// passed compares the states that the run went through.
func (f *flow) passed(want ...run.State) {
	f.t.Helper()
	if d := cmp.Diff(want, f.seen); d != "" {
		f.t.Errorf("states passed (-want +got):\n%s", d)
	}
}

// fork copies the flow, so that one situation is left in several ways.
func (f *flow) fork(t testing.TB) *flow {
	c := *f
	c.t, c.log, c.seen, c.book = t, slices.Clone(f.log), slices.Clone(f.seen), f.book.clone()
	return &c
}
