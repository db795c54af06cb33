package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/run"
	"signalbox/web"
)

// eventKinds reads the kinds from the source of package run, so that a new kind cannot be forgotten here.
func eventKinds(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/run/kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			vs, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if typ, ok := vs.Type.(*ast.Ident); !ok || typ.Name != "Kind" {
				continue
			}
			for _, v := range vs.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					kind, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					kinds = append(kinds, kind)
				}
			}
		}
	}
	if len(kinds) < 40 {
		t.Fatalf("found only %d kinds", len(kinds))
	}
	return kinds
}

// TestEveryEventKindHasASentence: a timeline explains what happened without raw logs (R-UI-1).
func TestEveryEventKindHasASentence(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, kind := range append(eventKinds(t), web.FactKinds()...) {
		t.Run(kind, func(t *testing.T) {
			line := web.Sentence(web.TimelineEvent{Kind: kind})
			if strings.Contains(line.Text, kind) && strings.HasPrefix(line.Text, "Event ") {
				t.Errorf("kind %q has no sentence of its own: %q", kind, line.Text)
			}
			if !strings.HasSuffix(line.Text, ".") && !strings.HasSuffix(line.Text, ":") {
				t.Errorf("not a sentence: %q", line.Text)
			}
			if other, ok := seen[line.Text]; ok {
				t.Errorf("says the same as %q: %q", other, line.Text)
			}
			seen[line.Text] = kind
			if line.Tone == "" || line.Icon.Line+line.Icon.Fill == "" {
				t.Errorf("%q lacks tone or icon", kind)
			}
		})
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ev   web.TimelineEvent
		want string
	}{
		"first lease": {
			web.TimelineEvent{Kind: "lease_acquired", From: "QUEUED", To: "LEASED", Attempt: 1, ActorName: "harbour-1", Data: object{"lease": object{"phase": "execute"}}},
			"harbour-1 took the run."},
		"second attempt": {
			web.TimelineEvent{Kind: "lease_acquired", From: "QUEUED", To: "LEASED", Attempt: 2, ActorName: "harbour-1"},
			"harbour-1 took the run; attempt 2 begins."},
		"verification lease": {
			web.TimelineEvent{Kind: "lease_acquired", From: "PATCH_READY", To: "PATCH_READY", Attempt: 1, ActorName: "harbour-1", Data: object{"lease": object{"phase": "verify"}}},
			"harbour-1 took the stored patch for verification on a fresh checkout."},
		"patch size": {
			web.TimelineEvent{Kind: "patch_created", Data: object{"patch": object{"files": 1.0, "added": 3.0, "removed": 0.0, "revision": 1.0}}},
			"The agent delivered a patch of 1 file, +3 −0; the server parsed, scanned and stored it."},
		"second revision": {
			web.TimelineEvent{Kind: "patch_created", Data: object{"patch": object{"files": 2.0, "added": 3.0, "removed": 1.0, "revision": 2.0}}},
			"The agent delivered revision 2 of the patch, 2 files, +3 −1; the server parsed, scanned and stored it."},
		"approval kept": {
			web.TimelineEvent{Kind: "approval_carried", To: "PR_CREATING", Data: object{}}, "The base moved; the patch is the same (same patch id), so the earlier approval was kept."},
		"approval kept over a number": {
			web.TimelineEvent{Kind: "approval_carried", To: "PR_CREATING", Data: object{"commits": 12.0}}, "The base moved by 12 commits; the patch is the same (same patch id), so the earlier approval was kept."},
		"base moved": {
			web.TimelineEvent{Kind: "base_moved", To: "PATCH_READY", Data: object{}}, "The base branch changed the same files; the patch is verified again on the new base."},
		"base moved by a number": {
			web.TimelineEvent{Kind: "base_moved", To: "PATCH_READY", Data: object{"commits": 1.0}}, "The base branch moved by 1 commit and changed the same files; the patch is verified again on the new base."},
		"approvals kept": {
			web.TimelineEvent{Kind: "approval_carried", To: "PR_CREATING", Data: object{"deciders": []any{object{"name": "Ana"}, object{"name": "Ben"}}}}, "The base moved; the patch is the same (same patch id), so the approvals of Ana, Ben were kept."},
		"approval of a plan": {
			web.TimelineEvent{Kind: "approved", To: "EXECUTING", ActorName: "Ana"}, "Ana approved; the agent may now change code."},
		"cancel in the queue": {
			web.TimelineEvent{Kind: "cancel_requested", From: "QUEUED", To: "CANCELLED", ActorName: "Rita"}, "Rita cancelled the run; no worker held it."},
		"forced cancel": {
			web.TimelineEvent{Kind: "cancel_confirmed", Data: object{"forced": true}},
			"The worker did not confirm in time; its lease was taken away and the run is cancelled."},
		"lost in verification": {
			web.TimelineEvent{Kind: "worker_lost", From: "VERIFYING", To: "VERIFYING"},
			"The worker stopped answering and its lease ended; another worker will take the work from what is stored."},
		"unknown kind of a newer server": {web.TimelineEvent{Kind: "sky_fell"}, "Event sky_fell was recorded."},
		"unsafe sandbox": {
			web.TimelineEvent{Kind: "sandbox_ready", Data: object{"tier": "process"}},
			"The sandbox is ready. Isolation is process only, which is unsafe for untrusted code."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := web.Sentence(tc.ev).Text; got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// TestEveryStateIsExplained: each state has a word, a sentence and a place on the rail.
func TestEveryStateIsExplained(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, state := range run.States() {
		for _, leased := range []bool{true, false} {
			v := web.RunView{ID: runID, Title: goal, State: string(state), Since: now, Created: now, Leased: leased, Worker: "harbour-1", Mode: "pr_created"}
			s := web.StateSentence(v, now)
			if !strings.HasSuffix(s, ".") || strings.Contains(s, string(state)) {
				t.Errorf("%s: no plain sentence: %q", state, s)
			}
			if leased && seen[s] {
				t.Errorf("%s: says the same as another state: %q", state, s)
			}
			seen[s] = seen[s] || leased
			active := 0
			for _, stage := range web.Rail(v) {
				if stage.Mark != "done" && stage.Mark != "todo" {
					active++
				}
			}
			if want := 1; active != want && state != "SUCCEEDED" {
				t.Errorf("%s: %d active stages on the rail, want %d", state, active, want)
			}
		}
	}
}
