package run_test

import (
	"fmt"
	"slices"
	"testing"

	"signalbox/internal/run"
)

// taskTable is the task's table, written down by hand a second time.
var taskTable = map[run.TaskKind]struct {
	from []run.TaskState
	by   []run.ActorKind
}{
	run.TaskEvDrafted:           {[]run.TaskState{run.NoTask}, []run.ActorKind{run.Human, run.ControlPlane}},
	run.TaskEvSubmitted:         {[]run.TaskState{run.NoTask, run.TaskDraft}, []run.ActorKind{run.Human, run.ControlPlane}},
	run.TaskEvValidationStarted: {[]run.TaskState{run.TaskSubmitted}, []run.ActorKind{run.ControlPlane}},
	run.TaskEvAccepted:          {[]run.TaskState{run.TaskValidating}, []run.ActorKind{run.Policy}},
	run.TaskEvRefused:           {[]run.TaskState{run.TaskValidating}, []run.ActorKind{run.Policy}},
	run.TaskEvRunCreated:        {[]run.TaskState{run.TaskReady, run.TaskRunning}, []run.ActorKind{run.ControlPlane, run.Human, run.GitIntegration}},
	run.TaskEvRunWaits:          {[]run.TaskState{run.TaskRunning, run.TaskWaiting}, []run.ActorKind{run.ControlPlane}},
	run.TaskEvRunGoesOn:         {[]run.TaskState{run.TaskRunning, run.TaskWaiting}, []run.ActorKind{run.ControlPlane}},
	run.TaskEvRunEnded:          {[]run.TaskState{run.TaskRunning, run.TaskWaiting}, []run.ActorKind{run.ControlPlane}},
	run.TaskEvMerged:            {[]run.TaskState{run.TaskRunning}, []run.ActorKind{run.GitIntegration}},
	run.TaskEvPRClosed:          {[]run.TaskState{run.TaskRunning}, []run.ActorKind{run.GitIntegration}},
	run.TaskEvMergeWaitOver:     {[]run.TaskState{run.TaskRunning}, []run.ActorKind{run.Scheduler}},
	run.TaskEvClosed:            {[]run.TaskState{run.TaskReady}, []run.ActorKind{run.Human}},
	run.TaskEvIdle:              {[]run.TaskState{run.TaskReady}, []run.ActorKind{run.Scheduler}},
	run.TaskEvCancelRequested: {[]run.TaskState{run.TaskDraft, run.TaskSubmitted, run.TaskValidating, run.TaskReady, run.TaskRunning, run.TaskWaiting},
		[]run.ActorKind{run.Human, run.ControlPlane}},
}

// TestTaskEveryPair: R-DOM-2. Ten states, the last four terminal; every pair of
// state and event, by every actor, under every combination of facts: outside the
// table refused, inside it leading where the table says; refused, nothing changed.
func TestTaskEveryPair(t *testing.T) {
	t.Parallel()
	if n := len(run.TaskStates()); n != 10 {
		t.Errorf("%d task states, want 10", n)
	}
	kinds := map[run.TaskKind]bool{}
	to := map[run.TaskKind][]run.TaskState{}
	for _, row := range run.TaskTransitions() {
		kinds[row.Event] = true
		to[row.Event] = append(to[row.Event], row.To...)
	}
	if len(kinds) != len(taskTable) {
		t.Errorf("%d task events, want %d", len(kinds), len(taskTable))
	}
	ends := []*run.Run{nil, {State: run.Executing}}
	for _, s := range []run.State{run.Succeeded, run.Failed, run.Cancelled, run.Expired} {
		ends = append(ends, new(standing(t, s).run))
	}
	accepted := map[string]bool{}
	for _, s := range append(run.TaskStates(), run.NoTask) {
		for k := range kinds {
			for _, by := range run.ActorKinds() {
				every(func(c chooser) {
					b := func() bool { return c.pick(2) == 1 }
					task := run.Task{State: s, Mode: oneOf(c, run.ModePRCreated, run.ModePRMerged), MaxRuns: 2, RunsUsed: c.pick(3), Active: b(),
						CancelRequested: b(), AwaitsMerge: b(), Auto: b()}
					ev := run.TaskEvent{Kind: k, By: run.Actor{Kind: by}, Reason: "r"}
					if k == run.TaskEvRunEnded {
						ev.Run = oneOf(c, ends...)
					}
					next, err := run.ReduceTask(task, ev)
					known := slices.Contains(taskTable[k].from, s) && slices.Contains(taskTable[k].by, by)
					switch {
					case err == nil && (!known || !slices.Contains(to[k], next.State)):
						t.Errorf("%s by %s took %q to %q", k, by, s, next.State)
					case err != nil && next != task:
						t.Errorf("%s by %s in %q was refused and changed the task", k, by, s)
					case err != nil:
						if e, ok := err.(*run.TaskError); !ok || e.State != s || e.Kind != k || err.Error() == "" {
							t.Errorf("%s by %s in %q: %v", k, by, s, err)
						}
					default:
						accepted[fmt.Sprint(s, " ", k)] = true
						taskInvariants(t, task, next, ev)
					}
				})
			}
		}
	}
	for k, row := range taskTable {
		for _, s := range row.from {
			if !accepted[fmt.Sprint(s, " ", k)] {
				t.Errorf("%s is never accepted in %q", k, s)
			}
		}
	}
}

