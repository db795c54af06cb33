package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"signalbox/internal/git"
	"signalbox/internal/patch"
	"signalbox/internal/sandbox"
	"signalbox/internal/trail"
	"signalbox/internal/wire"
)

// Worker claims leases and works on them until its context ends.
type Worker struct {
	cfg   Config
	log   *slog.Logger
	api   *api
	git   *git.Git
	box   sandbox.Sandbox
	boot  wire.WorkerBoot
	beat  time.Duration
	ttl   time.Duration
	slots chan int
	lock  *os.File

	scanner *patch.Scanner

	mu       sync.Mutex
	leases   map[string]*lease
	draining bool
	paused   bool          // the server asks for no new work
	wake     chan struct{} // a heartbeat is wanted now

	hurry     chan struct{} // closed: the drain grace is over
	hurryOnce sync.Once
}

// New prepares folders, git and the sandbox and tries to break out of the latter. It speaks to nobody yet.
func New(ctx context.Context, cfg Config) (_ *Worker, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, log: cfg.Log, leases: map[string]*lease{}, wake: make(chan struct{}, 1), hurry: make(chan struct{}), scanner: patch.NewScanner()}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.log = slog.New(trail.Handler(w.log.Handler()))
	if w.cfg.Hook == nil {
		w.cfg.Hook = func(string) {}
	}
	if w.api, err = newAPI(cfg.ServerURL, cfg.Credential, cfg.HTTP); err != nil {
		return nil, err
	}
	if err := w.folders(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	forge := cfg.LocalForge
	if forge == "" {
		forge = cfg.File.LocalForge
	}
	w.cfg.LocalForge = forge
	if w.git, err = git.New(ctx, git.Config{Home: filepath.Join(cfg.Dir, "git"), LocalRoot: forge, Allow: cfg.GitAllow}); err != nil {
		return nil, err
	}
	w.box, err = sandbox.New(sandbox.Options{Tier: cfg.Tier, StateDir: filepath.Join(cfg.Dir, "sandbox"), UIDBase: w.uidBase()})
	if err != nil {
		return nil, fmt.Errorf("worker sandbox: %w", err)
	}
	w.sweep()
	w.slots = make(chan int, cfg.MaxRuns)
	for n := range cfg.MaxRuns {
		w.slots <- n
	}
	return w, nil
}

