package run_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// walker takes random steps, mostly legal ones, and checks after each what must
// hold whatever happened.
type walker struct {
	run    run.Run
	log    []run.Event
	book   *ledger
	states map[run.State]bool
	kinds  map[run.Kind]bool
}

func newWalker() *walker {
	return &walker{book: newLedger(), states: map[run.State]bool{}, kinds: map[run.Kind]bool{}}
}

// step makes one step: an event that fits, a command with facts as they come, or
// noise. It returns what is broken.
func (w *walker) step(c chooser) error {
	if w.run.State == run.PRCreated {
		// Never at rest: the follow-up comes in the same transaction.
		return w.post(event(w.run, payload(w.run, oneOf(c, run.KindCompletionConditionMet, run.KindAttestationRequired), c), ""), true)
	}
	switch what := c.pick(8); {
	case what == 0:
		return w.noise(c)
	case what < 4 && w.run.Lease != nil:
		return w.command(c)
	}
	fits := slices.DeleteFunc(run.Kinds(), func(k run.Kind) bool { return !run.Legal(w.run.State, k) })
	if len(fits) == 0 {
		return w.noise(c)
	}
	k := oneOf(c, fits...)
	if ending(k) && c.pick(12) > 0 {
		// Ends are most of what fits; walks would be short.
		goesOn := slices.DeleteFunc(fits, ending)
		if len(goesOn) > 0 {
			k = oneOf(c, goesOn...)
		}
	}
	p := payload(w.run, k, c)
	return w.post(event(w.run, p, oneOf(c, actorsOf(w.run.State, k)...)), false)
}

// walk makes a whole life, and some steps after it that may not move it.
func (w *walker) walk(c chooser) error {
	for left := 150; left > 0; left-- {
		if w.run.State.Terminal() {
			left = min(left, 5)
		}
		if err := w.step(c); err != nil {
			return err
		}
	}
	return w.end()
}

func ending(k run.Kind) bool {
	return slices.Contains([]run.Kind{run.KindPolicyDenied, run.KindTimeout, run.KindRunTimeout, run.KindNonRetryableFailure, run.KindCancelRequested,
		run.KindRejected, run.KindBranchTouched, run.KindApprovalExpired, run.KindBudgetExceeded, run.KindAttemptFailed, run.KindWorkerLost, run.KindLeaseReleased}, k)
}

// noise posts anything from anybody with any lease.
func (w *walker) noise(c chooser) error {
	k := oneOf(c, run.Kinds()...)
	ev := event(w.run, payload(w.run, k, c), oneOf(c, run.ActorKinds()...))
	switch c.pick(3) {
	case 0:
		ev.Lease = nil
	case 1:
		ev.Lease = &run.LeaseRef{ID: uid("stale"), Token: w.run.Token - int64(c.pick(2))}
	}
	return w.post(ev, false)
}

// command decides with facts as they come. What Decide gives, Reduce must take.
func (w *walker) command(c chooser) error {
	cmd := someCommand(w.run, c)
	p, err := run.Decide(w.run, cmd, someFacts(w.run, cmd, c))
	if err != nil {
		if !typed(err) {
			return fmt.Errorf("%s in %s: refusal without a type: %w", cmd.Name(), w.run.State, err)
		}
		return nil
	}
	spec, ok := run.SpecOf(cmd.Name())
	if !ok {
		return fmt.Errorf("command %s has no row", cmd.Name())
	}
	ev := event(w.run, p, run.ActorFor(w.run.State, p.Kind(), spec.Actor))
	ev.Lease = &run.LeaseRef{ID: w.run.Lease.ID, Token: w.run.Lease.Token}
	if err := w.post(ev, true); err != nil {
		return fmt.Errorf("command %s: %w", cmd.Name(), err)
	}
	return nil
}

// post applies one event and checks everything. mustFit says that a refusal is a
// fault.
func (w *walker) post(ev run.Event, mustFit bool) error {
	if ev.By.Kind == "" {
		ev.By.Kind = run.ActorFor(w.run.State, ev.Kind(), "")
	}
	before := deepRun(w.run)
	res, err := run.Reduce(w.run, ev)
	if !reflect.DeepEqual(before, deepRun(w.run)) {
		return fmt.Errorf("%s in %s changed its argument", ev.Kind(), w.run.State)
	}
	if err != nil {
		switch {
		case mustFit:
			return fmt.Errorf("%s in %s was refused: %w", ev.Kind(), w.run.State, err)
		case !typed(err):
			return fmt.Errorf("%s in %s: refusal without a type: %w", ev.Kind(), w.run.State, err)
		case !reflect.DeepEqual(res, run.Result{}):
			return fmt.Errorf("%s in %s was refused and gave %+v", ev.Kind(), w.run.State, res)
		}
		return nil
	}
	if why := broken(w.run, ev, res); len(why) > 0 {
		return fmt.Errorf("%s in %s: %v", ev.Kind(), w.run.State, why)
	}
	if err := w.book.apply(w.run, res); err != nil {
		return fmt.Errorf("%s in %s: %w", ev.Kind(), w.run.State, err)
	}
	w.log, w.run = append(w.log, ev), res.Run
	w.states[w.run.State], w.kinds[ev.Kind()] = true, true
	for _, next := range res.Follow {
		if err := w.post(event(w.run, next, run.ActorFor(w.run.State, next.Kind(), run.ControlPlane)), true); err != nil {
			return err
		}
	}
	return nil
}

