package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
	"signalbox/internal/typeid"
	"signalbox/migrations"
)

// Gauge is one measured fact about the present. What is queue, delayed, admission, paused, lease, overdue, worker, slots
// or outbox; Name tells several of a kind apart (a queue, a phase, a state).
type Gauge struct {
	What, Name string
	Amount     float64
	// Age is that of the oldest, in seconds by the database's clock: since it got ready, since the last heartbeat, or since
	// it was due.
	Age float64
}

// Gauges measures the whole installation with one query.
func (s *Store) Gauges(ctx context.Context) ([]Gauge, error) {
	rows, err := s.q.SchedulerGauges(ctx, s.pool, s.timing.LeaseTTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("measure queues and workers: %w", err)
	}
	out := make([]Gauge, 0, len(rows))
	for _, r := range rows {
		out = append(out, Gauge{r.What, r.Name, r.Amount, max(r.Age, 0)})
	}
	return out, nil
}

// ErrOldSchema says that migrations of this program are missing in the database.
var ErrOldSchema = errors.New("the schema is older than this program")

// SchemaCurrent holds that every migration of this program was applied; newer ones do no harm. ErrOldSchema says that
// some are missing; any other error, that the database cannot be asked.
func (s *Store) SchemaCurrent(ctx context.Context) error {
	have, err := s.q.SchemaVersion(ctx, s.pool)
	if noFunction(err) {
		return ErrOldSchema
	}
	if err != nil {
		return fmt.Errorf("look at the schema's version: %w", err)
	}
	want, err := newestMigration()
	if err != nil {
		return err
	}
	if have < want {
		return ErrOldSchema
	}
	return nil
}

func newestMigration() (newest int64, err error) {
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the number of migration %s: %w", name, err)
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// QueueInfo is one named queue as one tenant sees it.
type QueueInfo struct {
	Name string
	// Depth counts READY items, Oldest is since when the first of them waits (zero: none does), Delayed those that a pause
	// after a failure holds, Running those under a lease.
	Depth   int
	Oldest  time.Time
	Delayed int
	Running int
	// Came and Went are the runs that admission let in and that ended, a minute, over the last ten at most.
	Came, Went float64
	// Workers is how many live workers serve the queue.
	Workers int
	// Pause is nil where the queue gives out work.
	Pause *schedule.Pause
}

// Queues lists the tenant's queues by name: those with work, those that a live worker serves, and those that are paused.
func (s *Store) Queues(ctx context.Context, tenant uuid.UUID) ([]QueueInfo, error) {
	rows, err := s.q.PageQueues(ctx, s.pool, tenant, s.timing.LeaseTTL.Seconds(), DefaultTenant)
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	pauses, err := s.pauses(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]QueueInfo, 0, len(rows))
	for _, r := range rows {
		q := QueueInfo{Name: r.Queue, Depth: int(r.Depth), Delayed: int(r.Delayed), Running: int(r.Running), Came: r.Came, Went: r.Went,
			Workers: int(r.Workers)}
		if r.Depth > 0 {
			q.Oldest = r.Oldest.UTC()
		}
		for _, p := range pauses {
			if p.Queue == r.Queue && q.Pause == nil {
				q.Pause = &p
			}
		}
		out = append(out, q)
	}
	return out, nil
}

// pauses are those that hold for the tenant, its own first. Who of the installation paused a queue for everybody, and
// what they wrote, is told in their own tenant only.
func (s *Store) pauses(ctx context.Context, tenant uuid.UUID) ([]schedule.Pause, error) {
	rows, err := s.q.PausedQueues(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("list paused queues: %w", err)
	}
	var own, all []schedule.Pause
	for _, r := range rows {
		p := schedule.Pause{Tenant: r.TenantID, Queue: r.Queue, By: r.ByName, At: r.PausedAt.UTC(), Reason: r.Reason}
		switch {
		case r.TenantID == tenant:
			own = append(own, p)
		case r.TenantID == DefaultTenant:
			p.Tenant, p.By, p.Reason = uuid.Nil, "an operator of the installation", "for all tenants"
			all = append(all, p)
		}
	}
	return append(own, all...), nil
}

// PauseQueue stops giving out the queue's work, for a reason that people will read. Work under a lease goes on. Paused
// already is a Conflict that names who did it.
func (s *Store) PauseQueue(ctx context.Context, in Request, queue, reason string) error {
	queue, reason = strings.TrimSpace(queue), strings.TrimSpace(reason)
	switch {
	case queue == "" || len(queue) > 100:
		return fault.New(fault.Invalid, "Nothing was paused: the name of a queue has 1 to 100 characters.").WithField("queue")
	case reason == "" || len([]rune(reason)) > 2000:
		return fault.New(fault.Invalid, "Nothing was paused: say why, in 1 to 2,000 characters; everybody whose work waits will read it.").WithField("reason")
	}
	_, _, err := once(ctx, s, in, "queue-pause:"+queue, func(tx pgx.Tx) (bool, error) {
		n, err := s.q.PauseQueue(ctx, tx, sqlc.PauseQueueParams{TenantID: in.Tenant, Queue: queue, Reason: reason, ByID: in.By.ID, ByName: in.By.Name})
		if err != nil {
			return false, fmt.Errorf("pause queue: %w", err)
		}
		if n == 0 {
			return false, fault.Newf(fault.Conflict, "Nothing was changed: queue %s is paused already. Look who paused it and why before you resume it.", queue).WithCode("paused_before")
		}
		return true, nil
	})
	return err
}

