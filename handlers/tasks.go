package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getTasks lists tasks.
func (s *server) getTasks(w http.ResponseWriter, r *http.Request) error {
	q, p := r.URL.Query(), who(r)
	state, err := taskState(q.Get("state"))
	if err != nil {
		return err
	}
	filter := db.TaskFilter{State: state, Query: q.Get("q"), Limit: pageSize + 1}
	if filter.Before, err = readCursor(q.Get("before")); err != nil {
		return err
	}
	repositories, chosen, err := s.repositoryFilter(r, q.Get("repository"))
	if err != nil {
		return err
	}
	filter.Repository = chosen
	mine := q.Get("mine") == "1"
	if mine {
		filter.RequestedBy = p.user
	}
	list, err := s.store.Tasks(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	list, next := more(list, pageSize)
	data := web.TasksPageData{
		Shell: s.shell(r), States: states(run.TaskStates(), filter.State), Pager: pager(r, len(list), next),
		Filter: web.TaskFilter{Query: filter.Query, Mine: mine, Set: filter.Query != "" || mine || filter.State != "" || q.Get("repository") != ""},
	}
	data.Repositories = repositories
	if data.Views, err = s.views(r, db.ListTasks); err != nil {
		return err
	}
	for _, t := range list {
		data.Rows = append(data.Rows, web.TaskRow{
			ID: typeid.Format(typeid.Task, t.ID), Title: t.Title, Repository: t.RepositoryName, State: string(t.State), Since: t.UpdatedAt, Requester: t.Requester,
			LastRunID: typeid.Format(typeid.Run, t.LastRun), RunState: string(t.LastRunState), Runs: t.RunsUsed, Created: t.CreatedAt,
		})
	}
	data.Pager.Tally, err = tally(data.Filter.Set, func(all bool) (int, error) {
		if all {
			return s.store.CountTasks(r.Context(), p.tenant, db.TaskFilter{})
		}
		return s.store.CountTasks(r.Context(), p.tenant, filter)
	})
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.TasksPage(data))
}

// getTask shows a task with its conversation of revisions.
func (s *server) getTask(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Task)
	if err != nil {
		return err
	}
	ctx, p := r.Context(), who(r)
	t, err := s.store.Task(ctx, p.tenant, id)
	if err != nil {
		return err
	}
	runs, err := s.store.RunsOfTask(ctx, p.tenant, id, 50)
	if err != nil {
		return err
	}
	pulls, err := s.store.Pulls(ctx, p.tenant, db.PullFilter{Task: id})
	if err != nil {
		return err
	}
	data := web.TaskPageData{Shell: s.shell(r), Task: taskView(t), IdempotencyKey: db.NewSecret()}
	if data.Conversation, err = s.conversation(r, t, runs); err != nil {
		return err
	}
	if len(runs) > 0 {
		data.Gate = runView(runs[0], time.Now()).Gate
	}
	if len(runs) > 0 && runs[0].AttemptNo > 0 {
		data.Task.Rounds = web.Rounds{Used: runs[0].Repairs, Most: runs[0].Limits.RepairRounds, Attempt: runs[0].AttemptNo}
	}
	if data.Runs, err = s.runRows(r, runs); err != nil {
		return err
	}
	for _, pull := range pulls {
		data.Pulls = append(data.Pulls, pullRef(pull))
	}
	asks := p.has(policy.RoleRequester) || p.has(policy.RoleAdmin)
	data.MayCancel = asks && !t.State.Terminal() && !t.CancelRequested
	data.MayRunAgain = asks && t.State == run.TaskReady && !t.CancelRequested && t.RunsUsed < t.MaxRuns
	if t.State == run.TaskReady && t.RunsUsed >= t.MaxRuns {
		data.WhyNoRun = "All runs that policy allows for one task are used up. Make a new task from this one."
	}
	return s.render(w, r, http.StatusOK, web.TaskPage(data))
}

