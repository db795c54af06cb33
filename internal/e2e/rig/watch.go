package rig

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Patience is how long a step of a run may take before a test gives up: far more than it takes on a busy machine.
const Patience = 60 * time.Second

// Eventually asks until ok, and fails the test with the last words when limit is over or the test's time ends.
func (r *Rig) Eventually(what string, limit time.Duration, ask func() (ok bool, words string)) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, words := ask()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.T.Fatalf("rig: not within %s: %s: %s", limit, what, words)
		}
	}
}

var tokenText = regexp.MustCompile(`sbt_[0-9A-Za-z]+`)

// API is a client of the JSON API with a token of rita's that may read and ask; she makes it on the page of tokens.
func (r *Rig) API() *wire.ClientWithResponses {
	t := r.T
	t.Helper()
	if r.api != nil {
		return r.api
	}
	page := r.Person("rita").Fill("/tokens", "/tokens", url.Values{"name": {"end to end"}, "scopes": {"read", "tasks"}})
	token := tokenText.FindString(page.Body)
	if token == "" {
		t.Fatalf("rig: make a token: answered %d: %s", page.Status, page.Alert())
	}
	var err error
	r.api, err = wire.NewClientWithResponses(r.URL+"/api/v1", wire.WithRequestEditorFn(func(_ context.Context, q *http.Request) error {
		q.Header.Set("Authorization", "Bearer "+token)
		return nil
	}))
	r.must(err, "make a client")
	return r.api
}

// Run reads a run by the API.
func (r *Rig) Run(id string) *wire.Run {
	r.T.Helper()
	answer, err := r.API().GetRunWithResponse(r.T.Context(), id)
	r.must(err, "read the run")
	if answer.JSON200 == nil {
		r.T.Fatalf("rig: read the run: answered %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200
}

// Await waits until a run is in one of the states. A run that ends elsewhere fails the test at once, with its history.
func (r *Rig) Await(id string, states ...wire.RunState) *wire.Run {
	r.T.Helper()
	var got *wire.Run
	r.Eventually(fmt.Sprintf("%s is %v", id, states), r.options.Patience, func() (bool, string) {
		got = r.Run(id)
		if slices.Contains(states, got.State) {
			return true, ""
		}
		if got.Terminal {
			r.T.Fatalf("%s ended as %s, want %v\n%s", id, got.State, states, r.History(id))
		}
		return false, "it is " + string(got.State) + "\n" + r.History(id)
	})
	return got
}

// AwaitGate waits until a run stands at an open gate other than those named, and returns it.
func (r *Rig) AwaitGate(id string, not ...string) string {
	r.T.Helper()
	var gate string
	r.Eventually(id+" stands at a gate", r.options.Patience, func() (bool, string) {
		got := r.Run(id)
		if got.Terminal {
			r.T.Fatalf("%s ended as %s and not at a gate\n%s", id, got.State, r.History(id))
		}
		gate = got.GateId
		return got.State == wire.RunStateWAITINGFORAPPROVAL && gate != "" && !slices.Contains(not, gate), "it is " + string(got.State) + "\n" + r.History(id)
	})
	return gate
}

// Events reads a run's events, all of them.
func (r *Rig) Events(id string) []wire.RunEvent {
	r.T.Helper()
	var all []wire.RunEvent
	var after int64
	for {
		answer, err := r.API().ListRunEventsWithResponse(r.T.Context(), id, &wire.ListRunEventsParams{After: &after})
		r.must(err, "read the events")
		if answer.JSON200 == nil {
			r.T.Fatalf("rig: read the events: answered %s: %s", answer.Status(), answer.Body)
		}
		if len(answer.JSON200.Items) == 0 {
			return all
		}
		all = append(all, answer.JSON200.Items...)
		after = all[len(all)-1].Seq
	}
}

// Kinds are the kinds of a run's events in order.
func (r *Rig) Kinds(id string) []string {
	r.T.Helper()
	var all []string
	for _, e := range r.Events(id) {
		all = append(all, string(e.Kind))
	}
	return all
}

// Count is how many events of a kind a run has.
func (r *Rig) Count(id, kind string) int {
	r.T.Helper()
	n := 0
	for _, k := range r.Kinds(id) {
		if k == kind {
			n++
		}
	}
	return n
}

// States are the states that a run passed, in order.
func (r *Rig) States(id string) []string {
	r.T.Helper()
	var all []string
	for _, e := range r.Events(id) {
		if n := len(all); n == 0 || all[n-1] != string(e.To) {
			all = append(all, string(e.To))
		}
	}
	return all
}

// History is a run's events in words, for failures.
func (r *Rig) History(id string) string {
	r.T.Helper()
	var b strings.Builder
	for _, e := range r.Events(id) {
		fmt.Fprintf(&b, "%3d %-26s %-20s → %-20s %s\n", e.Seq, e.Kind, e.From, e.To, e.Sentence)
	}
	return b.String()
}

// Message is one server-sent event.
type Message struct {
	ID    string
	Event string
	Data  string
}

// Stream follows a page's event stream as a person, until the server ends it, each returns false, or the test ends.
// lastEventID is sent where it is not empty. The status is that of the answer.
func (p *Person) Stream(ctx context.Context, path, lastEventID string, each func(Message) bool) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.r.URL+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	client := &http.Client{Jar: p.Browser.HTTP.Jar}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, nil
	}
	scanner := bufio.NewScanner(resp.Body)
	scanner.Buffer(nil, 16<<20)
	var m Message
	var data []string
	for scanner.Scan() {
		line := scanner.Text()
		if line == "" {
			if m.ID != "" || m.Event != "" || len(data) > 0 {
				m.Data = strings.Join(data, "\n")
				if !each(m) {
					return resp.StatusCode, nil
				}
			}
			m, data = Message{}, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			m.ID = value
		case "event":
			m.Event = value
		case "data":
			data = append(data, value)
		}
	}
	return resp.StatusCode, scanner.Err()
}

