package e2e_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-UI-1, U8: the stream is cut by a restart of the server in the middle of a run; no row is missing or doubled, and
// the page was not loaded again.
// Field reports: htmx#2225, concourse#479, temporalio/web#361.
func TestBrowserStreamSurvivesRestart(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Failures: true})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run := rita.submitTask(raiseTax(repo, "server-is-back"))
	rita.open("/runs/" + run)
	rita.until("the agent works, live", `document.querySelector("#e7") && document.querySelector("#live").dataset.live === "live"`)
	loads := rita.loaded()
	rita.forgive(`log network: Failed to load resource: net::ERR_`, `htmx:sse:error`)
	r.StopServer()
	rita.until("the page says that it lost the server", `document.querySelector("#live").dataset.live === "reconnecting"`)
	r.StartServer()
	r.Signal("server-is-back")
	r.AwaitGate(run)
	rita.until("the page is live again and at the gate", `document.querySelector("#live").dataset.live === "live" && document.querySelector('#run-panel a[href^="/gates/"]')`)
	rows := rita.rows()
	rita.gapless(rows)
	if n := len(r.Events(run)); len(rows) != n {
		t.Errorf("%d rows for %d events", len(rows), n)
	}
	if rita.loaded() != loads {
		t.Errorf("the page was loaded %d times more", rita.loaded()-loads)
	}
}

var rowID = regexp.MustCompile(`<li class="tl-row[^>]* id="e([0-9]+)"`)

// R-UI-1: the cursor of a stream is the id of its last message, over any number of cuts; a finished run ends the
// stream, and coming back to it is answered 204.
// Field reports: htmx-extensions#184, htmx-extensions#134.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	rita := r.Person("rita")
	_, run := rita.Submit(raiseTax(repo, "first", "second"))
	path := "/runs/" + run + "/stream?after=0"
	last, seen := "", []int{}
	read := func(enough func(rows int) bool) (ended bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
		defer cancel()
		status, err := rita.Stream(ctx, path, last, func(m rig.Message) bool {
			if m.Event == "ended" {
				ended = true
			}
			if m.ID == "" {
				return true
			}
			last = m.ID
			for _, found := range rowID.FindAllStringSubmatch(m.Data, -1) {
				n, _ := strconv.Atoi(found[1])
				seen = append(seen, n)
			}
			if n, _ := strconv.Atoi(last); len(seen) == 0 || seen[len(seen)-1] != n {
				t.Errorf("message %s carries rows up to %v", last, seen)
			}
			return !enough(len(seen))
		})
		if err != nil || status != 200 {
			t.Fatalf("stream: %d %v", status, err)
		}
		return ended
	}
	read(func(rows int) bool { return rows >= 3 })
	r.Signal("first")
	read(func(rows int) bool { return rows >= 7 })
	r.Signal("second")
	gate := r.AwaitGate(run)
	r.Person("ana").Approve(gate)
	r.Await(run, wire.RunStateSUCCEEDED)
	if !read(func(int) bool { return false }) {
		t.Error("the stream of a finished run did not say that it ended")
	}
	want := make([]int, len(r.Events(run)))
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(seen, want) {
		t.Errorf("rows %v, want %v", seen, want)
	}
	if status, err := rita.Stream(t.Context(), path, last, func(rig.Message) bool { return false }); err != nil || status != 204 {
		t.Errorf("coming back to a finished run: %d %v", status, err)
	}
}

// R-UI-1: whatever moment a message is made in, its panel is as new as its rows: many streams end with the end shown.
func TestStreamsShowTheEnd(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(raiseTax(repo))
	type end struct {
		rows  []string
		panel string
		err   error
	}
	const each, peeks = 5, 4 // one person may hold ten
	ends := make([]end, 2*each)
	var streams sync.WaitGroup
	for i := range ends {
		p := r.Person([]string{"rita", "ana"}[i/each])
		streams.Go(func() {
			e := &ends[i]
			ctx, cancel := context.WithTimeout(t.Context(), 2*rig.Patience)
			defer cancel()
			_, e.err = p.Stream(ctx, "/runs/"+run+"/stream?after=0", "", func(m rig.Message) bool {
				for _, found := range rowID.FindAllStringSubmatch(m.Data, -1) {
					e.rows = append(e.rows, found[1])
				}
				if m.ID != "" {
					e.panel = m.Data
				}
				return true
			})
		})
	}
	// Readers who come just then, again and again: a first message is made at any moment between two events.
	gate := r.AwaitGate(run)
	form := r.Person("ben").GateForm(gate, "approve")
	looks := make([]string, 2*peeks)
	for i := range looks {
		p := r.Person([]string{"rita", "ana"}[i/peeks])
		streams.Go(func() {
			for done := false; !done && looks[i] == ""; {
				_, err := p.Stream(t.Context(), "/runs/"+run+"/stream?after=10", "", func(m rig.Message) bool {
					panel, rows, _ := strings.Cut(m.Data, `hx-target="#run-facts"`)
					done = strings.Contains(panel, "Succeeded")
					if ended := strings.Contains(rows, "The run succeeded"); ended != done {
						looks[i] = m.Data
					}
					return false
				})
				if err != nil {
					looks[i] = err.Error()
				}
			}
		})
	}
	r.Person("ben").Send(form)
	r.Await(run, wire.RunStateSUCCEEDED)
	streams.Wait()
	for _, look := range looks {
		if look != "" {
			t.Errorf("panel and rows are of two moments: %.2000s", look)
		}
	}
	want := len(r.Events(run))
	for i, e := range ends {
		if e.err != nil || len(e.rows) != want || e.rows[want-1] != strconv.Itoa(want) {
			t.Errorf("stream %d: rows %v of %d, %v", i, e.rows, want, e.err)
		}
		if panel, _, _ := strings.Cut(e.panel, `hx-target="#run-facts"`); !strings.Contains(panel, "Succeeded") {
			t.Errorf("stream %d ended with another panel: %.600s", i, panel)
		}
	}
}
