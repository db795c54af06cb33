package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	probeArg = "probe"
	// probeMark is a file that the probe makes in its workspace.
	probeMark = "probe-mark"
)

// probeSlot is above any slot that a worker uses for runs, and rarely the same
// twice: probes of two workers on one machine must not disturb each other.
func probeSlot() int { return 60000 + mathrand.IntN(5536) }

// Isolation is what a probe measured on this machine.
type Isolation struct {
	Tier     Tier      `json:"tier"`
	Measured time.Time `json:"measured"`
	// User is the uid that the payload ran as.
	User uint32 `json:"user"`
	// Probes are the break-out attempts, each OK when it was blocked.
	Probes []Probe `json:"probes"`
	// Limits says which limits hold, in words.
	Limits []string `json:"limits"`
}

// Probe is one attempt to break out.
type Probe struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`     // blocked
	Detail string `json:"detail"` // what the kernel answered
}

// Failed are the attempts that were not blocked.
func (i Isolation) Failed() []Probe {
	var out []Probe
	for _, p := range i.Probes {
		if !p.OK {
			out = append(out, p)
		}
	}
	return out
}

// bait is what the probe may reach for on the host, and how we see that it did.
type bait struct {
	target    probeTarget
	listeners []net.Listener
	touched   chan string
}

func newBait(dir string) (b *bait, err error) {
	b = &bait{touched: make(chan string, 16)}
	name := "signalbox-probe-" + rand.Text()
	b.target = probeTarget{
		WorkerPID: os.Getpid(), Abstract: name,
		CanaryFile: filepath.Join(dir, "canary"), UnixPath: filepath.Join(dir, "canary.sock"),
		EnvAllowed:  []string{"PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "SIGNALBOX_WORKSPACE", "PWD"},
		FileAllowed: []int{0, 1, 2, fdReport},
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if err := os.WriteFile(b.target.CanaryFile, []byte("canary"), 0o644); err != nil {
		return b, err
	}
	if err := os.Chmod(b.target.CanaryFile, 0o644); err != nil {
		return b, err
	}
	for _, l := range []struct{ network, addr string }{
		{"tcp", "127.0.0.1:0"}, {"unix", "@" + name}, {"unix", b.target.UnixPath},
	} {
		ln, err := net.Listen(l.network, l.addr)
		if err != nil {
			return b, err
		}
		b.listeners = append(b.listeners, ln)
		if l.network == "tcp" {
			b.target.TCPAddr = ln.Addr().String()
		}
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				conn.Close()
				select {
				case b.touched <- ln.Addr().String():
				default:
				}
			}
		}()
	}
	return b, os.Chmod(b.target.UnixPath, 0o777)
}

func (b *bait) close() {
	for _, ln := range b.listeners {
		ln.Close()
	}
}

// Probe opens a box over a temporary workspace, tries to break out of it, and
// looks from outside at what was touched.
func (h *host) Probe(ctx context.Context) (iso Isolation, err error) {
	fail := func(err error) (Isolation, error) { return iso, fmt.Errorf("probe sandbox: %w", err) }
	dir, err := os.MkdirTemp(h.state, "probe-")
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, h.Remove(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return fail(err)
	}
	bait, err := newBait(dir)
	if err != nil {
		return fail(err)
	}
	defer bait.close()
	slot := probeSlot()
	workspace := filepath.Join(dir, "workspace")
	if err := MakeLayout(workspace); err != nil {
		return fail(err)
	}
	if err := h.Own(workspace, slot); err != nil {
		return fail(err)
	}
	box, err := h.Open(ctx, Spec{Name: "probe", Slot: slot, Workspace: workspace})
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	target, err := json.Marshal(bait.target)
	if err != nil {
		return fail(err)
	}
	argv := []string{initInside, initArg, probeArg, string(target)}
	if h.Tier() == TierProcess {
		argv[0] = h.init
	}
	var out, report bytes.Buffer
	res, err := box.Run(ctx, Command{
		Argv: argv, Dir: WorkspaceDir, Stdout: &out, Stderr: &out, Report: &report,
		Timeout: time.Minute, Grace: time.Second,
	})
	if err != nil {
		return fail(err)
	}
	if !res.OK() {
		return fail(fmt.Errorf("the probe ended with code %d %s %s: %s", res.ExitCode, res.Signal, res.Detail, out.String()))
	}
	iso = Isolation{Tier: h.Tier(), Measured: time.Now().UTC(), Limits: h.limitWords()}
	iso.User, _ = h.User(slot)
	if err := json.Unmarshal(report.Bytes(), &iso.Probes); err != nil {
		return fail(fmt.Errorf("read its report: %w", err))
	}
	iso.Probes = append(iso.Probes, bait.seen(), outsideUser(filepath.Join(workspace, probeMark), iso.User))
	return iso, nil
}

// seen is the view from outside: did anything of the host get touched?
func (b *bait) seen() Probe {
	p := Probe{Name: "touch the host without its own knowledge", OK: true, Detail: "no listener was reached, the file is as it was"}
	select {
	case addr := <-b.touched:
		p.OK, p.Detail = false, "listener "+addr+" was reached"
	default:
	}
	if raw, err := os.ReadFile(b.target.CanaryFile); err != nil || string(raw) != "canary" {
		p.OK, p.Detail = false, "the host's file was changed"
	}
	return p
}

// outsideUser looks from outside at the user that the payload really was.
func outsideUser(mark string, want uint32) Probe {
	p := Probe{Name: "be uid 0 outside"}
	var st unix.Stat_t
	if err := unix.Lstat(mark, &st); err != nil {
		p.Detail = "the probe's file cannot be looked at: " + err.Error()
		return p
	}
	p.OK = st.Uid == want && st.Uid != 0
	p.Detail = fmt.Sprintf("uid %d", st.Uid)
	return p
}

// limitWords says how each limit is held on this machine.
func (h *host) limitWords() []string {
	words := []string{"processor time, file size and open files: per process"}
	memory, pids := "memory: data of each process", "processes: per user"
	for _, m := range h.cgroups {
		if m.version == 1 && m.controllers == "memory" {
			memory = "memory: whole box, by control group version 1"
		}
		if m.version == 1 && m.controllers == "pids" {
			pids = "processes: whole box, by control group version 1"
		}
		if m.version == 2 {
			words = append(words, "killing: by control group version 2")
		}
	}
	return append(words, memory, pids)
}
