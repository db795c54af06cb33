package worker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// waiting is an agent that changes a file, says so, and then waits.
const waiting = `sed -i s/hello/half/ greeting.txt; echo ready $$; while :; do sleep 0.05; done`

// held starts such an agent and waits until it works. It returns its lease and process id.
func held(t *testing.T, b *bench) (lease, pid string) {
	t.Helper()
	a := b.assignment(wire.Execute, wire.RunStateLEASED)
	b.server.assign(a)
	b.until("the agent's first word", func() bool { return strings.Contains(b.server.logOf("agent"), "ready ") })
	_, rest, _ := strings.Cut(b.server.logOf("agent"), "ready ")
	pid, _, _ = strings.Cut(rest, "\n")
	return a.LeaseId, pid
}

func gone(pid string) bool {
	_, err := os.Stat(filepath.Join("/proc", pid))
	return os.IsNotExist(err)
}

// R-CAN-2, R-CAN-4, R-LEASE-4: a signal ends the agent, what it did is kept, and the worker says why it stopped.
func TestSignalsStopTheAgent(t *testing.T) {
	t.Parallel()
	for sig, want := range map[wire.LeaseSignalSignal]wire.StoppedWhy{
		wire.SignalCancelRequested: wire.StoppedCancel, wire.SignalStopBudget: wire.StoppedBudget, wire.SignalDrain: wire.StoppedDrain, wire.SignalStopTimeout: "",
	} {
		t.Run(string(sig), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, waiting)
			var on atomic.Bool
			b.server.signal = func(string) wire.LeaseSignalSignal {
				if on.Load() {
					return sig
				}
				return wire.SignalAlive
			}
			b.start()
			lease, pid := held(t, b)
			on.Store(true)
			end := b.await(lease)
			switch {
			case want == "" && (end.AttemptFailed == nil || end.AttemptFailed.ReasonCode != "ATTEMPT_TIMEOUT"):
				t.Fatalf("ended with %s %+v", end.Command, end.AttemptFailed)
			case want != "" && (end.Stopped == nil || end.Stopped.Why != want):
				t.Fatalf("ended with %s %+v", end.Command, end.Stopped)
			}
			if kept := b.server.stored(wire.ArtifactKindEvidence); len(kept) != 1 || !strings.Contains(string(b.server.bytesOf(kept[0].Id)), "+half") {
				t.Errorf("the change so far was not kept: %v", kept)
			}
			if len(b.server.stored(wire.ArtifactKindLog)) != 1 {
				t.Error("the log was not kept")
			}
			b.until("the end of the agent", func() bool { return gone(pid) })
		})
	}
}

// cancel rule 3: between hearing of a cancel and its confirmation the worker says that it is stopping, and never before.
func TestStoppingIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t, waiting)
	var on atomic.Bool
	said := make(chan struct{})
	b.server.signal = func(string) wire.LeaseSignalSignal {
		if on.Load() {
			return wire.SignalCancelRequested
		}
		return wire.SignalAlive
	}
	tell := sync.OnceFunc(func() { close(said) })
	b.server.onBeat = func(l wire.HeldLease) {
		if l.Stopping && !on.Load() {
			t.Error("the worker says that it is stopping, and nobody asked it to")
		}
		if l.Stopping {
			tell()
		}
	}
	b.server.refuse = func(c wire.RunCommand) *wire.Problem {
		if c.Command == wire.CmdStopped {
			<-said
		}
		return nil
	}
	b.start()
	lease, _ := held(t, b)
	on.Store(true)
	if end := b.await(lease); end.Stopped == nil || end.Stopped.Why != wire.StoppedCancel {
		t.Errorf("ended with %s", end.Command)
	}
}

