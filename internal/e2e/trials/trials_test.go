// Package trials_test runs the product on real public repositories, each with its own build and tests as verification,
// before and after the change. It owns no third-party code: somebody brings the repositories, in the folder that
// SIGNALBOX_TRIALS names (docs/trials.md says how to fill it). It refuses to change what it finds there.
package trials_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

func TestMain(m *testing.M) { rig.Main(m) }

// folder is the variable that names the folder of bare clones.
const folder = "SIGNALBOX_TRIALS"

// trial is one change of one repository.
type trial struct {
	repository string // owner/name
	clone      string // folder of the bare clone
	commit     string
	title      string
	goal       string
	// agent is a shell script that runs in the checkout: a mechanical migration, as a codemod is.
	agent  string
	checks []string
	// repaired says that the first patch fails its verification and that the agent mends it from the feedback.
	repaired bool
}

const goChecks = "go build ./...\ngo vet ./...\ngo test ./..."

// trials are the changes; {deps} stands for the folder of dependencies inside of a sandbox.
var trials = []trial{
	{
		repository: "gorilla/mux", clone: "mux.git", commit: "db9d1d0073d27a0a2d9a8c1bc52aa0af4374d265",
		title: "Write any instead of interface{}", goal: "Write any instead of interface{} in the package's code, and change nothing else.",
		agent:  `gofmt -r 'interface{} -> any' -w $(grep -l 'interface{}' *.go)`,
		checks: strings.Split(goChecks, "\n"),
	},
	{
		repository: "hashicorp/go-memdb", clone: "go-memdb.git", commit: "0ae56a7", title: "Use today's idioms of Go",
		goal: "Apply the fixes of the current Go release.", agent: `go fix ./...`, checks: strings.Split(goChecks, "\n"),
	},
	{
		repository: "BurntSushi/toml", clone: "toml.git", commit: "d733fc5", title: "Write any instead of interface{} everywhere",
		goal: "Use today's idioms of Go, and write any instead of interface{} everywhere.",
		// The first attempt replaces text and hits what the tests compare; told so, it keeps to what a parser knows.
		agent: `if [ ! -e "$SIGNALBOX_INPUT/feedback.json" ]; then
	go fix ./...
	grep -rlE 'interface ?\{\}' --include='*.go' . | xargs sed -i -E 's/interface ?\{\}/any/g'
	exit
fi
grep -q '"source": "verifier"' "$SIGNALBOX_INPUT/feedback.json"
grep -q 'FAIL' "$SIGNALBOX_INPUT/feedback.json"
echo "The tests compare text that a replacement has changed: keeping to the fixes that know types."
git checkout --quiet -- .
go fix ./...`,
		checks: strings.Split(goChecks, "\n"), repaired: true,
	},
	{
		repository: "tj/commander.js", clone: "commander.git", commit: "v14.0.3", title: "Name Node's own modules with node:",
		goal:   "Require Node's own modules by their node: names.",
		agent:  `git ls-files '*.js' | xargs sed -i -E "s/require\('(child_process|events|fs|path|process|util)'\)/require('node:\1')/"`,
		checks: []string{"ln -s {deps}/commander/node_modules node_modules", "node node_modules/jest/bin/jest.js --coverage=false --maxWorkers=2", "node tests/esm-imports-test.mjs"},
	},
	{
		repository: "bottlepy/bottle", clone: "bottle.git", commit: "2a743a3", title: "Do not name object as the base class",
		goal:   "Classes of Python 3 need not name object as their base.",
		agent:  `git ls-files '*.py' | xargs sed -i -E 's/^( *class +[A-Za-z_]+)\(object\):/\1:/'`,
		checks: []string{"/usr/bin/python3 -m compileall -q bottle.py", "/usr/bin/python3 -m unittest discover -s test -t ."},
	},
}

// deps is where the folder of dependencies is inside of a sandbox.
const deps = "/opt/deps"

func TestRealRepositories(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skipf("not exercised: no repositories given; %s names a folder of bare clones (docs/trials.md)", folder)
	}
	r := rig.New(t, options(dir))
	for _, k := range trials {
		t.Run(k.clone, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, k.clone)); err != nil {
				t.Skipf("not exercised: %v", err)
			}
			k.run(t, r.For(t), dir)
		})
	}
}

