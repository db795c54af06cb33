package e2e_test

import (
	"strings"
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// R-UI-1: words of people, repositories and agents are shown as words: nothing of them runs, loads or asks.
func TestBrowserHostileText(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	const (
		title   = `<img src=x onerror=alert(1)> & "quoted"`
		goal    = `<script>alert(2)</script><iframe src="http://evil.example/"></iframe>`
		file    = `'><img src=x onerror=alert(3)>.txt`
		content = `</td></tr></table><script src="http://evil.example/x.js"></script><a href="javascript:alert(4)">here</a>`
		said    = `</pre><script>alert(5)</script><img src="http://evil.example/pixel.png"> 你好`
		step    = `<svg onload=alert(6)>`
	)
	files := rig.Shop()
	files[`<b onmouseover=alert(7)>docs.md`] = "# Docs\n"
	repo := r.Repository("acme/shop", files)
	run := ""
	rita := newTab(r, t, "rita")
	rita.signIn("rita")
	run = rita.submitTask(rig.Task{Repository: repo, Title: title, Goal: rig.Recipe(goal,
		rig.Act{Do: "say", New: said}, rig.Act{Do: "step", New: step}, rig.Act{Do: "tool", Name: step, New: said}, rig.Act{Do: "raw", New: said + "\n"},
		rig.Act{Do: "write", File: file, New: content + "\n"}, rig.Act{Do: "append", File: `<b onmouseover=alert(7)>docs.md`, New: content + "\n"},
		rig.Act{Do: "result", New: said},
	)})
	shows := func(where string, b *tab, want ...string) {
		t.Helper()
		text := strings.Join(strings.Fields(eval[string](b, `document.body.textContent`)), " ")
		for _, w := range want {
			if !strings.Contains(text, strings.Join(strings.Fields(w), " ")) {
				t.Errorf("%s does not show %q as text", where, w)
			}
		}
		if n := eval[int](b, `document.querySelectorAll('img:not([src^="/static/"]), iframe, script:not([src^="/static/"]), svg[onload], [onerror], [onmouseover], a[href^="javascript:"]').length`); n != 0 {
			t.Errorf("%s: %d elements come from hostile text", where, n)
		}
	}
	shows("the task's page", rita, title, goal)
	gate := r.AwaitGate(run)
	rita.open("/runs/" + run)
	shows("the run's page", rita, title, step)
	rita.shot("run-hostile")
	rita.open("/tasks")
	shows("the list of tasks", rita, title)
	rita.open("/runs")
	shows("the list of runs", rita, title)
	ana := newTab(r, t, "ana")
	ana.signIn("ana")
	shows("the inbox", ana, title)
	ana.open("/gates/" + gate)
	shows("the gate", ana, title, file, content)
	ana.shot("gate-hostile")
	ana.write("#f-text", said)
	ana.click(`button[value="approve"]`)
	ana.until("the approval is recorded", `/Approved/.test(document.querySelector("#gate-panel").innerText)`)
	r.Await(run, wire.RunStateSUCCEEDED)
	rita.open("/runs/" + run)
	steps := eval[[]string](rita, `[...document.querySelectorAll('a[href*="/steps/"]')].map(a => a.getAttribute("href"))`)
	if len(steps) == 0 {
		t.Error("the run's page links no step")
	}
	logs := ""
	for _, s := range steps {
		rita.open(s)
		shows("a step's page", rita)
		logs += eval[string](rita, `document.body.textContent`)
	}
	if !strings.Contains(logs, said) {
		t.Error("no step's page shows what the agent said")
	}
	rita.open("/runs/" + run)
	rita.click(`#run-panel a[href*="/pulls/"]`)
	rita.until("the pull request's page", `location.pathname.startsWith("/pulls/") && document.querySelector("main h1")`)
	shows("the pull request's page", rita, title, content)
	rita.shot("pull-hostile")
}
