package handlers

import (
	"net/http"
	"net/url"
	"regexp"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func (s *server) apiQueues(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	queues, err := s.store.Queues(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	waiting, err := s.store.Waiting(r.Context(), p.tenant, waitingShown)
	if err != nil {
		return err
	}
	list := wire.QueueList{Queues: []wire.Queue{}, Waiting: []wire.WaitingRun{}}
	for _, q := range queues {
		shown := wire.Queue{Name: q.Name, Depth: q.Depth, OldestAt: q.Oldest, Delayed: q.Delayed, Running: q.Running, Workers: q.Workers,
			ArrivalsPerMinute: q.Came, CompletionsPerMinute: q.Went}
		if q.Pause != nil {
			shown.Paused, shown.PausedBy, shown.PausedAt, shown.PauseReason = true, q.Pause.By, q.Pause.At, q.Pause.Reason
		}
		list.Queues = append(list.Queues, shown)
	}
	for _, i := range waiting {
		list.Waiting = append(list.Waiting, wire.WaitingRun{RunId: typeid.Format(typeid.Run, i.Run), Title: i.Title, Queue: i.Queue, Phase: wire.Phase(i.Phase), Since: i.Since,
			ReasonCode: i.Reason.Code, Reason: i.Reason.Words})
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiAdvice(w http.ResponseWriter, r *http.Request) error {
	ctx, tenant := r.Context(), who(r).tenant
	queues, err := s.store.Queues(ctx, tenant)
	if err != nil {
		return err
	}
	boots, err := s.store.Boots(ctx, tenant)
	if err != nil {
		return err
	}
	a, err := s.store.Advise(ctx, tenant, queues, boots)
	if err != nil {
		return err
	}
	out := wire.WorkerAdvice{Runs: a.Runs, Binds: a.Binds, Workers: a.Workers, Words: a.Words, Bounds: []wire.WorkerBound{}}
	for _, b := range a.Bounds {
		out.Bounds = append(out.Bounds, wire.WorkerBound{Name: b.Name, Runs: b.Runs, Known: b.Known, Words: b.Words})
	}
	return s.answer(w, r, http.StatusOK, out)
}

// queueName is what policy accepts as the name of a queue, and of a provider.
var queueName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// queueRequest is a person's request about the queue that the address names.
func (s *server) queueRequest(r *http.Request, action, reason string) (db.Request, string, error) {
	key, err := idempotencyKey(r)
	if err != nil {
		return db.Request{}, "", err
	}
	queue, err := url.PathUnescape(chi.URLParam(r, "queue"))
	if err != nil || !queueName.MatchString(queue) {
		return db.Request{}, "", fault.New(fault.Invalid, "Nothing was changed: this is no name of a queue. A name has 1 to 64 letters, digits, dots, dashes or underscores.").WithField("queue")
	}
	in, err := s.request(r, key, reason, act{action: action, object: "queue", id: queue, reason: reason})
	return in, queue, err
}

func (s *server) apiPauseQueue(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.Reason](s, r)
	if err != nil {
		return err
	}
	in, queue, err := s.queueRequest(r, "queue.pause", body.Reason)
	if err != nil {
		return err
	}
	if err := s.store.PauseQueue(r.Context(), in, queue, body.Reason); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiResumeQueue(w http.ResponseWriter, r *http.Request) error {
	in, queue, err := s.queueRequest(r, "queue.resume", "")
	if err != nil {
		return err
	}
	if err := s.store.ResumeQueue(r.Context(), in, queue); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiDrainWorker(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "worker_id", typeid.Worker)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, "", act{action: "worker.drain", object: "worker"})
	if err != nil {
		return err
	}
	if err := s.store.DrainWorker(r.Context(), in, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
