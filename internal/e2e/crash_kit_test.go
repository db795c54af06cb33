package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/internal/dbtest/audit"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// points is the folder in which a test says what a crashworker does at a named point.
type points struct {
	t   testing.TB
	dir string
}

func newPoints(t testing.TB) *points {
	return &points{t: t, dir: t.TempDir()}
}

// worker is a worker that looks into the folder.
func (p *points) worker(o rig.WorkerOptions) rig.WorkerOptions {
	o.Binary = rig.Binary(p.t, "internal/e2e/crashworker")
	o.Env = append(slices.Clone(o.Env), "E2E_POINTS="+p.dir)
	return o
}

func (p *points) path(name string) string { return filepath.Join(p.dir, name) }

// kill, stop and hold say what the worker does the next time that it comes to a point.
func (p *points) kill(point string) { p.set(point + ".kill") }
func (p *points) stop(point string) { p.set(point + ".stop") }
func (p *points) hold(point string) { p.set(point + ".hold") }

func (p *points) set(name string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// release lets a lease go on that is held at a point.
func (p *points) release(point string) {
	p.t.Helper()
	if err := os.Remove(p.path(point + ".held")); err != nil {
		p.t.Fatal(err)
	}
}

// reached waits until the worker is held or stopped at a point.
func (p *points) reached(r *rig.Rig, point string) {
	p.t.Helper()
	r.Eventually("the worker comes to "+point, rig.Patience, func() (bool, string) {
		for _, how := range []string{".held", ".stopped"} {
			if _, err := os.Stat(p.path(point + how)); err == nil {
				return true, ""
			}
		}
		return false, "it did not"
	})
}

// inside are the processes that live in a sandbox whose workspace is below dir.
func inside(t testing.TB, dir string) []string {
	t.Helper()
	found, err := audit.Processes(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// awaitEmpty waits until no process of the worker's sandboxes is left.
func awaitEmpty(r *rig.Rig, dir string, limit time.Duration) {
	r.T.Helper()
	r.Eventually("no process is left in a sandbox", limit, func() (bool, string) {
		left := inside(r.T, dir)
		return len(left) == 0, strings.Join(left, "\n")
	})
}

// tokens are the fencing tokens of a run's leases in the order in which they were given.
func tokens(r *rig.Rig, run string) []int64 {
	r.T.Helper()
	var all []int64
	for _, e := range r.Events(run) {
		if e.Kind != "lease_acquired" {
			continue
		}
		lease, ok := e.Payload["lease"].(map[string]any)
		if !ok {
			r.T.Fatalf("event %d has no lease: %v", e.Seq, e.Payload)
		}
		token, ok := lease["token"].(float64)
		if !ok {
			r.T.Fatalf("event %d has no token: %v", e.Seq, e.Payload)
		}
		all = append(all, int64(token))
	}
	return all
}

// wellKept asserts of a finished run what must hold whatever happened on the way: tokens only grew, event numbers have
// no gap, and exactly one event is the last. That the log replays to the row is the rig's last look.
func wellKept(r *rig.Rig, run string) {
	t := r.T
	t.Helper()
	all := tokens(r, run)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			t.Errorf("fencing tokens %v do not grow", all)
			break
		}
	}
	events := r.Events(run)
	ends := 0
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		if slices.Contains([]wire.RunState{wire.RunStateSUCCEEDED, wire.RunStateFAILED, wire.RunStateCANCELLED, wire.RunStateEXPIRED}, e.To) {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d events end the run, want one\n%s", ends, r.History(run))
	}
	if t.Failed() {
		t.Log(fmt.Sprint("tokens ", all, "\n"), r.History(run))
	}
}
