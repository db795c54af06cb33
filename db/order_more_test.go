package db_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-TRN-6: the same request at two replicas is carried out once, and both are answered with it.
func TestOrdersOfOneRequestTwice(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 4, drive.Options{})
	var at drive.At
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		at = x.at(t, run.Leased)
		in := at.Lease.Intent(x.Key("start"), run.Start{})
		return x.applies(&a, at.Ref, in), x.applies(&b, at.Ref, in)
	}, func() {
		if a.err != nil || b.err != nil || a.ack.Version != b.ack.Version || a.ack.Replayed == b.ack.Replayed {
			t.Errorf("answered %+v (%v) and %+v (%v), want one of them the other's stored answer", a.ack, a.err, b.ack, b.err)
		}
		if n := x.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'worker_started'`, at.Ref.Run); n != 1 {
			t.Errorf("%d events", n)
		}
		x.over(at.Ref)
	})
}

// R-TRN-6: a key whose transaction is rolled back was never used: the request that met it is carried out.
func TestOrdersOfOneRequestAndItsRollback(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 4, drive.Options{})
	var at drive.At
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		at = x.at(t, run.Leased)
		in := at.Lease.Intent(x.Key("start"), run.Start{})
		scope := "run:" + at.Ref.Run.String() + ":" + at.Lease.Worker.ID.String()
		return x.applies(&a, at.Ref, in), func(ctx context.Context, r replica) {
			tx, err := r.owner.Begin(ctx)
			if err == nil {
				// The statement fails where the key is there for good; that ends the transaction just as well.
				_, _ = tx.Exec(ctx, `INSERT INTO idempotency_keys (tenant_id, scope, key, request_hash, status, answer) VALUES ($1, $2, $3, $4, 200, '{}')`, x.Tenant, scope, in.Key, in.Hash)
				err = tx.Rollback(ctx)
			}
			b.err = err
		}
	}, func() {
		if a.err != nil || b.err != nil || a.ack.Replayed || a.ack.State != run.Preparing {
			t.Errorf("answered %+v (%v), rolled back with %v", a.ack, a.err, b.err)
		}
		if n := x.count(t, `SELECT count(*) FROM run_events WHERE run_id = $1 AND kind = 'worker_started'`, at.Ref.Run); n != 1 {
			t.Errorf("%d events", n)
		}
		x.over(at.Ref)
	})
}

// R-Q-1, R-Q-3: work is put into the queue while somebody looks: it is given now or with the next question, once.
func TestOrdersOfEnqueueAndClaim(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 1, drive.Options{})
	var a, b outcome
	var made db.TaskAck
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b, made = outcome{}, outcome{}, db.TaskAck{}
		key := x.Key("task")
		return func(ctx context.Context, r replica) {
			made, a.err = r.store.CreateTask(ctx, db.Request{Tenant: x.Tenant, By: x.Requester.Actor(), Roles: x.Requester.Roles, Key: key, Hash: drive.Hash(key)},
				db.TaskSpec{Repository: x.Repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", Contract: drive.Ordinary()})
		}, x.claims(&b, x.Workers[0])
	}, func() {
		if a.err != nil || b.err != nil || made.Run == nil {
			t.Fatalf("submit: %v %+v, claim: %v", a.err, made, b.err)
		}
		ref := db.Ref{Tenant: x.Tenant, Run: *made.Run}
		later := got(x.Claim(t.Context(), x.Workers[1]))(t)
		if (len(b.leases) == 1) == (later != nil) {
			t.Errorf("given %d leases at once and %v later", len(b.leases), later)
		}
		if leases, items, _, acquired := x.rows(ref); leases != 1 || items != 0 || acquired != 1 {
			t.Errorf("%d leases, %d items, acquired %d times", leases, items, acquired)
		}
		x.over(ref)
	})
}

// R-Q-1: an approval is withdrawn while somebody claims what it set free: it is withdrawn and nobody has it, or
// somebody has it and the withdrawal is refused.
func TestOrdersOfWithdrawAndClaim(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 1, drive.Options{})
	var at drive.At
	var a, b outcome
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		a, b = outcome{}, outcome{}
		at = x.at(t, run.WaitingForApproval)
		gate := x.info(t, at.Ref).Gate.ID
		must(t, x.Approve(t.Context(), at.Ref))
		by := x.Approvers[0]
		in := x.Request(by, "withdraw")
		return func(ctx context.Context, r replica) {
			a.ack, a.err = r.store.Withdraw(ctx, in, by.Decider(), gate, "Not yet.")
		}, x.claims(&b, x.Workers[0], run.PhasePublish)
	}, func() {
		withdrawn := !x.lost("the withdrawal", a.err)
		if b.err != nil || withdrawn == (len(b.leases) == 1) {
			t.Errorf("withdrawn: %v (%v), given %d leases (%v)", withdrawn, a.err, len(b.leases), b.err)
		}
		want := run.PRCreating
		if withdrawn {
			want = run.WaitingForApproval
		}
		info := x.info(t, at.Ref)
		if leases, items, _, _ := x.rows(at.Ref); info.State != want || leases != int64(len(b.leases)) || items != 0 {
			t.Errorf("the run is %s, want %s, with %d leases and %d items", info.State, want, leases, items)
		}
		x.over(at.Ref)
	})
}

// lastSlots are policies under which one lease is all there may be, by the dimension that says so.
func lastSlots() map[string]string {
	const agents = "routing: {agents: {default: {provider: model}}}\n"
	rules := map[string]string{
		"installation": "installation: {concurrency: {tenant: 1}}", "share of the tenant": "installation: {tenants: {default: {max: 1}}}",
		"tenant": "concurrency: {tenant: 1}", "repository": "concurrency: {repository: 1}", "user": "concurrency: {user: 1}", "risk": "concurrency: {risks: {LOW: 1}}",
		"risk of the installation": "installation: {concurrency: {risks: {LOW: 1}}}",
		"provider":                 agents + "concurrency: {providers: {model: 1}}", "provider of the installation": agents + "installation: {concurrency: {providers: {model: 1}}}",
		"pool":                     "routing: {queues: [{queue: default, pool: big}]}\nconcurrency: {pools: {big: 1}}",
		"pool of the installation": "routing: {queues: [{queue: default, pool: big}]}\ninstallation: {concurrency: {pools: {big: 1}}}",
	}
	out := map[string]string{}
	for name, rule := range rules {
		out[name] = fmt.Sprintf("schema: 1\nversion: last-slot\n%s\n", rule)
	}
	return out
}

// R-Q-6: one slot is left in a dimension and two replicas give work at the same time: one of them gives it.
func TestOrdersOfTheLastSlot(t *testing.T) {
	t.Parallel()
	for name, policy := range lastSlots() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newOrders(t, 1, drive.Options{Policy: policy})
			x.explorer.Most = 60
			var workers []drive.Worker
			for i := range 2 {
				w := got(x.NewWorker(t.Context(), fmt.Sprint("pooled-", i), run.Phases(), 100))(t)
				w.Boot = got(x.Store.RegisterBoot(t.Context(), w.WorkerID, db.Boot{Name: w.Name, Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 100, Pools: []string{"big"}, Capabilities: []string{"agent:default"}}))(t)
				workers = append(workers, w)
			}
			var refs []db.Ref
			var a, b outcome
			x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
				a, b, refs = outcome{}, outcome{}, nil
				for range 2 {
					refs = append(refs, x.profiled(t, x.Repo, x.Requester))
				}
				return x.claims(&a, workers[0]), x.claims(&b, workers[1])
			}, func() {
				if a.err != nil || b.err != nil || len(a.leases)+len(b.leases) != 1 {
					t.Errorf("given %d and %d leases (%v, %v), want one in all", len(a.leases), len(b.leases), a.err, b.err)
				}
				if n := x.count(t, `SELECT count(*) FROM run_leases`); n != 1 {
					t.Errorf("%d leases, want 1", n)
				}
				x.over(refs...)
			})
		})
	}
}

// profiled asks for a run of the agent profile "default".
func (w *world) profiled(t testing.TB, repo uuid.UUID, by drive.Person) db.Ref {
	t.Helper()
	made := got(w.Store.CreateTask(t.Context(), w.Request(by, "task"),
		db.TaskSpec{Repository: repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", AgentProfile: "default", Contract: drive.Ordinary()}))(t)
	return db.Ref{Tenant: w.Tenant, Run: *made.Run}
}

// R-LEASE-4, R-FAIL-9: a signal that is raised while the worker reports progress is neither lost nor overwritten.
func TestOrdersOfSignalAndTransition(t *testing.T) {
	t.Parallel()
	x := newOrders(t, 2, drive.Options{})
	var at drive.At
	var b outcome
	var raised error
	x.both(func() (func(context.Context, replica), func(context.Context, replica)) {
		b = outcome{}
		at = x.at(t, run.Preparing)
		ready := at.Lease.Intent(x.Key("ready"), run.SandboxIsReady{Tier: "bwrap", Base: drive.Base})
		return func(ctx context.Context, r replica) { // as a clock does: it looks and then signals
			if _, raised = r.store.RunInfo(ctx, at.Ref.Tenant, at.Ref.Run); raised == nil {
				raised = r.store.SignalStop(ctx, at.Ref, at.Lease.Proof().ID, "timeout")
			}
		}, x.applies(&b, at.Ref, ready)
	}, func() {
		if raised != nil || b.err != nil {
			t.Errorf("signal: %v, transition: %v", raised, b.err)
		}
		if got := x.info(t, at.Ref).StopSignal; got != "timeout" {
			t.Errorf("the signal is %q", got)
		}
		x.over(at.Ref)
	})
}
