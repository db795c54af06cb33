package db_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// R-LEASE-5: steps are upserted per call, logs are bounded, and a batch that comes twice is stored once.
func TestFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	h := at.Lease.Holder()
	step := func(seq int64, s run.StepState) bool {
		t.Helper()
		return got(w.Store.Append(t.Context(), h, db.Batch{Sequence: seq, Steps: []db.Step{{CallID: "c1", Kind: "tool", Name: "go test", State: s, Duration: time.Second}}}))(t)
	}
	if step(1, run.StepRunning) || step(2, run.StepSucceeded) {
		t.Error("a fresh batch was taken for a repeat")
	}
	if !step(2, run.StepFailed) || !step(1, run.StepFailed) {
		t.Error("a repeat was stored")
	}
	step(3, run.StepRunning) // a finished step does not run again
	steps := got(w.Store.Steps(t.Context(), w.Tenant, at.Ref.Run, 0, 10))(t)
	if len(steps) != 1 || steps[0].State != run.StepSucceeded {
		t.Errorf("steps %+v", steps)
	}
	// Two words about one call in one batch: the last one counts.
	got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 4, Steps: []db.Step{{CallID: "c2", Kind: "tool", Name: "n", State: run.StepRunning},
		{CallID: "c2", Kind: "tool", Name: "n", State: run.StepTimedOut, ExitCode: new(137)}}}))(t)

	binary := "\x00\xff\xfe \\x41 \u202e"
	got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 1, Chunks: []db.Chunk{{Stream: "stdout", CallID: "c1", Data: []byte(binary)},
		{Stream: "stderr", Data: []byte(strings.Repeat("x", 64<<10))}}}))(t)
	logs := got(w.Store.Logs(t.Context(), db.LogKey{Tenant: w.Tenant, Run: at.Ref.Run}, 0, 10))(t)
	if len(logs) != 2 || string(logs[0].Data) != binary {
		t.Errorf("%d chunks, the first %q", len(logs), logs[0].Data)
	}
	_, err := w.Store.Append(t.Context(), h, db.Batch{Sequence: 2, Chunks: []db.Chunk{{Stream: "stdout", Data: []byte(strings.Repeat("x", 64<<10+1))}}})
	refusal(t, err, fault.TooLarge, "The log was not stored")
	// The refused batch's number is free for the batch in smaller pieces.
	if got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 2, Chunks: []db.Chunk{{Stream: "stdout", Data: []byte("x")}}}))(t) {
		t.Error("the refused batch kept its number")
	}
}

// R-FAIL-9: usage that reaches a limit raises the budget signal; the worker's stop leads to the budget gate, and an
// approval grants as much again.
func TestBudgetSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	h := at.Lease.Holder()
	limit := w.info(t, at.Ref).Limits.TokensIn
	got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 1, Used: &db.Used{Model: "m", InputTokens: limit - 1}}))(t)
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalAlive {
		t.Errorf("signal %s below the limit", p.Signal)
	}
	got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 2, Used: &db.Used{Model: "m", InputTokens: 1}}))(t)
	if got(w.Store.Append(t.Context(), h, db.Batch{Sequence: 2, Used: &db.Used{Model: "m", InputTokens: 1}}))(t) != true {
		t.Error("a repeat was taken for fresh")
	}
	if n := w.count(t, `SELECT sum(input_tokens)::bigint FROM usages`); n != limit {
		t.Errorf("%d tokens counted, want %d: usage was counted twice", n, limit)
	}
	if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalBudget {
		t.Errorf("signal %s at the limit", p.Signal)
	}
	ack := got(at.Lease.Do(t.Context(), run.Stopped{Why: run.StopBudget, Summary: "Stored the diff and stopped."}))(t)
	if ack.State != run.WaitingForApproval {
		t.Fatalf("the run is %s", ack.State)
	}
	must(t, w.Approve(t.Context(), at.Ref))
	info := w.info(t, at.Ref)
	if info.State != run.Executing || info.Limits.TokensIn != 2*limit || info.StopSignal != "" {
		t.Errorf("run is %s with %d tokens and signal %q", info.State, info.Limits.TokensIn, info.StopSignal)
	}
	w.replays(t)
}

// Heartbeats that come together are answered each for itself: what one boot holds is not extended by another's word, and
// a boot that is over fails alone.
func TestHeartbeatsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 20})
	type held struct {
		worker drive.Worker
		beat   db.Beat
	}
	var all []held
	for n := range 12 {
		by := got(w.NewWorker(t.Context(), fmt.Sprintf("w%d", n), run.Phases(), 2))(t)
		got(w.Run(t.Context(), drive.Ordinary()))(t)
		l := got(w.Claim(t.Context(), by))(t)
		all = append(all, held{by, db.Beat{Run: l.Ref.Run, Lease: l.Proof()}})
	}
	must(t, w.Store.StopBoot(t.Context(), all[0].worker.WorkerID, all[0].worker.Boot))
	var wg sync.WaitGroup
	for n, h := range all {
		for range 3 {
			wg.Go(func() {
				// Everybody names the own lease and the next one's.
				pulses, _, err := w.Store.Extend(t.Context(), h.worker.WorkerID, h.worker.Boot, false, []db.Beat{h.beat, all[(n+1)%len(all)].beat})
				switch {
				case n == 0:
					refusal(t, err, fault.Conflict, "No lease was extended")
				case err != nil:
					t.Error(err)
				case pulses[0].Signal != db.SignalAlive || pulses[1].Signal != db.SignalLost:
					t.Errorf("boot %d: own %s, foreign %s", n, pulses[0].Signal, pulses[1].Signal)
				}
			})
		}
	}
	wg.Wait()
}

// However many steps a run has, its page shows the newest: they are looked up from the end, in their order.
func TestLastSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Executing)
	w.write(t, `INSERT INTO steps (id, tenant_id, run_id, attempt_no, lease_id, phase, call_id, kind, name, state, started_at)
		SELECT gen_random_uuid(), tenant_id, id, attempt_no, lease_id, 'execute', 'many-' || n, 'tool', 'step ' || n, 'SUCCEEDED', now() FROM runs, generate_series(1, 2500) n WHERE id = $1 ORDER BY n`, at.Ref.Run)
	last := got(w.Store.LastSteps(t.Context(), w.Tenant, at.Ref.Run, 3))(t)
	var names []string
	for _, s := range last {
		names = append(names, s.Name)
	}
	if d := cmp.Diff([]string{"step 2498", "step 2499", "step 2500"}, names); d != "" {
		t.Errorf("the last steps (-want +got):\n%s", d)
	}
	if n := len(got(w.Store.LastSteps(t.Context(), w.Tenant, at.Ref.Run, 10_000))(t)); n < 2500 {
		t.Errorf("%d steps", n)
	}
}
