package handlers

import (
	"net/http"
	"time"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

const (
	pageSize     = 50
	maxSteps     = 200
	maxTailLines = 60
)

func runRow(r db.RunInfo) web.RunRow {
	row := web.RunRow{
		ID: typeid.Format(typeid.Run, r.ID), TaskID: typeid.Format(typeid.Task, r.Task), Title: r.TaskTitle, Repository: r.RepositoryName,
		State: string(r.State), Leased: r.Lease != nil, Attempt: r.AttemptNo, MaxAttempt: r.Limits.MaxAttempts, Created: r.CreatedAt, Since: r.StateSince,
		Ended: ended(r.FinishedAt), Reason: reason(r),
	}
	if r.Gate != nil {
		row.GateKind = string(r.Gate.Kind)
	}
	if r.Holder != nil {
		row.Worker = r.Holder.Worker
	}
	return row
}

// reason is the sentence about an ending or a request to end.
func reason(r db.RunInfo) string {
	switch {
	case r.Failure != nil:
		return r.Failure.Summary
	case r.Cancel != nil:
		return r.Cancel.Reason
	default:
		return ""
	}
}

// getRun shows one run: state, timeline, facts.
func (s *server) getRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return err
	}
	at, err := readWindow(r)
	if err != nil {
		return err
	}
	data, err := s.runPage(r, id, at)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.RunPage(data))
}

// runView is what sentence and rail are made of.
func runView(r db.RunInfo, now time.Time) web.RunView {
	v := web.RunView{
		ID: typeid.Format(typeid.Run, r.ID), TaskID: typeid.Format(typeid.Task, r.Task), Title: r.TaskTitle, Repository: r.RepositoryName, Mode: string(r.Mode),
		State: string(r.State), Since: r.StateSince, Created: r.CreatedAt, Ended: ended(r.FinishedAt), Attempt: r.AttemptNo, MaxAttempts: r.Limits.MaxAttempts,
		RepairRound: r.Repairs, Leased: r.Lease != nil, Reason: reason(r), ReasonCode: string(r.Reason), PatchGate: r.Mode.WantsPR(),
		MayCancel: !r.State.Terminal() && r.State != run.PRCreated && r.State != run.Cancelling,
	}
	if r.Holder != nil {
		v.Worker, v.HeartbeatAt = r.Holder.Worker, r.Holder.HeartbeatAt
	}
	if g := r.Gate; g != nil {
		v.Gate = &web.GateRef{ID: typeid.Format(typeid.Gate, g.ID), Kind: string(g.Kind), State: gateState(g), Revision: g.Revision, Digest: g.Digest}
		v.PlanGate = g.Kind == run.GatePlan
	}
	if f := r.Failure; f != nil {
		v.Category, v.ReasonCode, v.Retryable = string(f.Category), string(f.Code), f.Retryable
	}
	if c := r.Cancel; c != nil {
		v.CancelBy, v.CancelAt = c.By.Name, c.At
	}
	if p := r.PR; p != nil {
		v.Pull = &web.PullRef{Number: int(p.Number), Href: p.URL, Branch: p.Branch, Commit: p.SHA}
	}
	return v
}

func gateState(g *run.Gate) string {
	if g.Expired {
		return string(run.GateExpired)
	}
	return string(run.GateOpen)
}

func stepView(step db.StepInfo) web.StepView {
	return web.StepView{
		ID: typeid.Format(typeid.Step, step.ID), Name: step.Name, Kind: step.Kind, State: string(step.State), Attempt: step.AttemptNo,
		Started: step.StartedAt, Ended: ended(step.FinishedAt), ExitCode: step.ExitCode, Reason: step.Summary,
	}
}
