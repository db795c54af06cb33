package web_test

import (
	"strings"
	"time"

	"github.com/a-h/templ"

	"signalbox/internal/policy"
	"signalbox/web"
)

const policyText = `schema: 1
version: policy-7
repositories:
  "acme/payments":
    rules:
      - name: ci-needs-platform
        when: diff.files.exists(f, f.path.startsWith(".github/"))
        then: require
        approvals: 2
        words: Changes of CI are read by two people of the platform group, because what runs there holds every credential of ours.
`

func adminShell() web.Shell {
	s := shell()
	s.Admin, s.User.Roles = true, []string{"viewer", "admin"}
	return s
}

// policyPages are the pages of the policy.
func policyPages() map[string]templ.Component {
	before := strings.Replace(policyText, "approvals: 2", "approvals: 1", 1)
	rows := []web.PolicyRow{
		{Version: "policy-7", By: "Adam Admin", ConfirmedBy: "Cleo Admin", Reason: "Two people for CI. " + longReason(), At: ago(time.Hour), InForce: true, Before: "policy-6"},
		{Version: "policy-6", Reason: "", At: ago(900 * time.Hour), Before: policy.DefaultVersion},
	}
	waits := &web.PolicyWaits{Row: web.PolicyRow{Version: "policy-8", By: "Adam Admin", Reason: "Fewer questions.", At: ago(time.Minute)}, BasedOn: "policy-7",
		MayDecide: true, ConfirmKey: "K1", WithdrawKey: "K2", Lines: policy.DiffLines(policyText, before)}
	own := *waits
	own.Own = true
	editor := web.PolicyEditorData{Shell: adminShell(), Document: policyText, InForce: "policy-7", IdempotencyKey: "K3", SecondAdmin: true}
	wrong := editor
	wrong.Checked = &web.PolicyCheck{Problems: []policy.Problem{{Line: 9, Path: "repositories.acme/payments.rules[0].then", Words: "There is no such word. One of: require, deny."}, {Words: "The document has no version."}}}
	wrong.Errors = map[string]string{"document": "The policy was not stored: it has 2 mistakes.", "reason": "Say why, in at least one word."}
	tried := editor
	tried.Reason = "Two people for CI."
	tried.Checked = &web.PolicyCheck{Version: "policy-8", Rules: 1}
	tried.Simulated = &web.PolicySimulation{Against: "policy-7", Draft: "policy-8", Runs: 500, Changed: 37, Since: ago(700 * time.Hour),
		Kinds: []web.PolicyKind{{Count: 37, Words: "would have needed one more approval"}},
		List:  []web.PolicySimulated{{Run: runID, Title: goal, Repository: repo, State: "SUCCEEDED", At: ago(3 * time.Hour), Words: []string{"The patch would have needed 2 approvals instead of 1: " + longReason()}}}}
	none := editor
	none.Simulated = &web.PolicySimulation{Against: "policy-7", Draft: "policy-8"}
	return map[string]templ.Component{
		"policies":         web.PoliciesPage(web.PoliciesPageData{Shell: adminShell(), Rows: rows, InForce: "policy-7", MayChange: true}),
		"policies_empty":   web.PoliciesPage(web.PoliciesPageData{Shell: shell(), InForce: policy.DefaultVersion}),
		"policies_waits":   web.PoliciesPage(web.PoliciesPageData{Shell: adminShell(), Rows: rows, InForce: "policy-7", MayChange: true, Waits: waits}),
		"policies_own":     web.PoliciesPage(web.PoliciesPageData{Shell: adminShell(), Rows: rows, InForce: "policy-7", MayChange: true, Waits: &own}),
		"policy":           web.PolicyPage(web.PolicyPageData{Shell: shell(), Title: "Policy version policy-7", Row: &rows[0], Document: policyText}),
		"policy_default":   web.PolicyPage(web.PolicyPageData{Shell: shell(), Title: "The defaults", Row: &web.PolicyRow{Version: policy.DefaultVersion, At: ago(900 * time.Hour)}}),
		"policy_diff":      web.PolicyPage(web.PolicyPageData{Shell: shell(), Title: "Policy: policy-6 to policy-7", From: "policy-6", To: "policy-7", Versions: []string{"policy-7", "policy-6", policy.DefaultVersion}, Lines: policy.DiffLines(before, policyText)}),
		"policy_editor":    web.PolicyEditorPage(editor),
		"policy_invalid":   web.PolicyEditorPage(wrong),
		"policy_simulated": web.PolicyEditorPage(tried),
		"policy_untried":   web.PolicyEditorPage(none),
	}
}