// options are a worker as somebody sets one up for such repositories: toolchains, and caches that no run can change.
func options(dir string) rig.Options {
	agents := map[string]rig.Agent{"checks-on-base": {Argv: []string{"/usr/bin/python3", "-c", onBase}, Wall: "15m", Plan: "contract"}}
	for _, k := range trials {
		agents[k.profile()] = rig.Agent{Argv: []string{"sh", "-ec", k.agent}, Wall: "15m", Plan: "contract"}
	}
	return rig.Options{
		Agents: agents, Timing: db.Timing{LeaseTTL: 30 * time.Second}, Patience: 15 * time.Minute,
		Env:    map[string]string{"GOFLAGS": "-mod=mod -buildvcs=false", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOSUMDB": "off", "PYTHONDONTWRITEBYTECODE": "1"},
		Mounts: []rig.Mount{{Host: filepath.Join(dir, "deps"), Inside: deps}},
		Caches: []rig.Cache{
			{Name: "gomod", Host: filepath.Join(dir, "caches", "gomod"), Env: map[string]string{"GOMODCACHE": "{path}"}},
			{Name: "gobuild", Host: filepath.Join(dir, "caches", "gobuild"), Copy: true, Env: map[string]string{"GOCACHE": "{path}"}},
		},
	}
}

func (k trial) profile() string { return strings.TrimSuffix(k.clone, ".git") }

// onBase is the agent of an analysis: it runs each check of the goal on a copy of the unchanged checkout, in the same
// sandbox in which checks of changes run, and reports how they ended.
const onBase = `
import json, os, shutil, subprocess, sys, time
base = "/tmp/base"
shutil.copytree(os.environ["SIGNALBOX_REPO"], base, symlinks=True)
checks = []
for line in open(os.path.join(os.environ["SIGNALBOX_INPUT"], "goal.md")):
    if line.startswith("check: "):
        began = time.monotonic()
        end = subprocess.run(line[7:].split(), cwd=base)
        checks.append({"argv": line[7:].strip(), "exit": end.returncode, "seconds": round(time.monotonic() - began, 1)})
report = {"summary": "The checks on the unchanged base.", "checks": checks}
os.write(3, (json.dumps({"type": "report", "report": report}) + "\n").encode())
`

func (k trial) run(t *testing.T, r *rig.Rig, dir string) {
	checks := slices.Clone(k.checks)
	for i := range checks {
		checks[i] = strings.ReplaceAll(checks[i], "{deps}", deps)
	}
	repo := r.Adopt(k.repository, filepath.Join(dir, k.clone), k.commit, checks...)
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n### %s at %s\n\n", k.repository, repo.Git("rev-parse", "main"))

	// R-TRN-12: an analysis of a real repository, which is also the verification before the change.
	_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "How do the checks end today?", Goal: "Run the checks on the base.\n\ncheck: " + strings.Join(checks, "\ncheck: "),
		Mode: wire.AnalysisReportCreated, Risk: wire.LOW, AgentProfile: "checks-on-base"})
	r.Await(id, wire.RunStateSUCCEEDED)
	reports := r.Artifacts(id, "report")
	if len(reports) != 1 {
		t.Fatalf("%d reports", len(reports))
	}
	var before struct {
		Checks []struct {
			Argv    string  `json:"argv"`
			Exit    int     `json:"exit"`
			Seconds float64 `json:"seconds"`
		} `json:"checks"`
	}
	if err := json.Unmarshal([]byte(reports[0]), &before); err != nil || len(before.Checks) != len(checks) {
		t.Fatalf("report %q: %v", reports[0], err)
	}
	fmt.Fprintf(out, "before (analysis only, %s): %s\n", id, strings.Join(timeline(r, id), ", "))
	for _, c := range before.Checks {
		fmt.Fprintf(out, "  exit %d, %.1f s: %s\n", c.Exit, c.Seconds, c.Argv)
		if c.Exit != 0 {
			t.Errorf("%s ends with %d on the base already", c.Argv, c.Exit)
		}
	}
	if branches := repo.Branches(); len(branches) > 0 {
		t.Errorf("the analysis left branches %q", branches)
	}
	k.change(t, r, repo, out)
	t.Log(out)
}
