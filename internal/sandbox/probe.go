package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const probeArg = "probe"

// Isolation is what a probe measured on this machine.
type Isolation struct {
	Tier     Tier      `json:"tier"`
	Measured time.Time `json:"measured"`
	// User is the uid that payloads run as.
	User uint32 `json:"user"`
	// Probes are the break-out attempts, each OK when it was blocked.
	Probes []Probe `json:"probes"`
	// Limits says which limits hold for the box as a whole, in words.
	Limits []string `json:"limits"`
}

// Probe is one attempt.
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

// Probe opens a box over a temporary workspace, tries to break out of it and
// looks from outside at what happened.
func (h *host) Probe(ctx context.Context) (iso Isolation, err error) {
	const slot = 65535
	dir := filepath.Join(h.state, "probe")
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o700); err != nil {
		return iso, fmt.Errorf("probe sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, h.Remove(dir)) }()
	if err := h.Own(dir, slot); err != nil {
		return iso, fmt.Errorf("probe sandbox: %w", err)
	}
	box, err := h.Open(ctx, Spec{Name: "probe", Slot: slot, Workspace: dir})
	if err != nil {
		return iso, fmt.Errorf("probe sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	argv := []string{initInside, initArg, probeArg, "run"}
	if h.Tier() == TierProcess {
		argv[0] = h.init
	}
	var out, report bytes.Buffer
	res, err := box.Run(ctx, Command{Argv: argv, Dir: WorkspaceDir, Stdout: &out, Stderr: &out, Report: &report, Timeout: time.Minute, Grace: time.Second})
	if err != nil {
		return iso, fmt.Errorf("probe sandbox: %w", err)
	}
	if !res.OK() {
		return iso, fmt.Errorf("probe sandbox: the probe ended with code %d %s: %s", res.ExitCode, res.Signal, out.String())
	}
	uid, _ := h.User(slot)
	iso = Isolation{Tier: h.Tier(), Measured: time.Now().UTC(), User: uid}
	if err := json.Unmarshal(report.Bytes(), &iso.Probes); err != nil {
		return iso, fmt.Errorf("probe sandbox: read its report: %w", err)
	}
	return iso, nil
}
