package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// costly is a policy in which 10 cents stop a run and a day costs at most 11.
const costly = `version: costly-1
limits: {cost_cents: 10}
budget: {on_exceeded: fail, daily_cents: 11, time_zone: %s}
routing: {agents: {default: {provider: acme}}}
prices:
  acme:
    m.1: {in_micros: 1000000, out_micros: 2000000}
`

// R-COST-1, R-FAIL-6, R-FAIL-8, R-ADM-5: what an agent says it used comes from its own lines through a worker of its own
// process into the budgets: reported and estimated cost together stop the run with an outcome and an instant of its own, what
// nobody put a price on is unknown and stops nothing, and the tenant's day, used up, puts new work off.
func TestCostBinds(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{})
	// A day that is not about to end: the test takes place at its noon.
	hour := time.Now().UTC().Hour()
	zone := fmt.Sprintf("Etc/GMT%+d", hour-12)
	midnight := time.Now().UTC().Truncate(time.Hour).Add(12 * time.Hour)
	r.SetPolicy(fmt.Sprintf(costly, zone))
	repo := r.Repository("acme/shop", rig.Shop())
	submit := func(acts ...rig.Act) string {
		_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", acts...)})
		return run
	}
	says := func(line string) rig.Act { return rig.Act{Do: "raw", New: line + "\n"} }
	cost := func(run string) wire.RunCost {
		answer, err := r.API().GetRunCostWithResponse(t.Context(), run)
		if err != nil || answer.JSON200 == nil {
			t.Fatalf("read the cost: %v", err)
		}
		return *answer.JSON200
	}

	free := submit(says(`{"type":"usage","input":700,"output":30,"provider":"nobody","model":"m.1"}`), good())
	r.AwaitGate(free)
	if c := cost(free); c.TokensIn.Actual != 700 || c.TokensOut.Actual != 30 || c.UnpricedCalls != 1 || c.ReportedMicros+c.EstimatedMicros != 0 || !c.ExceededAt.IsZero() {
		t.Errorf("a call without a price: %+v", c)
	}
	if page := r.SignIn("rita").Get("/runs/" + free).Main(); !strings.Contains(page, "cost unknown for 1 call") {
		t.Errorf("the page does not say that the cost is unknown:\n%s", page)
	}

	spent := submit(says(`{"type":"usage","input":10,"output":1,"model":"own","cost_micros":60000}`), says(`{"type":"usage","input":30000,"output":10000,"model":"m.1"}`), rig.Act{Do: "hang"})
	if got := r.Await(spent, wire.RunStateFAILED); got.Failure == nil || got.Failure.ReasonCode != "BUDGET_EXCEEDED" {
		t.Errorf("it ended with %+v\n%s", got.Failure, r.History(spent))
	}
	if c := cost(spent); c.ReportedMicros != 60_000 || c.EstimatedMicros != 50_000 || c.UnpricedCalls != 0 || c.ExceededAt.IsZero() {
		t.Errorf("cost %+v", c)
	}
	if n := r.Count(spent, "budget_exceeded"); n != 1 {
		t.Errorf("%d transitions say that the budget is spent", n)
	}

	late := submit(good())
	r.Await(late, wire.RunStateCREATED)
	for _, e := range r.Events(late) {
		if e.Kind != "run_deferred" {
			continue
		}
		after, _ := e.Payload["retry_after"].(float64)
		if due := e.At.Add(time.Duration(after)); e.Payload["code"] != "TENANT_DAILY_MODEL_BUDGET_EXCEEDED" || due.Sub(midnight).Abs() > 5*time.Second {
			t.Errorf("put off by %v until %s, the day ends at %s", e.Payload["code"], due, midnight)
		}
		return
	}
	t.Errorf("the run that waits for tomorrow was not put off:\n%s", r.History(late))
}
