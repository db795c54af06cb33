package sandbox_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox/internal/sandbox"
)

func TestHello(t *testing.T) {
	t.Parallel()
	for _, tier := range []sandbox.Tier{sandbox.TierBwrap, sandbox.TierProcess} {
		t.Run(string(tier), func(t *testing.T) {
			sb, err := sandbox.New(sandbox.Options{Tier: tier})
			if err != nil {
				t.Fatal(err)
			}
			defer sb.Close()
			ws, _ := os.MkdirTemp("", "ws-")
			os.MkdirAll(filepath.Join(ws, "repo"), 0o700)
			if err := sb.Own(ws, 3); err != nil {
				t.Fatal(err)
			}
			box, err := sb.Open(t.Context(), sandbox.Spec{Slot: 3, Workspace: ws})
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close()
			var out, rep bytes.Buffer
			start := time.Now()
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "id; pwd; env; ls -la /proc/self/fd /; cat /proc/self/cgroup; echo hi >&3; echo x > f; ps aux | tail -5; ulimit -a; sleep 100 & exit 3"}, Stdout: &out, Stderr: &out, Report: &rep})
			t.Log(time.Since(start), res, err, out.String(), rep.String())
		})
	}
}
