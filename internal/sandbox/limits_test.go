package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/internal/sandbox"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		t.Run("processes", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{Procs: 40}})
			_, out := sh(t, box, `i=0; while [ $i -lt 200 ]; do sleep 100 & i=$((i+1)); echo $i > n; done; echo bomb`, func(c *sandbox.Command) {
				c.Timeout, c.Grace = 30*time.Second, time.Second
			})
			raw, err := os.ReadFile(filepath.Join(box.Workspace(), "repo", "n"))
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
			if n < 10 || n > 60 {
				t.Errorf("%d processes were started with a limit of 40: %.200s", n, out)
			}
			nothingRuns(t, tier)
		})
		t.Run("file size", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{FileSize: 1 << 20}})
			sh(t, box, `head -c 3000000 /dev/zero > big`)
			st, err := os.Stat(filepath.Join(box.Workspace(), "repo", "big"))
			if err != nil || st.Size() != 1<<20 {
				t.Errorf("size %v, error %v", st.Size(), err)
			}
		})
		t.Run("processor time", func(t *testing.T) {
			t.Parallel()
			res, _ := sh(t, newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{CPU: time.Second}}), `while :; do :; done`)
			if res.Signal == "" || res.OK() {
				t.Errorf("result %+v", res)
			}
		})
		t.Run("open files", func(t *testing.T) {
			t.Parallel()
			_, out := sh(t, newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{Files: 77}}), `ulimit -n; ulimit -Hn; ulimit -n 1000 2>/dev/null; ulimit -n`)
			if out != "77\n77\n77" {
				t.Errorf("got %q", out)
			}
		})
		t.Run("memory", func(t *testing.T) {
			t.Parallel()
			// tail keeps one endless line in memory.
			res, out := sh(t, newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{Memory: 64 << 20}}), `head -c 400000000 /dev/zero | tail -c 300000000 | wc -c`, func(c *sandbox.Command) {
				c.Timeout = time.Minute
			})
			if strings.TrimSpace(out) == "300000000" {
				t.Errorf("300 MB were kept with a limit of 64 MB: %+v", res)
			}
		})
	})
	t.Run("size of /tmp", func(t *testing.T) {
		t.Parallel()
		_, out := sh(t, newBox(t, sandbox.TierBwrap, sandbox.Spec{Limits: sandbox.Limits{TmpSize: 1 << 20}}), `head -c 3000000 /dev/zero > /tmp/big; stat -c %s /tmp/big`)
		if !strings.HasSuffix(out, "1048576") {
			t.Errorf("got %q", out)
		}
	})
}
