package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/sandbox"
)

func TestRunReportsHowItEnded(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		box := newBox(t, tier, sandbox.Spec{})
		for _, c := range []struct {
			name   string
			argv   []string
			code   int
			signal string
		}{
			{"success", []string{"true"}, 0, ""},
			{"exit code", []string{"/bin/sh", "-c", "exit 3"}, 3, ""},
			{"signal", []string{"/bin/sh", "-c", "kill -9 $$"}, -1, "killed"},
			{"not found", []string{"no-such-program"}, 127, ""},
			{"not executable", []string{"/etc/passwd"}, 126, ""},
			{"missing path", []string{"./nothing"}, 127, ""},
		} {
			res, err := box.Run(t.Context(), sandbox.Command{Argv: c.argv})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if res.ExitCode != c.code || res.Signal != c.signal {
				t.Errorf("%s: code %d signal %q, want %d %q", c.name, res.ExitCode, res.Signal, c.code, c.signal)
			}
			if (c.code == 127 || c.code == 126) && res.Detail == "" {
				t.Errorf("%s: no detail", c.name)
			}
			if c.code == 0 && (res.MaxRSS == 0 || res.Duration == 0) {
				t.Errorf("%s: nothing measured: %+v", c.name, res)
			}
		}
	})
}

func TestRunGivesOnlyWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		box := newBox(t, tier, sandbox.Spec{Env: map[string]string{"CACHE": sandbox.HomeDir + "/cache", "WORD": "a b"}})
		_, out := sh(t, box, `env | cut -d= -f1 | sort | tr '\n' ' '; echo; ls /proc/self/fd | tr '\n' ' '; echo; echo "$CACHE|$WORD|$HOME"; pwd; id -u`)
		lines := strings.Split(out, "\n")
		if got, want := lines[0], "CACHE HOME LANG LOGNAME PATH PWD SIGNALBOX_WORKSPACE TMPDIR USER WORD "; got != want {
			t.Errorf("variables %q, want %q", got, want)
		}
		// 3 is ls's own directory: nothing else is open without Report.
		if got := lines[1]; got != "0 1 2 3 " {
			t.Errorf("descriptors %q", got)
		}
		home := box.Path(sandbox.HomeDir)
		if got, want := lines[2], home+"/cache|a b|"+home; got != want {
			t.Errorf("values %q, want %q", got, want)
		}
		if got, want := lines[3], box.Path(sandbox.RepoDir); got != want {
			t.Errorf("directory %q, want %q", got, want)
		}
		if lines[4] == "0" {
			t.Error("ran as uid 0")
		}
	})
}

func TestRunStreams(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		t.Run("a line of 5 MB", func(t *testing.T) {
			t.Parallel()
			_, out := sh(t, newBox(t, tier, sandbox.Spec{}), `head -c 5000000 /dev/zero | tr '\0' x; echo; echo end`)
			if len(out) != 5000000+4 || !strings.HasSuffix(out, "x\nend") {
				t.Errorf("got %d bytes", len(out))
			}
		})
		t.Run("bytes that are no text", func(t *testing.T) {
			t.Parallel()
			_, out := sh(t, newBox(t, tier, sandbox.Spec{}), `printf '\377\376\000x'`)
			if out != "\xff\xfe\x00x" {
				t.Errorf("got %q", out)
			}
		})
		t.Run("too much is dropped and counted, the payload goes on", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{Limits: sandbox.Limits{Output: 1000}})
			res, out := sh(t, box, `head -c 100000 /dev/zero | tr '\0' x; echo done > done; exit 4`)
			if len(out) != 1000 || res.OutputBytes != 100000 || res.OutputDropped != 99000 || res.ExitCode != 4 {
				t.Errorf("passed %d, counted %d, dropped %d, code %d", len(out), res.OutputBytes, res.OutputDropped, res.ExitCode)
			}
		})
		t.Run("standard input", func(t *testing.T) {
			t.Parallel()
			_, out := sh(t, newBox(t, tier, sandbox.Spec{}), `cat`, func(c *sandbox.Command) { c.Stdin = strings.NewReader("said") })
			if out != "said" {
				t.Errorf("got %q", out)
			}
		})
		t.Run("the report descriptor is apart from output", func(t *testing.T) {
			t.Parallel()
			var report bytes.Buffer
			_, out := sh(t, newBox(t, tier, sandbox.Spec{}), `head -c 300000 /dev/zero | tr '\0' r >&3; echo log`, func(c *sandbox.Command) { c.Report = &report })
			if out != "log" || report.Len() != 300000 {
				t.Errorf("output %q, report %d bytes", out, report.Len())
			}
		})
		t.Run("a slow receiver loses nothing", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{})
			slow := &slowWriter{}
			// All of it fits into the pipe, so the payload ends long before.
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&3"}, Stdout: slow, Report: slow})
			if err != nil || !res.OK() || slow.total() != 120000 {
				t.Errorf("received %d, result %+v, error %v", slow.total(), res, err)
			}
		})
		t.Run("a broken receiver does not end the payload", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{})
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&3; exit 6"}, Stdout: brokenWriter{}, Report: brokenWriter{}})
			if err != nil || res.ExitCode != 6 {
				t.Errorf("result %+v, error %v", res, err)
			}
		})
		t.Run("large arguments", func(t *testing.T) {
			t.Parallel()
			big := strings.Repeat("y", 120_000)
			_, out := sh(t, newBox(t, tier, sandbox.Spec{}), `printf %s "$BIG" | wc -c`, func(c *sandbox.Command) { c.Env = map[string]string{"BIG": big} })
			if out != "120000" {
				t.Errorf("got %q", out)
			}
		})
	})
}