// ResumeQueue ends the tenant's pause of the queue.
func (s *Store) ResumeQueue(ctx context.Context, in Request, queue string) error {
	_, _, err := once(ctx, s, in, "queue-resume:"+queue, func(tx pgx.Tx) (bool, error) {
		n, err := s.q.ResumeQueue(ctx, tx, in.Tenant, queue)
		if err != nil {
			return false, fmt.Errorf("resume queue: %w", err)
		}
		if n == 0 {
			return false, fault.Newf(fault.Conflict, "Nothing was changed: queue %s is not paused by your tenant.", queue).WithCode("not_paused")
		}
		return true, nil
	})
	if err == nil {
		// Work that waited is ready now; whoever waits for it looks.
		s.wakeAll()
	}
	return err
}

func (s *Store) wakeAll() {
	for _, p := range []run.Phase{run.PhaseExecute, run.PhaseVerify, run.PhasePublish} {
		s.waiters.ready(p)
	}
}

// DrainWorker asks a worker to finish what it has, take nothing more and end. It hears of it with its next heartbeat.
func (s *Store) DrainWorker(ctx context.Context, in Request, worker uuid.UUID) error {
	_, _, err := once(ctx, s, in, "worker-drain:"+worker.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Worker, worker)
		n, err := s.q.DrainBoots(ctx, tx, worker, in.Tenant, DefaultTenant)
		if err != nil {
			return false, fmt.Errorf("drain worker: %w", err)
		}
		if n == 0 {
			return false, fault.New(fault.NotFound, "Nothing was changed: there is no such worker that is up and that you may drain. One that serves all tenants is drained by an administrator of the installation.")
		}
		return true, nil
	})
	return err
}

// WaitingItem is one READY item with the truth about why nobody has it.
type WaitingItem struct {
	Run          uuid.UUID
	Title        string
	Queue, Phase string
	Since        time.Time
	Requires     []string
	Pool         string
	Provider     string
	Reason       schedule.Reason
}

// Waiting lists the tenant's items that have waited longest, each with its reason (R-Q-7).
func (s *Store) Waiting(ctx context.Context, tenant uuid.UUID, limit int) ([]WaitingItem, error) {
	rows, err := s.q.WaitingItems(ctx, s.reads(tenant), tenant, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list what waits: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	state, offers, err := s.waitingFor(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]WaitingItem, 0, len(rows))
	for _, r := range rows {
		item := itemOf(sqlc.HeadsOfLanesRow{RunID: r.RunID, TenantID: r.TenantID, Phase: r.Phase, RepositoryID: r.RepositoryID, UserID: r.UserID, Queue: r.Queue,
			Risk: r.Risk, Provider: r.Provider, Pool: r.Pool, Priority: r.Priority, VisibleAt: r.VisibleAt, Requires: r.Requires, Rank: r.Rank, Maker: r.Maker})
		out = append(out, WaitingItem{Run: r.RunID, Title: r.Title, Queue: r.Queue, Phase: r.Phase, Since: r.VisibleAt.UTC(), Requires: policy.Declared(r.Requires), Pool: r.Pool,
			Provider: r.Provider, Reason: schedule.Why(state, offers, item, int(r.Ahead))})
	}
	return out, nil
}

// BootInfo is one start of a worker.
type BootInfo struct {
	Worker, Boot        uuid.UUID
	Credential, Name    string
	Version             string
	State               string // as the worker or the reaper said last
	Draining            bool   // somebody asked for it
	Own                 bool   // the credential is the tenant's own, not the installation's
	Revoked             bool
	Phases              []run.Phase
	Queues, Pools       []string
	Capabilities        []string
	Isolation           string
	MaxConcurrent, Held int
	Started, Heartbeat  time.Time
	Stopped             time.Time // zero: it is up
}

// Boots lists the workers that may work for the tenant: all that are up, and of the others the last of a day.
func (s *Store) Boots(ctx context.Context, tenant uuid.UUID) ([]BootInfo, error) {
	rows, err := s.q.BootsOfTenant(ctx, s.pool, tenant)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out := make([]BootInfo, 0, len(rows))
	for _, r := range rows {
		b := BootInfo{Worker: r.WorkerID, Boot: r.ID, Credential: r.CredentialName, Name: r.Name, Version: r.Version, State: r.State, Draining: r.DrainRequested,
			Own: r.Own, Revoked: r.Revoked, Phases: toPhases(r.Phases), Queues: r.Queues, Pools: r.Pools, Capabilities: r.Capabilities, Isolation: r.Isolation,
			MaxConcurrent: int(r.MaxConcurrent), Held: int(r.Leases), Started: r.StartedAt.UTC(), Heartbeat: r.HeartbeatAt.UTC()}
		if r.StoppedAt != nil {
			b.Stopped = r.StoppedAt.UTC()
		}
		out = append(out, b)
	}
	return out, nil
}

// LeaseInfo is who works on a run now.
type LeaseInfo struct {
	Run, Boot, Worker           uuid.UUID
	Title                       string
	Phase                       run.Phase
	Acquired, Heartbeat, Expiry time.Time
	// Overdue says that the lease is over by the database's clock and was not taken back yet.
	Overdue bool
}

// Leases lists the tenant's leases, the oldest first, at most a thousand.
func (s *Store) Leases(ctx context.Context, tenant uuid.UUID) ([]LeaseInfo, error) {
	rows, err := s.q.LeasesOfTenant(ctx, s.reads(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	out := make([]LeaseInfo, 0, len(rows))
	for _, r := range rows {
		out = append(out, LeaseInfo{Run: r.RunID, Boot: r.BootID, Worker: r.WorkerID, Title: r.Title, Phase: run.Phase(r.Phase), Acquired: r.AcquiredAt.UTC(),
			Heartbeat: r.HeartbeatAt.UTC(), Expiry: r.ExpiresAt.UTC(), Overdue: r.Overdue})
	}
	return out, nil
}
