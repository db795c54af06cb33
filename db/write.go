package db

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/evidence"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/schedule"
	"signalbox/internal/typeid"
)

// write collects what transitions put into the database, so that any number of
// them travel together.
type write struct {
	runs              []sqlc.Run
	befores           []versionRow
	events            []sqlc.RunEvent
	keys              []keyRow
	dequeued          []sqlc.RunQueue
	queued            []sqlc.RunQueue
	delayed           []sqlc.RunDelayed
	endedLeases       []sqlc.EndedLease
	leases            []sqlc.RunLease
	sandboxes         []sqlc.Sandbox
	attempts          []sqlc.Attempt
	endedAttempts     []sqlc.Attempt
	gates             []sqlc.Gate
	movedGates        []gateMove
	gateRevisions     []sqlc.GateRevision
	feedback          []sqlc.Feedback
	attestations      []sqlc.Attestation
	movedAttestations []sqlc.Attestation
	policyDecisions   []sqlc.PolicyDecision
	outbox            []sqlc.Outbox
	pauses            []pauseRow
	probes, probed    []probeRow
	tasks             []sqlc.Task
	taskBefores       []taskBefore
	taskEvents        []sqlc.TaskEvent
	// ready lists the phases that got a READY item, for the bell.
	ready map[uuid.UUID]run.Phase
	// moves are the events of each run, for the bell.
	moves map[uuid.UUID][]Movement
}

// keyRow is an idempotency key with the run without whose transition it is not kept.
type keyRow struct {
	RunID uuid.UUID `json:"run_id"`
	sqlc.IdempotencyKey
}

// versionRow is the version that a run must still have.
type versionRow struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Version  int64     `json:"version"`
}

