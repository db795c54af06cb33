package db_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-ADM-1: the answer of admission is stored in full with the facts it stands on; made again from them it is the same.
func TestAdmissionIsStoredAndCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	const document = "version: few-1\nadmission: {quota: {max_active: 1}}\n"
	w := newWorld(t, drive.Options{Policy: document})
	rules := got(policy.Parse([]byte(document)))(t)
	admitted := got(w.Run(t.Context(), drive.Ordinary()))(t)
	putOff := got(w.Run(t.Context(), drive.Ordinary()))(t)
	for ref, want := range map[db.Ref]policy.AdmissionVerdict{admitted: policy.Admit, putOff: policy.Defer} {
		var version, verdict, code string
		var decision, inputs []byte
		must(t, w.Owner.QueryRow(t.Context(), `SELECT version, verdict, code, decision, inputs FROM policy_decisions WHERE run_id = $1`, ref.Run).
			Scan(&version, &verdict, &code, &decision, &inputs))
		var d policy.AdmissionDecision
		var f policy.Facts
		must(t, json.Unmarshal(decision, &d))
		must(t, json.Unmarshal(inputs, &f))
		if d.Verdict != want || verdict != string(want) || code != d.Code || version != "few-1" || d.PolicyVersion != "few-1" {
			t.Errorf("%s %s %s: %+v", version, verdict, code, d)
		}
		if again := policy.Admission(rules, f); !reflect.DeepEqual(again, d) {
			t.Errorf("made again it is %+v, stored %+v", again, d)
		}
	}
	if s := w.info(t, putOff).State; s != run.Created {
		t.Errorf("the second run is %s", s)
	}
	w.replays(t)
}

// R-ADM-5: however many ask at once, no more are admitted than the quota says.
func TestQuotaIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 12, Policy: "version: few-1\nadmission: {quota: {max_queued: 3}}\n"})
	for _, err := range all(12, func(int) error {
		_, err := w.Run(t.Context(), drive.Ordinary())
		return err
	}) {
		must(t, err)
	}
	if n := w.count(t, `SELECT count(*) FROM run_queue`); n != 3 {
		t.Errorf("%d runs are queued, the quota is 3", n)
	}
	if n := w.count(t, `SELECT count(*) FROM policy_decisions WHERE code = 'TENANT_QUEUE_FULL'`); n != 9 {
		t.Errorf("%d were put off", n)
	}
}

// R-COST-1, R-ADM-5: what a tenant spent today, reported and estimated together, puts new work off until its day ends in
// its own zone; tomorrow it begins.
func TestDailyBudgetDefersUntilTheDayIsOver(t *testing.T) {
	t.Parallel()
	zone := got(time.LoadLocation("Asia/Jakarta"))(t)
	w := newWorld(t, drive.Options{Currency: "CHF", Policy: "version: thrifty-1\nlimits: {max_defer: 2d}\nprices: {acme: {m: {in_micros: 1000000, out_micros: 2000000}}}\nbudget: {daily_cents: 100, time_zone: Asia/Jakarta}\n"})
	at := w.at(t, run.Executing)
	spend := func(n int64, u db.Used) {
		u.ProviderCalls = 2
		got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: n, Used: &u}))(t)
	}
	spend(101, db.Used{Model: "unheard of", CostMicros: new(int64(600_000))})
	spend(102, db.Used{Provider: "acme", Model: "unheard of", InputTokens: 5})
	if ref := got(w.Run(t.Context(), drive.Ordinary()))(t); w.info(t, ref).State != run.Queued {
		t.Error("put off with money left")
	}
	spend(103, db.Used{Provider: "acme", Model: "m", InputTokens: 300_000, OutputTokens: 100_000})
	ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
	var code, words string
	var due time.Time
	must(t, w.Owner.QueryRow(t.Context(), `SELECT p.code, p.decision::text, a.due_at FROM policy_decisions p JOIN run_admissions a USING (run_id) WHERE run_id = $1`, ref.Run).Scan(&code, &words, &due))
	if !strings.Contains(words, "1.10\u00a0CHF of 1.00\u00a0CHF") {
		t.Errorf("the decision does not name its amounts: %s", words)
	}
	y, m, d := time.Now().In(zone).Date()
	if midnight := time.Date(y, m, d+1, 0, 0, 0, 0, zone); code != policy.CodeDailyBudget || due.Sub(midnight).Abs() > 5*time.Second {
		t.Errorf("%s until %s, the day ends at %s", code, due, midnight)
	}
	now := time.Now()
	if cost := got(w.Store.TenantCost(t.Context(), w.Tenant, now.Add(-time.Hour), now.Add(time.Hour)))(t); cost != (db.Money{Reported: 600_000, Estimated: 500_000, UnknownCalls: 2}) {
		t.Errorf("%+v", cost)
	}
	days := got(w.Store.DayCosts(t.Context(), w.Tenant, "Asia/Jakarta", now.Add(-time.Hour), now.Add(time.Hour)))(t)
	if len(days) == 0 || len(days) == 1 && (days[0].Day != fmt.Sprintf("%04d-%02d-%02d", y, m, d) || days[0].Reported != 600_000) {
		t.Errorf("%+v", days)
	}
	dbtest.Advance(t, w.db, 25*time.Hour)
	got(w.Store.Admit(t.Context(), ref))(t)
	if s := w.info(t, ref).State; s != run.Queued {
		t.Errorf("a day later it is %s", s)
	}
}

