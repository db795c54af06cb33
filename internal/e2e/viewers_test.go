package e2e_test

import (
	"fmt"
	"slices"
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
	quiet := len(r.Events(run)) // what comes from here on, all are there to see
	r.Person("ben").Approve(gate)
	r.Await(run, wire.RunStateSUCCEEDED)
	events := r.Events(run)
	want, again := len(events), 0
	var late []time.Duration
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
		for n := quiet; n < min(len(v.Rows), want); n++ {
			late = append(late, v.At[n].Sub(events[n].At))
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
	if slices.Sort(late); len(late) > 0 {
		fmt.Printf("U8 %d viewers of one run, %d events: from the event to each viewer p50 %s, p95 %s, largest %s\n", people*each, want, late[len(late)/2].Round(time.Millisecond), late[len(late)*95/100].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
	}
}
