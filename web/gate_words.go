package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/web/ui"
)

func gateTitle(d GatePanelData) string { return panelTitle(d) + " · " + d.Title }

func gateStream(d GatePageData) string {
	if !d.Live {
		return ""
	}
	return GateStreamURL(d.Panel.GateID, d.Panel.Revision)
}

func noticeTarget(d GateNoticeData) string {
	return fmt.Sprintf(`#gate-notice[data-revision="%d"]`, d.Shown)
}

// gateHeading asks whoever can decide; anybody else is told how it stands.
func gateHeading(d GatePanelData) string {
	if !decidable(d) {
		return title(gateNoun(d.Kind)) + ": " + strings.ToLower(panelTitle(d))
	}
	switch d.Kind {
	case "plan":
		return "Approve the plan?"
	case "patch":
		return "Approve the patch?"
	case "report":
		return "Accept the report?"
	case "budget":
		if d.Budget != nil {
			return "Raise the limit of " + d.Budget.What + "?"
		}
		return "Raise the limit?"
	case "reconcile":
		return "What reached the forge?"
	default:
		return "Decide"
	}
}

func panelTitle(d GatePanelData) string {
	switch d.State {
	case "preparing":
		return "Not ready to decide"
	case "open":
		if d.MayDecide {
			return "Your decision"
		}
		return "Waiting for others"
	default:
		return ui.GateStatus(d.State).Word
	}
}

func panelAge(d GatePanelData) string {
	s := ""
	if !d.OpenedAt.IsZero() {
		s = "asked " + ui.Ago(d.OpenedAt, d.Now)
	}
	if d.Revision > 0 {
		s += fmt.Sprintf(", revision %d", d.Revision)
	}
	if d.State == "open" && !d.ExpiresAt.IsZero() {
		s += ", expires " + ui.Ago(d.ExpiresAt, d.Now)
	}
	return s
}

func decidable(d GatePanelData) bool { return d.State == "open" && d.MayDecide }

// contents are the parts of a gate's page, in their order.
func (d GatePageData) contents() []Link {
	all := []Link{{Text: d.Evidence.words(), Href: "#evidence"}}
	add := func(there bool, text, id string) {
		if there {
			all = append(all, Link{Text: text, Href: "#" + id})
		}
	}
	add(len(d.Work.Effects) > 0, "Effects outside", "effects")
	add(len(d.Work.Stretches) > 0 || len(d.Work.Steps) > 0, "The work so far", "work")
	add(d.Report != "", "Report", "report")
	add(d.Plan != nil, "Plan", "plan")
	patch := "Patch"
	if d.Panel.Files > 0 {
		patch += ": " + ui.Count(d.Panel.Files, "file", "files")
	}
	add(d.Diff != nil, patch, "diff")
	add(len(d.History) > 0, "Decisions", "history")
	return all
}

// words say what came of the verification, where there was one.
func (e Evidence) words() string {
	passed := 0
	for _, c := range e.Commands {
		if c.Passed {
			passed++
		}
	}
	if len(e.Commands) == 0 {
		return "Evidence"
	}
	return fmt.Sprintf("Evidence: %d of %s passed", passed, ui.Count(len(e.Commands), "check", "checks"))
}

// effects says what an approval sets in motion. The handler may know more (cost, duration) and give its own list.
func effects(d GatePanelData) []string {
	if len(d.Effects) > 0 {
		return d.Effects
	}
	return ApproveEffects(d.Kind, d.Mode)
}

// effectsHeading names the button whose effects stand under it.
func effectsHeading(kind string) string {
	if sendsBack(kind) {
		return "What happens on approve"
	}
	return "What happens then"
}

// ApproveEffects is what approving does, by gate kind and completion mode.
func ApproveEffects(kind, mode string) []string {
	switch kind {
	case "plan":
		return []string{
			"The agent starts to change code, inside a sandbox.",
			"Nothing is pushed. The result is verified, and where policy asks for it a second gate follows.",
		}
	case "patch":
		if mode == "patch_ready_for_review" {
			return []string{"The patch is marked approved and can be downloaded. Nothing is pushed."}
		}
		return []string{
			"Exactly this patch is committed to a new branch and pushed.",
			"One pull request is opened. Nothing is merged by this.",
		}
	case "report":
		return []string{"The report is accepted and the run ends. No code changes."}
	case "budget":
		return []string{"The limit is raised and the run goes on where it stopped."}
	case "reconcile":
		return []string{
			"“Try again” lets a worker push and open the pull request once more.",
			"“Take it over” makes the server read that pull request and finish the run with it.",
		}
	default:
		return nil
	}
}