// deepRun follows the run's pointers, so that a change behind one shows.
func deepRun(r run.Run) []any {
	return []any{r, slices.Clone(r.Limits.Delays), deref(r.Lease), deref(r.Gate), deref(r.Dispatched), deref(r.Patch), deref(r.PR), deref(r.Failure), deref(r.Cancel)}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// end replays the log from its bytes: the same run comes out.
func (w *walker) end() error {
	var again []run.Event
	for i, ev := range w.log {
		if i > 0 && ev.Kind() == run.KindCreated {
			return fmt.Errorf("created twice")
		}
		b, err := run.Encode(ev)
		if err != nil {
			return err
		}
		back, err := run.Decode(run.Schema, b)
		if err != nil {
			return err
		}
		if twice, err := run.Encode(back); err != nil || string(twice) != string(b) {
			return fmt.Errorf("%s is written differently the second time: %s, %s, %v", ev.Kind(), b, twice, err)
		}
		again = append(again, back)
	}
	r, err := run.Replay(again)
	if err != nil {
		return err
	}
	if d := cmp.Diff(w.run, r); d != "" {
		return fmt.Errorf("replay differs: %s", d)
	}
	if r.Version != int64(len(w.log)) {
		return fmt.Errorf("%d events and version %d", len(w.log), r.Version)
	}
	return nil
}

// someCommand is a command that a worker in this state might post.
func someCommand(r run.Run, c chooser) run.Command {
	var all []run.Command
	ends := []run.Command{run.AttemptHasFailed{Code: oneOf(c, run.Codes()...).Code, Summary: "It says."}, run.Release{Reason: "drain"},
		run.Stopped{Why: oneOf(c, run.StopBudget, run.StopDrain, run.StopCancel)}, run.ConfirmCancel{}}
	switch r.State {
	case run.Leased:
		all = append(all, run.Start{}, run.Start{}, run.Start{})
	case run.Preparing:
		all = append(all, run.SandboxIsReady{Tier: "bwrap", Base: "c0ffee"}, run.SandboxIsReady{Tier: "process", Base: "c0ffee"})
	case run.ContextBuilding:
		all = append(all, run.ContextIsReady{Artifact: "art"}, run.ContextIsReady{Artifact: "art"})
	case run.Planning:
		all = append(all, run.PlanSubmitted{Artifact: "plan-a"}, run.PlanSubmitted{Artifact: "plan-b"})
	case run.Executing:
		all = append(all, run.PatchSubmitted{Artifact: "change-a", Base: "c0ffee"}, run.PatchSubmitted{Artifact: "change-b", Base: "c0ffee"},
			run.ReportSubmitted{Artifact: "art"}, run.NoChangeSubmitted{Summary: "Nothing."})
	case run.PatchReady:
		all = append(all, run.VerifyStarted{Digest: "commands"}, run.VerifyStarted{Digest: "commands"})
	case run.Verifying:
		all = append(all, run.VerifyReported{Artifact: "art"}, run.VerifyReported{Artifact: "art"}, run.VerifyReported{Artifact: "art"})
	case run.Judging:
		for _, v := range []string{run.VerdictPass, run.VerdictPass, run.VerdictFix, run.VerdictFail} {
			all = append(all, run.JudgeReported{Judge: run.JudgeEvidence{Artifact: "art", Verdict: v, Confidence: oneOf(c, 0.1, 0.9), Reasons: []string{"As judged."}}})
		}
	case run.PRCreating:
		all = append(all, run.PRReported{PR: pullRequest()}, run.BaseHasMoved{NewBase: "ba5e", Overlaps: []string{"a"}},
			run.BranchWasTouched{Branch: "b", SHA: "s"}, run.EffectIsAmbiguous{Operations: []string{"push"}, Summary: "Nobody knows."})
	}
	if len(all) == 0 || c.pick(6) == 0 {
		all = ends
	}
	return oneOf(c, all...)
}

// someFacts are what a server might know: consistent with the command, and
// otherwise as they come, also where the run knows better.
func someFacts(r run.Run, cmd run.Command, c chooser) run.Facts {
	often := func() bool { return c.pick(4) > 0 }
	f := run.Facts{Rules: policy.Default(), Minted: run.Minted{Gate: uid("gate", r.ID, r.Version), Now: t0, Draw: 0.25},
		Digest: fmt.Sprintf("revision-%d", r.Version), Spent: !often(), Released: c.pick(9)}
	f.Rules.AutoPR.Allowed = often()
	f.Rules.Budget.OnExceeded = oneOf(c, policy.OnGate, policy.OnFail)
	f.Policy = policy.Facts{AutoPRAsked: often(), AttestationAsked: !often(), SecretScan: oneOf(c, policy.ScanClean, policy.ScanClean, policy.ScanFindings),
		BudgetLeft: often(), SameFailureAgain: !often(), CarriedApprovals: c.pick(2), RepairRoundsLeft: c.pick(3), AttemptsLeft: c.pick(3),
		Mode: oneOf(c, policy.Modes()...), Risk: oneOf(c, policy.Risks()...), ApprovedPlanDigest: "plan-a", VerificationPassed: often()}
	if !often() {
		f.Unresolved = []string{"push_branch app"}
	}
	switch cmd := cmd.(type) {
	case run.ContextIsReady:
		f.Context = &run.PlanEvidence{Artifact: cmd.Artifact, Digest: "context"}
	case run.PlanSubmitted:
		f.Plan = &run.PlanEvidence{Artifact: cmd.Artifact, Digest: cmd.Artifact, Base: "c0ffee"}
		f.PlanFault = oneOf(c, "", "", run.CodePlanInvalid)
	case run.PatchSubmitted:
		f.Patch = &run.Patch{Artifact: cmd.Artifact, Digest: "bytes-" + cmd.Artifact, PatchID: cmd.Artifact, Base: cmd.Base, Files: c.pick(3)}
		f.PatchFault = oneOf(c, "", "", "", run.CodePatchInvalid, run.CodePatchTooLarge)
	case run.ReportSubmitted:
		f.Report = &run.PlanEvidence{Artifact: cmd.Artifact, Digest: "report"}
	case run.PRReported:
		f.PR = &cmd.PR
	case run.VerifyReported:
		f.Verification = &run.VerificationFacts{Passed: often(), Infrastructure: !often(), Unrepairable: !often(), Previous: oneOf(c, "", "x"),
			Evidence: run.VerificationEvidence{Artifact: cmd.Artifact, Digest: "report", Patch: r.Patch.Digest, Summary: "Failed.", Fingerprint: oneOf(c, "x", "y")}}
	}
	return f
}

// rapidChooser spreads what rapid draws, which prefers small numbers, so that no
// event is drawn more often than another.
type rapidChooser struct {
	t *rapid.T
	n uint64
}

func (r *rapidChooser) pick(n int) int {
	r.n++
	v := (rapid.Uint64().Draw(r.t, "pick") + r.n) * 0x9e3779b97f4a7c15
	return int((v ^ v>>29) >> 8 % uint64(n))
}

// TestRandomWalks: R-TRN-3, R-DOM-4, R-DOM-5, R-DOM-10, R-DOM-13, R-CAN-1,
// R-TRN-5. Any sequence of events keeps every invariant, and its log replays to
// the same run.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	states, kinds, steps := map[run.State]int{}, map[run.Kind]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := &rapidChooser{t: rt}
		for range 6 {
			w := newWalker()
			if err := w.walk(c); err != nil {
				rt.Fatalf("after %d events: %v", len(w.log), err)
			}
			for s := range w.states {
				states[s]++
			}
			for k := range w.kinds {
				kinds[k]++
			}
			steps += len(w.log)
		}
	})
	t.Logf("%d events; %d of %d states, %d of %d kinds", steps, len(states), len(run.States()), len(kinds), len(run.Kinds()))
	if len(states) < len(run.States())-2 {
		t.Errorf("the walks reached only %v", states)
	}
}

