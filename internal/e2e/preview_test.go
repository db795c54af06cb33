package e2e_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
)

// R-UI: the preview of a new task follows the form as it changes; without a script the button brings it, and the text stays.
func TestPreviewInABrowser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	r.Repository("acme/shop", rig.Shop())
	rita, plain := newTab(r, t, "rita"), newTab(r, t, "plain")
	rita.signIn("rita")
	rita.open("/tasks/new")
	rita.choose("#f-repository", "acme/shop")
	rita.until("the preview knows the repository", `/Policy would let it begin now/.test(document.querySelector("#task-preview").innerText)`)
	if rita.has("#task-preview .preview-gate + .preview-gate") {
		t.Errorf("at the least risk two gates are foreseen: %s", rita.text("#task-preview"))
	}
	rita.choose("#f-risk", "High")
	rita.until("the preview follows", `/Plan: 1 approval by the role approver/.test(document.querySelector("#task-preview").innerText)`)
	rita.shot("task-new")

	plain.signIn("rita")
	plain.withoutScript()
	plain.open("/tasks/new")
	plain.write("#f-goal", "Say hello.")
	plain.click(`button[formaction^="/tasks/preview"]`)
	plain.until("the form comes back", `document.title.startsWith("Preview") && document.querySelector("#f-goal").value === "Say hello."`)
	if got := plain.path(); got != "/tasks/preview" {
		t.Errorf("the preview is at %s", got)
	}
}
