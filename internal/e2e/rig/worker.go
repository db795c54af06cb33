package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"

	"signalbox/db"
	"signalbox/internal/run"
)

// Agent is a profile of worker.yaml; every field has the file's meaning.
type Agent struct {
	Adapter         string            `yaml:"adapter"` // "" is command
	Version         string            `yaml:"version"`
	Argv            []string          `yaml:"argv"`
	Env             map[string]string `yaml:"env,omitempty"`
	Secrets         map[string]string `yaml:"secrets,omitempty"`
	Mounts          []Mount           `yaml:"mounts,omitempty"`
	Plan            string            `yaml:"plan,omitempty"`
	EmptyIsNoChange bool              `yaml:"empty_is_no_change,omitempty"`
	FirstOutput     string            `yaml:"first_output,omitempty"`
	Idle            string            `yaml:"idle,omitempty"`
	Wall            string            `yaml:"wall,omitempty"`
	Grace           string            `yaml:"grace,omitempty"`
}

// Mount is a path of the host that the agent sees, read-only.
type Mount struct {
	Host   string `yaml:"host"`
	Inside string `yaml:"inside"`
}

// Cache is a folder of dependencies: shared and read-only, or with Copy one writable copy for each run.
type Cache struct {
	Name string            `yaml:"name"`
	Host string            `yaml:"host"`
	Copy bool              `yaml:"copy,omitempty"`
	Env  map[string]string `yaml:"env,omitempty"`
}

// WorkerOptions of one worker process.
type WorkerOptions struct {
	// Name is the label; "" counts.
	Name string
	// Phases it takes; empty is all.
	Phases []run.Phase
	// MaxRuns at once; 0 is 2.
	MaxRuns int
	// Dir continues in the folder of an earlier worker; "" makes a new one.
	Dir string
	// Credential continues with the identity of an earlier worker; "" mints a new one.
	Credential string
	// Binary is another program than signalbox-worker, for tests that put something in its way.
	Binary string
	// Env is added to the environment, as NAME=value.
	Env []string
}

// Worker is a worker process.
type Worker struct {
	Options WorkerOptions
	r       *Rig
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // of Wait, set before exited is closed
	log     string
}

// StartWorker starts the real worker as a process of its own group and waits until it is registered.
func (r *Rig) StartWorker(o WorkerOptions) *Worker {
	r.T.Helper()
	w := r.LaunchWorker(o)
	r.Eventually("worker "+w.Options.Name+" registers", 30*time.Second, func() (bool, string) {
		select {
		case <-w.exited:
			r.T.Fatalf("rig: the worker ended: %v\n%s", w.err, tail(w.log, 4<<10))
		default:
		}
		var n int
		err := r.Owner.QueryRow(r.T.Context(), `SELECT count(*) FROM worker_boots WHERE name = $1`, w.Options.Name).Scan(&n)
		r.must(err, "look for the worker")
		return n > 0, tail(w.log, 1<<10)
	})
	return w
}