func taskInvariants(t *testing.T, before, after run.Task, ev run.TaskEvent) {
	t.Helper()
	switch {
	case before.State.Terminal():
		t.Errorf("%s moved a task that is %s", ev.Kind, before.State)
	case after.State.Terminal() && (after.Active || after.AwaitsMerge) && ev.Kind == run.TaskEvRunEnded:
		t.Errorf("%s left a terminal task active: %+v", ev.Kind, after)
	case before.CancelRequested && after.RunsUsed > before.RunsUsed:
		t.Error("a run began after the cancel")
	case after.RunsUsed > max(after.MaxRuns, before.RunsUsed):
		t.Error("more runs than allowed")
	case after.CancelRequested && !before.CancelRequested && ev.Kind != run.TaskEvCancelRequested:
		t.Error("cancelled by itself")
	}
}

// taskFlow drives one task.
type taskFlow struct {
	t    *testing.T
	task run.Task
}

func (f *taskFlow) do(k run.TaskKind, by run.ActorKind, r *run.Run, want run.TaskState) *taskFlow {
	f.t.Helper()
	next, err := run.ReduceTask(f.task, run.TaskEvent{Kind: k, By: run.Actor{Kind: by}, Run: r})
	if err != nil {
		f.t.Fatal(err)
	}
	if next.State != want {
		f.t.Fatalf("%s led to %s, want %s", k, next.State, want)
	}
	f.task = next
	return f
}

func (f *taskFlow) refuses(k run.TaskKind, by run.ActorKind) {
	f.t.Helper()
	if next, err := run.ReduceTask(f.task, run.TaskEvent{Kind: k, By: run.Actor{Kind: by}}); err == nil {
		f.t.Errorf("%s by %s was accepted in %s and led to %s", k, by, f.task.State, next.State)
	}
}

func readyTask(t *testing.T, mode run.Mode) *taskFlow {
	f := &taskFlow{t, run.Task{Mode: mode, MaxRuns: 3}}
	return f.do(run.TaskEvDrafted, run.Human, nil, run.TaskDraft).do(run.TaskEvSubmitted, run.Human, nil, run.TaskSubmitted).
		do(run.TaskEvValidationStarted, run.ControlPlane, nil, run.TaskValidating).do(run.TaskEvAccepted, run.Policy, nil, run.TaskReady)
}

func runningTask(t *testing.T, mode run.Mode) *taskFlow {
	return readyTask(t, mode).do(run.TaskEvRunCreated, run.ControlPlane, nil, run.TaskRunning)
}

// TestTaskCompletesByItsMode: R-DOM-3. The contract's mode decides what completes
// a task, and not one state of a run.
func TestTaskCompletesByItsMode(t *testing.T) {
	t.Parallel()
	pr := new(standing(t, run.Succeeded).run)
	report := newFlow(t, run.ModeAnalysis, "LOW").admit().prepare().plan("p").command(run.ReportSubmitted{Artifact: "a"}).claim().judge(run.VerdictPass, 1).in(run.Succeeded).run
	nothing := newFlow(t, run.ModePRMerged, "LOW").admit().prepare().plan("p").command(run.NoChangeSubmitted{Summary: "s"}).claim().judge(run.VerdictPass, 1).in(run.Succeeded).run
	ended := func(mode run.Mode, r *run.Run, want run.TaskState) *taskFlow {
		return runningTask(t, mode).do(run.TaskEvRunWaits, run.ControlPlane, nil, run.TaskWaiting).do(run.TaskEvRunGoesOn, run.ControlPlane, nil, run.TaskRunning).
			do(run.TaskEvRunEnded, run.ControlPlane, r, want)
	}
	ended(run.ModePRCreated, pr, run.TaskCompleted)
	ended(run.ModeAnalysis, &report, run.TaskCompleted)
	ended(run.ModePRMerged, &nothing, run.TaskCompleted)
	for k, c := range map[run.TaskKind]struct {
		by   run.ActorKind
		want run.TaskState
	}{run.TaskEvMerged: {run.GitIntegration, run.TaskCompleted}, run.TaskEvPRClosed: {run.GitIntegration, run.TaskReady}, run.TaskEvMergeWaitOver: {run.Scheduler, run.TaskFailed}} {
		f := ended(run.ModePRMerged, pr, run.TaskRunning)
		if !f.task.AwaitsMerge || f.task.Active {
			t.Errorf("%+v", f.task)
		}
		f.do(k, c.by, nil, c.want)
	}
	for _, k := range []run.TaskKind{run.TaskEvMerged, run.TaskEvPRClosed, run.TaskEvMergeWaitOver} {
		runningTask(t, run.ModePRMerged).refuses(k, run.GitIntegration)
		runningTask(t, run.ModePRMerged).refuses(k, run.Scheduler)
	}
	// Feedback from the pull request makes the next run, by the git integration.
	f := ended(run.ModePRMerged, pr, run.TaskRunning)
	f.refuses(run.TaskEvRunCreated, run.ControlPlane)
	f.do(run.TaskEvRunCreated, run.GitIntegration, nil, run.TaskRunning)
	f.refuses(run.TaskEvRunCreated, run.GitIntegration)
}

