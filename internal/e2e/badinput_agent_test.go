package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-Q-7, R-FAIL-1: a run whose agent no worker has is given to nobody. While it waits, the list of queues and its page name
// what is missing, and it ends by the time that it may wait, not by using up attempts.
func TestAgentThatNobodyHas(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Policy: "schema: 1\nversion: short-queue-1\nlimits: {queue_timeout: 8s, max_runs: 1}\n"})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", AgentProfile: "unheard-of", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
	answer, err := r.API().ListQueuesWithResponse(t.Context())
	if err != nil || answer.JSON200 == nil {
		t.Fatalf("read the queues: %v %s", err, answer.Body)
	}
	if w := answer.JSON200.Waiting; len(w) != 1 || w[0].RunId != run || !strings.Contains(w[0].Reason, "agent:unheard-of") {
		t.Errorf("waiting: %+v, want the run with the missing agent's name", w)
	}
	if page := r.Person("rita").Get("/runs/" + run); !strings.Contains(page.Body, "agent:unheard-of") {
		t.Error("the run's page does not say what is missing")
	}
	got := r.Await(run, wire.RunStateEXPIRED)
	if got.AttemptNo != 0 || r.Count(run, "lease_acquired") != 0 {
		t.Errorf("attempt %d: a worker had it\n%s", got.AttemptNo, r.History(run))
	}
	const why = "No live worker offers agent:unheard-of"
	if h := r.History(run); !strings.Contains(h, "No worker took the run in time") || !strings.Contains(h, why) {
		t.Errorf("the history does not say how it ended and what it waited for\n%s", h)
	}
	if !strings.Contains(got.Sentence, why) {
		t.Errorf("the API says %q, not what the run waited for", got.Sentence)
	}
	if last := r.Events(run)[len(r.Events(run))-1]; !strings.Contains(fmt.Sprint(last.Payload["why"]), why) {
		t.Errorf("the last event holds %v", last.Payload)
	}
	if n := strings.Count(r.Person("rita").Get("/runs/"+run).Body, why); n < 2 {
		t.Errorf("the page says %d times what the run waited for, want its sentence and its history", n)
	}
	wellNumbered(r, run)
}
