package run_test

import (
	"errors"
	"testing"

	"signalbox/internal/run"
)

// R-JUDGE-1, R-TRN-2: a result is refused in every state but the one that waits for it, whatever it says.
func TestResultsOnlyWhereExpected(t *testing.T) {
	t.Parallel()
	for want, commands := range map[run.State][]run.Command{
		run.Leased: {run.Start{}}, run.Preparing: {run.SandboxIsReady{}}, run.ContextBuilding: {run.ContextIsReady{}}, run.Planning: {run.PlanSubmitted{}},
		run.Executing: {run.PatchSubmitted{}, run.ReportSubmitted{}, run.NoChangeSubmitted{}}, run.PatchReady: {run.VerifyStarted{}}, run.Verifying: {run.VerifyReported{}},
		run.Judging: {run.JudgeReported{}}, run.PRCreating: {run.PRReported{}, run.BaseHasMoved{}, run.BranchWasTouched{}, run.EffectIsAmbiguous{}},
	} {
		for _, c := range commands {
			for _, s := range run.States() {
				if s == want {
					continue
				}
				got, err := run.Decide(run.Run{State: s}, c, run.Facts{PatchFault: run.CodePatchInvalid, PlanFault: run.CodePlanInvalid})
				if _, ok := errors.AsType[*run.IllegalError](err); !ok {
					t.Errorf("%s in %s: %#v, %v", c.Name(), s, got, err)
				}
			}
		}
	}
}