// folders makes the worker's own tree and makes sure that nobody else uses it.
func (w *Worker) folders() error {
	// Payload users pass through to their own workspace and may list nothing on the way.
	for _, d := range []string{w.cfg.Dir, filepath.Join(w.cfg.Dir, "work")} {
		if err := os.MkdirAll(d, 0o711); err != nil {
			return fmt.Errorf("worker folder: %w", err)
		}
		if err := os.Chmod(d, 0o711); err != nil { //nolint:gosec // searchable, not readable
			return fmt.Errorf("worker folder: %w", err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(w.cfg.Dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("worker folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("another worker uses the folder %s; give each its own", w.cfg.Dir)
	}
	w.lock = lock
	return nil
}

// uidBase keeps the payload users of two workers of one machine apart: a range of 65536 users each, as the sandbox
// asks for. Two folders with the same range are possible and unlikely; uid_base in the file settles it.
func (w *Worker) uidBase() uint32 {
	if w.cfg.File.UIDBase != 0 {
		return w.cfg.File.UIDBase
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(w.cfg.Dir))
	return 200_000 + h.Sum32()%12_000*65_536
}

// sweep removes what a predecessor left when it was killed. Its sandboxes died with it.
func (w *Worker) sweep() {
	work := filepath.Join(w.cfg.Dir, "work")
	entries, err := os.ReadDir(work)
	if err != nil {
		return
	}
	for _, e := range entries {
		if err := w.box.Remove(filepath.Join(work, e.Name())); err != nil {
			w.log.Warn("old workspace not removed", "path", e.Name(), "error", err)
		}
	}
}

// Close releases what New took. Run must have ended.
func (w *Worker) Close() {
	if w.box != nil {
		if err := w.box.Close(); err != nil {
			w.log.Warn("sandbox not closed", "error", err)
		}
	}
	if w.lock != nil {
		_ = w.lock.Close()
	}
}

// Run registers and works until ctx ends; then it takes no more work, lets its leases finish within the drain grace,
// hands back the others and says goodbye. The error is about starting; a lease that fails is none.
func (w *Worker) Run(ctx context.Context) error {
	registration, err := w.start(ctx)
	if err != nil {
		return err
	}
	w.ttl = time.Duration(w.boot.LeaseTtlMs) * time.Millisecond
	w.beat = time.Duration(w.boot.HeartbeatMs) * time.Millisecond
	if w.cfg.Heartbeat > 0 {
		w.beat = min(w.beat, w.cfg.Heartbeat)
	}
	if w.beat <= 0 || w.ttl <= 0 {
		return errors.New("worker not started: the server gave no lease time")
	}
	// The leases outlive ctx: that is what draining means.
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(errDone)
	var beats, work sync.WaitGroup
	beats.Go(func() { w.heartbeats(base) })
	refused := w.claims(ctx, base, registration, &work)

	w.drain(&work)
	stop(errDone)
	beats.Wait()
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := w.api.deregister(goodbye, w.bootID()); err != nil {
		w.log.Warn("goodbye not heard", "error", err)
	}
	return refused
}

// claims asks for as much work as there is room for, until ctx ends. An error means that the server no longer knows
// this credential: only a new start with another one helps.
func (w *Worker) claims(ctx, base context.Context, registration wire.WorkerRegister, work *sync.WaitGroup) error {
	for ctx.Err() == nil {
		w.mu.Lock()
		paused := w.paused
		w.mu.Unlock()
		if paused {
			if !pause(ctx, w.beat) {
				return nil
			}
			continue
		}
		free := w.free(ctx)
		if len(free) == 0 {
			return nil
		}
		claim := wire.Claim{ClaimId: "claim-" + rand.Text(), BootId: w.bootID(), Phases: w.cfg.Phases, Max: len(free), WaitSeconds: 20}
		ack, err := w.api.claim(ctx, claim)
		if err != nil && ctx.Err() != nil {
			// Work may have been given to the question that we no longer wait for: ask once more without waiting.
			claim.WaitSeconds = 0
			last, cancel := context.WithTimeout(base, 5*time.Second)
			ack, err = w.api.claim(last, claim)
			cancel()
		}
		if err != nil {
			w.giveBack(free)
			p, ok := errors.AsType[*problemError](err)
			if ok && p.problem.Code == "unknown_boot" {
				w.log.Warn("the server gave this boot up, registering again", "boot_id", claim.BootId)
				if err = w.register(ctx, registration); err == nil {
					continue
				}
				p, ok = errors.AsType[*problemError](err)
			}
			if ok && p.status >= 401 && p.status <= 410 && p.status != http.StatusConflict {
				return fmt.Errorf("worker ended: %w", err)
			}
			w.log.Error("claim refused", "error", err)
			if !pause(ctx, 5*time.Second) {
				return nil
			}
			continue
		}
		for _, as := range ack.Assignments {
			if len(free) == 0 {
				w.log.Error("more leases than asked for", "lease_id", as.LeaseId)
				break // it is left to expire
			}
			slot := free[0]
			free = free[1:]
			work.Go(func() {
				defer w.giveBack([]int{slot})
				w.serve(ctx, base, as, slot)
			})
		}
		w.giveBack(free)
	}
	return nil
}

// free waits for one free slot and takes all that are free.
func (w *Worker) free(ctx context.Context) []int {
	var free []int
	select {
	case n := <-w.slots:
		free = append(free, n)
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case n := <-w.slots:
			free = append(free, n)
		default:
			return free
		}
	}
}

func (w *Worker) giveBack(slots []int) {
	for _, n := range slots {
		w.slots <- n
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Check tries to break out of the sandbox and prints each attempt. It speaks to nobody.
func (w *Worker) Check(ctx context.Context, out io.Writer) error {
	iso, err := w.box.Probe(ctx)
	if err != nil {
		return fmt.Errorf("the sandbox could not be tried: %w", err)
	}
	for _, p := range iso.Probes {
		word := "blocked"
		if !p.OK {
			word = "OPEN"
		}
		fmt.Fprintf(out, "%-8s %s: %s\n", word, p.Name, p.Detail)
	}
	for _, l := range iso.Limits {
		fmt.Fprintln(out, "limit   ", l)
	}
	fmt.Fprintf(out, "isolation %s: %d of %d attempts blocked\n", iso.Tier, len(iso.Probes)-len(iso.Failed()), len(iso.Probes))
	if len(iso.Failed()) > 0 && iso.Tier.Safe() {
		return fmt.Errorf("%d attempts to break out succeeded", len(iso.Failed()))
	}
	return nil
}