func TestWorkspaceStaysAndTmpDoesNot(t *testing.T) {
	t.Parallel()
	box := newBox(t, sandbox.TierBwrap, sandbox.Spec{})
	sh(t, box, `echo kept > kept; echo gone > /tmp/gone`)
	_, out := sh(t, box, `cat kept; ls /tmp`)
	if out != "kept" {
		t.Errorf("got %q", out)
	}
	if _, err := os.Stat(filepath.Join(box.Workspace(), "repo", "kept")); err != nil {
		t.Error(err)
	}
}

// slowWriter takes longer for its first bytes than a leaked pipe is waited for.
type slowWriter struct {
	mu sync.Mutex
	n  int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n == 0 {
		<-time.After(2500 * time.Millisecond)
	}
	w.n += len(p)
	return len(p), nil
}

func (w *slowWriter) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("receiver is gone") }

// gate is a writer that says when the payload is under way.
type gate struct {
	ready chan struct{}
	seen  bytes.Buffer
}

func newGate() *gate { return &gate{ready: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	before := g.seen.Len()
	g.seen.Write(p)
	if before == 0 {
		close(g.ready)
	}
	return len(p), nil
}

func TestStopping(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		t.Run("TERM lets the payload clean up", func(t *testing.T) {
			t.Parallel()
			box := newBox(t, tier, sandbox.Spec{})
			res, _ := sh(t, box, `trap 'echo bye > bye; exit 9' TERM; while :; do sleep 0.05; done`, func(c *sandbox.Command) {
				c.Timeout, c.Grace = 300*time.Millisecond, 20*time.Second
			})
			if !res.TimedOut || res.Killed || res.ExitCode != 9 {
				t.Errorf("result %+v", res)
			}
			if raw, err := os.ReadFile(filepath.Join(box.Workspace(), "repo", "bye")); err != nil || string(raw) != "bye\n" {
				t.Errorf("clean-up did not run: %q %v", raw, err)
			}
		})
		t.Run("TERM reaches the children of a shell", func(t *testing.T) {
			t.Parallel()
			const script = `trap : TERM; sh -c 'trap "exit 0" TERM; while :; do sleep 0.05; done'; exit 6`
			res, _ := sh(t, newBox(t, tier, sandbox.Spec{}), script, func(c *sandbox.Command) {
				c.Timeout, c.Grace = 300*time.Millisecond, 10*time.Second
			})
			if !res.TimedOut || res.Killed || res.ExitCode != 6 {
				t.Errorf("result %+v", res)
			}
		})
		t.Run("KILL ends what ignores TERM", func(t *testing.T) {
			t.Parallel()
			res, _ := sh(t, newBox(t, tier, sandbox.Spec{}), `trap '' TERM; (trap '' TERM; setsid sleep 1000) & while :; do sleep 0.05; done`, func(c *sandbox.Command) {
				c.Timeout, c.Grace = 200*time.Millisecond, 300*time.Millisecond
			})
			if !res.TimedOut || !res.Killed || res.Signal != "killed" || res.ExitCode != -1 {
				t.Errorf("result %+v", res)
			}
			nothingRuns(t, tier)
		})
		t.Run("a stopped payload is ended", func(t *testing.T) {
			t.Parallel()
			res, _ := sh(t, newBox(t, tier, sandbox.Spec{}), `kill -STOP $$`, func(c *sandbox.Command) {
				c.Timeout, c.Grace = 200*time.Millisecond, 300*time.Millisecond
			})
			if !res.TimedOut || !res.Killed {
				t.Errorf("result %+v", res)
			}
			nothingRuns(t, tier)
		})
		t.Run("cancel", func(t *testing.T) {
			t.Parallel()
			box, g := newBox(t, tier, sandbox.Spec{}), newGate()
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-g.ready; cancel() }()
			res, err := box.Run(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo up; sleep 1000"}, Stdout: g, Grace: 20 * time.Second})
			if err != nil || !res.Cancelled || res.TimedOut || res.Killed || res.Signal != "terminated" {
				t.Errorf("result %+v, error %v", res, err)
			}
			nothingRuns(t, tier)
		})
		t.Run("close while it runs", func(t *testing.T) {
			t.Parallel()
			box, g := newBox(t, tier, sandbox.Spec{}), newGate()
			go func() { <-g.ready; box.Close() }()
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo up; sleep 1000"}, Stdout: g})
			if err != nil || res.Signal != "killed" {
				t.Errorf("result %+v, error %v", res, err)
			}
			if _, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"true"}}); err == nil {
				t.Error("a closed box ran a command")
			}
			nothingRuns(t, tier)
		})
		t.Run("cancelled before it started", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			res, err := newBox(t, tier, sandbox.Spec{}).Run(ctx, sandbox.Command{Argv: []string{"true"}})
			if err != nil || !res.Cancelled {
				t.Errorf("result %+v, error %v", res, err)
			}
		})
	})
}

// Whatever a payload leaves behind is gone and counted when Run returns.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		for name, script := range map[string]string{
			"background":        `sleep 1000 & exit 0`,
			"new session":       `setsid sleep 1000 & sleep 0.2; exit 0`,
			"daemon":            `(setsid /bin/sh -c 'setsid sleep 1000 & exit 0' &) ; sleep 0.3; exit 0`,
			"ignores TERM":      `/bin/sh -c 'trap "" TERM HUP; while :; do sleep 1; done' & sleep 0.2; exit 0`,
			"holds the streams": `sleep 1000 >&1 2>&1 3>&3 & exit 0`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var report bytes.Buffer
				res, _ := sh(t, newBox(t, tier, sandbox.Spec{}), script, func(c *sandbox.Command) { c.Report = &report })
				if !res.OK() || res.Leftovers == 0 {
					t.Errorf("result %+v", res)
				}
				nothingRuns(t, tier)
			})
		}
	})
}
