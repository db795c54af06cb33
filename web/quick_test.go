package web_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/web"
)

// sampleQuick is the sample patch in a list, whole and of low risk.
func sampleQuick(t *testing.T) web.QuickData {
	t.Helper()
	p, err := patch.Parse([]byte(samplePatch), 1<<20)
	if err != nil {
		t.Fatalf("parse the sample patch: %v", err)
	}
	d := web.QuickData{Panel: sampleGatePanel(), Checks: web.ChecksSentence(sampleEvidence()), Unsent: true}
	d.Panel.Risk, d.Panel.RiskReasons, d.Panel.Unshown, d.Panel.Files = "LOW", nil, nil, 2
	d.Files = web.NewDiffView(p.Render(web.InlineBounds()), web.DiffOptions{In: gateID + "-", PaintFor: time.Hour}).Files
	return d
}

func refusedQuick(t *testing.T) web.QuickData {
	t.Helper()
	d := sampleQuick(t)
	d.Why = policy.Quick(policy.GatePatch, policy.RiskHigh, policy.QuickContent{Missing: "1 file is too large or no text, so not all of the patch can be shown in a list.", Hidden: true})
	return d
}

// 2.1: in a list Approve comes after all of the content, bound to what was seen, and is the only verdict. What is approved
// on its own page only has neither button nor content.
func TestQuickHasApproveAtItsEnd(t *testing.T) {
	t.Parallel()
	read := func(d web.QuickData) (order []string, hidden map[string]string) {
		hidden = map[string]string{}
		for n := range parse(t, render(t, web.Quick(d))).Descendants() {
			switch {
			case n.Type != html.ElementNode:
			case n.Data == "tr":
				order = append(order, "line")
			case n.Data == "button":
				order = append(order, attr(n, "value"))
			case n.Data == "input":
				hidden[attr(n, "name")] = attr(n, "value")
			}
		}
		return order, hidden
	}
	order, hidden := read(sampleQuick(t))
	if len(order) < 20 || order[len(order)-1] != "approve" || strings.Count(strings.Join(order, " "), "approve") != 1 || order[len(order)-2] != "line" {
		t.Errorf("in order: %v", order)
	}
	for name, want := range map[string]string{"gate_id": gateID, "revision": "2", "digest": digest, "idempotency_key": "01JDX3KEY", web.QuickField: "1"} {
		if hidden[name] != want {
			t.Errorf("%s = %q, want %q", name, hidden[name], want)
		}
	}
	mayNot, closed := sampleQuick(t), sampleQuick(t)
	mayNot.Panel.MayDecide, mayNot.Panel.WhyNot = false, "You created this task."
	closed.Panel.State = "satisfied"
	for name, d := range map[string]web.QuickData{"refused": refusedQuick(t), "may not": mayNot, "closed": closed} {
		if order, hidden := read(d); len(order)+len(hidden) > 0 {
			t.Errorf("%s: %v %v", name, order, hidden)
		}
		if !strings.Contains(render(t, web.Quick(d)), `href="`+web.GateURL(gateID)+`"`) {
			t.Errorf("%s: no way to the gate's page", name)
		}
	}
}

// A26: what a list would not show, or not as it is, keeps it from being approved there, wherever it stands.
func TestQuickContent(t *testing.T) {
	t.Parallel()
	section := func(head, line string) string {
		return "diff --git a/a.txt b/a.txt\nindex " + strings.Repeat("1", 40) + ".." + strings.Repeat("2", 40) + " 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@" + head + "\n-one\n+" + line + "\n"
	}
	for name, c := range map[string]struct {
		patch         string
		whole, hidden bool
	}{
		"plain":                   {section("", "two"), true, false},
		"a long line":             {section("", strings.Repeat("x", 2001)), false, false},
		"many lines":              {strings.Replace(section("", "two"), "+1,1 @@", "+1,401 @@", 1) + strings.Repeat("+more\n", 400), false, false},
		"hidden":                  {section("", "a \u202e b"), true, true},
		"private use":             {section("", "a \ue000 b"), true, true},
		"a blank that is none":    {section("", "a\u2800b"), true, true},
		"a joiner":                {section("", "न\u200dन"), true, true},
		"a long heading":          {section(" "+strings.Repeat("f", 300), "two"), false, false},
		"a hidden one in heading": {section(" f\u202e", "two"), false, false},
	} {
		p, err := patch.Parse([]byte(c.patch), 1<<20)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := web.QuickPatch(p.Render(web.InlineBounds())); got.Whole != c.whole || got.Hidden != c.hidden || got.Whole == (got.Missing != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	plan := *samplePlanGate().Plan
	if got := web.QuickPlan(plan, true); !got.Whole || got.Hidden {
		t.Errorf("a plan: %+v", got)
	}
	if got := web.QuickPlan(plan, false); got.Whole || got.Missing == "" {
		t.Errorf("a plan that says more: %+v", got)
	}
	plan.OutOfScope = []string{"nothing\u200b"}
	if got := web.QuickPlan(plan, true); !got.Hidden {
		t.Errorf("a plan with hidden text: %+v", got)
	}
}
