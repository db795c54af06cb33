package devmode

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/agent"
)

func TestListenFollowsTheRules(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	if _, err := listen(t.Context(), taken.Addr().String(), ""); err == nil || !strings.Contains(err.Error(), "SIGNALBOX_ADDR is "+taken.Addr().String()) {
		t.Errorf("a named address that is taken: %v, want an error that names it", err)
	}
	for _, open := range []string{"0.0.0.0:8080", ":8080", "192.0.2.1:80", "[::]:8080", "example.org:80"} {
		if l, err := listen(t.Context(), open, ""); err == nil {
			l.Close()
			t.Errorf("dev mode listened on %s, which others can reach", open)
		}
	}
	l, err := listen(t.Context(), "", taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Addr().String() == taken.Addr().String() {
		t.Error("listened on an address that is taken")
	}
	free := l.Addr().String()
	l.Close()
	again, err := listen(t.Context(), "", free)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.Addr().String(); got != free {
		t.Errorf("listened on %s, want the remembered %s", got, free)
	}
}

func TestASecondInstanceFindsTheFirst(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "data")
	first, err := openFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.write("instance.json", instance{URL: "http://127.0.0.1:9", PID: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = openFolder(root)
	if running, ok := errors.AsType[*RunningError](err); !ok || running.URL != "http://127.0.0.1:9" {
		t.Fatalf("the second instance got %v, want the address of the first", err)
	}
	made, err := first.secret("k", randomText)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	third, err := openFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	defer third.close()
	if kept, err := third.secret("k", randomText); err != nil || kept != made {
		t.Errorf("the secret after a restart is %q (%v), want %q", kept, err, made)
	}
	for name, want := range map[string]os.FileMode{"keys": 0o700, "forge": 0o700, "artifacts": 0o700, "worker": 0o755, "keys/k": 0o600} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
}

// checkout plants a sample and clones it, as a worker would.
func checkout(t *testing.T, s sample) string {
	t.Helper()
	root := t.TempDir()
	for range 2 { // the second time finds the first one's
		if err := s.plant(t.Context(), root); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(t.TempDir(), "repo")
	if err := runGit(t.Context(), root, "clone", "--quiet", filepath.Join(root, s.cloneURL()), work); err != nil {
		t.Fatal(err)
	}
	return work
}

func passes(t *testing.T, dir string, c check) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.argv[0], c.argv[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s: %v\n%s", c.name, err, out)
	}
	return err == nil
}

// runAgent runs the sample agent as the worker does and answers its structured lines by type.
func runAgent(t *testing.T, repo, phase, goal string, feedback []agent.Feedback) map[string][]json.RawMessage {
	t.Helper()
	script, err := agentScript()
	if err != nil {
		t.Fatal(err)
	}
	input := t.TempDir()
	if err := os.WriteFile(filepath.Join(input, "goal.md"), []byte(goal), 0o600); err != nil {
		t.Fatal(err)
	}
	if feedback != nil {
		text, err := json.MarshalIndent(feedback, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(input, "feedback.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report, err := os.Create(filepath.Join(input, "report"))
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = repo
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + input, "SIGNALBOX_PHASE=" + phase, "SIGNALBOX_INPUT=" + input}
	cmd.ExtraFiles = []*os.File{report}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the agent: %v\n%s", err, out)
	}
	text, err := os.ReadFile(report.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]json.RawMessage{}
	for line := range strings.Lines(string(text)) {
		var l struct {
			Type string
			Plan json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in the agent's line %q", err, line)
		}
		value := json.RawMessage(line)
		if l.Plan != nil {
			value = l.Plan
		}
		lines[l.Type] = append(lines[l.Type], value)
	}
	return lines
}

// The task that waits for a newcomer has to be a real one: its lint fails before and passes after, its tests pass in
// both.
func TestTheSampleTaskIsARealChange(t *testing.T) {
	t.Parallel()
	s := samples()[0]
	repo := checkout(t, s)
	test, lint := s.checks[0], s.checks[1]
	if !passes(t, repo, test) || passes(t, repo, lint) {
		t.Fatal("before the change the tests must pass and the lint must fail")
	}
	plans := runAgent(t, repo, "plan", sampleTaskGoal, nil)["plan"]
	if len(plans) != 1 {
		t.Fatalf("%d plans, want 1", len(plans))
	}
	plan, err := agent.ParsePlan(plans[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bin/check.sh", "bin/find.sh", "bin/report.sh", "bin/find.sh"}, plan.Files); diff != "" {
		t.Error(diff)
	}
	if passes(t, repo, lint) {
		t.Error("planning changed the code")
	}
	runAgent(t, repo, "execute", sampleTaskGoal, nil)
	if !passes(t, repo, test) || !passes(t, repo, lint) {
		t.Error("after the change tests and lint must pass")
	}
}

func TestTheAgentFollowsWhatReviewersAnswer(t *testing.T) {
	t.Parallel()
	repo := checkout(t, samples()[1])
	runAgent(t, repo, "execute", "Replace `customer` by `client` in `pages/*.md`.", []agent.Feedback{
		{Source: "human", Message: "Good. Also:\n\tplease replace `# Handbook` by `# Hand \"book\" <2> & \\ more` in `README.md`.", Revision: 1},
	})
	readme, err := os.ReadFile(filepath.Join(repo, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(readme), "# Hand \"book\" <2> & \\ more\n") {
		t.Errorf("the reviewer's instruction was not followed:\n%s", readme)
	}
	start, err := os.ReadFile(filepath.Join(repo, "pages", "start.md"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(start), "customer") {
		t.Errorf("the goal was not followed:\n%s", start)
	}
	if lines := runAgent(t, repo, "execute", "Make it nicer.", nil); len(lines["no_change"]) != 1 {
		t.Errorf("a goal that it does not understand gave %v, want no_change", lines)
	}
	if lines := runAgent(t, repo, "plan", "Make it nicer.", nil); len(lines["plan"]) != 0 || len(lines["result"]) != 1 || !strings.Contains(string(lines["result"][0]), "refused") {
		t.Errorf("asked to plan for a goal that it does not understand it gave %v, want a refusal in words", lines)
	}
}

func TestTheBrowserReadsFormsAsBrowsersDo(t *testing.T) {
	t.Parallel()
	sent := make(chan url.Values, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<main><a href="/other">x</a><a href="/gates/gate_1">gate</a>
			<form method="get" action="/search"><input name="q" value="w"></form>
			<form method="post" action="/send">
			<input type="hidden" name="digest" value="abc"><input type="checkbox" name="off"><input type="checkbox" name="on" value="1" checked>
			<input type="radio" name="r" value="1"><input type="radio" name="r" value="2" checked>
			<textarea name="text">a &lt; b</textarea><select name="s"><option value="1">One</option><option value="2" selected>Two</option></select>
			<button name="verdict" value="approve">Approve</button><button name="verdict" value="reject">Reject</button></form></main>`))
	})
	protect := http.NewCrossOriginProtection()
	mux.Handle("POST /send", protect.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		sent <- r.PostForm
	})))
	server := httptest.NewServer(mux)
	defer server.Close()
	b, err := NewBrowser(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	page, err := b.Get(context.Background(), "/page")
	if err != nil {
		t.Fatal(err)
	}
	if got := page.Link("/gates/"); got != server.URL+"/gates/gate_1" {
		t.Errorf("the link is %q", got)
	}
	form, button, ok := page.FormWith("verdict", "approve")
	if !ok {
		t.Fatal("the form was not found")
	}
	if _, err := b.Send(t.Context(), form, button); err != nil {
		t.Fatal(err)
	}
	want := url.Values{"digest": {"abc"}, "on": {"1"}, "r": {"2"}, "text": {"a < b"}, "s": {"2"}, "verdict": {"approve"}}
	if diff := cmp.Diff(want, <-sent); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"One": "1", "Two": "2"}, page.Options("s")); diff != "" {
		t.Error(diff)
	}
}
