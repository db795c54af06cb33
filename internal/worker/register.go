package worker

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"signalbox/internal/wire"
)

// start shows people a worker that is starting, tries its sandbox and tools meanwhile, and makes it ready with what came
// of that. Before it is ready it is given no work; where it may not work at all, it takes its leave.
func (w *Worker) start(ctx context.Context) (wire.WorkerRegister, error) {
	r := w.offer()
	r.State = wire.BootStarting
	if err := w.register(ctx, r); err != nil {
		return r, fmt.Errorf("worker not registered: %w", err)
	}
	r.State = wire.BootReady
	if err := w.tried(ctx, &r); err != nil {
		goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return r, errors.Join(err, w.api.deregister(goodbye, w.bootID()))
	}
	ready := r
	ready.BootId = w.bootID()
	err := w.register(ctx, ready)
	if p, ok := errors.AsType[*problemError](err); ok && p.problem.Code == "unknown_boot" {
		// It took longer than the server waited for a sign of life, or the answer to the same words was lost.
		err = w.register(ctx, r)
	}
	if err != nil {
		return r, fmt.Errorf("worker not registered: %w", err)
	}
	return r, nil
}

// register makes a boot of this process. A process has a second one when the server gave up the first, because it was
// silent for too long: what that one held is lost, and work goes on with what comes next.
func (w *Worker) register(ctx context.Context, r wire.WorkerRegister) error {
	boot, err := w.api.register(ctx, r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.boot = boot
	w.mu.Unlock()
	if r.State == wire.BootStarting {
		w.log.Info("worker starting", "worker_id", boot.WorkerId, "boot_id", boot.BootId)
		return nil
	}
	w.log.Info("worker ready", "worker_id", boot.WorkerId, "boot_id", boot.BootId, "isolation", string(w.box.Tier()), "phases", w.cfg.Phases)
	return nil
}

func (w *Worker) workerID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boot.WorkerId
}

func (w *Worker) bootID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boot.BootId
}

// offer is what the worker offers.
func (w *Worker) offer() wire.WorkerRegister {
	r := wire.WorkerRegister{
		Name: clip(w.cfg.Name, 100), Version: clip(w.cfg.Version, 100), Phases: w.cfg.Phases,
		Isolation: wire.IsolationTier(w.box.Tier()), MaxConcurrentRuns: w.cfg.MaxRuns,
	}
	if r.Name == "" {
		r.Name = "worker"
	}
	if r.Version == "" {
		r.Version = "unknown"
	}
	for n := range w.cfg.File.Agents {
		r.Capabilities = append(r.Capabilities, "agent:"+n)
	}
	for _, tool := range []string{"go", "node", "npm", "python3", "java", "cargo", "make", "gcc", "ruby", "php"} {
		if _, err := exec.LookPath(tool); err == nil {
			r.Capabilities = append(r.Capabilities, tool)
		}
	}
	r.Capabilities = append(r.Capabilities, w.cfg.File.Tools...)
	if w.cfg.LocalForge != "" {
		r.Capabilities = append(r.Capabilities, "local-forge")
	}
	slices.Sort(r.Capabilities)
	r.Queues, r.Pools = w.cfg.File.Queues, w.cfg.File.Pools
	return r
}

// tried puts into the registration how the sandbox held. The error says why the worker may not work.
func (w *Worker) tried(ctx context.Context, r *wire.WorkerRegister) error {
	if w.cfg.SkipProbe {
		return nil
	}
	iso, err := w.box.Probe(ctx)
	if err != nil {
		return fmt.Errorf("worker not started: the sandbox could not be tried: %w", err)
	}
	for _, p := range iso.Probes {
		r.Probes = append(r.Probes, wire.ProbeResult{Name: clip(p.Name, 100), Passed: p.OK, Detail: clip(p.Detail, 1000)})
	}
	if failed := iso.Failed(); len(failed) > 0 && w.box.Tier().Safe() {
		return fmt.Errorf("worker not started: %d of %d attempts to break out of the sandbox succeeded, the first is %q (%s)", len(failed), len(iso.Probes), failed[0].Name, failed[0].Detail)
	}
	return nil
}