// FuzzReduce lets bytes choose the events.
func FuzzReduce(f *testing.F) {
	f.Add([]byte{})
	for n := range byte(20) {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(i)*(2*n+1) + n
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, c := newWalker(), &byteChooser{data: data}
		for steps := 0; steps < 300 && !c.spent(); steps++ {
			if w.run.State.Terminal() {
				steps = max(steps, 295)
			}
			if err := w.step(c); err != nil {
				t.Fatalf("after %d events: %v", len(w.log), err)
			}
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
	})
}

type byteChooser struct{ data []byte }

func (b *byteChooser) spent() bool { return len(b.data) == 0 }

func (b *byteChooser) pick(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	v := int(b.data[0])
	b.data = b.data[1:]
	return v % n
}

// FuzzDecode: any bytes are either refused or give an event that is written the
// same way again.
func FuzzDecode(f *testing.F) {
	for _, k := range run.Kinds() {
		r := run.Run{State: run.Created, Version: 1}
		b, err := run.Encode(event(r, payload(r, k, first{}), run.ControlPlane))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := run.Decode(run.Schema, data)
		if err != nil {
			return
		}
		once, err := run.Encode(ev)
		if err != nil {
			t.Skip("an instant that JSON cannot hold")
		}
		back, err := run.Decode(run.Schema, once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		twice, err := run.Encode(back)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s, then %s: %v", once, twice, err)
		}
		_, _ = run.Reduce(run.Run{State: run.Executing, Lease: &run.Lease{ID: uid("l"), Token: 1}}, ev)
	})
}
