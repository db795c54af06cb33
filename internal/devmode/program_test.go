package devmode_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs builds both binaries, as `make build` does, into a folder that every user may reach.
func programs(t *testing.T) string {
	t.Helper()
	dir := publicDir(t)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "signalbox/cmd/signalbox", "signalbox/cmd/signalbox-worker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "signalbox")
}

func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb-dev-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The self-test is the whole first journey with real processes: sign-in, task, sandboxed agent, verification, gate,
// approval, branch, pull request. It has to refuse to call a journey without isolation a success.
func TestSelfTest(t *testing.T) {
	t.Parallel()
	binary := programs(t)
	out, err := exec.CommandContext(t.Context(), binary, "dev", "--selftest").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the self-test failed: %v", err)
	}
	for _, want := range []string{
		`(?m)^run +run_`, `(?m)^states +CREATED → .*WAITING_FOR_APPROVAL → PR_CREATING → PR_CREATED → SUCCEEDED$`, `(?m)^isolation +bwrap$`,
		`(?m)^branch +agent/task_`, `(?m)^commit +[0-9a-f]{40}$`, `(?m)^pull request +http://127\.0\.0\.1:\d+/pulls/`, `the requester cannot approve`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the self-test does not print %s", want)
		}
	}
	out, err = exec.CommandContext(t.Context(), binary, "dev", "--selftest", "--sandbox=process").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the self-test failed: a lease worked in the sandbox process") {
		t.Errorf("without isolation the self-test ended with %v:\n%s", err, out)
	}
}

// output gathers what a process prints and tells when a line matches.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (o *output) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		o.mu.Lock()
		o.text.WriteString(lines.Text() + "\n")
		o.mu.Unlock()
		select {
		case o.more <- struct{}{}:
		default:
		}
	}
	close(o.more)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) await(t *testing.T, pattern string) []string {
	t.Helper()
	re, deadline := regexp.MustCompile(pattern), time.After(3*time.Minute)
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		select {
		case _, ok := <-o.more:
			if !ok {
				if m := re.FindStringSubmatch(o.String()); m != nil {
					return m
				}
				t.Fatalf("it ended without printing %s:\n%s", pattern, o)
			}
		case <-deadline:
			t.Fatalf("it did not print %s:\n%s", pattern, o)
		}
	}
}

func startDev(t *testing.T, binary, data string) (*exec.Cmd, *output) {
	t.Helper()
	cmd := exec.Command(binary, "dev")
	cmd.Env = append(os.Environ(), "SIGNALBOX_DATA="+data)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	o := &output{more: make(chan struct{}, 1)}
	go o.read(pipe)
	return cmd, o
}

// One start waits for an approval; a second finds the first; Ctrl-C stops all of it; the next start has the same gate.
func TestDevKeepsItsDataAndItsPlace(t *testing.T) {
	t.Parallel()
	binary, data := programs(t), filepath.Join(publicDir(t), "data")
	const waiting = `waiting for your approval: (http://127\.0\.0\.1:\d+)(/gates/gate_\w+)`

	first, out := startDev(t, binary, data)
	gate := out.await(t, waiting)
	again, err := exec.CommandContext(t.Context(), "env", "SIGNALBOX_DATA="+data, binary, "dev").CombinedOutput()
	if err != nil || !strings.Contains(string(again), "running already: "+gate[1]) {
		t.Errorf("a second start ended with %v:\n%s", err, again)
	}
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("after Ctrl-C it ended with %v:\n%s", err, out)
	}
	if resp, err := http.Get(gate[1]); err == nil {
		resp.Body.Close()
		t.Error("after Ctrl-C something still answers")
	}
	if _, err := os.Stat(filepath.Join(data, "postgres", "data", "postmaster.pid")); !os.IsNotExist(err) {
		t.Errorf("after Ctrl-C Postgres has left its pid file (%v)", err)
	}

	second, out := startDev(t, binary, data)
	if got := out.await(t, waiting); got[0] != gate[0] {
		t.Errorf("after a restart it waits at %s, want %s", got[0], gate[0])
	}
	// A kill -9 leaves nothing running for long, and the next start recovers.
	if err := second.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait()
	third, out := startDev(t, binary, data)
	if got := out.await(t, `waiting for your approval: http://127\.0\.0\.1:\d+(/gates/gate_\w+)`); got[1] != gate[2] {
		t.Errorf("after a kill it waits at %s, want %s", got[1], gate[2])
	}
	if err := third.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := third.Wait(); err != nil {
		t.Errorf("after SIGTERM it ended with %v:\n%s", err, out)
	}
}
