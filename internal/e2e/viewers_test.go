package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-UI-1, U8: two hundred people look at one run while it runs, and the server is restarted in the middle: each has every row once and
// in order, ends with the end, and gets at most four messages a second.
func TestManyViewersMissNothing(t *testing.T) {
	t.Parallel()
	people, each := 20, 10
	if testing.Short() {
		people = 3
	}
	r := rig.New(t, rig.Options{Timing: steady(), Approvers: people, Failures: true})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo, "all-are-there", "server-is-back"))
	var audience []*rig.Person
	for i := range people {
		audience = append(audience, r.Person(fmt.Sprint("a", i+1)))
	}
	seen := make(chan []*rig.Viewer, 1)
	var here sync.WaitGroup
	here.Add(people * each)
	go func() { seen <- r.Watch(t.Context(), run, audience, each, here.Done) }()
	r.Await(run, wire.RunStateEXECUTING)
	here.Wait()
	r.Signal("all-are-there")
	r.StopServer()
	r.StartServer()
	r.Signal("server-is-back")
	gate := r.AwaitGate(run)
	r.Person("ben").Approve(gate)
	r.Await(run, wire.RunStateSUCCEEDED)
	want := len(r.Events(run))
	again := 0
	for i, v := range <-seen {
		if v.Err != nil {
			t.Fatalf("viewer %d: %v", i, v.Err)
		}
		if len(v.Rows) != want {
			t.Errorf("viewer %d has %d rows for %d events: %v", i, len(v.Rows), want, v.Rows)
		}
		for n, row := range v.Rows {
			if row != n+1 {
				t.Errorf("viewer %d: a row is lost or doubled: %v", i, v.Rows)
				break
			}
		}
		if !strings.Contains(v.Panel, "Succeeded") {
			t.Errorf("viewer %d ended with another panel: %.300s", i, v.Panel)
		}
		if len(v.Connections) > 1 {
			again++
		}
		for _, c := range v.Connections {
			// The first message answers the page's cursor at once.
			if most := 2 + int(4*c.Lasted/time.Second); c.Messages > most {
				t.Errorf("viewer %d got %d messages in %s", i, c.Messages, c.Lasted)
			}
		}
	}
	if again != people*each {
		t.Errorf("the restart cut the streams of %d viewers", again)
	}
	t.Logf("%d viewers, %d of whom came back after the restart; %d events", people*each, again, want)
}