func taskView(t db.TaskInfo) web.TaskView {
	v := web.TaskView{
		ID: typeid.Format(typeid.Task, t.ID), Title: t.Title, Goal: t.Goal, State: string(t.State), Since: t.UpdatedAt, Reason: t.ReasonWords,
		Repository: t.RepositoryName, BaseRef: t.BaseRef, Mode: string(t.Contract.Mode), Scope: t.Contract.Scope, Exclude: t.Contract.Forbidden,
		PlanGate: t.Contract.PlanGate, AutoPR: t.Contract.AutoPR, Requester: t.Requester, Created: t.CreatedAt, RunsUsed: t.RunsUsed, MaxRuns: t.MaxRuns,
		ParentID: typeid.Format(typeid.Task, t.Parent),
	}
	if v.Reason == "" {
		v.Reason = t.Reason
	}
	return v
}

// conversation is what a person asked and what came back, oldest first: the request, then of each run the stages that
// a person would call a message.
func (s *server) conversation(r *http.Request, t db.TaskInfo, runs []db.RunInfo) ([]web.TaskMessage, error) {
	talk := []web.TaskMessage{{At: t.CreatedAt, Who: t.Requester, Actor: "human", What: "asked", Text: t.Goal}}
	for i := len(runs) - 1; i >= 0; i-- {
		events, err := s.eventsAfter(r.Context(), runs[i], 0, 1000)
		if err != nil {
			return nil, err
		}
		id := typeid.Format(typeid.Run, runs[i].ID)
		for _, e := range events {
			if !talks(run.Kind(e.Kind)) {
				continue
			}
			line := web.Sentence(e)
			// The sentence says who where a person did it; a machine's name before it would say nothing.
			name, words := "", line.Text
			if rest, own := strings.CutPrefix(line.Text, e.ActorName+" "); own && e.ActorName != "" {
				name, words = e.ActorName, rest
			}
			talk = append(talk, web.TaskMessage{
				At: e.At, Who: name, Actor: e.ActorKind, What: words, Text: line.Detail, Link: &web.Link{Text: "In the run", Href: web.RunEventURL(id, e.Seq)},
			})
		}
	}
	return talk, nil
}

// talks says which events are messages between people and machine.
func talks(k run.Kind) bool {
	switch k {
	case run.KindPlanApprovalRequired, run.KindPatchCreated, run.KindReportCreated, run.KindNoChangeReported, run.KindVerificationFailed, run.KindJudgeRequiresFix,
		run.KindHumanApprovalRequired, run.KindApproved, run.KindChangesRequested, run.KindRejected, run.KindApprovalExpired, run.KindApprovalReopened,
		run.KindApprovalWithdrawn, run.KindPRCreated, run.KindCancelRequested, run.KindBudgetExceeded, run.KindReconciliationRequired, run.KindNonRetryableFailure:
		return true
	}
	return false
}

func (s *server) postTaskRun(w http.ResponseWriter, r *http.Request) error {
	return s.taskAction(w, r, "task.run", "run-started", func(in db.Request, id uuid.UUID, _ url.Values) (db.TaskAck, error) {
		return s.store.RunAgain(r.Context(), in, id)
	})
}

func (s *server) postTaskCancel(w http.ResponseWriter, r *http.Request) error {
	return s.taskAction(w, r, "task.cancel", "task-cancelled", func(in db.Request, id uuid.UUID, v url.Values) (db.TaskAck, error) {
		return s.store.CancelTask(r.Context(), in, id, reasonOr(v.Get("reason"), who(r)))
	})
}

func (s *server) postTaskClose(w http.ResponseWriter, r *http.Request) error {
	return s.taskAction(w, r, "task.close", "task-closed", func(in db.Request, id uuid.UUID, v url.Values) (db.TaskAck, error) {
		return s.store.CloseTask(r.Context(), in, id, reasonOr(v.Get("reason"), who(r)))
	})
}

func (s *server) taskAction(w http.ResponseWriter, r *http.Request, action, done string, do func(db.Request, uuid.UUID, url.Values) (db.TaskAck, error)) error {
	id, err := pathID(r, "id", typeid.Task)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{action: action, object: "task", id: typeid.Format(typeid.Task, id)})
	if err != nil {
		return err
	}
	if _, err := do(in, id, values); err != nil {
		return err
	}
	s.admit()
	return see(w, r, web.TaskURL(typeid.Format(typeid.Task, id))+"?done="+done)
}

// reasonOr makes a reason where the person gave none: a cancelled run always has one.
func reasonOr(reason string, p *principal) string {
	if reason = strings.TrimSpace(reason); reason != "" {
		return reason
	}
	return "No reason was given by " + p.name + "."
}
