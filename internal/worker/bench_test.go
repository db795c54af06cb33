package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/internal/forge"
	"signalbox/internal/git"
	"signalbox/internal/sandbox"
	"signalbox/internal/wire"
	"signalbox/internal/worker"
)

// bench is a worker on its test bench: a contract server, a local forge with one repository, a script for an agent.
type bench struct {
	t      *testing.T
	dir    string
	root   string
	seed   string // an ordinary clone, as a person has one
	base   string
	server *contractServer
	cfg    worker.Config
	leases int
	done   chan error
	hurry  func()
	stop   context.CancelFunc
}

const repoID = "repo_1"

var benches atomic.Uint32

// uidRange gives each worker of the tests users of its own, above those that real workers derive.
func uidRange() uint32 {
	return 1_000_000_000 + (uint32(os.Getpid())%400*32+benches.Add(1)%32)*65_536
}

func newBench(t *testing.T, script string) *bench {
	t.Helper()
	// Not t.TempDir: payload users have to pass through.
	dir, err := os.MkdirTemp("", "signalbox-worker-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // searchable for payload users
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, dir: dir, root: filepath.Join(dir, "forge"), seed: filepath.Join(dir, "seed"), server: newContractServer(t)}
	for name, content := range map[string]string{
		"greeting.txt": "hello\n", "check.sh": "#!/bin/sh\ngrep -q goodbye greeting.txt\n", "always.sh": "#!/bin/sh\nexit 0\n", "broken.sh": "#!/bin/sh\nexit 3\n",
		"AGENTS.md": "Be polite.\n", "other.txt": "other\n", ".gitignore": "*.o\n",
	} {
		b.write(name, content)
	}
	b.git("init", "--quiet", "-b", "main")
	b.git("add", "-A")
	b.git("commit", "--quiet", "-m", "first")
	b.base = b.git("rev-parse", "HEAD")
	if err := os.MkdirAll(filepath.Join(b.root, "acme"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.git("clone", "--quiet", "--bare", b.seed, b.bare())
	g, err := git.New(t.Context(), git.Config{Home: filepath.Join(dir, "servergit"), LocalRoot: b.root})
	if err != nil {
		t.Fatal(err)
	}
	if b.server.forge, err = forge.NewLocal(g, b.root); err != nil {
		t.Fatal(err)
	}
	b.server.clone[repoID] = "acme/api.git"
	b.cfg = worker.Config{
		ServerURL: b.server.url, Credential: "sbw_test", Name: "bench", Version: "test", Dir: filepath.Join(dir, "worker"), Phases: []wire.Phase{wire.Execute, wire.Verify, wire.Publish},
		Tier: sandbox.TierProcess, MaxRuns: 1, LocalForge: b.root, SkipProbe: true, DrainGrace: 20 * time.Second,
		File: worker.File{UIDBase: uidRange(), Agents: map[string]worker.Profile{"script": {Adapter: "command", Version: "1", Argv: []string{"/bin/sh", "-c", script}, Grace: worker.Span(300 * time.Millisecond)}}},
	}
	return b
}

func (b *bench) bare() string { return filepath.Join(b.root, "acme", "api.git") }

func (b *bench) write(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.seed, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o755); err != nil { //nolint:gosec // scripts
		b.t.Fatal(err)
	}
}

func (b *bench) git(args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", args...)
	cmd.Dir = b.seed
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs a worker until the test ends or stopWorker.
func (b *bench) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	w, err := worker.New(ctx, b.cfg)
	if err != nil {
		cancel()
		b.t.Fatal(err)
	}
	b.stop, b.hurry, b.done = cancel, w.Hurry, make(chan error, 1)
	done := b.done
	go func() {
		err := w.Run(ctx)
		w.Close()
		done <- err
	}()
	b.t.Cleanup(b.stopWorker)
}

func (b *bench) stopWorker() {
	if b.done == nil {
		return
	}
	b.stop()
	select {
	case err := <-b.done:
		if err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("worker: %v", err)
		}
	case <-time.After(time.Minute):
		b.t.Error("the worker did not end")
	}
	b.done = nil
}

// assignment is a new lease of a phase.
func (b *bench) assignment(phase wire.Phase, state wire.RunState) wire.Assignment {
	b.leases++
	return wire.Assignment{
		LeaseId: fmt.Sprintf("lease_%d", b.leases), FencingToken: int64(b.leases), LeaseTtlMs: b.server.ttl.Milliseconds(), Phase: phase, RunId: "run_1", TaskId: "task_1", RunVersion: 3, State: state, AttemptNo: 1,
		Title: "Say goodbye", Goal: "Replace hello by goodbye.", Contract: wire.Contract{Mode: wire.PrCreated, Risk: wire.LOW}, AgentProfile: "script", BaseRef: "main", Branch: "agent/task_1/run_1",
		Repository:   wire.AssignedRepository{Id: repoID, Name: "acme/api", ForgeKind: "local", CloneUrl: "acme/api.git", DefaultBranch: "main"},
		Verification: []wire.VerificationCommand{{Name: "greeting", Argv: []string{"sh", "check.sh"}}}, CommandSetDigest: strings.Repeat("a", 64),
	}
}

// await waits until the lease's last word has arrived, and returns its name.
func (b *bench) await(lease string) wire.RunCommand {
	b.t.Helper()
	var found wire.RunCommand
	b.until("the end of "+lease, func() bool {
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		for _, c := range b.server.commands {
			if c.LeaseId == lease && ends(c, b.server.gate) {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

// until polls a real condition.
func (b *bench) until(what string, cond func() bool) {
	b.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			b.t.Fatalf("%s did not come\n%s", what, b.server.describe())
		case <-tick.C:
		}
	}
}

// execute runs one execute lease to its end.
func (b *bench) execute() wire.RunCommand {
	b.t.Helper()
	a := b.assignment(wire.Execute, wire.RunStateLEASED)
	b.server.assign(a)
	return b.await(a.LeaseId)
}

// patch is what the server would assign after a patch was handed in.
func (b *bench) patch(c wire.RunCommand) *wire.AssignedPatch {
	b.t.Helper()
	if c.PatchSubmitted == nil {
		b.t.Fatalf("no patch was handed in: %s\n%s", c.Command, b.server.describe())
	}
	for _, a := range b.server.stored(wire.ArtifactKindPatch) {
		if a.Id == c.PatchSubmitted.ArtifactId {
			return &wire.AssignedPatch{ArtifactId: a.Id, Digest: a.Sha256, Revision: 1, BaseCommit: c.PatchSubmitted.BaseCommit, ResultTree: c.PatchSubmitted.ResultTree}
		}
	}
	b.t.Fatal("the patch that was handed in is not stored")
	return nil
}

func (b *bench) publishing(patch *wire.AssignedPatch) wire.Assignment {
	a := b.assignment(wire.Publish, wire.RunStatePRCREATING)
	a.Patch = patch
	a.Publish = &wire.PublishPlan{
		Branch: "agent/task_1/run_1", BaseBranch: "main", CommitMessage: "Say goodbye\n\nAgent-Run-ID: run_1\n", AuthorName: "Signalbox", AuthorEmail: "signalbox@example.org", CommitTime: time.Unix(1_700_000_000, 0).UTC(), Title: "Say goodbye", Body: "evidence",
	}
	return a
}
