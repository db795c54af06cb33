package sandbox_test

import (
	"testing"

	"signalbox/internal/sandbox"
)

// R-SBX-1: nothing that a payload tries reaches beyond its workspace.
func TestProbeBwrap(t *testing.T) {
	t.Parallel()
	sb := open(t, sandbox.TierBwrap)
	iso, err := sb.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range iso.Failed() {
		t.Errorf("not blocked: %s: %s", p.Name, p.Detail)
	}
	if len(iso.Probes) < 62 {
		t.Errorf("only %d attempts were made, want at least 62", len(iso.Probes))
	}
	if iso.User == 0 {
		t.Error("the payload ran as uid 0")
	}
	t.Logf("%d attempts, %d not blocked; limits: %q", len(iso.Probes), len(iso.Failed()), iso.Limits)
}

// The probe must be able to fail: on the tier that isolates nothing it has to
// say so.
func TestProbeProcessIsHonest(t *testing.T) {
	t.Parallel()
	iso, err := open(t, sandbox.TierProcess).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, p := range iso.Failed() {
		failed[p.Name] = true
	}
	for _, name := range []string{
		"read a host file", "connect to the host's loopback", "connect to an abstract socket of the host",
		"see host processes", "run without a system call filter", "touch the host without its own knowledge",
	} {
		if !failed[name] {
			t.Errorf("%q counts as blocked in tier process", name)
		}
	}
	t.Logf("%d attempts, %d not blocked", len(iso.Probes), len(iso.Failed()))
}
