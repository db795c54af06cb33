package db_test

import (
	"testing"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-FAIL-9: an agent that fails in the same way twice in a row is not started a third time, and the control plane makes
// no further run of the task; a failure of another kind between them, or of the machine, is no repeat.
func TestRepeatedFailureEndsTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codes []run.Code
		ends  run.State
	}{
		"twice the same":             {[]run.Code{run.CodeEmptyPatch, run.CodeEmptyPatch}, run.Failed},
		"another one between":        {[]run.Code{run.CodeEmptyPatch, run.CodeAgentExit, run.CodeEmptyPatch}, run.Queued},
		"the machine's, three times": {[]run.Code{run.CodeDiskFull, run.CodeDiskFull, run.CodeDiskFull}, run.Queued},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drive.Options{Policy: "schema: 1\nversion: patient\nlimits: {max_attempts: 9}\n"})
			at := w.at(t, run.Executing)
			for i, code := range c.codes {
				if i > 0 {
					must(t, w.Due(t.Context(), at.Ref))
					l := got(w.ClaimRun(t.Context(), w.Workers[0], at.Ref))(t)
					must(t, l.Prepare(t.Context()))
					at.Lease = l
				}
				got(at.Lease.Do(t.Context(), run.AttemptHasFailed{Code: code, Summary: "It broke."}))(t)
			}
			info := w.info(t, at.Ref)
			if info.State != c.ends {
				t.Fatalf("after %v the run is %s", c.codes, info.State)
			}
			if c.ends == run.Failed {
				if info.Failure.Retryable || info.Failure.Code != c.codes[0] {
					t.Errorf("failure %+v", info.Failure)
				}
				task := got(w.Store.Task(t.Context(), w.Tenant, at.Task.Task))(t)
				if due := got(w.Store.TasksToRun(t.Context(), uuid.Nil, 10))(t); task.State != run.TaskReady || len(due) != 0 {
					t.Errorf("the task is %s and %d tasks run by themselves", task.State, len(due))
				}
			}
			w.replays(t)
		})
	}
}
