package handlers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

func (s *server) apiRuns(w http.ResponseWriter, r *http.Request) error {
	q, p := r.URL.Query(), who(r)
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	filter := db.RunFilter{State: run.State(q.Get("state")), Limit: limit + 1}
	if filter.Before, err = readCursor(q.Get("cursor")); err != nil {
		return err
	}
	if id := q.Get("task_id"); id != "" {
		if filter.Task, err = typeid.ParseField("task_id", typeid.Task, id); err != nil {
			return err
		}
	}
	if id := q.Get("repository_id"); id != "" {
		if filter.Repository, err = typeid.ParseField("repository_id", typeid.Repo, id); err != nil {
			return err
		}
	}
	runs, err := s.store.Runs(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	runs, next := more(runs, limit)
	list := wire.RunList{Items: []wire.Run{}, NextCursor: next}
	for _, info := range runs {
		list.Items = append(list.Items, wireRun(info))
	}
	return s.answer(w, r, http.StatusOK, list)
}

// ownRun reads the run of the path. A worker sees only runs whose lease it holds: everything else is none of its business.
func (s *server) ownRun(r *http.Request, id uuid.UUID) (db.RunInfo, error) {
	p := who(r)
	tenant, err := tenantOf(r, func() (uuid.UUID, error) { return s.store.TenantOfRun(r.Context(), p.credential, id) })
	if err != nil {
		return db.RunInfo{}, err
	}
	info, err := s.store.RunInfo(r.Context(), tenant, id)
	if err != nil {
		return info, err
	}
	if p.kind == worker && (info.Lease == nil || info.Lease.Worker != p.credential.String()) {
		return db.RunInfo{}, fault.New(fault.Forbidden, "Nothing is shown: you do not hold the lease of this run.").WithCode("not_your_lease").WithStop()
	}
	return info, nil
}

func (s *server) apiRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	info, err := s.ownRun(r, id)
	if err != nil {
		return err
	}
	answer := wireRun(info)
	if info.Lease != nil {
		now := time.Now()
		shown := runView(info, now)
		if err := s.setAside(r.Context(), info, &shown); err != nil {
			return err
		}
		answer.Sentence = web.StateSentence(shown, now)
	}
	if info.Queued != "" {
		// A pause after a failure is not a wait for a worker, and only the queue knows which it is.
		wait, err := s.store.Why(r.Context(), info.Tenant, info.ID)
		if err != nil {
			return err
		}
		now := time.Now()
		shown := runView(info, now)
		shown.RetryAt, shown.QueueReason = wait.Until, wait.Reason.Words
		answer.Sentence = web.StateSentence(shown, now)
	}
	if info.Reason == run.CodeQueueTimeout {
		// What it waited for is in the event that ended it, its last.
		now := time.Now()
		shown := runView(info, now)
		if shown.WaitedFor, err = s.waitedFor(r.Context(), info); err != nil {
			return err
		}
		answer.Sentence = web.StateSentence(shown, now)
	}
	return s.answer(w, r, http.StatusOK, answer)
}

func (s *server) apiRunEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	after, err := queryInt(r, "after", 0, 0, 1<<40)
	if err != nil {
		return err
	}
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	if _, err := s.ownRun(r, id); err != nil {
		return err
	}
	events, err := s.store.Events(r.Context(), who(r).tenant, id, after, limit)
	if err != nil {
		return err
	}
	list := wire.RunEventList{Items: []wire.RunEvent{}}
	for _, e := range events {
		shown, err := wireEvent(e)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, shown)
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiRunSteps(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	after, err := queryInt(r, "cursor", 0, 0, 1<<40)
	if err != nil {
		return err
	}
	if _, err := s.ownRun(r, id); err != nil {
		return err
	}
	steps, err := s.store.Steps(r.Context(), who(r).tenant, id, after, limit+1)
	if err != nil {
		return err
	}
	list := wire.StepList{Items: []wire.Step{}}
	for i, step := range steps {
		if int32(i) == limit {
			list.NextCursor = strconv.FormatInt(steps[i-1].Seq, 10)
			break
		}
		list.Items = append(list.Items, wire.Step{
			Id: typeid.Format(typeid.Step, step.ID), AttemptNo: step.AttemptNo, Phase: wire.Phase(step.Phase), Kind: step.Kind, Name: step.Name, CallId: step.Call,
			State: wire.StepState(step.State), Summary: step.Summary, ExitCode: step.ExitCode, StartedAt: step.StartedAt, FinishedAt: instant(step.FinishedAt),
			DurationMs: step.Duration.Milliseconds(),
		})
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiRunLogs(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	after, err := queryInt(r, "after", 0, 0, 1<<62)
	if err != nil {
		return err
	}
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	if _, err := s.ownRun(r, id); err != nil {
		return err
	}
	key := db.LogKey{Tenant: who(r).tenant, Run: id}
	if raw := r.URL.Query().Get("step_id"); raw != "" {
		stepID, err := typeid.Parse(typeid.Step, raw)
		if err != nil {
			return err
		}
		step, err := s.store.Step(r.Context(), key.Tenant, id, stepID)
		if err != nil {
			return err
		}
		key.Lease, key.Call = step.Lease, step.Call
	}
	// 100 chunks are 6 MiB; more in one answer helps nobody.
	chunks, err := s.store.Logs(r.Context(), key, after, min(limit, 100))
	if err != nil {
		return err
	}
	list := wire.LogChunkList{Items: []wire.LogChunk{}}
	for _, c := range chunks {
		list.Items = append(list.Items, wire.LogChunk{Id: c.ID, AttemptNo: c.AttemptNo, Stream: c.Stream, Data: c.Data, At: c.At})
	}
	return s.answer(w, r, http.StatusOK, list)
}

// cancel asks for a run to be cancelled; pages and API share it.
func (s *server) cancel(r *http.Request, id uuid.UUID, key, reason string, content any) (db.Ack, error) {
	in, err := cancelIntent(r, id, key, reason, content)
	if err != nil {
		return db.Ack{}, err
	}
	return s.store.Apply(r.Context(), db.Ref{Tenant: who(r).tenant, Run: id}, in)
}

func cancelIntent(r *http.Request, id uuid.UUID, key, reason string, content any) (db.Intent, error) {
	hash, err := requestHash(r, content)
	p := who(r)
	return db.Intent{
		Key: key, Hash: hash, By: p.actor(), Payload: run.CancelRequestedEvent{Reason: reasonOr(reason, p)},
		Audit: auditOf(r, act{action: "run.cancel", object: "run", id: typeid.Format(typeid.Run, id), reason: reason}),
	}, err
}

func (s *server) apiCancelRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.Reason](s, r)
	if err != nil {
		return err
	}
	before, err := s.ownRun(r, id)
	if err != nil {
		return err
	}
	if before.State.Terminal() {
		return s.answer(w, r, http.StatusOK, wire.CancelAck{Run: wireRun(before), Already: true, Message: "The run had already ended; nothing was changed."})
	}
	ack, err := s.cancel(r, id, key, body.Reason, body)
	if err != nil {
		return err
	}
	info, err := s.ownRun(r, id)
	if err != nil {
		return err
	}
	answer := wire.CancelAck{Run: wireRun(info), Already: before.State == run.Cancelling}
	if rule, ok := run.CancelRuleOf(before.State); ok {
		answer.Message = rule.Does + " Kept: " + rule.Stays
	}
	replayed(w, ack.Replayed)
	return s.answer(w, r, http.StatusOK, answer)
}