// R-COST-1: a run's cost in eight dimensions, each with its maximum, reported, estimated and unknown apart, and when the
// limit of cost was reached.
func TestRunCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: p-1\nlimits: {cost_cents: 10, provider_calls: 500}\nprices: {acme: {m.1: {in_micros: 2000000, out_micros: 10000000}}}\n"})
	at := w.at(t, run.Executing)
	before := got(w.Store.RunCost(t.Context(), at.Ref))(t)
	use := func(n int64, u db.Used) {
		got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: n, Used: &u}))(t)
	}
	use(101, db.Used{InputTokens: 10, OutputTokens: 5, ToolTime: time.Second, ProviderCalls: 1, CostMicros: new(int64(70_000))})
	use(102, db.Used{Provider: "acme", Model: "m.1", InputTokens: 5000, OutputTokens: 1000, ProviderCalls: 1})
	use(103, db.Used{Model: "m.1", InputTokens: 100, ProviderCalls: 3}) // of the run's own provider, which has no price list
	use(104, db.Used{OutputTokens: 1})
	use(105, db.Used{ToolCalls: 1})
	c := got(w.Store.RunCost(t.Context(), at.Ref))(t)
	if c.TokensIn.Actual-before.TokensIn.Actual != 5110 || c.TokensOut.Actual-before.TokensOut.Actual != 1006 || c.TokensIn.Maximum != 5_000_000 || c.ToolMs.Actual < 1000 ||
		c.Money != (db.Money{Reported: 70_000, Estimated: 20_000, UnknownCalls: 4}) || c.MaxMicros != 100_000 || c.ProviderCalls.Maximum != 500 || c.ExceededAt != nil {
		t.Errorf("%+v", c)
	}
	if c.SandboxMs.Actual <= 0 || c.StorageBytes.Actual <= 0 {
		t.Errorf("nothing stood and nothing is stored: %+v", c)
	}
	use(106, db.Used{Provider: "acme", Model: "m.1", OutputTokens: 1000})
	c = got(w.Store.RunCost(t.Context(), at.Ref))(t)
	if c.ExceededAt == nil {
		t.Error("nobody noticed that the limit of cost is reached")
	}
	if n := w.count(t, `SELECT count(*) FROM runs WHERE stop_signal = 'budget' AND id = $1`, at.Ref.Run); n != 1 {
		t.Error("the worker is not told to stop")
	}
	w.replays(t)
}

// R-FAIL-4, R-FAIL-8: each thing that a run may use up tells its worker to stop when it is used up, by the limit that the
// run was admitted with.
func TestEachLimitStopsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: tight-1\nlimits: {tokens_in: 1000, tokens_out: 100, tool_calls: 10, agent_iterations: 5, provider_calls: 20, cost_cents: 1, shell_time: 30s, verifier_time: 1m, sandbox_time: 2h}\n"})
	used := map[string]db.Used{
		"tokens in": {InputTokens: 1000}, "tokens out": {OutputTokens: 100}, "tool calls": {ToolCalls: 10}, "iterations": {AgentIterations: 5},
		"provider calls": {ProviderCalls: 20}, "cost": {CostMicros: new(int64(10_000))}, "shell time": {ToolTime: 30 * time.Second},
	}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range used {
			if !yield(k) {
				return
			}
		}
	}) {
		at := w.at(t, run.Executing)
		if v := w.info(t, at.Ref).PolicyVersion; v != "tight-1" {
			t.Fatalf("admitted under %s", v)
		}
		signal := func() int64 {
			return w.count(t, `SELECT count(*) FROM runs WHERE stop_signal = 'budget' AND id = $1`, at.Ref.Run)
		}
		got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: 200, Used: &db.Used{SandboxTime: time.Second}}))(t)
		if signal() != 0 {
			t.Errorf("%s: stopped with everything left", name)
		}
		u := used[name]
		got(w.Store.Append(t.Context(), at.Lease.Holder(), db.Batch{Sequence: 201, Used: &u}))(t)
		if signal() != 1 {
			t.Errorf("%s: used up, and the worker is not told to stop", name)
		}
	}
}

