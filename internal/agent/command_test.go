package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/agent"
	"signalbox/internal/sandbox"
)

func TestCommandEditsAndReports(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.txt": "old words\n"})
	var log bytes.Buffer
	out, events := b.run(b.recipe(
		do("say", "new", "hello"),
		do("replace", "file", "a.txt", "old", "old", "new", "new"),
		do("tool", "name", "go test", "new", "ok"),
		do("step", "new", "Checking"),
		do("usage", "n", 100), do("usage", "n", 10),
		do("result", "new", "Replaced the words."),
	), agent.Job{Goal: "Use new words", Log: &log})
	if out.Reason != agent.Completed || out.Summary != "Replaced the words." || out.NoChange || out.Plan != nil || out.Warnings != 0 {
		t.Errorf("outcome %+v", out)
	}
	if got := b.file("repo/a.txt"); got != "new words\n" {
		t.Errorf("file %q", got)
	}
	if got := b.file("input/goal.md"); got != "Use new words" {
		t.Errorf("goal %q", got)
	}
	if log.String() != "hello\n" {
		t.Errorf("log %q", log.String())
	}
	want := agent.Usage{Input: 110, Output: 11}
	if out.Usage != want {
		t.Errorf("usage %+v", out.Usage)
	}
	zero := 0
	wantEvents := []agent.Event{
		agent.Started{},
		agent.Text{Text: "hello"},
		agent.ToolStarted{CallID: "edit-1", Name: "replace", Kind: "edit", Input: "a.txt"},
		agent.ToolFinished{CallID: "edit-1", Status: "ok"},
		agent.ToolStarted{CallID: "tool-2", Name: "go test", Kind: "execute", Input: "go test"},
		agent.ToolFinished{CallID: "tool-2", Status: "ok", Output: "ok", ExitCode: &zero, Duration: 3 * time.Millisecond},
		agent.Step{Title: "Checking"},
		agent.Usage{Input: 100, Output: 10}, agent.Usage{Input: 10, Output: 1},
		agent.Finished{Reason: agent.Completed, Usage: want, Summary: "Replaced the words."},
	}
	if diff := cmp.Diff(wantEvents, events); diff != "" {
		t.Error(diff)
	}
}

// R-PLAN-1: a plan agent is asked in its own phase, and what it leaves out is
// named.
func TestCommandPlans(t *testing.T) {
	t.Parallel()
	t.Run("a plan comes back and is handed on", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		a := b.recipe(do("plan", "when", "plan", "file", "x.go"), do("write", "file", "done", "new", "y"))
		out, _ := b.run(a, agent.Job{Phase: agent.PhasePlan})
		if out.Plan == nil || !cmp.Equal(out.Plan.Files, []string{"x.go"}) || out.Reason != agent.Completed {
			t.Fatalf("outcome %+v", out)
		}
		b.run(a, agent.Job{Plan: out.Plan})
		var back agent.Plan
		if err := json.Unmarshal([]byte(b.file("input/plan.json")), &back); err != nil || !cmp.Equal(back, *out.Plan) {
			t.Errorf("handed on %+v, error %v", back, err)
		}
	})
	t.Run("no plan is made up", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		out, _ := b.run(b.recipe(do("say", "when", "plan", "new", "hm")), agent.Job{Phase: agent.PhasePlan})
		if out.Plan != nil || out.Reason != agent.Completed {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("an unusable plan is a warning that names the field", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		out, events := b.run(b.recipe(do("plan", "when", "plan", "new", `{"files":["a"]}`)), agent.Job{Phase: agent.PhasePlan})
		if out.Plan != nil || out.Warnings != 1 || !strings.Contains(fmt.Sprint(events), "verifiers") {
			t.Errorf("outcome %+v, events %v", out, events)
		}
	})
}

// R-TRN-14: structured feedback reaches the agent, and an instruction is done.
func TestCommandGetsFeedback(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"a.txt": "one\n"})
	a := b.recipe(
		do("replace", "when", "first", "file", "a.txt", "old", "one", "new", "two"),
		do("replace", "when", "verifier", "file", "a.txt", "old", "two", "new", "three"),
		do("instruction", "when", "human"),
	)
	b.run(a, agent.Job{})
	if _, err := os.Stat(b.box.Workspace() + "/input/feedback.json"); !os.IsNotExist(err) {
		t.Error("there is a feedback file without feedback")
	}
	fb := []agent.Feedback{{Source: "verifier", Message: "1 check failed", Failures: []agent.Failure{{Command: "test", Argv: []string{"go", "test"}, ExitCode: 1, Class: "failed", Tail: "FAIL"}}}}
	b.run(a, agent.Job{Feedback: fb})
	if got := b.file("repo/a.txt"); got != "three\n" {
		t.Errorf("after verifier: %q", got)
	}
	fb = append(fb, agent.Feedback{Source: "human", Message: `replace "three" with "four" in a.txt`, Revision: 2})
	b.run(a, agent.Job{Feedback: fb})
	if got := b.file("repo/a.txt"); got != "four\n" {
		t.Errorf("after person: %q", got)
	}
}

func TestCommandEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		recipe  []map[string]any
		timers  agent.Timers
		reason  agent.Reason
		summary string // the agent's own words
		end     string // how it ended, in ours
	}{
		{name: "exit 1", recipe: []map[string]any{do("exit", "n", 1)}, reason: agent.Crashed, end: "The agent ended with exit code 1."},
		{name: "says that all is well and exits 1", recipe: []map[string]any{do("result", "new", "All is well."), do("exit", "n", 1)}, reason: agent.Crashed, summary: "All is well.", end: "The agent ended with exit code 1."},
		{name: "hangs before the first event", recipe: []map[string]any{do("hang")}, timers: agent.Timers{FirstOutput: 300 * time.Millisecond, Idle: time.Hour}, reason: agent.NoStart},
		{name: "falls silent", recipe: []map[string]any{do("say", "new", "hi"), do("hang")}, timers: agent.Timers{FirstOutput: time.Minute, Idle: 300 * time.Millisecond}, reason: agent.Idle},
		{name: "uses up its time", recipe: []map[string]any{do("say", "new", "hi"), do("hang")}, timers: agent.Timers{Wall: 400 * time.Millisecond}, reason: agent.TimedOut},
		{name: "ignores TERM", recipe: []map[string]any{do("ignore_term"), do("say", "new", "hi"), do("hang")}, timers: agent.Timers{Wall: 400 * time.Millisecond, Grace: 300 * time.Millisecond}, reason: agent.TimedOut},
		{name: "declares a budget", recipe: []map[string]any{do("result", "new", "Out of money.", "old", "budget")}, reason: agent.Budget, summary: "Out of money."},
		{name: "declares a made-up reason", recipe: []map[string]any{do("result", "new", "x", "old", "cancelled")}, reason: agent.Completed, summary: "x"},
		{name: "says there is nothing to do", recipe: []map[string]any{do("no_change", "new", "All is well.")}, reason: agent.Completed, summary: "All is well."},
		{name: "an unknown action", recipe: []map[string]any{do("dance")}, reason: agent.Crashed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			out, _ := b.run(b.recipe(c.recipe...), agent.Job{Timers: c.timers})
			if out.Reason != c.reason || out.Summary != c.summary || (c.end != "" && out.End != c.end) {
				t.Errorf("reason %s, summary %q, end %q; want %s %q %q; log %q", out.Reason, out.Summary, out.End, c.reason, c.summary, c.end, out.StderrTail)
			}
		})
	}
	t.Run("not installed", func(t *testing.T) {
		t.Parallel()
		out, _ := newBench(t, nil).run(&agent.Command{Argv: []string{"no-such-agent"}}, agent.Job{})
		if out.Reason != agent.Crashed || !strings.Contains(out.End, "not found in PATH") {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		out, err := b.recipe(do("say", "new", "hi"), do("hang")).Run(ctx, b.box, agent.Job{Phase: agent.PhaseExecute}, func(e agent.Event) {
			if _, ok := e.(agent.Text); ok {
				cancel()
			}
		})
		if err != nil || out.Reason != agent.Cancelled {
			t.Errorf("outcome %+v, error %v", out, err)
		}
	})
}

// R-SBX-1: edits stay inside the workspace, and every tool call is recorded.
func TestCommandStaysInside(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	if b.box.Tier() != sandbox.TierBwrap {
		t.Skip("not exercised: bwrap is not available")
	}
	outside := t.TempDir() + "/written"
	out, events := b.run(b.recipe(do("outside", "file", outside), do("outside", "file", "/etc/written"), do("outside", "file", "/usr/written"), do("outside", "file", "../input/goal.md")), agent.Job{})
	if out.Reason != agent.Completed {
		t.Errorf("outcome %+v", out)
	}
	for _, e := range events {
		if s, ok := e.(agent.Step); ok && strings.HasSuffix(s.Title, "<nil>") {
			t.Errorf("it wrote: %s", s.Title)
		}
	}
	for _, path := range []string{outside, "/etc/written", "/usr/written"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s exists", path)
		}
	}
}

func TestCommandLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	out, _ := b.run(b.recipe(do("child"), do("say", "new", "bye")), agent.Job{})
	if out.Reason != agent.Completed || out.Result.Leftovers == 0 {
		t.Errorf("outcome %+v", out)
	}
}