func approveLabel(d GatePanelData) string {
	switch d.Kind {
	case "plan":
		return "Approve and start the agent"
	case "patch":
		if d.Mode == "patch_ready_for_review" {
			return "Approve the patch"
		}
		return "Approve and open pull request"
	case "report":
		return "Accept the report"
	case "budget":
		return "Raise the limit and go on"
	case "reconcile":
		return "Go on with this answer"
	default:
		return "Approve"
	}
}

// sendsBack: budget and reconcile gates refuse a change request.
func sendsBack(kind string) bool { return kind == "plan" || kind == "patch" || kind == "report" }

func textLabel(kind string) string {
	if sendsBack(kind) {
		return "Instruction, reason or note"
	}
	return "Reason or note"
}

func textHint(kind, mode string) string {
	hint := "Needed to reject."
	switch {
	case kind == "plan":
		hint = "Request changes needs this or a comment on a step; the agent gets exactly what you write. Reject needs a reason."
	case kind == "patch":
		hint = "Request changes needs this or a comment on a line; the agent gets exactly what you write. Reject needs a reason."
	case sendsBack(kind):
		hint = "Needed to request changes (the agent gets exactly this) and to reject."
	}
	return hint + " With Approve it is a note: " + map[string]string{
		noteAtStart: "the agent gets it as it starts.",
		noteKept:    "it stays on the record; no agent works on this run afterwards.",
		noteLater:   "it stays on the record, and the agent gets it if it works on this run again.",
	}[noteFate(kind, mode)]
}

// NoteWords is a number of notes in words.
func NoteWords(n int) string { return ui.Count(n, "note", "notes") + " for the agent" }

// What becomes of a note that comes with an approval (A16).
const (
	noteAtStart = "start"
	noteLater   = "later"
	noteKept    = "kept"
)

func noteFate(kind, mode string) string {
	switch {
	case kind == "plan":
		return noteAtStart
	case kind == "report" || kind == "patch" && mode == "patch_ready_for_review":
		return noteKept
	}
	return noteLater
}

// NotesGo says what becomes of the notes that came with an approval, by gate kind and completion mode.
func NotesGo(kind, mode string) string {
	return map[string]string{
		noteAtStart: "The agent gets them as it starts.",
		noteKept:    "They stay on the record; no agent works on this run afterwards.",
		noteLater:   "They stay on the record; the agent gets them if it works on this run again.",
	}[noteFate(kind, mode)]
}

func rejectConfirm(kind string) string {
	return "Reject and end this run? The " + gateNoun(kind) + " is kept for download, but no further work happens on it."
}

func closedSentence(d GatePanelData) string {
	switch d.State {
	case "preparing":
		return fmt.Sprintf("The agent is preparing revision %d. Decisions open when it is ready.", max(d.Revision, 1))
	case "satisfied":
		if !d.WaitsSince.IsZero() {
			return fmt.Sprintf("Approved, waiting for a worker (%s in the queue).", ui.Rough(d.Now.Sub(d.WaitsSince)))
		}
		if d.RunState == "PR_CREATING" {
			return "Approved. The pull request is being opened."
		}
		return "Approved. Nothing more is needed here."
	case "changes_requested":
		return "Changes were requested; the agent works on the next revision. A new revision asks again."
	case "rejected":
		return "Rejected. The run has ended; what it made is kept."
	case "superseded":
		return "A newer revision took the place of this one."
	case "expired":
		return "Nobody decided in time. Nothing was approved; plan and patch are kept."
	case "cancelled":
		return "The run was cancelled. There is nothing to decide."
	case "bypassed":
		return "This gate was bypassed in an emergency. A review of that is due."
	default:
		return "There is nothing to decide here."
	}
}

// unclaimed is how long what was approved may wait for a worker before the page calls that a problem (A32).
const unclaimed = time.Minute

// overdue says that nobody has taken what was approved; empty while that is no problem.
func overdue(d GatePanelData) string {
	if wait := d.Now.Sub(d.WaitsSince); !d.WaitsSince.IsZero() && wait > unclaimed {
		return fmt.Sprintf("Approved %s ago, and no worker has taken it.", ui.Rough(wait))
	}
	return ""
}

