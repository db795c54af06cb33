package db

import (
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
)

// Movement is one event as it was committed, with what is counted and traced about it. It is made from the transition
// itself and not from the log, so that hearing of it costs no query.
type Movement struct {
	Tenant, Task, Run uuid.UUID
	Kind              run.Kind
	From, To          run.State
	At                time.Time
	AttemptNo         int
	// Queue is where the run waits for its workers.
	Queue string
	// Code is the reason of a failure, empty for other events. It is one of run.Codes.
	Code run.Code
	// Deferred is the reason of an admission that was put off, empty for other events.
	Deferred string
	// Retried says that the run was put into the queue again because of the failure, at once or after a pause.
	Retried bool
	// Lease is the lease that began or ended with the event, nil where none did; LeaseEnd says how, empty where it began.
	Lease    *run.Lease
	LeaseEnd run.LeaseEnd
	// Created is when the run began; Cancelled is when its cancellation was asked for, zero where nobody asked.
	Created, Cancelled time.Time
}

// Ended reports whether the event was the run's last.
func (m Movement) Ended() bool { return m.To.Terminal() }

// movement describes a step; row is the run's row before it.
func movement(s step, row sqlc.Run) Movement {
	after := s.res.Run
	m := Movement{Tenant: after.Tenant, Task: after.Task, Run: after.ID, Kind: s.ev.Kind(), From: s.before.State, To: after.State, At: s.ev.At,
		AttemptNo: after.AttemptNo, Queue: after.Route.Queue, Code: failureCode(s.ev.Payload), Created: row.CreatedAt}
	if after.Cancel != nil {
		m.Cancelled = after.Cancel.At
	}
	if p, ok := s.ev.Payload.(run.DeferredEvent); ok {
		m.Deferred = p.Code
	}
	for _, e := range s.res.Effects {
		switch e := e.(type) {
		case run.GrantLease:
			m.Lease = &e.Lease
		case run.EndLease:
			m.Lease, m.LeaseEnd = &e.Lease, e.As
		case run.Enqueue:
			m.Retried = m.Code != ""
		}
	}
	return m
}

// failureCode is the reason that an event gives for work that did not succeed.
func failureCode(p run.Payload) run.Code {
	var c run.Code
	switch p := p.(type) {
	case run.AttemptFailedEvent:
		c = p.Code
	case run.AttemptExhaustedEvent:
		c = p.Code
	case run.NonRetryableFailureEvent:
		c = p.Code
	case run.TimeoutEvent:
		c = p.Code
	case run.PolicyDeniedEvent:
		c = p.Code
	case run.WorkerLostEvent:
		c = run.CodeWorkerLost
	default:
		return ""
	}
	// What a worker or a later version calls it must not become a new label.
	return run.Lookup(c).Code
}

// Observer hears what a Store does that leaves no row. Its functions run where the work is done and must not block;
// nil ones are not called.
type Observer struct {
	// Batch tells how many calls of a kind (load, write, claim, heartbeat, credential) one statement carried.
	Batch func(kind string, calls int)
	// Claimed tells how many leases a worker's question was answered with, waiting included.
	Claimed func(leases int)
	// HeldBack tells that a look for work found items that a limit held back, by the limit's code.
	HeldBack func(code string, items int)
}

func (o Observer) batch(kind string) func(int) {
	if o.Batch == nil {
		return nil
	}
	return func(n int) { o.Batch(kind, n) }
}

func (o Observer) claimed(n int) {
	if o.Claimed != nil {
		o.Claimed(n)
	}
}

// heldBack counts, for whoever listens, the items that a limit kept from being given out.
func (o Observer) heldBack(s schedule.State, items []schedule.Item) {
	if o.HeldBack == nil {
		return
	}
	for code, n := range schedule.HeldBack(s, items) {
		o.HeldBack(code, n)
	}
}
