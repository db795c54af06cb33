package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// slowedDown is an agent whose provider answers "too many requests" until the test says calm; then it follows its recipe.
const slowedDown = `[ -e /opt/signals/calm ] || { printf '%s\n' '{"type":"result","reason":"quota","retry_after_seconds":8,"summary":"429"}' >&3; exit 0; }; eval "$0"`

// R-DRILL-5, R-TEST-17: a provider that asks to slow down is left alone by everybody for as long as it asked: the run that
// met it keeps its attempts, the others are not given out and say why, nobody storms, and all go on by themselves afterwards.
func TestDrill5(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Workers: -1, Agents: map[string]rig.Agent{
		"default": {Argv: []string{"sh", "-c", slowedDown, rig.Follow}, Plan: "auto", Wall: "1m", Grace: "1s"},
	}})
	r.SetPolicy("schema: 1\nversion: stoic-1\nrouting: {agents: {default: {provider: stoic}}}\n")
	repo := r.Repository("acme/shop", rig.Shop())
	submit := func() string {
		_, run := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
		return run
	}
	first, second := submit(), submit()
	r.StartWorker(rig.WorkerOptions{MaxRuns: 1})

	limited := func(run string) (n int) {
		for _, e := range r.Events(run) {
			if e.Kind == "attempt_failed" && e.Payload["code"] == "PROVIDER_RATE_LIMIT" {
				n++
			}
		}
		return n
	}
	r.Eventually("a run meets the provider", rig.Patience, func() (bool, string) {
		n := limited(first) + limited(second)
		return n == 1, fmt.Sprintf("%d times", n)
	})
	waiting := second
	if limited(second) == 1 {
		waiting = first
	}
	r.Eventually("the other run says why it waits", rig.Patience, func() (bool, string) {
		s := r.Run(waiting).Sentence
		return strings.Contains(s, "stoic"), s
	})
	r.Signal("calm")
	for _, run := range []string{first, second} {
		r.AwaitGate(run)
		if n := r.Run(run).AttemptNo; run == waiting && n != 1 {
			t.Errorf("the run that waited is in attempt %d", n)
		}
	}
	// Where calm comes after the pause, the one probe may have been turned away once more; a storm would be every look.
	if n := limited(first) + limited(second); n > 3 {
		t.Errorf("the provider was asked %d times while it wanted to be left alone", n)
	}
}
