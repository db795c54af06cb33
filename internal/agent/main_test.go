package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"signalbox/internal/agent"
	"signalbox/internal/sandbox"
)

// testAgentEnv tells the tests where TestMain put the test agent.
const testAgentEnv = "SIGNALBOX_TEST_AGENT"

func TestMain(m *testing.M) {
	sandbox.InitMain()
	os.Exit(withTestAgent(m))
}

// withTestAgent builds the test agent, static, where payload users can read it.
func withTestAgent(m *testing.M) int {
	dir, err := os.MkdirTemp("", "signalbox-testagent-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "testagent"), "./testagent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build test agent: %v\n%s", err, out)
		return 1
	}
	os.Setenv(testAgentEnv, dir)
	return m.Run()
}

// bench is a box with a checkout, for one test.
type bench struct {
	t   *testing.T
	box sandbox.Box
	uid uint32
	sb  sandbox.Sandbox
}

func newBench(t *testing.T, files map[string]string) *bench {
	t.Helper()
	tier := sandbox.TierBwrap
	sb, err := sandbox.New(sandbox.Options{Tier: tier, UIDBase: 300_000})
	if un, ok := errors.AsType[*sandbox.UnavailableError](err); ok && os.Getenv("CI_REQUIRE_SANDBOX") != "1" {
		t.Logf("bwrap not exercised: %s", un.Reason)
		sb, err = sandbox.New(sandbox.Options{Tier: sandbox.TierProcess, UIDBase: 300_000})
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "signalbox-agent-")
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.MakeLayout(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "repo"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, "repo", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := fnv.New32a()
	h.Write([]byte("agent" + t.Name()))
	slot := 1000 + int(h.Sum32()%50000)
	if err := sb.Own(dir, slot); err != nil {
		t.Fatal(err)
	}
	box, err := sb.Open(t.Context(), sandbox.Spec{
		Slot: slot, Workspace: dir,
		ReadOnly: []sandbox.Mount{{Host: os.Getenv(testAgentEnv), Inside: "/opt/agent"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := sb.User(slot)
	t.Cleanup(func() {
		if err := errors.Join(box.Close(), sb.Remove(dir), sb.Close()); err != nil {
			t.Error(err)
		}
	})
	return &bench{t: t, box: box, uid: uid, sb: sb}
}

// recipe is a test agent with its recipe.
func (b *bench) recipe(actions ...map[string]any) *agent.Command {
	b.t.Helper()
	raw, err := json.Marshal(actions)
	if err != nil {
		b.t.Fatal(err)
	}
	return &agent.Command{Profile: "test", ProgramVersion: "1", Argv: []string{b.box.Path("/opt/agent/testagent"), string(raw)}}
}

// run runs an agent and collects its events.
func (b *bench) run(a agent.Adapter, job agent.Job) (agent.Outcome, []agent.Event) {
	b.t.Helper()
	if job.Phase == "" {
		job.Phase = agent.PhaseExecute
	}
	var events []agent.Event
	out, err := a.Run(b.t.Context(), b.box, job, func(e agent.Event) { events = append(events, e) })
	if err != nil {
		b.t.Fatal(err)
	}
	if len(events) == 0 {
		b.t.Fatal("no event at all")
	}
	if fin, ok := events[len(events)-1].(agent.Finished); !ok || fin.Reason != out.Reason {
		b.t.Errorf("the last event is %#v, the outcome %s", events[len(events)-1], out.Reason)
	}
	return out, events
}

func (b *bench) file(name string) string {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.box.Workspace(), name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

func do(what string, more ...any) map[string]any {
	m := map[string]any{"do": what}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}