// R-LEASE-3: a lease that is lost, refused or no longer confirmed ends the work without another word.
func TestLostLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"heartbeat says lost", "server silent past the lease time", "command answered with stop"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			script := waiting
			b := newBench(t, script)
			b.server.ttl = 1500 * time.Millisecond
			var on, refused atomic.Bool
			switch how {
			case "heartbeat says lost":
				b.server.signal = func(string) wire.LeaseSignalSignal {
					if on.Load() {
						return wire.SignalLost
					}
					return wire.SignalAlive
				}
			case "command answered with stop":
				p := b.cfg.File.Agents["script"]
				p.Argv = []string{"/bin/sh", "-c", `sed -i s/hello/half/ greeting.txt; echo ready $$; sleep 1`}
				b.cfg.File.Agents["script"] = p
				b.server.refuse = func(c wire.RunCommand) *wire.Problem {
					if c.Command == wire.CmdPatchSubmitted {
						refused.Store(true)
						return &wire.Problem{Status: 409, Title: "The lease is no longer valid.", Stop: true, State: wire.RunStateQUEUED}
					}
					return nil
				}
			}
			b.start()
			lease, pid := held(t, b)
			on.Store(true)
			if how == "server silent past the lease time" {
				b.server.mu.Lock()
				b.server.silent = true
				b.server.mu.Unlock()
			}
			b.until("the end of the agent", func() bool { return gone(pid) })
			// The slot is free again, so work of another lease shows that the first one is over.
			b.server.mu.Lock()
			b.server.silent = false
			b.server.mu.Unlock()
			on.Store(false)
			if how == "command answered with stop" {
				b.until("the refusal", refused.Load)
			}
			next := b.assignment(wire.Execute, wire.RunStateLEASED)
			next.AgentProfile = "none"
			b.server.assign(next)
			b.await(next.LeaseId)
			b.server.mu.Lock()
			defer b.server.mu.Unlock()
			for _, c := range b.server.commands {
				if c.LeaseId == lease && slices.Contains([]wire.CommandName{wire.CmdPatchSubmitted, wire.CmdAttemptFailed, wire.CmdStopped, wire.CmdRelease}, c.Command) {
					t.Errorf("the lost lease still said %s", c.Command)
				}
			}
		})
	}
}

// R-WRK-2: a worker that is told to end takes no more work, hands back what it cannot finish, and says goodbye.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := newBench(t, waiting)
	b.cfg.DrainGrace = 300 * time.Millisecond
	b.start()
	lease, pid := held(t, b)
	b.stopWorker()
	end := b.await(lease)
	if end.Stopped == nil || end.Stopped.Why != wire.StoppedDrain {
		t.Fatalf("ended with %s", end.Command)
	}
	if !gone(pid) {
		t.Error("the agent outlived its worker")
	}
	// It was STARTING while it tried its sandbox and is READY as the same boot (R-WRK-1).
	if r := b.server.registered; len(r) != 2 || r[0].State != wire.BootStarting || r[0].BootId != "" || r[1].State != wire.BootReady || r[1].BootId != "boot_1" {
		t.Errorf("registered as %+v", r)
	}
	if b.server.goodbyes != 1 {
		t.Errorf("%d goodbyes", b.server.goodbyes)
	}
	if beat := b.server.beats[len(b.server.beats)-1]; beat.State != wire.WorkerDraining {
		t.Errorf("last heartbeat says %s", beat.State)
	}

	// Work that was given while the worker was leaving is handed back untouched.
	b = newBench(t, waiting)
	b.start()
	b.until("a waiting claim", func() bool { b.server.mu.Lock(); defer b.server.mu.Unlock(); return len(b.server.beats) > 0 })
	a := b.assignment(wire.Execute, wire.RunStateLEASED)
	b.server.mu.Lock()
	b.server.queue = append(b.server.queue, a) // no wake-up: the long poll does not see it
	b.server.mu.Unlock()
	b.stopWorker()
	if end := b.await(a.LeaseId); end.Release == nil {
		t.Fatalf("ended with %s", end.Command)
	}
}

