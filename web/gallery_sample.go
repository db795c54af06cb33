package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/internal/patch"
)

// The samples of the gallery. Every name, path and id in them is made up.

const galleryDigest = "sha256:4be1f2a97c03d5e86f1b2c3d4e5f60718293a4b5c6d7e8f9012a3b4c5d6e7f80"

// galleryPatch holds a change, a new file with characters that nobody sees, a rename, a deletion and a file without a newline
// at its end.
const galleryPatch = `diff --git a/lib/retry.go b/lib/retry.go
index 1111111..2222222 100644
--- a/lib/retry.go
+++ b/lib/retry.go
@@ -18,6 +18,8 @@ func (c *Client) Do(req *http.Request) (*http.Response, error) {
 	for attempt := range c.attempts {
 		resp, err := c.base.Do(req)
-		if err == nil && resp.StatusCode < 500 {
+		if err == nil && resp.StatusCode < http.StatusInternalServerError {
 			return resp, nil // "ok"
 		}
+		resp.Body.Close()
+		last = err
 	}
diff --git a/lib/hidden.go b/lib/hidden.go
new file mode 100644
index 0000000..5555555
--- /dev/null
+++ b/lib/hidden.go
@@ -0,0 +1,3 @@
+package lib
+
+// admin ` + "\u202e" + `} if isAdmin` + "\u2066" + ` begin
diff --git a/docs/old.md b/docs/new.md
similarity index 80%
rename from docs/old.md
rename to docs/new.md
index 3333333..4444444 100644
--- a/docs/old.md
+++ b/docs/new.md
@@ -1,2 +1,2 @@
 # Retries
-Three times.
+As often as the policy says.
\ No newline at end of file
diff --git a/lib/gone.txt b/lib/gone.txt
deleted file mode 100644
index 6666666..0000000
--- a/lib/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-nobody reads this
`

// galleryDiff is the sample patch, with a file that is too large to stand here and one that is not text.
func galleryDiff() DiffView {
	p, err := patch.Parse([]byte(galleryPatch), 1<<20)
	if err != nil {
		return DiffView{NotShown: []NotShown{{Path: "lib/retry.go", Reason: err.Error()}}}
	}
	d := p.Render(InlineBounds())
	d.Omitted = append(d.Omitted, patch.Omission{Path: "assets/logo.png", Why: "binary file, 18211 bytes", Group: patch.UnshownBinary})
	view := NewDiffView(d, DiffOptions{Revision: 2, RawURL: RunPatchURL("run_sample"), Place: GatePlace("gate_sample"), PaintFor: time.Minute, Marks: map[string][]string{"lib/retry.go": {"protected path"}}})
	view.Files = append(view.Files, DiffFile{N: 5, Path: "lib/generated.go", Status: "modified", Added: 1800, Removed: 510, Load: "Load the diff (2,310 lines)", Place: GatePlace("gate_sample")})
	galleryGaps(&view.Files[0])
	return *view
}

// galleryGaps are lines around the first file's hunk: some shown, the others offered.
func galleryGaps(f *DiffFile) {
	shown := DiffLine{Op: ' ', Old: 24, New: 26, Around: true, Spans: []Span{{Text: "	return nil, last // "}, {Class: "hid", Text: "U+202E"}}}
	above, below := GapPart{From: 1, To: 17}, GapPart{From: 27, To: 99}
	above.Offers, below.Offers = offers(*f, above, false, true), offers(*f, below, true, false)
	f.Gaps = []DiffGap{{above}, {{From: 26, To: 26, Lines: []DiffLine{shown}}, below}}
}

// gallerySplit is the first file side by side, as a file of its own.
func gallerySplit() DiffFile {
	f := galleryDiff().Files[0]
	f.N, f.Path, f.View = 6, "lib/again.go", DiffChoice{Split: true}
	return f
}

var galleryLog = []string{
	"=== RUN   TestRetryClosesBody",
	"\x1b[31m--- FAIL: TestRetryClosesBody (0.00s)\x1b[0m",
	"\x1b[1;32mbold green\x1b[0m, \x1b[33myellow\x1b[0m, \x1b[34mblue\x1b[0m, \x1b[35mmagenta\x1b[0m, \x1b[36mcyan\x1b[0m, \x1b[2mfaint\x1b[0m, \x1b[7mreversed\x1b[0m",
	"fetch 1%\rfetch 20%\rfetch done",
	"<b>markup</b> <img src=x>",
	"an invisible \u202etext",
	"a line without a place to break " + strings.Repeat("0123456789", 20),
	"TOKEN=[redacted]",
}

