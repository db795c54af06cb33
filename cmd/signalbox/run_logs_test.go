package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// printer is a worker that holds one run and prints for it.
type printer struct {
	t      *testing.T
	client *wire.ClientWithResponses
	as     wire.Assignment
	logs   int64
}

func (s *shell) printer() *printer {
	s.t.Helper()
	secret := db.Mint(db.PrefixWorker)
	_, err := s.store.CreateWorkerCredential(s.t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: "w", Phases: run.Phases()}, secret)
	must(s.t, err)
	client, err := connect(s.url, secret)
	must(s.t, err)
	boot, err := client.RegisterWorkerWithResponse(s.t.Context(), wire.WorkerRegister{Capabilities: []string{"agent:default"}, Name: "w", Version: "t",
		Phases: []wire.Phase{"execute"}, Isolation: wire.Bwrap, MaxConcurrentRuns: 1})
	must(s.t, err)
	claim, err := client.ClaimWithResponse(s.t.Context(), wire.Claim{ClaimId: key(), BootId: boot.JSON201.BootId, Phases: []wire.Phase{"execute"}, Max: 1, WaitSeconds: 10})
	must(s.t, err)
	if len(claim.JSON200.Assignments) != 1 {
		s.t.Fatal("nothing to do")
	}
	p := &printer{t: s.t, client: client, as: claim.JSON200.Assignments[0]}
	p.do(wire.RunCommand{Command: wire.CmdStart})
	return p
}

func (p *printer) do(c wire.RunCommand) {
	p.t.Helper()
	c.LeaseId, c.FencingToken = p.as.LeaseId, p.as.FencingToken
	res, err := p.client.PostRunCommandWithResponse(p.t.Context(), p.as.RunId, &wire.PostRunCommandParams{IdempotencyKey: key()}, c)
	must(p.t, err)
	if res.JSON200 == nil {
		p.t.Fatalf("%s: %s", res.Status(), res.Body)
	}
}

func (p *printer) say(call, text string) {
	p.t.Helper()
	p.logs++
	res, err := p.client.PostRunLogsWithResponse(p.t.Context(), p.as.RunId, wire.LogBatch{LeaseId: p.as.LeaseId, FencingToken: p.as.FencingToken, Sequence: p.logs,
		Chunks: []wire.LogChunkReport{{Stream: "agent", CallId: call, Data: []byte(text)}}})
	must(p.t, err)
	if res.JSON200 == nil {
		p.t.Fatalf("%s: %s", res.Status(), res.Body)
	}
}

// Logs on the command line: all or one step's, harmless for the terminal, and followed until the run has ended.
func TestRunLogs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	rita := s.as("rita", policy.RoleRequester)
	_, err := s.store.CreateRepository(t.Context(), db.DefaultTenant, [16]byte{}, db.RepositoryInfo{Name: "acme/api", Forge: db.LocalForge, CloneURL: "acme/api.git", DefaultBranch: "main", Verification: []run.Check{{Name: "t", Argv: []string{"true"}}}})
	must(t, err)
	rita.ok("task", "submit", "--repository", "acme/api", "--title", "t", "--goal", "g")
	p := s.printer()
	steps, err := p.client.PostRunStepsWithResponse(t.Context(), p.as.RunId, wire.StepBatch{LeaseId: p.as.LeaseId, FencingToken: p.as.FencingToken, Sequence: 1,
		Steps: []wire.StepReport{{CallId: "v-1", Kind: "verify", Name: "go vet", State: wire.StepRunning}}})
	must(t, err)
	if steps.JSON200 == nil {
		t.Fatalf("steps: %s", steps.Body)
	}
	p.say("", "one \x1b[31mr\xc3")
	p.say("", "\xa9d\x1b[0m \x1b]0;owned\x07two\n")
	p.say("v-1", "vet\n")
	id := p.as.RunId
	if out := rita.ok("run", "logs", id); out != "one réd two\nvet\n" {
		t.Errorf("run logs: %q", out)
	}
	if out := rita.ok("run", "logs", id, "--step", "go vet"); out != "vet\n" {
		t.Errorf("run logs --step: %q", out)
	}
	if out := rita.ok("run", "logs", id, "--raw"); !strings.Contains(out, "\x1b[31mr\xc3\xa9d") {
		t.Errorf("run logs --raw: %q", out)
	}
	rita.no(`no step "nothing"`, "run", "logs", id, "--step", "nothing")

	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(t.Context(), []string{"run", "logs", id, "--follow"}, terminal{In: strings.NewReader(""), Out: w, Err: io.Discard, Env: func(name string) (string, bool) { v, ok := rita.env[name]; return v, ok }})
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	read := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("followed: %q, want %q", lines.Text(), want)
		}
	}
	read("one réd two")
	read("vet")
	p.say("", "three\nno end")
	read("three")
	p.do(wire.RunCommand{Command: wire.CmdAttemptFailed, AttemptFailed: &wire.AttemptFailed{ReasonCode: string(run.CodeToolMissing), Summary: "It is not there."}})
	read("no end")
	if lines.Scan() || <-ended != 0 {
		t.Errorf("after the end: %q", lines.Text())
	}
}