// TestTaskRunsAgain: R-DOM-2, R-FAIL-2. A failed run leaves the task READY while
// runs are left: by itself only where the code says so, else when a person asks.
func TestTaskRunsAgain(t *testing.T) {
	t.Parallel()
	lost := working(t, run.Executing)
	lost.facts.Spent = true
	lost.lose().in(run.Failed)
	cancelled := standing(t, run.Cancelled).run
	unknown := working(t, run.Executing).command(run.AttemptHasFailed{Code: "STRANGE", Summary: "s"}).in(run.Failed).run

	f := runningTask(t, run.ModePRCreated).do(run.TaskEvRunEnded, run.ControlPlane, &lost.run, run.TaskReady)
	if !f.task.Auto || f.task.Reason != string(run.CodeWorkerLost) {
		t.Errorf("%+v", f.task)
	}
	f.do(run.TaskEvRunCreated, run.ControlPlane, nil, run.TaskRunning).do(run.TaskEvRunEnded, run.ControlPlane, &unknown, run.TaskReady)
	if f.task.Auto || f.task.Reason != string(run.CodeUnknown) {
		t.Errorf("%+v", f.task)
	}
	f.refuses(run.TaskEvRunCreated, run.ControlPlane)
	f.do(run.TaskEvRunCreated, run.Human, nil, run.TaskRunning).do(run.TaskEvRunEnded, run.ControlPlane, &cancelled, run.TaskFailed)
	f.refuses(run.TaskEvRunCreated, run.Human)

	g := runningTask(t, run.ModePRCreated).do(run.TaskEvRunEnded, run.ControlPlane, &cancelled, run.TaskReady)
	if g.task.Auto || g.task.Reason != string(run.CodeCancelledByUser) {
		t.Errorf("%+v", g.task)
	}
	h := *g
	g.do(run.TaskEvClosed, run.Human, nil, run.TaskFailed)
	h.do(run.TaskEvIdle, run.Scheduler, nil, run.TaskFailed)
}

// TestTaskCancel: R-CAN-1. Stored at once, starts no run, and ends the task with
// its active run; a run that succeeded all the same completes it.
func TestTaskCancel(t *testing.T) {
	t.Parallel()
	readyTask(t, run.ModePRCreated).do(run.TaskEvCancelRequested, run.Human, nil, run.TaskCancelled)
	cancelled, good := standing(t, run.Cancelled).run, standing(t, run.Succeeded).run
	for want, r := range map[run.TaskState]*run.Run{run.TaskCancelled: &cancelled, run.TaskCompleted: &good} {
		f := runningTask(t, run.ModePRCreated).do(run.TaskEvCancelRequested, run.Human, nil, run.TaskRunning)
		f.refuses(run.TaskEvRunCreated, run.Human)
		f.refuses(run.TaskEvRunCreated, run.GitIntegration)
		f.do(run.TaskEvRunEnded, run.ControlPlane, r, want)
	}
	// The pull request alone is not what mode pr_merged asks for.
	runningTask(t, run.ModePRMerged).do(run.TaskEvCancelRequested, run.Human, nil, run.TaskRunning).do(run.TaskEvRunEnded, run.ControlPlane, &good, run.TaskCancelled)
	f := runningTask(t, run.ModePRMerged).do(run.TaskEvRunEnded, run.ControlPlane, &good, run.TaskRunning).do(run.TaskEvCancelRequested, run.Human, nil, run.TaskCancelled)
	if f.task.AwaitsMerge {
		t.Error("a cancelled task waits for a merge")
	}
	f.refuses(run.TaskEvMerged, run.GitIntegration)
}
