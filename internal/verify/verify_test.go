package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/sandbox"
	"signalbox/internal/verify"
)

func TestMain(m *testing.M) {
	sandbox.InitMain()
	os.Exit(m.Run())
}

// checkout opens a box over a checkout with the given files.
func checkout(t *testing.T, name string, files map[string]string) sandbox.Box {
	t.Helper()
	sb, err := sandbox.New(sandbox.Options{Tier: sandbox.TierBwrap, UIDBase: 400_000})
	if un, ok := errors.AsType[*sandbox.UnavailableError](err); ok && os.Getenv("CI_REQUIRE_SANDBOX") != "1" {
		t.Logf("bwrap not exercised: %s", un.Reason)
		sb, err = sandbox.New(sandbox.Options{Tier: sandbox.TierProcess, UIDBase: 400_000})
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "signalbox-verify-")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sandbox.MakeLayout(dir), os.Mkdir(filepath.Join(dir, "repo"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, "repo", file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := fnv.New32a()
	h.Write([]byte(t.Name() + name))
	slot := 1000 + int(h.Sum32()%50000)
	if err := sb.Own(dir, slot); err != nil {
		t.Fatal(err)
	}
	box, err := sb.Open(t.Context(), sandbox.Spec{Slot: slot, Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(box.Close(), sb.Remove(dir), sb.Close()); err != nil {
			t.Error(err)
		}
	})
	return box
}

func sh(name, script string) verify.Command {
	return verify.Command{Name: name, Kind: verify.Test, Argv: []string{"sh", "-c", script}, Timeout: time.Minute}
}

// classes is the report in short: class, with "+" for "failed before as well"
// and "!" for "blocks".
func classes(r verify.Report) []string {
	var out []string
	for _, c := range r.Commands {
		s := c.Name + " " + string(c.Class)
		if c.Preexisting {
			s += "+"
		}
		if c.Blocks {
			s += "!"
		}
		out = append(out, s)
	}
	return out
}

// R-VER-1: every command of the fixed set is run and classified.
func TestRunClassifies(t *testing.T) {
	t.Parallel()
	set := []verify.Command{
		sh("format", "exit 0"),
		sh("lint", "echo bad style; exit 1"),
		sh("slow", "sleep 1000"),
		sh("crash", "kill -SEGV $$"),
		sh("last", "test -f file"),
	}
	set[2].Timeout = 200 * time.Millisecond
	r, err := verify.Run(t.Context(), verify.Options{
		Box: checkout(t, "", map[string]string{"file": ""}), Commands: set, BaseCommit: "abc", PatchDigest: "sha256:def",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"format passed", "lint failed!", "slow timed_out!", "crash failed!", "last passed"}
	if diff := cmp.Diff(want, classes(r)); diff != "" {
		t.Error(diff)
	}
	if r.Verdict != verify.VerdictFailed || !r.Repairable || r.BaseCommit != "abc" || r.PatchDigest != "sha256:def" || r.Isolation == "" {
		t.Errorf("report %+v", r)
	}
	if c := r.Commands[1]; c.Output.Head != "bad style\n" || c.ExitCode != 1 || c.Sentence != "lint failed with exit code 1." {
		t.Errorf("command %+v", c)
	}
	for _, at := range []string{r.StartedAt, r.EndedAt, r.Commands[0].StartedAt} {
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil || !strings.HasSuffix(at, "Z") {
			t.Errorf("time %q: %v", at, err)
		}
	}
	if got := len(r.Failures()); got != 3 {
		t.Errorf("%d failures for the agent", got)
	}
}

func TestRunPasses(t *testing.T) {
	t.Parallel()
	opened := 0
	r, err := verify.Run(t.Context(), verify.Options{
		Box: checkout(t, "", nil), Commands: []verify.Command{sh("a", "exit 0"), sh("b", "exit 0")},
		Baseline: func(context.Context) (sandbox.Box, error) { opened++; return nil, errors.New("not needed") },
	})
	if err != nil || r.Verdict != verify.VerdictPassed || r.Summary != "2 of 2 checks passed." || len(r.Failures()) != 0 {
		t.Errorf("report %+v, error %v", r, err)
	}
	if opened != 0 {
		t.Error("the base was checked out though nothing failed")
	}
}

// What failed before the change is told apart from what the change broke.
func TestRunComparesWithTheBase(t *testing.T) {
	t.Parallel()
	set := []verify.Command{
		sh("prepare", "echo made > made"),
		sh("always bad", "echo no; exit 3"),
		sh("broken by the change", "test -f made && grep -q good file"),
		sh("after", "exit 0"),
	}
	run := func(t *testing.T, changed string, preexistingBlocks bool) (verify.Report, map[string]int) {
		t.Helper()
		ran := map[string]int{}
		r, err := verify.Run(t.Context(), verify.Options{
			Box: checkout(t, "changed", map[string]string{"file": changed}), Commands: set, PreexistingBlocks: preexistingBlocks,
			Baseline: func(context.Context) (sandbox.Box, error) {
				return checkout(t, "base", map[string]string{"file": "good\n"}), nil
			},
			Progress: func(p verify.Progress) {
				if p.Baseline && p.Done != nil {
					ran[p.Command.Name]++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r, ran
	}
	t.Run("the change broke one", func(t *testing.T) {
		t.Parallel()
		r, ran := run(t, "bad\n", false)
		want := []string{"prepare passed", "always bad failed+", "broken by the change failed!", "after passed"}
		if diff := cmp.Diff(want, classes(r)); diff != "" {
			t.Error(diff)
		}
		if r.Verdict != verify.VerdictFailed || r.Summary != "1 of 4 checks failed because of the change. 1 failed before the change as well." {
			t.Errorf("%s: %s", r.Verdict, r.Summary)
		}
		if f := r.Failures(); len(f) != 1 || f[0].Command != "broken by the change" {
			t.Errorf("failures %+v", f)
		}
		if diff := cmp.Diff(map[string]int{"prepare": 1, "always bad": 1, "broken by the change": 1}, ran); diff != "" {
			t.Error(diff)
		}
		if got := r.Commands[1].Sentence; got != "always bad failed with exit code 3. It failed before the change as well." {
			t.Errorf("sentence %q", got)
		}
		if got := r.Commands[2].Sentence; !strings.HasSuffix(got, "It passed before the change.") {
			t.Errorf("sentence %q", got)
		}
	})
	t.Run("only what was bad before", func(t *testing.T) {
		t.Parallel()
		r, _ := run(t, "good\n", false)
		if r.Verdict != verify.VerdictPassed || r.Summary != "3 of 4 checks passed. 1 failed before the change as well." {
			t.Errorf("%s: %s", r.Verdict, r.Summary)
		}
	})
	t.Run("the policy lets nothing pass", func(t *testing.T) {
		t.Parallel()
		r, _ := run(t, "good\n", true)
		if r.Verdict != verify.VerdictFailed || !r.Commands[1].Blocks || !r.Commands[1].Preexisting {
			t.Errorf("%s: %v", r.Verdict, classes(r))
		}
	})
	t.Run("the base cannot be checked out", func(t *testing.T) {
		t.Parallel()
		r, err := verify.Run(t.Context(), verify.Options{
			Box: checkout(t, "changed", nil), Commands: set[1:2],
			Baseline: func(context.Context) (sandbox.Box, error) { return nil, errors.New("disk full") },
		})
		if err != nil || r.Verdict != verify.VerdictFailed || !r.Commands[0].Blocks || !strings.Contains(r.BaselineNote, "disk full") {
			t.Errorf("report %+v, error %v", r, err)
		}
	})
}

// A machine that lacks the toolchain says nothing about the change.
func TestRunTellsTheMachineFromTheChange(t *testing.T) {
	t.Parallel()
	t.Run("a missing program", func(t *testing.T) {
		t.Parallel()
		r, err := verify.Run(t.Context(), verify.Options{
			Box:      checkout(t, "", nil),
			Commands: []verify.Command{sh("ok", "exit 0"), {Name: "compile", Kind: verify.Compile, Argv: []string{"no-such-compiler"}}, sh("test", "exit 1")},
			Baseline: func(context.Context) (sandbox.Box, error) {
				t.Error("compared on a broken machine")
				return nil, io.EOF
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ok passed", "compile error", "test not_run"}, classes(r)); diff != "" {
			t.Error(diff)
		}
		if r.Verdict != verify.VerdictError || r.Repairable || len(r.Failures()) != 0 || !strings.Contains(r.Summary, "not found in PATH") {
			t.Errorf("report %+v", r)
		}
	})
	t.Run("a script that answers 127 itself is the change's", func(t *testing.T) {
		t.Parallel()
		r, err := verify.Run(t.Context(), verify.Options{Box: checkout(t, "", nil), Commands: []verify.Command{sh("test", "no-such-program")}})
		if err != nil || r.Verdict != verify.VerdictFailed || r.Commands[0].ExitCode != 127 {
			t.Errorf("report %+v, error %v", r, err)
		}
	})
	t.Run("a closed box", func(t *testing.T) {
		t.Parallel()
		box := checkout(t, "", nil)
		if err := box.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := verify.Run(t.Context(), verify.Options{Box: box, Commands: []verify.Command{sh("test", "exit 0")}})
		if err != nil || r.Verdict != verify.VerdictError {
			t.Errorf("report %+v, error %v", r, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := verify.Run(ctx, verify.Options{
			Box: checkout(t, "", nil), Commands: []verify.Command{sh("test", "echo up; sleep 1000")},
			Output: func(verify.Command, bool) io.Writer { return writerFunc(func() { cancel() }) },
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

// R-TRN-14: feedback holds the command, its code and the end of its output.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	var live bytes.Buffer
	r, err := verify.Run(t.Context(), verify.Options{
		Box:      checkout(t, "", nil),
		Commands: []verify.Command{sh("noisy", `echo first; head -c 5000000 /dev/zero | tr '\0' x; printf '\377\nthe end\n'; exit 2`)},
		Output:   func(verify.Command, bool) io.Writer { return &live },
	})
	if err != nil {
		t.Fatal(err)
	}
	if live.Len() != 5000000+16 {
		t.Errorf("%d bytes were streamed", live.Len())
	}
	o := r.Commands[0].Output
	if !strings.HasPrefix(o.Head, "first\n") || !strings.HasSuffix(o.Tail, "\nthe end\n") || o.Bytes != 5000000+16 {
		t.Errorf("output of %d bytes, head %.20q", o.Bytes, o.Head)
	}
	if kept := int64(len(o.Head)+len(o.Tail)) - 2; kept+o.Omitted != o.Bytes { // U+FFFD is 2 bytes longer than what it replaces
		t.Errorf("kept %d, omitted %d of %d", kept, o.Omitted, o.Bytes)
	}
	f := r.Failures()[0]
	if len(f.Tail) > verify.MaxFeedbackTail || !strings.HasSuffix(f.Tail, "the end\n") || f.ExitCode != 2 || f.Command != "noisy" {
		t.Errorf("failure with a tail of %d bytes", len(f.Tail))
	}
	raw, err := r.Encode()
	if err != nil || len(raw) > 300<<10 {
		t.Errorf("report of %d bytes, error %v", len(raw), err)
	}
	var back verify.Report
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
}

func TestValidateSet(t *testing.T) {
	t.Parallel()
	good := sh("test", "exit 0")
	for name, set := range map[string][]verify.Command{
		"empty":               {},
		"no name":             {{Kind: verify.Test, Argv: []string{"x"}}},
		"twice":               {good, good},
		"no program":          {{Name: "x", Kind: verify.Test}},
		"unknown kind":        {{Name: "x", Kind: "magic", Argv: []string{"x"}}},
		"negative time":       {{Name: "x", Kind: verify.Test, Argv: []string{"x"}, Timeout: -1}},
		"directory outside":   {{Name: "x", Kind: verify.Test, Argv: []string{"x"}, Dir: "a/../../b"}},
		"absolute directory":  {{Name: "x", Kind: verify.Test, Argv: []string{"x"}, Dir: "/etc"}},
		"more than the limit": make([]verify.Command, 101),
	} {
		err := verify.ValidateSet(set)
		if _, ok := errors.AsType[*verify.SetError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := verify.Run(t.Context(), verify.Options{Commands: set}); err == nil {
			t.Errorf("%s was run", name)
		}
	}
	if err := verify.ValidateSet([]verify.Command{good, {Name: "b", Kind: verify.Domain, Argv: []string{"x"}, Dir: "sub/dir"}}); err != nil {
		t.Error(err)
	}
}