// LaunchWorker starts a worker and does not wait for it.
func (r *Rig) LaunchWorker(o WorkerOptions) *Worker {
	t := r.T
	t.Helper()
	tier := r.options.Tier
	if tier == "" {
		tier = "bwrap"
		if err := bwrap(); err != nil {
			NotExercised(t, "the sandbox tier bwrap: %v", err)
		}
	}
	r.workers++
	if o.Name == "" {
		o.Name = fmt.Sprintf("worker-%d", r.workers)
	}
	if len(o.Phases) == 0 {
		o.Phases = run.Phases()
	}
	if o.MaxRuns == 0 {
		o.MaxRuns = 2
	}
	if o.Dir == "" {
		o.Dir = r.path("workers", o.Name)
		r.must(os.MkdirAll(o.Dir, 0o755), "make the worker's folder")
		r.must(os.Chmod(o.Dir, 0o755), "open the worker's folder")
	}
	if o.Credential == "" {
		o.Credential = db.Mint(db.PrefixWorker)
		_, err := r.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: o.Name, Phases: o.Phases}, o.Credential)
		r.must(err, "mint the worker's credential")
	}
	r.minted.add("worker credential", o.Credential)
	if o.Binary == "" {
		o.Binary = Binary(t, "cmd/signalbox-worker")
	}
	file := filepath.Join(o.Dir, "worker.yaml")
	r.must(os.WriteFile(file, r.workerFile(), 0o600), "write worker.yaml")
	var roles []string
	for _, p := range o.Phases {
		roles = append(roles, string(p))
	}
	w := &Worker{Options: o, r: r, exited: make(chan struct{}), log: filepath.Join(r.Dir, o.Name+".log")}
	out, err := os.OpenFile(w.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.must(err, "open the worker's log")
	w.cmd = exec.Command(o.Binary)
	w.cmd.Stdout, w.cmd.Stderr = out, out
	w.cmd.Env = slices.Concat([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + o.Dir, "LANG=C.UTF-8", "SIGNALBOX_LOG_FORMAT=text", "SIGNALBOX_LOG_LEVEL=DEBUG",
		"SIGNALBOX_SERVER_URL=" + r.URL, "SIGNALBOX_WORKER_NAME=" + o.Name, "SIGNALBOX_WORKER_CREDENTIAL=" + o.Credential,
		"SIGNALBOX_WORKER_CONFIG=" + file, "SIGNALBOX_WORKER_DIR=" + o.Dir, "SIGNALBOX_WORKER_SANDBOX=" + tier, "SIGNALBOX_WORKER_ROLES=" + strings.Join(roles, ","),
		"SIGNALBOX_WORKER_MAX_RUNS=" + fmt.Sprint(o.MaxRuns), "SIGNALBOX_WORKER_HEARTBEAT=" + heartbeat.String(), "SIGNALBOX_WORKER_DRAIN_GRACE=1s",
	}, o.Env)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread, so the thread lives as long as the process.
		runtime.LockOSThread()
		defer out.Close()
		if err := w.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		w.err = w.cmd.Wait()
		close(w.exited)
	}()
	r.must(<-started, "start the worker")
	t.Cleanup(func() {
		w.Continue()
		w.Terminate()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", o.Name, tail(w.log, 4<<10))
		}
	})
	return w
}

// workerFile is worker.yaml: the scripted agent as "default", and what the test added.
func (r *Rig) workerFile() []byte {
	r.T.Helper()
	agents := map[string]Agent{"default": scripted(r, Agent{})}
	for name, a := range r.options.Agents {
		agents[name] = scripted(r, a)
	}
	for name, a := range agents {
		if a.Adapter == "" {
			a.Adapter = "command"
		}
		if a.Version == "" {
			a.Version = "1"
		}
		agents[name] = a
	}
	text, err := yaml.Marshal(map[string]any{"local_forge": r.path("forge"), "agents": agents, "caches": r.options.Caches, "env": r.options.Env, "mounts": r.options.Mounts})
	r.must(err, "write worker.yaml")
	return text
}

// PID is the worker's process.
func (w *Worker) PID() int { return w.cmd.Process.Pid }

// Log is the end of what the worker said.
func (w *Worker) Log() string { return tail(w.log, 64<<10) }

// Exited is closed when the process has ended.
func (w *Worker) Exited() <-chan struct{} { return w.exited }

func (w *Worker) signal(s syscall.Signal) {
	select {
	case <-w.exited:
		return
	default:
	}
	if err := syscall.Kill(w.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		w.r.T.Errorf("rig: signal %s to the worker: %v", s, err)
	}
}

// Kill ends the process at once (SIGKILL) and waits for its end. What it had started is left to what the product does
// about that.
func (w *Worker) Kill() {
	w.signal(syscall.SIGKILL)
	<-w.exited
}

// Pause stops the process in its tracks (SIGSTOP).
func (w *Worker) Pause() { w.signal(syscall.SIGSTOP) }

// Continue undoes Pause (SIGCONT).
func (w *Worker) Continue() { w.signal(syscall.SIGCONT) }

// Terminate asks the process to drain (SIGTERM) and kills it when that takes longer than ten seconds.
func (w *Worker) Terminate() {
	w.signal(syscall.SIGTERM)
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	select {
	case <-w.exited:
	case <-limit.C:
		w.r.T.Errorf("rig: %s did not end within ten seconds of SIGTERM", w.Options.Name)
		w.Kill()
	}
}

// Again starts the same worker once more: same folder, same identity.
func (w *Worker) Again() *Worker {
	w.r.T.Helper()
	<-w.exited
	return w.r.LaunchWorker(w.Options)
}
