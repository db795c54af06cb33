package run

import "slices"

// TaskState is where a request for work stands.
type TaskState string

// Task states (R-DOM-2); the last four are terminal.
const (
	TaskDraft      TaskState = "DRAFT"
	TaskSubmitted  TaskState = "SUBMITTED"
	TaskValidating TaskState = "VALIDATING"
	TaskReady      TaskState = "READY"
	TaskRunning    TaskState = "RUNNING"
	TaskWaiting    TaskState = "WAITING_FOR_APPROVAL"
	TaskCompleted  TaskState = "COMPLETED"
	TaskFailed     TaskState = "FAILED"
	TaskRejected   TaskState = "REJECTED"
	TaskCancelled  TaskState = "CANCELLED"
)

// TaskStates lists every task state.
func TaskStates() []TaskState {
	return []TaskState{TaskDraft, TaskSubmitted, TaskValidating, TaskReady, TaskRunning, TaskWaiting,
		TaskCompleted, TaskFailed, TaskRejected, TaskCancelled}
}

// Terminal reports whether the task is over; feedback on it makes a new task.
func (s TaskState) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskRejected || s == TaskCancelled
}

// Task is what the task's reducer owns.
type Task struct {
	State   TaskState
	Mode    Mode
	MaxRuns int
	// RunsUsed counts the runs that were made.
	RunsUsed int
	// Active says that a run is not terminal.
	Active bool
	// CancelRequested starts no new run and ends the task with its active run.
	CancelRequested bool
	// AwaitsMerge says that a pull request decides (mode pr_merged).
	AwaitsMerge bool
	// Auto says that the control plane may make the next run by itself.
	Auto bool
	// Reason is why a READY or terminal task is there: a reason code or a word.
	Reason string
}

// TaskKind names a task event.
type TaskKind string

// Task events.
const (
	TaskEvDrafted           TaskKind = "task_drafted"
	TaskEvSubmitted         TaskKind = "task_submitted"
	TaskEvValidationStarted TaskKind = "validation_started"
	TaskEvAccepted          TaskKind = "task_accepted"
	TaskEvRefused           TaskKind = "task_refused"
	TaskEvRunCreated        TaskKind = "run_created"
	TaskEvRunWaits          TaskKind = "run_waits"
	TaskEvRunGoesOn         TaskKind = "run_goes_on"
	TaskEvRunEnded          TaskKind = "run_ended"
	TaskEvMerged            TaskKind = "pull_request_merged"
	TaskEvPRClosed          TaskKind = "pull_request_closed"
	TaskEvMergeWaitOver     TaskKind = "merge_wait_over"
	TaskEvClosed            TaskKind = "task_closed"
	TaskEvIdle              TaskKind = "task_idle"
	TaskEvCancelRequested   TaskKind = "task_cancel_requested"
)

// TaskEvent is what happened to a task.
type TaskEvent struct {
	Kind   TaskKind
	By     Actor
	Reason string
	// Run is the run that ended, for run_ended.
	Run *Run
}

// TaskTransition is one row of the task's table.
type TaskTransition struct {
	From  []TaskState
	Event TaskKind
	To    []TaskState
	By    []ActorKind
}

// NoTask is the source of a task that does not exist yet.
const NoTask TaskState = ""

// TaskTransitions is the task's normative table.
func TaskTransitions() []TaskTransition {
	busy := []TaskState{TaskRunning, TaskWaiting}
	open := slices.DeleteFunc(TaskStates(), TaskState.Terminal)
	cp, human := []ActorKind{ControlPlane}, []ActorKind{Human, ControlPlane}
	return []TaskTransition{
		{[]TaskState{NoTask}, TaskEvDrafted, []TaskState{TaskDraft}, human},
		{[]TaskState{NoTask, TaskDraft}, TaskEvSubmitted, []TaskState{TaskSubmitted}, human},
		{[]TaskState{TaskSubmitted}, TaskEvValidationStarted, []TaskState{TaskValidating}, cp},
		{[]TaskState{TaskValidating}, TaskEvAccepted, []TaskState{TaskReady}, []ActorKind{Policy}},
		{[]TaskState{TaskValidating}, TaskEvRefused, []TaskState{TaskRejected}, []ActorKind{Policy}},
		{[]TaskState{TaskReady}, TaskEvRunCreated, []TaskState{TaskRunning}, []ActorKind{ControlPlane, Human}},
		{[]TaskState{TaskRunning}, TaskEvRunCreated, []TaskState{TaskRunning}, []ActorKind{GitIntegration}},
		{busy, TaskEvRunWaits, []TaskState{TaskWaiting}, cp},
		{busy, TaskEvRunGoesOn, []TaskState{TaskRunning}, cp},
		{busy, TaskEvRunEnded, []TaskState{TaskCompleted, TaskRunning, TaskReady, TaskFailed, TaskCancelled}, cp},
		{[]TaskState{TaskRunning}, TaskEvMerged, []TaskState{TaskCompleted}, []ActorKind{GitIntegration}},
		{[]TaskState{TaskRunning}, TaskEvPRClosed, []TaskState{TaskReady, TaskFailed, TaskCancelled}, []ActorKind{GitIntegration}},
		{[]TaskState{TaskRunning}, TaskEvMergeWaitOver, []TaskState{TaskFailed}, []ActorKind{Scheduler}},
		{[]TaskState{TaskReady}, TaskEvClosed, []TaskState{TaskFailed}, []ActorKind{Human}},
		{[]TaskState{TaskReady}, TaskEvIdle, []TaskState{TaskFailed}, []ActorKind{Scheduler}},
		{open, TaskEvCancelRequested, append(slices.Clone(open), TaskCancelled), []ActorKind{Human, ControlPlane}},
	}
}