// R-WRK-2: a second termination does not wait for the grace: what is under way is handed back as a drain, which costs the
// run no attempt, and the worker says goodbye.
func TestDrainInAHurry(t *testing.T) {
	t.Parallel()
	b := newBench(t, waiting)
	b.cfg.DrainGrace = time.Hour
	b.start()
	lease, pid := held(t, b)
	b.stop()
	b.until("draining", func() bool {
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		return b.server.beats[len(b.server.beats)-1].State == wire.WorkerDraining
	})
	b.hurry()
	b.hurry()
	if end := b.await(lease); end.Stopped == nil || end.Stopped.Why != wire.StoppedDrain {
		t.Fatalf("ended with %s", end.Command)
	}
	b.stopWorker()
	if !gone(pid) {
		t.Error("the agent outlived its worker")
	}
	if b.server.goodbyes != 1 {
		t.Errorf("%d goodbyes", b.server.goodbyes)
	}
}

// R-WRK-3: never more leases at once than there are slots.
func TestSlots(t *testing.T) {
	t.Parallel()
	b := newBench(t, `mkdir "$LOCKS/$$" && ls "$LOCKS" | wc -l; i=0; while [ $i -lt 6 ]; do sleep 0.05; i=$((i+1)); done; rmdir "$LOCKS/$$"; sed -i s/hello/goodbye/ greeting.txt`)
	locks := filepath.Join(b.dir, "locks")
	if err := os.Mkdir(locks, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(locks, 0o777); err != nil { //nolint:gosec // every payload user writes there
		t.Fatal(err)
	}
	p := b.cfg.File.Agents["script"]
	p.Env = map[string]string{"LOCKS": locks}
	b.cfg.File.Agents["script"] = p
	b.cfg.MaxRuns = 2
	var leases []string
	for range 5 {
		a := b.assignment(wire.Execute, wire.RunStateLEASED)
		leases = append(leases, a.LeaseId)
		b.server.assign(a)
	}
	b.start()
	for _, l := range leases {
		if end := b.await(l); end.PatchSubmitted == nil {
			t.Fatalf("%s ended with %s\n%s", l, end.Command, b.server.describe())
		}
	}
	for _, n := range strings.Fields(b.server.logOf("agent")) {
		if n != "1" && n != "2" {
			t.Errorf("%s agents at once", n)
		}
	}
}

// X9: a configured secret never reaches log or artifact, however it is split.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	const secret = "sk-0123456789abcdef"
	b := newBench(t, `printf "key=%s\n" "$KEY"; printf "sk-012345"; sleep 0.1; printf "6789abcdef end\n"; sed -i s/hello/goodbye/ greeting.txt`)
	p := b.cfg.File.Agents["script"]
	p.Secrets = map[string]string{"KEY": secret}
	b.cfg.File.Agents["script"] = p
	b.start()
	b.execute()
	if log := b.server.logOf("agent"); strings.Contains(log, secret) || strings.Count(log, "[redacted]") != 2 || !strings.Contains(log, " end") {
		t.Errorf("log %q", log)
	}
	for id, raw := range b.server.artifacts {
		if strings.Contains(string(raw), secret) {
			t.Errorf("artifact %s holds the secret", id)
		}
	}
}

func TestParseFile(t *testing.T) {
	t.Parallel()
	f, err := worker.ParseFile([]byte("agents:\n  codemod:\n    adapter: command\n    version: \"2\"\n    argv: [/bin/sh, run.sh]\n    wall: 90s\n    plan: contract\ncaches:\n  - name: gomod\n    host: /srv/gomod\n    env: {GOMODCACHE: \"{path}\"}\nlocal_forge: /srv/forge\nlimits: {memory_mb: 512}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if time.Duration(f.Agents["codemod"].Wall) != 90*time.Second || f.Caches[0].Env["GOMODCACHE"] != "{path}" || f.Limits.MemoryMB != 512 {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{
		"agents:\n  x: {adapter: telepathy, argv: [a]}": "telepathy", "agents:\n  x: {adapter: command}": "argv", "agents:\n  X!: {adapter: command, argv: [a]}": "X!",
		"agnts: {}": "agnts", "caches: [{name: a, host: relative}]": "relative", "agents:\n  x: {adapter: command, argv: [a], wall: soon}": "soon", "agents:\n  x: {adapter: command, argv: [a], plan: never}": "never",
	} {
		if _, err := worker.ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to name %q", text, err, want)
		}
	}
}
