package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// badCase is one bad input and how it has to end.
type badCase struct {
	name string
	// The task: what the agent does, and what differs from an ordinary one.
	acts []rig.Act
	task func(*wire.TaskCreate)
	// repo makes the repository; nil is the shop that all share.
	repo func(*rig.Rig, string) *rig.Repository
	// How it ends: state, and for a failure category, code and words of its sentence.
	state          wire.RunState
	category, code string
	says           string
	// kept are kinds of artifacts that must be there.
	kept []string
	// look at what else has to hold.
	look func(*testing.T, *rig.Rig, *rig.Repository, *wire.Run)
}

const (
	waits  = wire.RunStateWAITINGFORAPPROVAL
	failed = wire.RunStateFAILED
)

func sh(script string) rig.Act { return rig.Act{Do: "sh", New: script} }

// good is a change that passes the shop's check.
func good() rig.Act {
	// A repair begins with the files of the revision before it.
	return sh("sed -i s/^rate=19/rate=20/ lib/price.sh")
}

// when restricts an act.
func when(what string, a rig.Act) rig.Act {
	a.When = what
	return a
}

func profile(name string) func(*wire.TaskCreate) {
	return func(k *wire.TaskCreate) { k.AgentProfile = name }
}

// canary is what a command that must not run would make on the host.
func canary(r *rig.Rig) string { return filepath.Join(r.Dir, "canary") }

// R-FAIL-1, R-FAIL-7, R-SBX-1, R-TRN-5: each bad input ends in its state with category, reason code, a sentence for a
// person and the evidence kept, and nothing runs on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{
		Timing: steady(), Workers: -1,
		Policy: "schema: 1\nversion: bad-input-1\nlimits: {max_attempts: 2, max_runs: 1, command_timeout: 5s}\n",
		Agents: map[string]rig.Agent{
			"impatient": {Argv: []string{"sh", "-c", rig.Follow}, Wall: "2s", Grace: "300ms"},
			"nowhere":   {Argv: []string{"/no/such/program"}},
			"loud":      {Argv: []string{"sh", "-c", rig.Follow}, Idle: "1s", Grace: "300ms"},
		},
	})
	w := r.StartWorker(rig.WorkerOptions{MaxRuns: 4})
	shop := r.Repository("acme/shop", rig.Shop())

	cases := slices.Concat(agentCases(), verifyCases(), patchCases(), repositoryCases())
	runs := make([]string, len(cases))
	repos := make([]*rig.Repository, len(cases))
	for i, c := range cases {
		repos[i] = shop
		if c.repo != nil {
			repos[i] = c.repo(r, fmt.Sprintf("acme/bad-%d", i))
		}
		k := wire.TaskCreate{RepositoryId: repos[i].ID(), Title: c.name, Goal: strings.ReplaceAll(rig.Recipe(c.name, c.acts...), "CANARY", canary(r))}
		if c.task != nil {
			c.task(&k)
		}
		_, runs[i] = r.Submit(k)
	}
	var mu sync.Mutex
	table := map[int]string{}
	t.Run("cases", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := r.For(t)
				got := settled(r, runs[i])
				mu.Lock()
				table[i] = row(r, c, got)
				mu.Unlock()
				c.check(t, r, got)
				if c.look != nil {
					c.look(t, r, repos[i].For(r), got)
				}
				wellNumbered(r, runs[i])
			})
		}
	})
	if _, err := os.Stat(canary(r)); err == nil {
		t.Error("a command of the repository or the agent ran on the host")
	}
	awaitEmpty(r, w.Options.Dir, rig.Patience)
	var b strings.Builder
	for _, i := range slices.Sorted(maps.Keys(table)) {
		b.WriteString(table[i])
	}
	t.Logf("case → state, category, code, sentence\n%s", b.String())
}

// settled waits until a run has ended or waits for a person.
func settled(r *rig.Rig, run string) *wire.Run {
	r.T.Helper()
	var got *wire.Run
	r.Eventually(run+" settles", 5*rig.Patience, func() (bool, string) {
		got = r.Run(run)
		return got.Terminal || got.State == waits, string(got.State) + "\n" + r.History(run)
	})
	return got
}

func row(r *rig.Rig, c badCase, got *wire.Run) string {
	f := cmp.Or(got.Failure, &wire.Failure{Category: "-", ReasonCode: "-"})
	sentence := f.Summary
	if got.Failure == nil && got.GateId != "" {
		sentence = strings.Join(gateReasons(r, got.GateId), " ")
	}
	return fmt.Sprintf("%-52s %-21s %-20s %-22s %s\n", c.name, got.State, f.Category, f.ReasonCode, strings.ReplaceAll(sentence, "\n", " ⏎ "))
}

func gateReasons(r *rig.Rig, gate string) []string {
	r.T.Helper()
	answer, err := r.API().GetGateWithResponse(r.T.Context(), gate)
	if err != nil || answer.JSON200 == nil {
		r.T.Fatalf("read the gate: %v %s", err, answer.Body)
	}
	return answer.JSON200.Reasons
}

func (c badCase) check(t *testing.T, r *rig.Rig, got *wire.Run) {
	t.Helper()
	run := got.Id
	if got.State != c.state {
		t.Fatalf("ended as %s, want %s\n%s", got.State, c.state, r.History(run))
	}
	words := ""
	if c.state == failed {
		f := got.Failure
		if f == nil || f.Category != c.category || f.ReasonCode != c.code {
			t.Fatalf("failure %+v, want %s %s\n%s", f, c.category, c.code, r.History(run))
		}
		words = f.Summary
		if len(words) < 15 || !strings.HasSuffix(strings.TrimSpace(words), ".") || !utf8.ValidString(words) {
			t.Errorf("%q is no sentence for a person", words)
		}
		if f.EvidenceArtifactId != "" {
			if answer, err := r.API().GetArtifactWithResponse(t.Context(), f.EvidenceArtifactId); err != nil || answer.JSON200 == nil {
				t.Errorf("the evidence %s cannot be read: %v", f.EvidenceArtifactId, err)
			}
		}
	} else if got.GateId != "" {
		words = strings.Join(gateReasons(r, got.GateId), " ")
	}
	if c.says != "" && !regexp.MustCompile(c.says).MatchString(words) {
		t.Errorf("the sentence %q does not say %q", words, c.says)
	}
	for _, kind := range c.kept {
		if len(r.Artifacts(run, kind)) == 0 {
			t.Errorf("nothing of kind %s was kept", kind)
		}
	}
	// Every page about it can be shown.
	r.Person("rita").Get("/runs/" + run)
	if got.GateId != "" {
		r.Person("ana").Get("/gates/" + got.GateId)
	}
}

// wellNumbered asserts that the events of a run have no gap; that they replay is the rig's last look.
func wellNumbered(r *rig.Rig, run string) {
	r.T.Helper()
	for i, e := range r.Events(run) {
		if e.Seq != int64(i+1) || e.Sentence == "" {
			r.T.Errorf("event %d: number %d, sentence %q", i+1, e.Seq, e.Sentence)
		}
	}
}
