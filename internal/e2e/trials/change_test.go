package trials_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// report is what a stored verification report says here.
type report struct {
	Verdict   string `json:"verdict"`
	Isolation string `json:"isolation"`
	Summary   string `json:"summary"`
	Commands  []struct {
		Name       string `json:"name"`
		Class      string `json:"class"`
		ExitCode   int    `json:"exit_code"`
		DurationMS int64  `json:"duration_ms"`
		Baseline   *struct {
			Class string `json:"class"`
		} `json:"baseline"`
	} `json:"commands"`
}

// change walks the task to its pull request: the agent, the verification on another lease, a person, the publisher.
func (k trial) change(t *testing.T, r *rig.Rig, repo *rig.Repository, out *strings.Builder) {
	_, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: k.title, Goal: k.goal, Mode: wire.PrCreated, Risk: wire.LOW, AgentProfile: k.profile()})
	r.Person("ana").Approve(r.AwaitGate(id))
	got := r.Await(id, wire.RunStateSUCCEEDED)
	branch, commit := repo.Published(id)
	fmt.Fprintf(out, "change (%s): %s\n", id, strings.Join(timeline(r, id), ", "))
	fmt.Fprintf(out, "  branch %s, commit %s, %s\n", branch, commit, repo.Git("diff", "--shortstat", "main", branch))
	fmt.Fprintf(out, "  files %s\n", strings.ReplaceAll(repo.Git("diff", "--name-only", "main", branch), "\n", " "))

	var verdicts []string
	for _, raw := range r.Artifacts(id, "verification_report") {
		var v report
		if err := json.Unmarshal([]byte(raw), &v); err != nil {
			t.Fatalf("read a verification report: %v", err)
		}
		verdicts = append(verdicts, v.Verdict)
		if v.Isolation != "bwrap" {
			t.Errorf("verified in %q", v.Isolation)
		}
		fmt.Fprintf(out, "  verification: %s, isolation %s: %s\n", v.Verdict, v.Isolation, v.Summary)
		for _, c := range v.Commands {
			base := ""
			if c.Baseline != nil {
				base = ", on the base " + c.Baseline.Class
			}
			fmt.Fprintf(out, "    %s (exit %d)%s, %.1f s: %s\n", c.Class, c.ExitCode, base, float64(c.DurationMS)/1000, c.Name)
		}
	}
	want, rounds := "passed", 0
	if k.repaired {
		want, rounds = "failed passed", 1 // R-TRN-14
	}
	if have := strings.Join(verdicts, " "); have != want || got.RepairRound != rounds {
		t.Errorf("verdicts %q after %d repair rounds, want %q after %d", have, got.RepairRound, want, rounds)
	}
}

// timeline is the states that a run passed with the time in each, from its events.
func timeline(r *rig.Rig, id string) []string {
	var all []string
	var since time.Time
	var state wire.RunState
	for _, e := range r.Events(id) {
		if e.To == state {
			continue
		}
		if state != "" {
			all = append(all, fmt.Sprintf("%s %.1f s", state, e.At.Sub(since).Seconds()))
		}
		state, since = e.To, e.At
	}
	return append(all, string(state))
}