// taskBefore is the version that a task must still have, and the run without whose transition it does not move.
type taskBefore struct {
	ID       uuid.UUID `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Version  int64     `json:"version"`
	RunID    uuid.UUID `json:"run_id"`
}

// gateMove is an update of a gate; what is nil stays as it is.
type gateMove struct {
	ID          uuid.UUID  `json:"id"`
	RunID       uuid.UUID  `json:"run_id"`
	State       string     `json:"state"`
	Revision    *int32     `json:"revision"`
	ClosedAt    *time.Time `json:"closed_at"`
	EscalatedAt *time.Time `json:"escalated_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// claimed is what a claim knows and the reducer does not.
type claimed struct {
	worker, boot, user uuid.UUID
	claimID            string
	route              policy.Route
	// probe says that the run tries a provider first after its pause.
	probe bool
}

// step is one event with what it did.
type step struct {
	before run.Run
	ev     run.Event
	res    run.Result
}

// add puts the steps of one run into the write: row is the run's row before.
func (w *write) add(row sqlc.Run, steps []step, t Timing, c *claimed) error {
	if w.ready == nil {
		w.ready, w.moves = map[uuid.UUID]run.Phase{}, map[uuid.UUID][]Movement{}
	}
	hash := row.HeadHash
	w.befores = append(w.befores, versionRow{row.ID, row.TenantID, row.Version})
	for _, s := range steps {
		ev, h, err := eventRow(s, hash)
		if err != nil {
			return err
		}
		hash = h
		w.events = append(w.events, ev)
		w.moves[row.ID] = append(w.moves[row.ID], movement(s, row))
		row = factsAfter(row, s.before.State, s.ev, s.res.Run)
		if err := w.effects(s, row.ActiveMs, t, c); err != nil {
			return err
		}
	}
	after := steps[len(steps)-1].res.Run
	row, err := ownRun(row, after)
	if err != nil {
		return err
	}
	row.HeadHash, row.Limits = hash, nil
	if !reflect.DeepEqual(steps[0].before.Limits, after.Limits) {
		if row.Limits, err = encode(after.Limits); err != nil {
			return err
		}
	}
	w.runs = append(w.runs, row)
	return nil
}

// eventRow makes the log's row: the exact canonical bytes, and the hash over the
// hash before and these bytes.
func eventRow(s step, prev []byte) (sqlc.RunEvent, []byte, error) {
	after := s.res.Run
	enc, err := run.Encode(s.ev)
	if err != nil {
		return sqlc.RunEvent{}, nil, err
	}
	b := evidence.Body(evidence.Event{Tenant: after.Tenant, Run: after.ID, Seq: after.Version, Schema: run.Schema,
		Kind: string(s.ev.Kind()), Actor: evidence.Actor{Kind: string(s.ev.By.Kind), ID: s.ev.By.ID}, At: s.ev.At, Payload: enc})
	h := evidence.Hash(prev, b)
	return sqlc.RunEvent{TenantID: after.Tenant, RunID: after.ID, Seq: after.Version, Schema: run.Schema, EventID: s.ev.ID,
		Kind: string(s.ev.Kind()), ActorKind: string(s.ev.By.Kind), ActorID: s.ev.By.ID, ActorName: s.ev.By.Name,
		FromState: string(s.before.State), ToState: string(after.State), AttemptNo: int32(after.AttemptNo), At: s.ev.At,
		Body: b, Payload: enc, Hash: h}, h, nil
}

// effects carries out what the reducer asked for.
func (w *write) effects(s step, active int64, t Timing, c *claimed) error {
	r, at := s.res.Run, s.ev.At
	for _, e := range s.res.Effects {
		switch e := e.(type) {
		case run.Enqueue:
			w.enqueue(r, e, at, t)
		case run.Dequeue:
			w.dequeued = append(w.dequeued, sqlc.RunQueue{RunID: r.ID})
		case run.GrantLease:
			if c == nil {
				return fmt.Errorf("a lease was granted outside a claim")
			}
			w.dequeued = append(w.dequeued, sqlc.RunQueue{RunID: r.ID})
			w.leases = append(w.leases, sqlc.RunLease{RunID: r.ID, LeaseID: e.Lease.ID, FencingToken: e.Lease.Token,
				Phase: string(e.Lease.Phase), WorkerID: c.worker, BootID: c.boot, AttemptID: r.Attempt, UserID: c.user,
				ClaimID: c.claimID, ExpiresAt: at.Add(e.TTL), Queue: c.route.Queue, Provider: c.route.Provider, Pool: c.route.Pool})
			if c.probe {
				w.probes = append(w.probes, probeRow{r.ID, c.route.Provider})
			}
			if e.Lease.Phase != run.PhasePublish { // a publisher runs no untrusted code and has no sandbox
				w.sandbox(r, e.Lease, run.SandboxRequested, "")
			}
		case run.EndLease:
			w.endedLeases = append(w.endedLeases, sqlc.EndedLease{RunID: r.ID, LeaseID: e.Lease.ID, State: string(e.As), Reason: e.Reason, EndedAt: at})
			if e.Lease.Phase != run.PhasePublish {
				w.sandbox(r, e.Lease, sandboxEnd(e.As), "")
			}
		case run.StartAttempt:
			if c == nil {
				return fmt.Errorf("an attempt was started outside a claim")
			}
			w.attempts = append(w.attempts, sqlc.Attempt{ID: e.Attempt, RunID: r.ID, AttemptNo: int32(e.No),
				State: string(run.AttemptStarted), WorkerID: c.worker, RunActiveMs: active, StartedAt: at})
		case run.EndAttempt:
			w.endedAttempts = append(w.endedAttempts, sqlc.Attempt{ID: e.Attempt, RunID: r.ID, State: string(e.As),
				Code: string(e.Code), EndedAt: &at})
		case run.OpenGate:
			w.openGate(s, e)
		case run.SetGate:
			w.setGate(r, e, at)
		case run.GiveFeedback:
			w.feedback = append(w.feedback, sqlc.Feedback{RunID: r.ID, Seq: r.Version, Source: e.Source, Text: e.Text,
				ArtifactID: e.Artifact, Author: author(s, e), GateID: gateOf(s, e)})
		case run.RequestAttestation:
			w.attestations = append(w.attestations, sqlc.Attestation{ID: typeid.New(), RunID: r.ID, State: "requested", ExpiresAt: e.ExpiresAt})
		case run.WithdrawAttestation:
			w.movedAttestations = append(w.movedAttestations, attestationEnd(s))
		case run.CleanUp:
			w.send(r, "cleanup", nil)
		case run.FollowUp:
			// Nothing to look up is nothing to tell anybody; the statement sees that from the operations, which the
			// events of clocks and of policy do not name.
			w.send(r, e.What, map[string]any{"detail": e.Detail})
		case run.Notify:
			w.send(r, e.What, map[string]any{"state": r.State, "gate": r.Gate})
		default:
			return fmt.Errorf("effect %T is not carried out", e)
		}
	}
	if p, ok := s.ev.Payload.(run.SandboxReadyEvent); ok && r.Lease != nil {
		w.sandbox(r, *r.Lease, run.SandboxReady, p.Tier)
	}
	w.pause(s, t)
	w.policy(s)
	return nil
}

func (w *write) enqueue(r run.Run, e run.Enqueue, at time.Time, t Timing) {
	route, phase := r.Route, string(e.Phase)
	if route.Queue == "" {
		route.Queue = policy.DefaultQueue // admitted before there were others
	}
	requires := nonNil(route.Of(phase))
	if d := time.Duration(float64(e.Delay) * t.BackoffScale); d > 0 {
		w.delayed = append(w.delayed, sqlc.RunDelayed{RunID: r.ID, Phase: phase, AvailableAt: at.Add(d), Queue: route.Queue, Provider: route.Provider,
			Pool: route.Pool, Priority: int16(route.Priority), Requires: requires})
		return
	}
	w.queued = append(w.queued, sqlc.RunQueue{RunID: r.ID, Phase: phase, Queue: route.Queue, Provider: route.Provider, Pool: route.Pool,
		Priority: int16(route.Priority), Requires: requires, VisibleAt: at, Rank: schedule.Rank(at, route.Priority, t.Aging)})
	w.ready[r.ID] = e.Phase
}

// sandbox keeps one row per lease; the last word of a statement counts.
func (w *write) sandbox(r run.Run, l run.Lease, s run.SandboxState, tier string) {
	w.sandboxes = slices.DeleteFunc(w.sandboxes, func(x sqlc.Sandbox) bool { return x.LeaseID == l.ID })
	w.sandboxes = append(w.sandboxes, sqlc.Sandbox{LeaseID: l.ID, RunID: r.ID, Phase: string(l.Phase), Tier: tier, State: string(s)})
}

// sandboxEnd: a worker that hands over has saved its artifacts and destroyed the
// sandbox; one that vanished has not said so.
func sandboxEnd(as run.LeaseEnd) run.SandboxState {
	if as == run.LeaseReleased {
		return run.SandboxDestroyed
	}
	return run.SandboxFailed
}

func (w *write) openGate(s step, e run.OpenGate) {
	r, at, a := s.res.Run, s.ev.At, e.Asked
	if e.Again {
		w.movedGates = append(w.movedGates, gateMove{ID: e.Gate.ID, RunID: r.ID, State: string(run.GateOpen),
			Revision: new(int32(e.Gate.Revision)), ExpiresAt: &a.ExpiresAt})
	} else {
		version, reasons := gateWords(s)
		w.gates = append(w.gates, sqlc.Gate{ID: e.Gate.ID, RunID: r.ID, Kind: string(e.Gate.Kind), State: string(run.GateOpen),
			Revision: int32(e.Gate.Revision), Digest: e.Gate.Digest, ArtifactID: a.Artifact, BaseCommit: a.Base, Quorum: int32(a.Quorum),
			Role: a.Role, PolicyVersion: version, Reasons: reasons, OpenedAt: at, ExpiresAt: a.ExpiresAt})
	}
	w.gateRevisions = append(w.gateRevisions, sqlc.GateRevision{TenantID: r.Tenant, GateID: e.Gate.ID, Revision: int32(e.Gate.Revision),
		Digest: e.Gate.Digest, ArtifactID: a.Artifact, BaseCommit: a.Base, OpenedAt: at, ExpiresAt: a.ExpiresAt})
}

func (w *write) setGate(r run.Run, e run.SetGate, at time.Time) {
	m := gateMove{ID: e.Gate, RunID: r.ID, State: string(e.State), ExpiresAt: e.ExpiresAt}
	switch e.State {
	case run.GateOpen:
	case run.GateExpired:
		m.EscalatedAt = &at
	default:
		m.ClosedAt = &at
	}
	w.movedGates = append(w.movedGates, m)
}

func (w *write) send(r run.Run, topic string, payload map[string]any) {
	if payload == nil {
		payload = map[string]any{}
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		// The payload is made above of strings and run values, which encode.
		raw = json.RawMessage("{}")
	}
	w.outbox = append(w.outbox, sqlc.Outbox{RunID: r.ID, Seq: r.Version, Topic: topic, Payload: raw})
}

// gateWords returns the policy version and the reasons a gate was asked for.
func gateWords(s step) (string, []string) {
	version := s.res.Run.PolicyVersion
	switch p := s.ev.Payload.(type) {
	case run.PlanApprovalRequiredEvent:
		return p.Policy.Version, nonNil(p.Policy.Reasons)
	case run.HumanApprovalRequiredEvent:
		return p.Policy.Version, nonNil(p.Policy.Reasons)
	case run.BudgetExceededEvent:
		return version, []string{p.Summary}
	case run.ReconciliationRequiredEvent:
		return version, []string{p.Summary}
	case run.BaseMovedEvent:
		return version, []string{"The base branch moved once more in files that the patch touches."}
	}
	return version, []string{}
}

// policy records the decision that an event carries, with version and words.
func (w *write) policy(s step) {
	add := func(point, verdict string, p run.PolicyWords) {
		w.policyDecisions = append(w.policyDecisions, sqlc.PolicyDecision{RunID: new(s.res.Run.ID), Point: point, Version: p.Version,
			Verdict: verdict, Reasons: nonNil(p.Reasons), Inputs: json.RawMessage(fmt.Sprintf(`{"event":%d}`, s.res.Run.Version))})
	}
	switch p := s.ev.Payload.(type) {
	case run.EnqueuedEvent:
		add("admission", "ADMIT", run.PolicyWords{Version: p.PolicyVersion, Reasons: p.Reasons})
	case run.DeferredEvent:
		add("admission", "DEFER", run.PolicyWords{Version: p.PolicyVersion, Reasons: p.Reasons})
	case run.PolicyDeniedEvent:
		add("policy", "DENY", run.PolicyWords{Version: p.PolicyVersion, Reasons: p.Reasons})
	case run.PlanCreatedEvent:
		add("plan", "go_on", p.Policy)
	case run.PlanApprovalRequiredEvent:
		add("plan", "gate", p.Policy)
	case run.HumanApprovalRequiredEvent:
		add("judged", "gate", p.Policy)
	case run.AutoPRAllowedEvent:
		add("judged", "auto_pr", p.Policy)
	case run.ApprovalCarriedEvent:
		add("judged", "carried", p.Policy)
	case run.JudgeRequiresFixEvent:
		add("judged", "fix", p.Policy)
	case run.AttestationRequiredEvent:
		add("judged", "attest", p.Policy)
	}
}

func author(s step, e run.GiveFeedback) string {
	if e.Source != "human" {
		return ""
	}
	return cmp.Or(e.Author, s.ev.By.Name)
}

func gateOf(s step, e run.GiveFeedback) *uuid.UUID {
	if e.Source != "human" || s.before.Gate == nil {
		return nil
	}
	return new(s.before.Gate.ID)
}

func attestationEnd(s step) sqlc.Attestation {
	a := sqlc.Attestation{RunID: s.res.Run.ID, State: "withdrawn"}
	switch p := s.ev.Payload.(type) {
	case run.AttestationAcceptedEvent:
		a.State, a.Statement = "accepted", p.Statement
	case run.AttestationRefusedEvent:
		a.State, a.Statement = "refused", p.Statement
	case run.AttestationExpiredEvent:
		a.State = "expired"
	}
	return a
}

// nonNil makes a JSON array of what may be nil.
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// join adds the rows of another write, of other runs.
func (w *write) join(o *write) {
	w.runs, w.befores, w.events, w.keys = append(w.runs, o.runs...), append(w.befores, o.befores...), append(w.events, o.events...), append(w.keys, o.keys...)
	w.dequeued, w.queued, w.delayed = append(w.dequeued, o.dequeued...), append(w.queued, o.queued...), append(w.delayed, o.delayed...)
	w.endedLeases, w.leases, w.sandboxes = append(w.endedLeases, o.endedLeases...), append(w.leases, o.leases...), append(w.sandboxes, o.sandboxes...)
	w.attempts, w.endedAttempts = append(w.attempts, o.attempts...), append(w.endedAttempts, o.endedAttempts...)
	w.gates, w.movedGates, w.gateRevisions = append(w.gates, o.gates...), append(w.movedGates, o.movedGates...), append(w.gateRevisions, o.gateRevisions...)
	w.feedback = append(w.feedback, o.feedback...)
	w.attestations, w.movedAttestations = append(w.attestations, o.attestations...), append(w.movedAttestations, o.movedAttestations...)
	w.policyDecisions, w.outbox = append(w.policyDecisions, o.policyDecisions...), append(w.outbox, o.outbox...)
	w.pauses, w.probes, w.probed = append(w.pauses, o.pauses...), append(w.probes, o.probes...), append(w.probed, o.probed...)
	w.tasks, w.taskBefores, w.taskEvents = append(w.tasks, o.tasks...), append(w.taskBefores, o.taskBefores...), append(w.taskEvents, o.taskEvents...)
}

// changes lists what to ring after the commit.
func (w *write) changes() []Change {
	out := make([]Change, 0, len(w.runs))
	for _, r := range w.runs {
		out = append(out, Change{Tenant: r.TenantID, Run: r.ID, Version: r.Version, Ready: w.ready[r.ID], Moves: w.moves[r.ID]})
	}
	return out
}
