package bench_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Times of the figure. The server's loops tick as they are shipped, once a second.
const (
	killTTL  = 5 * time.Second
	killBeat = time.Second
	kills    = 15
)

// killed is what one worker's death cost.
type killed struct{ heard, killed, ended, again time.Time }

// BenchmarkRelease prints how long after the death of its worker a run is leased to another one: shipped server, shipped
// workers, SIGKILL. b.N means nothing to it.
func BenchmarkRelease(b *testing.B) {
	trials := kills
	if testing.Short() {
		trials = 2
	}
	// The pause before another attempt, 30 s as shipped, is left out: it is not what is measured.
	r := rig.New(b, rig.Options{Durable: true, Workers: -1, Timing: db.Timing{LeaseTTL: killTTL, BackoffScale: 1e-4}})
	f := newFigure(b)
	defer f.print()
	serve(r)
	repo := r.Repository("acme/shop", rig.Shop())
	worker := func() *rig.Worker {
		return r.StartWorker(rig.WorkerOptions{MaxRuns: 1, Env: []string{"SIGNALBOX_WORKER_HEARTBEAT=" + killBeat.String()}})
	}
	holder := worker()
	var all []killed
	for n := range trials {
		_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Wait", Goal: rig.Recipe("Wait.", rig.Await("never"))})
		r.Await(id, wire.RunStateEXECUTING)
		next := worker()
		k := kill(r, holder, id)
		all = append(all, k)
		progress("killed %d of %d: the lease ended %.1f s after the last heartbeat, the next began %.1f s after it", n+1, trials, k.ended.Sub(k.heard).Seconds(), k.again.Sub(k.heard).Seconds())
		answer, err := r.API().CancelRunWithResponse(b.Context(), id, &wire.CancelRunParams{IdempotencyKey: fmt.Sprintf("bench-cancel-%d", n)}, wire.Reason{Reason: "Measured."})
		if err != nil || answer.StatusCode() != http.StatusOK {
			b.Fatalf("bench: cancel: %v %s", err, answer.Body)
		}
		r.Await(id, wire.RunStateCANCELLED)
		holder = next
	}
	f.line("SIGKILL of a worker that holds a lease of %s, heartbeats every %s, loops every second, %d times:", killTTL, killBeat, trials)
	for _, d := range []struct {
		what string
		took func(killed) time.Duration
	}{
		{"last heartbeat → lease ended", func(k killed) time.Duration { return k.ended.Sub(k.heard) }},
		{"last heartbeat → leased again", func(k killed) time.Duration { return k.again.Sub(k.heard) }},
		{"kill → leased again", func(k killed) time.Duration { return k.again.Sub(k.killed) }},
	} {
		var took []time.Duration
		late := 0
		for _, k := range all {
			took = append(took, d.took(k))
			if d.took(k) > killTTL+time.Second {
				late++
			}
		}
		f.line("    %s: smallest %.2f s, median %.2f s, largest %.2f s; %d of %d later than the lease time and one second (%s).",
			d.what, slices.Min(took).Seconds(), quantile(took, 0.5).Seconds(), slices.Max(took).Seconds(), late, trials, killTTL+time.Second)
	}
}

// kill ends the worker and waits until another one has its run. Every time but that of the kill is the database's, which
// runs on the same clock.
func kill(r *rig.Rig, w *rig.Worker, id string) (k killed) {
	t := r.T
	t.Helper()
	row, err := typeid.Parse(typeid.Run, id)
	if err != nil {
		t.Fatalf("bench: %v", err)
	}
	k.killed = time.Now()
	w.Kill()
	var lease uuid.UUID
	if err := r.Owner.QueryRow(t.Context(), `SELECT lease_id, heartbeat_at FROM run_leases WHERE run_id = $1`, row).Scan(&lease, &k.heard); err != nil {
		t.Fatalf("bench: read the lease: %v", err)
	}
	r.Eventually("another worker has the run", time.Minute, func() (bool, string) {
		err := r.Owner.QueryRow(t.Context(), `SELECT e.ended_at, l.acquired_at FROM ended_leases e JOIN run_leases l ON l.run_id = e.run_id WHERE e.lease_id = $1`, lease).Scan(&k.ended, &k.again)
		return err == nil, r.History(id)
	})
	return k
}

// serve replaces the rig's server by `signalbox serve` with the rhythm that it is shipped with.
func serve(r *rig.Rig) {
	t := r.T
	t.Helper()
	r.StopServer()
	log, err := os.Create(filepath.Join(r.Dir, "shipped.log"))
	if err != nil {
		t.Fatalf("bench: %v", err)
	}
	cmd := exec.Command(rig.Binary(t, "cmd/signalbox"), "serve")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.Dir, "LANG=C.UTF-8",
		"SIGNALBOX_ADDR=" + strings.TrimPrefix(r.URL, "http://"), "SIGNALBOX_PUBLIC_URL=" + r.URL, "SIGNALBOX_DATABASE_URL=" + r.Database.EngineURL, "SIGNALBOX_DATABASE_APP_URL=" + r.Database.AppURL,
		"SIGNALBOX_ARTIFACT_URL=file://" + filepath.Join(r.Dir, "artifacts"), "SIGNALBOX_LOCAL_FORGE=" + filepath.Join(r.Dir, "forge"),
		"SIGNALBOX_SESSION_KEY=" + strings.Repeat("k", 32), "SIGNALBOX_LEASE_TTL=" + killTTL.String(), "SIGNALBOX_BACKOFF_SCALE=0.0001",
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("bench: start the server: %v", err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("bench: stop the server: %v", err)
		}
		_ = cmd.Wait() // it was killed
		_ = log.Close()
	})
	r.Eventually("the server answers", 30*time.Second, func() (bool, string) {
		resp, err := http.Get(r.URL + "/healthz") //nolint:noctx // one look
		if err != nil {
			return false, err.Error()
		}
		return resp.Body.Close() == nil, ""
	})
}
