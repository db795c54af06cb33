package handlers

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// waitingShown bounds the list of waiting runs.
const waitingShown = 50

// getWorkers shows queues and execution plane.
func (s *server) getWorkers(w http.ResponseWriter, r *http.Request) error {
	return s.workersPage(w, r, http.StatusOK, web.WorkersPageData{})
}

func (s *server) workersPage(w http.ResponseWriter, r *http.Request, code int, data web.WorkersPageData) error {
	p := who(r)
	data.Shell, data.MayAct = s.shell(r), p.has(policy.RoleAdmin)
	var err error
	if data.Hints, err = s.hints(r, db.HintWorker); err != nil {
		return err
	}
	queues, err := s.store.Queues(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	for _, q := range queues {
		data.QueueDepth += q.Depth
		if !q.Oldest.IsZero() && (data.OldestQueued.IsZero() || q.Oldest.Before(data.OldestQueued)) {
			data.OldestQueued = q.Oldest
		}
		row := web.QueueRow{Name: q.Name, Depth: q.Depth, Delayed: q.Delayed, Running: q.Running, Workers: q.Workers, Oldest: q.Oldest, Came: q.Came, Went: q.Went, PauseKey: db.NewSecret()}
		if q.Pause != nil {
			row.Paused, row.PausedBy, row.PausedAt, row.PauseReason, row.Own = true, q.Pause.By, q.Pause.At, q.Pause.Reason, q.Pause.Tenant == p.tenant
		}
		data.Queues = append(data.Queues, row)
	}
	boots, err := s.store.Boots(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	if err := s.planeRows(r, boots, &data); err != nil {
		return err
	}
	if err := s.providerRows(r, &data); err != nil {
		return err
	}
	waiting, err := s.store.Waiting(r.Context(), p.tenant, waitingShown)
	if err != nil {
		return err
	}
	for _, i := range waiting {
		data.Waiting = append(data.Waiting, web.WaitingRow{RunID: typeid.Format(typeid.Run, i.Run), Title: i.Title, Queue: i.Queue, Phase: i.Phase, Since: i.Since, Reason: i.Reason.Words})
	}
	advice, err := s.store.Advise(r.Context(), p.tenant, queues, boots)
	if err != nil {
		return err
	}
	data.Advice = web.AdviceView{Words: advice.Words, Binds: advice.Binds}
	for _, b := range advice.Bounds {
		data.Advice.Bounds = append(data.Advice.Bounds, web.BoundView{Name: b.Name, Runs: b.Runs, Known: b.Known, Words: b.Words})
	}
	return s.render(w, r, code, web.WorkersPage(data))
}

// planeRows fills in the workers with what each holds, and the runs that nobody works on although somebody has them.
func (s *server) planeRows(r *http.Request, boots []db.BootInfo, data *web.WorkersPageData) error {
	p := who(r)
	leases, err := s.store.Leases(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	names, held := map[uuid.UUID]string{}, map[uuid.UUID][]web.WorkerRun{}
	for _, b := range boots {
		names[b.Boot] = b.Name
	}
	for _, l := range leases {
		id := typeid.Format(typeid.Run, l.Run)
		if l.Overdue {
			row := web.StuckRow{RunID: id, Title: l.Title, Worker: names[l.Boot], Expired: l.Expiry, Heartbeat: l.Heartbeat}
			if p.has(policy.RoleRequester) || p.has(policy.RoleAdmin) {
				row.Key = db.NewSecret()
			}
			data.Stuck = append(data.Stuck, row)
			continue
		}
		held[l.Boot] = append(held[l.Boot], web.WorkerRun{ID: id, Title: l.Title, Phase: string(l.Phase)})
	}
	for _, b := range boots {
		data.Rows = append(data.Rows, s.workerRow(b, held[b.Boot], data.Now, p.tenant))
	}
	return nil
}

func (s *server) workerRow(b db.BootInfo, runs []web.WorkerRun, now time.Time, tenant uuid.UUID) web.WorkerRow {
	row := web.WorkerRow{
		ID: typeid.Format(typeid.Worker, b.Worker), Name: b.Name, State: stateOf(b, now, s.store.Timing().LeaseTTL), HeartbeatAt: b.Heartbeat, StartedAt: b.Started,
		StaleAfter: s.store.Timing().LeaseTTL, Version: b.Version, VersionSkew: s.version != "" && b.Version != "" && b.Version != s.version,
		Isolation: b.Isolation, Unsafe: b.Isolation == string(policy.IsolationProcess), Queues: b.Queues, Busy: b.Held, Slots: b.MaxConcurrent, Runs: runs,
		DrainKey: db.NewSecret(),
	}
	if b.Revoked {
		row.LastError = "its credential was revoked"
	}
	row.MayDrain = (row.State == "READY" || row.State == "STARTING") && (b.Own || tenant == db.DefaultTenant)
	for _, phase := range b.Phases {
		row.Roles = append(row.Roles, string(phase))
	}
	return row
}

// stateOf is what the heartbeat's age says: a worker that is silent is not running, whatever it said last.
func stateOf(b db.BootInfo, now time.Time, ttl time.Duration) string {
	up := b.State == "READY" || b.State == "DRAINING" || b.State == "STARTING"
	switch {
	case up && now.Sub(b.Heartbeat) > ttl:
		return "STALE"
	case up && b.Draining:
		return "DRAINING"
	}
	return b.State
}

// refusedOnPage shows what was not done above the page itself.
func (s *server) refusedOnPage(w http.ResponseWriter, r *http.Request, err error, queue, reason string) error {
	f, ok := fault.Find(err)
	if !ok || f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		return err
	}
	s.note(r, err)
	return s.workersPage(w, r, status(f.Kind), web.WorkersPageData{Problem: f.Sentence, ProblemQueue: queue, Reason: reason})
}

func (s *server) postQueuePause(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "queue.pause", object: "queue"})
	if err != nil {
		return err
	}
	queue, reason := strings.TrimSpace(values.Get("queue")), values.Get("reason")
	in.Audit.ObjectID = queue
	if err := s.store.PauseQueue(r.Context(), in, queue, reason); err != nil {
		return s.refusedOnPage(w, r, err, queue, reason)
	}
	return see(w, r, web.WorkersURL+"?done=queue-paused")
}

func (s *server) postQueueResume(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "queue.resume", object: "queue"})
	if err != nil {
		return err
	}
	queue := strings.TrimSpace(values.Get("queue"))
	in.Audit.ObjectID = queue
	if err := s.store.ResumeQueue(r.Context(), in, queue); err != nil {
		return s.refusedOnPage(w, r, err, queue, "")
	}
	return see(w, r, web.WorkersURL+"?done=queue-resumed")
}

func (s *server) postWorkerDrain(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Worker)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "worker.drain", object: "worker"})
	if err != nil {
		return err
	}
	if err := s.store.DrainWorker(r.Context(), in, id); err != nil {
		return s.refusedOnPage(w, r, err, "", "")
	}
	return see(w, r, web.WorkersURL+"?done=worker-drained")
}

// postRunResume looks at a run that stands still and lets it go on where that is right; its page says what was done.
func (s *server) postRunResume(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Run)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "run.resume", object: "run", id: typeid.Format(typeid.Run, id)})
	if err != nil {
		return err
	}
	done, err := s.store.Resume(r.Context(), in, id)
	if err != nil {
		return s.refusedOnPage(w, r, err, "", "")
	}
	what := "run-resumed"
	if len(done.Done) == 0 {
		what = "run-not-resumed"
	}
	return see(w, r, web.RunURL(typeid.Format(typeid.Run, id))+"?done="+what)
}