func outcomeTitle(o Outcome) string {
	if o.Title != "" {
		return o.Title
	}
	switch o.Kind {
	case OutcomeRecorded:
		return "Your decision is recorded."
	case OutcomeExtra:
		return "Recorded; it was not needed."
	case OutcomeStale:
		return "Nothing was approved. It changed while you were reading."
	case OutcomeDecided:
		return "Nothing was approved. Somebody decided first."
	case OutcomeNotQuick:
		return "Nothing was approved. It is approved on its own page only."
	case OutcomeInvalid:
		return "Nothing was sent."
	case OutcomeForbidden:
		return "Nothing was approved. You may not decide this."
	case OutcomeConfirm:
		return "Confirm it is you, then press Approve again. Your note is kept."
	case OutcomeSession:
		return "Nothing was approved. Your session ended."
	case OutcomeGone:
		return "Nothing was approved. This request is over."
	default:
		return "It is not certain that your decision was recorded."
	}
}

func outcomeTone(k OutcomeKind) ui.Tone {
	switch k {
	case OutcomeRecorded, OutcomeExtra:
		return ui.ToneDone
	case OutcomeStale, OutcomeDecided, OutcomeInvalid, OutcomeNotQuick, OutcomeConfirm:
		return ui.ToneWaiting
	case OutcomeGone, OutcomeSession:
		return ui.ToneExpired
	case OutcomeForbidden:
		return ui.ToneDenied
	default:
		return ui.ToneFailed
	}
}

func outcomeRole(k OutcomeKind) string {
	if k == OutcomeRecorded || k == OutcomeExtra {
		return "status"
	}
	return "alert"
}

func keepsText(k OutcomeKind) bool { return k != OutcomeRecorded && k != OutcomeExtra }

func noticeSentence(d GateNoticeData) string {
	by := orSomebody(d.By)
	switch {
	case d.Revision > d.Shown && d.Shown > 0:
		return fmt.Sprintf("Revision %d is ready; you are reading revision %d.", d.Revision, d.Shown)
	case d.State == "satisfied":
		return title(by) + " approved this " + ui.Ago(d.At, d.Now) + "."
	case d.State == "changes_requested":
		return title(by) + " requested changes " + ui.Ago(d.At, d.Now) + "."
	case d.State == "rejected":
		return title(by) + " rejected this " + ui.Ago(d.At, d.Now) + "."
	case d.State == "cancelled":
		return "The run was cancelled; there is nothing to decide any more."
	case d.State == "expired":
		return "This request has expired; it can be asked again."
	default:
		return ""
	}
}

func decisionStatus(v DecisionView) ui.Status {
	switch v.Verdict {
	case "approve":
		s := ui.Of("Approved", ui.ToneDone)
		if v.Carried {
			s.Word = "Approval carried over"
		}
		if v.Outdated {
			s = ui.Of("Approved, outdated", ui.ToneNeutral)
		}
		return s
	case "request_changes":
		return ui.Of("Requested changes", ui.ToneWaiting)
	case "reject":
		return ui.Of("Rejected", ui.ToneFailed)
	case "withdraw":
		return ui.Of("Withdrew the approval", ui.ToneCancelled)
	case "bypass":
		return ui.Of("Bypassed", ui.ToneDenied)
	default:
		return ui.Of(v.Verdict, ui.ToneNeutral)
	}
}

func decisionSuffix(v DecisionView) string {
	s := ""
	if v.Revision > 0 {
		s += fmt.Sprintf(" · revision %d", v.Revision)
	}
	if v.Channel != "" {
		s += " · in the " + v.Channel
	}
	if v.Extra {
		s += " · not needed any more"
	}
	return s
}

// noEvidence says why there is none, so that an empty section never looks like a failure to load.
func noEvidence(e Evidence, kind string) string {
	if len(e.Commands) > 0 || e.Verdict != "" || len(e.Guards) > 0 || len(e.JudgeReasons) > 0 {
		return ""
	}
	switch kind {
	case "plan":
		return "A plan changes nothing yet, so there is nothing to verify. The patch that follows is verified on its own."
	case "budget", "reconcile":
		return "This gate is not about the content of the change: nothing of that is decided here."
	default:
		return "No verification result is stored for this revision. Do not take that for a pass."
	}
}