// R-ADM-5: a policy with a time zone that does not exist cannot be put in force; one of an older version is read on with
// days of UTC, and the log says so once.
func TestPolicyWithAnUnknownTimeZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	const doc = "version: mars-1\nbudget: {daily_cents: 100, time_zone: Mars/Olympus}\n"
	for _, zone := range []string{"Mars/Olympus", "Local"} {
		if _, err := w.Store.SavePolicy(t.Context(), w.Tenant, strings.ReplaceAll(doc, "Mars/Olympus", zone)); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "line 2: budget.time_zone") {
			t.Errorf("%s: %v", zone, err)
		}
	}
	got(w.Store.SavePolicy(t.Context(), w.Tenant, "version: java-1\nbudget: {time_zone: Asia/Jakarta}\n"))(t)
	got(w.Owner.Exec(t.Context(), `INSERT INTO policies (id, tenant_id, version, document) VALUES ($1, $2, 'mars-1', $3)`, uuid.New(), w.Tenant, doc))(t)
	var log bytes.Buffer
	s := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: w.db.AppURL, Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	t.Cleanup(s.Close)
	for range 2 {
		if rules := got(s.Rules(t.Context(), w.Tenant))(t); rules.Version != "mars-1" {
			t.Errorf("policy %s is in force", rules.Version)
		}
	}
	if strings.Count(log.String(), "POLICY_TIME_ZONE_UNKNOWN") != 1 {
		t.Errorf("the log says\n%s", &log)
	}
}

// R-FAIL-6: a report of usage that is sent again because the server died after it was stored still stops the worker: the
// budget is looked at for the repeat, too.
func TestRepeatedUsageIsHeldAgainstTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: b-1\nlimits: {tool_calls: 5}\n"})
	at := w.at(t, run.Executing)
	report := db.Batch{Sequence: 1, Used: &db.Used{ToolCalls: 6}}
	for _, repeat := range []bool{false, true} {
		// The server that stored it did not come as far as the signal.
		_, err := w.Owner.Exec(t.Context(), `UPDATE runs SET stop_signal = '', stop_signal_at = NULL WHERE id = $1`, at.Ref.Run)
		must(t, err)
		if again := got(w.Store.Append(t.Context(), at.Lease.Holder(), report))(t); again != repeat {
			t.Fatalf("a repeat: %t, want %t", again, repeat)
		}
		if p := got(at.Lease.Beat(t.Context()))(t); p.Signal != db.SignalBudget {
			t.Errorf("repeat %t: signal %s", repeat, p.Signal)
		}
	}
}

// A stored policy that cannot be read is no fault of who asks: a worker is told to try again, not that what it brought
// is wrong, and nobody reads a line of the policy in the answer.
func TestUnreadablePolicyIsNoFaultOfTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: b-1\n"})
	ctx := t.Context()
	at := w.at(t, run.Executing)
	got(w.superuser(t).Exec(ctx, `UPDATE policies SET document = document || 'gone_field: 1'`))(t)
	_, used := w.Store.Append(ctx, at.Lease.Holder(), db.Batch{Sequence: 1, Used: &db.Used{InputTokens: 6, ProviderCalls: 1}})
	_, handed := at.Lease.HandIn(ctx, drive.Diff("a.go", "after"))
	for what, err := range map[string]error{"usage": used, "result": handed} {
		if fault.KindOf(err) != fault.Unavailable || strings.Contains(fault.Sentence(err), "gone_field") {
			t.Errorf("%s: %s: %s", what, fault.KindOf(err), fault.Sentence(err))
		}
	}
	got(w.superuser(t).Exec(ctx, `UPDATE policies SET document = replace(document, 'gone_field: 1', '')`))(t)
	if again := got(w.Store.Append(ctx, at.Lease.Holder(), db.Batch{Sequence: 1, Used: &db.Used{InputTokens: 6, ProviderCalls: 1}}))(t); again {
		t.Error("what was refused counts as stored")
	}
	got(at.Lease.HandIn(ctx, drive.Diff("a.go", "after")))(t)
}