// TaskError says that a task's table has no such event in that state.
type TaskError struct {
	State TaskState
	Kind  TaskKind
	Why   string
}

func (e *TaskError) Error() string {
	s := "task event " + string(e.Kind) + " is not legal in state " + string(e.State)
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

// ReduceTask applies one event to a task: pure and total, as Reduce is. Refused,
// it returns the task as it was.
func ReduceTask(t Task, ev TaskEvent) (Task, error) {
	if !taskLegal(t.State, ev) {
		return t, &TaskError{State: t.State, Kind: ev.Kind}
	}
	next, err := reduceTask(t, ev)
	if err != nil {
		return t, err
	}
	return next, nil
}

func reduceTask(t Task, ev TaskEvent) (Task, error) {
	if ev.Reason != "" {
		t.Reason = ev.Reason
	}
	switch ev.Kind {
	case TaskEvDrafted:
		t.State = TaskDraft
	case TaskEvSubmitted:
		t.State = TaskSubmitted
	case TaskEvValidationStarted:
		t.State = TaskValidating
	case TaskEvAccepted:
		t.State, t.Auto = TaskReady, true
	case TaskEvRefused:
		t.State = TaskRejected
	case TaskEvRunCreated:
		return taskRun(t, ev)
	case TaskEvRunWaits, TaskEvRunGoesOn:
		if !t.Active {
			return t, &TaskError{t.State, ev.Kind, "no run is active"}
		}
		t.State = TaskRunning
		if ev.Kind == TaskEvRunWaits {
			t.State = TaskWaiting
		}
	case TaskEvRunEnded:
		return taskRunEnded(t, ev)
	case TaskEvMerged, TaskEvPRClosed, TaskEvMergeWaitOver:
		if !t.AwaitsMerge {
			return t, &TaskError{t.State, ev.Kind, "the task does not wait for a merge"}
		}
		t.AwaitsMerge = false
		switch ev.Kind {
		case TaskEvMerged:
			t.State = TaskCompleted
		case TaskEvPRClosed:
			t = taskAfterFailure(t, false)
		default:
			t.State = TaskFailed
		}
	case TaskEvClosed, TaskEvIdle:
		t.State = TaskFailed
	case TaskEvCancelRequested:
		t.CancelRequested, t.Auto = true, false
		if !t.Active {
			t.State, t.AwaitsMerge = TaskCancelled, false
		}
	}
	return t, nil
}

func taskLegal(s TaskState, ev TaskEvent) bool {
	return slices.ContainsFunc(TaskTransitions(), func(r TaskTransition) bool {
		return r.Event == ev.Kind && slices.Contains(r.From, s) && slices.Contains(r.By, ev.By.Kind)
	})
}

func taskRun(t Task, ev TaskEvent) (Task, error) {
	switch {
	case t.CancelRequested:
		return t, &TaskError{t.State, ev.Kind, "a cancel was requested"}
	case t.Active:
		return t, &TaskError{t.State, ev.Kind, "a run is active"}
	case t.RunsUsed >= t.MaxRuns:
		return t, &TaskError{t.State, ev.Kind, "no run is left"}
	case ev.By.Kind == ControlPlane && !t.Auto:
		return t, &TaskError{t.State, ev.Kind, "a person has to ask for it"}
	}
	t.State, t.Active, t.Auto, t.AwaitsMerge, t.Reason = TaskRunning, true, false, false, ""
	t.RunsUsed++
	return t, nil
}

func taskRunEnded(t Task, ev TaskEvent) (Task, error) {
	if ev.Run == nil || !ev.Run.State.Terminal() {
		return t, &TaskError{t.State, ev.Kind, "the run has not ended"}
	}
	if !t.Active {
		return t, &TaskError{t.State, ev.Kind, "no run is active"}
	}
	t.Active, t.AwaitsMerge = false, false
	unmerged := t.Mode == ModePRMerged && ev.Run.PR != nil
	switch {
	case ev.Run.State == Succeeded && !unmerged:
		t.State, t.Reason = TaskCompleted, ""
		return t, nil
	case ev.Run.State == Succeeded && t.CancelRequested:
		// The run did its part, but the mode is met by a merge that nobody waits for.
		t.State = TaskCancelled
		return t, nil
	case ev.Run.State == Succeeded:
		t.State, t.AwaitsMerge, t.Reason = TaskRunning, true, ""
		return t, nil
	}
	t.Reason = string(ev.Run.EndCode())
	// A person's no is final for the control plane, whatever its code says.
	again := Lookup(Code(t.Reason)).Retry == RetryAgain && (ev.Run.Failure == nil || ev.Run.Failure.Retryable)
	return taskAfterFailure(t, again), nil
}

// taskAfterFailure leaves the task READY while runs are left; auto says whether
// the control plane may make the next run by itself.
func taskAfterFailure(t Task, auto bool) Task {
	switch {
	case t.CancelRequested:
		t.State = TaskCancelled
	case t.RunsUsed < t.MaxRuns:
		t.State, t.Auto = TaskReady, auto
	default:
		t.State = TaskFailed
	}
	return t
}
