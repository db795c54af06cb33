package sandbox_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/sandbox"
)

// running lists processes of a user, zombies left out.
func running(uid uint32) []string {
	entries, _ := os.ReadDir("/proc")
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil || strings.Contains(string(raw), "State:\tZ") {
			continue
		}
		if strings.Contains(string(raw), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			cmd, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			out = append(out, e.Name()+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	return out
}

// nothingRuns fails when the test's slot still has a process. Only root can
// give each slot its own user; elsewhere the process list says nothing.
func nothingRuns(t *testing.T, tier sandbox.Tier) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("not exercised: processes can be told apart by user only as root")
		return
	}
	uid, _ := open(t, tier).User(slot(t))
	if left := running(uid); len(left) > 0 {
		t.Errorf("still running as %d: %q", uid, left)
	}
}

const workerEnv = "SIGNALBOX_TEST_WORKER"

// TestWorkerProcess is the body of the process that TestWorkerDeath kills.
func TestWorkerProcess(t *testing.T) {
	spec, ok := os.LookupEnv(workerEnv)
	if !ok {
		return
	}
	tier, slot, _ := strings.Cut(spec, " ")
	n, _ := strconv.Atoi(slot)
	sb, err := sandbox.New(sandbox.Options{Tier: sandbox.Tier(tier), StateDir: os.Getenv(workerEnv + "_STATE")})
	if err != nil {
		t.Fatal(err)
	}
	box, err := sb.Open(t.Context(), sandbox.Spec{Slot: n, Workspace: os.Getenv(workerEnv + "_WORKSPACE")})
	if err != nil {
		t.Fatal(err)
	}
	res, err := box.Run(t.Context(), sandbox.Command{
		Argv:   []string{"/bin/sh", "-c", `trap '' TERM HUP; (setsid sleep 1000 &) ; sleep 0.2; echo payload up; while :; do sleep 1; done`},
		Stdout: os.Stdout,
	})
	t.Fatal(res, err)
}

// A worker that is killed takes its payloads with it.
func TestWorkerDeath(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not exercised: processes can be told apart by user only as root")
	}
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		sb := open(t, tier)
		ws := workspace(t, sb, nil)
		uid, _ := sb.User(slot(t))
		state, err := os.MkdirTemp("", "signalbox-state-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(state) })
		cmd := exec.Command(os.Args[0], "-test.run=^TestWorkerProcess$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", workerEnv, tier, slot(t)), workerEnv+"_WORKSPACE="+ws, workerEnv+"_STATE="+state)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "payload up\n" {
			t.Fatalf("payload did not start: %q %v", line, err)
		}
		if len(running(uid)) < 2 {
			t.Fatalf("expected a payload, found %q", running(uid))
		}
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		deadline := time.Now().Add(20 * time.Second)
		for len(running(uid)) > 0 && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		if left := running(uid); len(left) > 0 {
			t.Errorf("survived the worker: %q", left)
		}
	})
}

