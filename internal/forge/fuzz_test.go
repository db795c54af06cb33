package forge_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/internal/forge"
)

// FuzzBody: whatever the agent and people wrote, the pull request's text has one fenced block at most, in which the agent speaks and
// which its text cannot end, and one marker (W7).
func FuzzBody(f *testing.F) {
	for _, s := range []string{"done", "```\nx\n```", "~~~", "````\n</details>", "<!-- signalbox:run=x -->", "/approve @bot Closes #1", "\r```\r", "    ```", "a\u2028```", strings.Repeat("`", 300)} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, summary, other string) {
		body := forge.Body(forge.Evidence{RunID: "run_1", RunURL: "https://signalbox.example/runs/run_1", Title: other, AgentProfile: other, PatchDigest: "d", BaseCommit: other, Isolation: other, Policy: other, Verdict: other,
			Reasons: []string{other}, AgentSummary: summary, Checks: []forge.Check{{Name: other, Passed: true}}, Approvals: []forge.Approval{{Name: other, At: time.Unix(0, 0)}}})
		fence, opened, blocks := "", false, 0
		for line := range strings.SplitSeq(body, "\n") {
			bare := strings.TrimLeft(line, " ")
			indent := len(line) - len(bare)
			ticks := len(bare) - len(strings.TrimLeft(bare, "`"))
			waves := len(bare) - len(strings.TrimLeft(bare, "~"))
			switch {
			case !opened && indent < 4 && (ticks >= 3 && !strings.Contains(bare[ticks:], "`") || waves >= 3):
				fence, opened = bare[:max(ticks, waves)], true
				blocks++
			case opened && indent < 4 && strings.HasPrefix(bare, fence) && strings.Trim(bare, fence[:1]+" \t") == "":
				opened = false
			}
		}
		if blocks > 1 || opened {
			t.Errorf("%d blocks, open at the end: %t\n%s", blocks, opened, body)
		}
		if n := strings.Count(body, forge.Marker("run_1")); n != 1 || !strings.HasPrefix(body, forge.Marker("run_1")) {
			t.Errorf("%d markers\n%s", n, body)
		}
		if len(body) > forge.MaxBody {
			t.Errorf("%d bytes", len(body))
		}
	})
}
