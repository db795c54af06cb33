package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// R-WRK-1: a worker that tries its sandbox and tools is STARTING: people see it, it is given no work, and its heartbeats
// do not change that. It is READY, as the same boot, with what it found out.
func TestStartingWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	secret := db.Mint(db.PrefixWorker)
	_, err := w.store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: "slow", Phases: run.Phases()}, secret)
	must(t, err)
	k := &worker{client: client{w, secret}}
	body := wire.WorkerRegister{Name: "slow", Version: "test", Phases: []wire.Phase{wire.Execute}, Isolation: wire.Bwrap, MaxConcurrentRuns: 1,
		Capabilities: []string{"agent:default"}, State: wire.BootStarting}
	k.boot = into[wire.WorkerBoot](t, k.call(t, "POST", "/workers/register", body).want(t, http.StatusCreated)).BootId
	shown := func(state string) {
		t.Helper()
		if list := into[wire.WorkerList](t, w.cli(t, rita).call(t, "GET", "/workers", nil)); len(list.Items) != 1 || list.Items[0].State != state {
			t.Fatalf("shown as %+v, want %s", list.Items, state)
		}
	}
	shown("STARTING")
	if page := w.signedIn(t, adam).get(t, "/workers").want(t, http.StatusOK); !strings.Contains(page.body, "Starting") || !strings.Contains(page.body, "1 worker tries its sandbox") {
		t.Error("the page does not say that a worker is starting")
	}
	claim := wire.Claim{ClaimId: "claim-too-early", BootId: k.boot, Phases: []wire.Phase{wire.Execute}, Max: 1}
	k.call(t, "POST", "/workers/claims", claim).want(t, http.StatusConflict)
	k.call(t, "POST", "/workers/heartbeat", wire.Heartbeat{BootId: k.boot, State: wire.WorkerReady, Leases: []wire.HeldLease{}}).want(t, http.StatusOK)
	shown("STARTING")
	k.call(t, "POST", "/workers/claims", claim).want(t, http.StatusConflict)

	body.State, body.BootId = wire.BootReady, k.boot
	body.Probes = []wire.ProbeResult{{Name: "network", Passed: true}}
	for range 2 { // a repeat makes no second boot
		if again := into[wire.WorkerBoot](t, k.call(t, "POST", "/workers/register", body).want(t, http.StatusCreated)).BootId; again != k.boot {
			t.Errorf("boot %s is ready, want %s", again, k.boot)
		}
	}
	shown("READY")
	claim.ClaimId = "claim-in-time"
	if ack := into[wire.ClaimAck](t, k.call(t, "POST", "/workers/claims", claim).want(t, http.StatusOK)); len(ack.Assignments) != 1 {
		t.Errorf("%d leases", len(ack.Assignments))
	}
	// Another worker's boot is nobody else's, and one that has stopped does not start again.
	w.worker(t, "other").call(t, "POST", "/workers/register", body).want(t, http.StatusConflict)
	k.call(t, "POST", "/workers/deregister", wire.BootRef{BootId: k.boot}).want(t, http.StatusNoContent)
	k.call(t, "POST", "/workers/register", body).want(t, http.StatusConflict)
}