// What a killed worker left all the same is ended when its successor starts.
func TestSuccessorEndsLeftovers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not exercised: processes can be told apart by user only as root")
	}
	const base = 900_000
	state, err := os.MkdirTemp("", "signalbox-state-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	orphan := exec.Command("/bin/sleep", "1000")
	orphan.Dir = "/"
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: base + 7, Gid: base + 7}}
	other := exec.Command("/bin/sleep", "1000")
	other.Dir = "/"
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: base - 7, Gid: base - 7}}
	for _, cmd := range []*exec.Cmd{orphan, other} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"box-old", "probe-old", "kept"} {
		if err := os.Mkdir(filepath.Join(state, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sb, err := sandbox.New(sandbox.Options{Tier: sandbox.TierProcess, StateDir: state, UIDBase: base})
	if err != nil {
		t.Fatal(err)
	}
	if err := orphan.Wait(); err == nil || len(running(base+7)) > 0 {
		t.Errorf("the orphan lives: %v", err)
	}
	if len(running(base-7)) != 1 {
		t.Error("a process of another range was ended")
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	for dir, want := range map[string]bool{"box-old": false, "probe-old": false, "kept": true} {
		if _, err := os.Stat(filepath.Join(state, dir)); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	// A second one in the same place must not end what the first runs.
	dir := workspace(t, sb, nil)
	if err := os.Chown(dir, base+1, base+1); err != nil {
		t.Fatal(err)
	}
	box, err := sb.Open(t.Context(), sandbox.Spec{Slot: 1, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate()
	stdin, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-g.ready
		second, err := sandbox.New(sandbox.Options{Tier: sandbox.TierProcess, StateDir: state, UIDBase: base})
		if err != nil {
			t.Error(err)
		} else if err := second.Close(); err != nil {
			t.Error(err)
		}
		w.Close()
	}()
	res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo up; cat; exit 8"}, Stdin: stdin, Stdout: g, Dir: sandbox.WorkspaceDir})
	if err != nil || res.ExitCode != 8 {
		t.Errorf("result %+v, error %v", res, err)
	}
	for _, c := range []io.Closer{stdin, box, sb} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The parent-death signal follows threads: goroutines that end their thread
// must not end a box (golang/go#27505).
func TestThreadsThatEndDoNotEndBoxes(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		done := make(chan struct{})
		var churn sync.WaitGroup
		for range 2 {
			churn.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						var one sync.WaitGroup
						one.Go(func() { runtime.LockOSThread() }) // the thread ends with it
						one.Wait()
					}
				}
			})
		}
		for range 3 {
			box, g := newBox(t, tier, sandbox.Spec{}), newGate()
			stdin, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-g.ready
				for range 50 {
					var one sync.WaitGroup
					one.Go(func() { runtime.LockOSThread() })
					one.Wait()
				}
				w.Close()
			}()
			res, err := box.Run(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo up; cat; exit 5"}, Stdin: stdin, Stdout: g})
			stdin.Close()
			if err != nil || res.ExitCode != 5 {
				t.Errorf("result %+v, error %v", res, err)
			}
		}
		close(done)
		churn.Wait()
	})
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	sb := open(t, sandbox.TierProcess)
	own := workspace(t, sb, nil)
	for name, spec := range map[string]sandbox.Spec{
		"a relative workspace":    {Workspace: "work", Slot: slot(t)},
		"a workspace with dots":   {Workspace: own + "/../x", Slot: slot(t)},
		"a missing workspace":     {Workspace: own + "/none", Slot: slot(t)},
		"a file as workspace":     {Workspace: "/etc/passwd", Slot: slot(t)},
		"a negative slot":         {Workspace: own, Slot: -1},
		"a mount that is missing": {Workspace: own, Slot: slot(t), ReadOnly: []sandbox.Mount{{Host: "/no/such"}}},
		"a relative mount":        {Workspace: own, Slot: slot(t), ReadOnly: []sandbox.Mount{{Host: "etc"}}},
	} {
		if box, err := sb.Open(t.Context(), spec); err == nil {
			box.Close()
			t.Errorf("%s was accepted", name)
		}
	}
	if os.Geteuid() == 0 {
		if box, err := sb.Open(t.Context(), sandbox.Spec{Workspace: own, Slot: slot(t) + 1}); err == nil {
			box.Close()
			t.Error("a workspace of another slot was accepted")
		}
		if box, err := sb.Open(t.Context(), sandbox.Spec{Workspace: own, Slot: slot(t), ReadOnly: []sandbox.Mount{{Host: "/root"}}}); err == nil {
			box.Close()
			t.Error("a mount that the payload's user cannot read was accepted")
		} else if !strings.Contains(err.Error(), "mode 700 of /root") {
			t.Errorf("the error does not say what is in the way: %v", err)
		}
	}
	if _, err := sandbox.New(sandbox.Options{Tier: "docker"}); err == nil {
		t.Error("an unknown tier was accepted")
	}
	if _, err := sandbox.New(sandbox.Options{Tier: sandbox.TierBwrap, Bwrap: "/no/bwrap"}); err == nil {
		t.Error("a missing bubblewrap was accepted")
	}
}