// Artifacts are the contents of a run's artifacts of one kind, oldest first.
func (r *Rig) Artifacts(id, kind string) []string {
	t := r.T
	t.Helper()
	answer, err := r.API().ListRunArtifactsWithResponse(t.Context(), id)
	r.must(err, "list artifacts")
	if answer.JSON200 == nil {
		t.Fatalf("rig: list artifacts: answered %s: %s", answer.Status(), answer.Body)
	}
	items := answer.JSON200.Items
	slices.SortStableFunc(items, func(a, b wire.Artifact) int { return a.CreatedAt.Compare(b.CreatedAt) })
	var all []string
	for _, a := range items {
		if string(a.Kind) != kind {
			continue
		}
		content, err := r.API().GetArtifactContentWithResponse(t.Context(), a.Id)
		r.must(err, "read an artifact")
		if content.StatusCode() != http.StatusOK {
			t.Fatalf("rig: read an artifact: answered %s", content.Status())
		}
		all = append(all, string(content.Body))
	}
	return all
}

// Decisions is how many decisions are stored for a gate.
func (r *Rig) Decisions(gate string) int {
	r.T.Helper()
	id, err := typeid.Parse(typeid.Gate, gate)
	r.must(err, "read the gate's id")
	var n int
	r.must(r.Owner.QueryRow(r.T.Context(), `SELECT count(*) FROM decisions WHERE gate_id = $1`, id).Scan(&n), "count decisions")
	return n
}

// Submit asks for a task by the API, as rita's token may, and returns the task and its run.
func (r *Rig) Submit(k wire.TaskCreate) (task, run string) {
	t := r.T
	t.Helper()
	answer, err := r.API().CreateTaskWithResponse(t.Context(), &wire.CreateTaskParams{IdempotencyKey: rand.Text()}, k)
	r.must(err, "submit the task")
	if answer.JSON201 == nil || answer.JSON201.ActiveRunId == "" {
		t.Fatalf("rig: submit the task: answered %s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON201.Id, answer.JSON201.ActiveRunId
}