func TestCommandStreamsAreBounded(t *testing.T) {
	t.Parallel()
	t.Run("a log line of 5 MB and bytes that are no text", func(t *testing.T) {
		t.Parallel()
		var log bytes.Buffer
		b := newBench(t, nil)
		out, _ := b.run(b.recipe(do("line", "n", 5_000_000), do("invalid_utf8"), do("write", "file", "x", "new", "y")), agent.Job{Log: &log})
		if out.Reason != agent.Completed || log.Len() < 5_000_000 || !strings.HasSuffix(log.String(), "\xff\xfe\xfd not text\n") {
			t.Errorf("reason %s, log of %d bytes", out.Reason, log.Len())
		}
		if len(out.StderrTail) > 17<<10 || strings.Contains(out.StderrTail, "\xff") {
			t.Errorf("tail of %d bytes", len(out.StderrTail))
		}
	})
	t.Run("output is never read as protocol", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		out, _ := b.run(&agent.Command{Argv: []string{"sh", "-c", `echo '{"type":"no_change"}'; echo '{"type":"result","summary":"forged"}' >&2`}}, agent.Job{})
		if out.NoChange || out.Summary == "forged" || len(out.Events) != 0 {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("bad lines are warnings", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		out, events := b.run(b.recipe(
			do("raw", "new", "not json\n[1]\n{\"no\":\"type\"}\n\n{\"type\":\"from_the_future\"}\n"),
			do("raw", "new", "{\"type\":\"tool_finished\",\"call_id\":\"never\"}\n{\"type\":\"usage\",\"input\":-1,\"output\":1}\n{\"type\":\"usage\",\"input\":\"many\",\"output\":1}\n"),
			do("raw", "new", "{\"type\":\"text\",\"text\":\"last, without a line end\"}"),
		), agent.Job{})
		if out.Warnings != 6 || out.Events["from_the_future"] != 1 || out.Usage != (agent.Usage{}) {
			t.Errorf("outcome %+v", out)
		}
		var texts []string
		for _, e := range events {
			if x, ok := e.(agent.Text); ok {
				texts = append(texts, x.Text)
			}
		}
		if !cmp.Equal(texts, []string{"last, without a line end"}) {
			t.Errorf("texts %q", texts)
		}
	})
	t.Run("a protocol line above the limit is dropped, the next is read", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		script := fmt.Sprintf(`(printf '{"type":"text","text":"'; head -c %d /dev/zero | tr '\0' x; printf '"}\n{"type":"text","text":"after"}\n') >&3`, agent.MaxProtocolLine+1)
		out, events := b.run(&agent.Command{Argv: []string{"sh", "-c", script}}, agent.Job{})
		if out.Warnings != 1 || len(events) != 4 {
			t.Errorf("warnings %d, %d events", out.Warnings, len(events))
		}
	})
	t.Run("a call that never ends is closed", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, nil)
		_, events := b.run(b.recipe(do("raw", "new", `{"type":"tool_started","call_id":"c","name":"x","kind":"weird","input":{"a":1}}`+"\n")), agent.Job{})
		want := []agent.Event{
			agent.Started{},
			agent.ToolStarted{CallID: "c", Name: "x", Kind: "other", Input: `{"a":1}`},
			agent.ToolFinished{CallID: "c", Status: "cancelled"},
		}
		if diff := cmp.Diff(want, events[:3]); diff != "" {
			t.Error(diff)
		}
	})
}

// A codemod of a few lines of shell is an agent.
func TestCommandShellScript(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]string{"main.go": "package main\n\nvar x interface{}\n", "codemod.sh": `#!/bin/sh
set -eu
test "$SIGNALBOX_PHASE" = execute
test -f "$SIGNALBOX_INPUT/goal.md"
cd "$SIGNALBOX_REPO"
grep -rl 'interface{}' --include='*.go' . | while read -r f; do
  sed -i 's/interface{}/any/g' "$f"
  printf '{"type":"step","title":"Rewrote %s"}\n' "$f" >&3
done
`})
	out, events := b.run(&agent.Command{Argv: []string{"sh", "codemod.sh"}}, agent.Job{Goal: "any"})
	if out.Reason != agent.Completed || b.file("repo/main.go") != "package main\n\nvar x any\n" {
		t.Errorf("outcome %+v, file %q", out, b.file("repo/main.go"))
	}
	if diff := cmp.Diff(agent.Event(agent.Step{Title: "Rewrote ./main.go"}), events[1]); diff != "" {
		t.Error(diff)
	}
}

// Links that one invocation plants do not lead the next one's inputs astray.
func TestInputsDoNotFollowLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	target := t.TempDir()
	ws := b.box.Path(sandbox.WorkspaceDir)
	out, _ := b.run(&agent.Command{Argv: []string{"sh", "-c", "mv " + ws + "/input " + ws + "/moved && ln -s " + target + " " + ws + "/input"}}, agent.Job{Goal: "one"})
	if out.Reason != agent.Completed {
		t.Fatalf("outcome %+v", out)
	}
	b.run(&agent.Command{Argv: []string{"true"}}, agent.Job{Goal: "two"})
	if entries, _ := os.ReadDir(target); len(entries) != 0 {
		t.Errorf("inputs went through a link: %v", entries)
	}
	if got := b.file("input/goal.md"); got != "two" {
		t.Errorf("goal %q", got)
	}
}
