package rig

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is `signalbox serve` as a process of its own.
type Process struct {
	// Address is host and port that it listens on.
	Address string

	r      *Rig
	env    []string
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// ServeProcess replaces the server inside the test by the real program, with the same times, database and folders. env is
// added to its environment, as NAME=value.
func (r *Rig) ServeProcess(env ...string) *Process {
	r.T.Helper()
	r.StopServer()
	return r.serve(strings.TrimPrefix(r.URL, "http://"), env...)
}

// ServeReplica starts the real program once more, at an address of its own.
func (r *Rig) ServeReplica() *Process {
	r.T.Helper()
	return r.serve(r.Reserve())
}

func (r *Rig) serve(address string, env ...string) *Process {
	r.T.Helper()
	p := &Process{r: r, env: env, Address: address, log: r.path("serve-" + address[strings.LastIndex(address, ":")+1:] + ".log")}
	p.Start()
	r.T.Cleanup(p.Kill)
	return p
}

// Start starts the program, again after Kill, and waits until it answers.
func (p *Process) Start() {
	r := p.r
	r.T.Helper()
	p.Launch()
	r.Eventually("the server answers", 30*time.Second, func() (bool, string) {
		select {
		case <-p.exited:
			r.T.Fatalf("rig: the server ended: %s", tail(p.log, 4<<10))
		default:
		}
		resp, err := http.Get("http://" + p.Address + "/healthz") //nolint:noctx // one look
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		return true, ""
	})
}

// Launch starts the program, again after it ended, and waits for nothing.
func (p *Process) Launch() {
	r := p.r
	r.T.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.must(err, "open the server's log")
	t := r.options.Timing
	p.cmd = exec.Command(Binary(r.T, "cmd/signalbox"), "serve")
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.Dir, "LANG=C.UTF-8", "SIGNALBOX_LOG_FORMAT=text",
		"SIGNALBOX_ADDR=" + p.Address, "SIGNALBOX_PUBLIC_URL=" + r.URL, "SIGNALBOX_DATABASE_URL=" + r.Database.EngineURL, "SIGNALBOX_DATABASE_APP_URL=" + r.Database.AppURL,
		"SIGNALBOX_ARTIFACT_URL=file://" + r.path("artifacts"), "SIGNALBOX_LOCAL_FORGE=" + r.path("forge"), "SIGNALBOX_SESSION_KEY=" + sessionKey,
		"SIGNALBOX_LEASE_TTL=" + t.LeaseTTL.String(), "SIGNALBOX_CANCEL_GRACE=" + t.CancelGrace.String(), "SIGNALBOX_BACKOFF_SCALE=" + fmt.Sprint(t.BackoffScale),
		"SIGNALBOX_REAPER_TICK=50ms", "SIGNALBOX_SECRET_KEYS=" + r.secretKeys, "SIGNALBOX_OIDC_ALLOW=127.0.0.1:*",
	}
	p.cmd.Env = append(p.cmd.Env, p.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.exited = make(chan struct{})
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread, so the thread lives as long as the process.
		runtime.LockOSThread()
		defer out.Close()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = p.cmd.Wait() // it is killed
		close(p.exited)
	}()
	r.must(<-started, "start the server")
}

// PID is the program's process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the program at once (SIGKILL) and waits for its end.
func (p *Process) Kill() {
	select {
	case <-p.exited:
		return
	default:
	}
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		p.r.T.Errorf("rig: kill the server: %v", err)
	}
	<-p.exited
}