// galleryTimeline tells a whole run in one window that folds, with facts, hostile text and an event that was asked for.
func galleryTimeline(now time.Time) TimelineData {
	began := now.Add(-30 * time.Minute)
	type o = map[string]any
	events := []TimelineEvent{
		{Kind: "run_created", ActorKind: "human", ActorName: "Rita Requester", To: "CREATED"},
		{Kind: "run_enqueued", ActorKind: "scheduler", From: "CREATED", To: "QUEUED", Data: o{"policy_version": "3"}},
		{Kind: "lease_acquired", ActorKind: "worker", ActorName: "harbour-1", From: "QUEUED", To: "LEASED", Attempt: 1, Data: o{"lease": o{"phase": "execute"}}},
		{Kind: "worker_started", ActorKind: "worker", ActorName: "harbour-1", From: "LEASED", To: "PREPARING", Attempt: 1},
		{Kind: "sandbox_ready", ActorKind: "worker", ActorName: "harbour-1", From: "PREPARING", To: "CONTEXT_BUILDING", Attempt: 1, Data: o{"tier": "bwrap"}},
		{Kind: "plan_created", ActorKind: "agent_runtime", From: "PLANNING", To: "EXECUTING", Attempt: 1, Data: o{"plan": o{"summary": "<b>Close</b> the body on every return path."}}},
		{FactID: "sample", Kind: "step_finished", ActorKind: "worker", ActorName: "harbour-1", Attempt: 1, Data: o{"name": "go test ./...", "state": "FAILED", "exit_code": 1.0, "duration_ms": 41200.0}},
		{Kind: "worker_lost", ActorKind: "scheduler", From: "EXECUTING", To: "QUEUED", Attempt: 1, Data: o{}},
		{Kind: "lease_acquired", ActorKind: "worker", ActorName: "harbour-2", From: "QUEUED", To: "LEASED", Attempt: 2, Data: o{"lease": o{"phase": "execute"}}},
		{Kind: "patch_created", ActorKind: "agent_runtime", From: "EXECUTING", To: "PATCH_READY", Attempt: 2, Data: o{"patch": o{"files": 2.0, "added": 14.0, "removed": 3.0, "revision": 1.0}}},
		{Kind: "verification_passed", ActorKind: "verifier", ActorName: "harbour-1", From: "VERIFYING", To: "JUDGING", Attempt: 2, Data: o{"report": o{"summary": "2 commands passed"}}},
		{Kind: "human_approval_required", ActorKind: "policy", From: "JUDGING", To: "WAITING_FOR_APPROVAL", Attempt: 2, Data: o{"policy": o{"reasons": []any{"Every patch needs one approval.", "A protected path is changed."}}}},
		{Kind: "kind_of_a_newer_server", ActorKind: "control_plane", From: "WAITING_FOR_APPROVAL", To: "WAITING_FOR_APPROVAL", Attempt: 2},
	}
	seq := int64(0)
	for i := range events {
		events[i].At = began.Add(time.Duration(i) * 2 * time.Minute)
		if events[i].FactID == "" {
			seq++
			events[i].Seq = seq
		}
	}
	return TimelineData{
		RunID: "run_sample", Created: began, Now: now, Events: events, Before: 4, BeforeURL: RunWindowURL("run_sample", 1, "", ""), GapAt: 2, Gap: 1200, GapURL: RunWindowURL("run_sample", 3, "", ""),
		After: 1, AfterURL: RunWindowURL("run_sample", 14, "", ""), PrevAttempt: -1, Level: LevelSummary, At: 9, Note: fmt.Sprintf("Event %d was asked for.", 9),
	}
}

// galleryPanel is a decision that waits, with everything that the panel can say before it is made.
func galleryPanel(now time.Time) GatePanelData {
	return GatePanelData{
		GateID: "gate_sample", Kind: "patch", State: "open", Revision: 2, Digest: galleryDigest, IdempotencyKey: "SAMPLEKEY", PolicyVersion: "3",
		RunID: "run_sample", RunState: "WAITING_FOR_APPROVAL", TaskID: "task_sample", Title: "Close the response body", Repository: "acme/payments", Base: "main", BaseCommit: "9f1c2b7ad03e", Mode: "pr_created",
		Requester: "Rita Requester", OpenedAt: now.Add(-7 * time.Minute), ExpiresAt: now.Add(71 * time.Hour), Now: now,
		Risk: "MEDIUM", RiskReasons: []string{"changes a protected path"}, WhyStopped: "Every patch for acme/payments needs one approval.",
		Unshown: []UnshownView{{Why: string(patch.UnshownBinary), Files: []string{"assets/logo.png"}}},
		Files:   5, Added: 1808, Removed: 513, MayDecide: true, Quorum: []QuorumRow{{Requirement: "1 approval, not from the requester", Need: 1, Who: "approvers (2 people)"}},
		Outcome: &Outcome{Kind: OutcomeInvalid, Text: "Say what should change; the agent gets these words."},
	}
}