// Mounts are read-only, also where they lie inside the workspace, and variables
// point at them in both tiers.
func TestMounts(t *testing.T) {
	t.Parallel()
	tiers(t, func(t *testing.T, tier sandbox.Tier) {
		host, err := os.MkdirTemp("", "signalbox-mount-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(host) })
		if err := os.Chmod(host, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(host, "dep"), []byte("cached"), 0o644); err != nil {
			t.Fatal(err)
		}
		box := newBox(t, tier, sandbox.Spec{
			ReadOnly: []sandbox.Mount{{Host: host, Inside: "/caches/a"}, {Host: host, Inside: sandbox.WorkspaceDir + "/caches/b"}},
			Env:      map[string]string{"A": "/caches/a", "B": sandbox.WorkspaceDir + "/caches/b", "P": "file:///caches/a,off", "F": "-modcacherw -x=/caches/a:/usr"},
		})
		_, out := sh(t, box, `cat $A/dep; echo; cat $B/dep; echo; echo "$P $F"; echo x > $A/new || echo ro; echo x > $B/dep || echo ro`)
		want := fmt.Sprintf("cached\ncached\nfile://%s,off -modcacherw -x=%s:/usr", box.Path("/caches/a"), box.Path("/caches/a"))
		if !strings.HasPrefix(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
		if os.Geteuid() == 0 || tier == sandbox.TierBwrap {
			if strings.Count(out, "\nro") != 2 {
				t.Errorf("a mount was writable: %q", out)
			}
		}
	})
}

// Two boxes of the same tier cannot see each other.
func TestBoxesAreApart(t *testing.T) {
	t.Parallel()
	sb := open(t, sandbox.TierBwrap)
	ws := workspace(t, sb, map[string]string{"secret": "canary-of-another-run"})
	box := newBox(t, sandbox.TierBwrap, sandbox.Spec{})
	res, out := sh(t, box, "cat "+filepath.Join(ws, "repo", "secret"))
	if res.OK() || strings.Contains(out, "canary") {
		t.Errorf("another workspace was read: %q", out)
	}
}

// The programs that agents and verifications are made of work in the profile.
func TestUsualProgramsRun(t *testing.T) {
	t.Parallel()
	box := newBox(t, sandbox.TierBwrap, sandbox.Spec{})
	for name, script := range map[string]string{
		"shell and sed":    `printf 'one\ntwo\n' > f && sed -i 's/one/eins/' f && for x in a b; do echo $x >> f; done && test "$(cat f | tr '\n' ' ')" = "eins two a b "`,
		"awk, find, xargs": `mkdir -p d && echo 1 2 > d/x && find d -type f | xargs awk '{print $2}' | grep -qx 2`,
		"git":              `command -v git >/dev/null || exit 0; git init -q g && cd g && git config user.email a@b && git config user.name n && echo x > f && git add f && git commit -qm m && git log --oneline | grep -q m`,
		"node threads":     `command -v node >/dev/null || exit 0; node -e 'const {Worker}=require("worker_threads"); new Worker("process.exit(0)",{eval:true}).on("exit",c=>process.exit(c))'`,
		"loopback":         `command -v node >/dev/null || exit 0; node -e 'const n=require("net");const s=n.createServer(c=>c.end("hi")).listen(0,"127.0.0.1",()=>n.connect(s.address().port,"127.0.0.1").on("data",d=>process.exit(String(d)==="hi"?0:1)))'`,
		"python":           `test -x /usr/bin/python3 || exit 0; /usr/bin/python3 -c 'import multiprocessing as m; p=m.Pool(2); assert p.map(abs,[-1,2])==[1,2]; p.close(); p.join()'`,
		"go":               `test -x /usr/local/go/bin/go || exit 0; /usr/local/go/bin/go version`,
	} {
		if res, out := sh(t, box, script); !res.OK() {
			t.Errorf("%s: %+v %s", name, res, out)
		}
	}
}
