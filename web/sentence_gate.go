package web

import (
	"fmt"
	"strings"

	"signalbox/web/ui"
)

func sayGate(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "approved":
		l := Line{Tone: ui.ToneDone, Icon: ui.IconPerson, Text: deciders(ev, d) + " approved" + withNotes(d, ev.To) + "; " + after(ev.To), Detail: d.str("notes")}
		early, _ := d.at("earlier_notes").([]any)
		for _, e := range early {
			if note, ok := e.(map[string]any); ok {
				l.Points = append(l.Points, payload(note).str("by.name")+": "+payload(note).str("text"))
			}
		}
		if url := d.str("adopt.url"); url != "" {
			l.Text = deciders(ev, d) + " took over the pull request that exists."
			l.Detail = url
		}
		return l, true
	case "gate_bypassed":
		return Line{Tone: ui.ToneDenied, Icon: ui.IconDenied, Text: deciders(ev, d) + " bypassed the gate; " + after(ev.To), Detail: d.str("reason")}, true
	case "changes_requested":
		next := "the agent works on the next revision."
		if ev.To == "PLANNING" {
			next = "the agent plans again."
		}
		return Line{Tone: ui.ToneWaiting, Icon: ui.IconPerson, Text: who(ev, "A person") + " requested changes; " + next, Detail: d.str("instruction")}, true
	case "rejected":
		return Line{Tone: ui.ToneFailed, Icon: ui.IconPerson, Text: who(ev, "A person") + " rejected the result and ended the run.", Detail: d.str("reason")}, true
	case "approval_expired":
		switch {
		case d.flag("parked"):
			return Line{Tone: ui.ToneExpired, Text: "Nobody asked again in time, so the parked run was cancelled. Plan and patch are kept."}, true
		case d.str("outcome") == "cancel":
			return Line{Tone: ui.ToneCancelled, Text: "Nobody decided in time; by policy the run was cancelled."}, true
		case d.str("outcome") == "fail":
			return Line{Tone: ui.ToneFailed, Text: "Nobody decided in time; by policy the run failed."}, true
		}
		return Line{Tone: ui.ToneExpired, Text: "Nobody decided in time. The request expired and nothing was approved; it can be asked again."}, true
	case "approval_reopened":
		l := Line{Tone: ui.ToneWaiting, Icon: ui.IconPerson, Text: who(ev, "A person") + " asked again; the request is open once more."}
		if base := d.str("new_base"); base != "" {
			l.Text = who(ev, "A person") + " asked again; the base moved to " + ui.Head(base) + ", so the work is checked on it first."
		}
		return l, true
	case "approval_withdrawn":
		return Line{Tone: ui.ToneWaiting, Icon: ui.IconPerson, Text: who(ev, "A person") + " withdrew the approval before any worker acted on it.", Detail: d.str("reason")}, true
	case "budget_exceeded":
		l := Line{Tone: ui.ToneWaiting, Text: "A limit was reached; a person has to decide whether to raise it.", Detail: d.str("summary")}
		if limit := d.str("limit"); limit != "" {
			l.Text = "The limit of " + limitWords(limit) + " was reached; a person has to decide whether to raise it."
		}
		if d.flag("fail") {
			l.Tone = ui.ToneFailed
			l.Text = strings.Replace(l.Text, "a person has to decide whether to raise it", "by policy the run failed", 1)
		}
		return l, true
	case "reconciliation_required":
		l := Line{Tone: ui.ToneWaiting, Text: "It is not certain what reached the forge. A person has to look before anything is repeated.", Detail: d.str("summary"), Points: d.list("operations")}
		if d.flag("lost") {
			l.Text = "The worker was lost while publishing, so it is not certain what reached the forge. A person has to look before anything is repeated."
		}
		return l, true
	}
	return Line{}, false
}

func deciders(ev TimelineEvent, d payload) string {
	if names := d.list("deciders"); len(names) > 1 {
		return some(names)
	}
	return who(ev, "A person")
}

// keptApproval names whose approval was carried over a base that moved (A19).
func keptApproval(d payload) string {
	names := d.list("deciders")
	switch len(names) {
	case 0:
		return "the earlier approval was"
	case 1:
		return names[0] + "’s approval was"
	}
	return "the approvals of " + some(names) + " were"
}

// movedBy says by how many commits the base moved, in the words of format; it is empty where that is not known.
func movedBy(d payload, format string) string {
	n := d.num("commits")
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(format, ui.Count(n, "commit", "commits"))
}

// withNotes says how many notes for the agent an approval came with, and that none will read them where the run ends with it.
func withNotes(d payload, to string) string {
	n := d.num("note_count")
	switch {
	case n == 0:
		return ""
	case to == "SUCCEEDED" || to == "AWAITING_VERIFICATION":
		return " with " + ui.Count(n, "note", "notes") + " for the record"
	}
	return " with " + NoteWords(n)
}

// after says what an approval set in motion.
func after(to string) string {
	switch to {
	case "EXECUTING":
		return "the agent may now change code."
	case "PR_CREATING":
		return "the pull request is being opened."
	case "PR_CREATED":
		return "the pull request stands."
	case "AWAITING_VERIFICATION":
		return "an attestation is asked for."
	case "SUCCEEDED":
		return "the run succeeded."
	default:
		return "the run goes on."
	}
}

func limitWords(limit string) string { return strings.ReplaceAll(strings.ToLower(limit), "_", " ") }

func sayPublish(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "pr_created":
		l := Line{Tone: ui.ToneDone, Icon: ui.IconBranch, Text: "The branch was pushed and the pull request is open.", Detail: d.str("pr.url")}
		if n := d.num("pr.number"); n > 0 {
			l.Text = fmt.Sprintf("Branch %s was pushed and pull request %d is open.", d.str("pr.branch"), n)
		}
		return l, true
	case "base_moved":
		l := Line{Tone: ui.ToneWaiting, Icon: ui.IconBranch, Text: "The base branch " + movedBy(d, "moved by %s and ") + "changed the same files; the patch is verified again on the new base.", Points: d.list("overlaps")}
		if ev.To == "WAITING_FOR_APPROVAL" {
			l.Text = "The base branch keeps changing the same files; a person has to decide how to go on."
		}
		return l, true
	case "branch_touched":
		return Line{Tone: ui.ToneFailed, Icon: ui.IconBranch, Text: "Somebody else committed to the branch, so it was left alone. Nothing was overwritten; a new run can be started.", Detail: d.str("branch")}, true
	}
	return Line{}, false
}

func sayFailure(ev TimelineEvent, d payload) (Line, bool) {
	code := d.str("code")
	switch ev.Kind {
	case "attempt_failed":
		l := Line{Tone: ui.ToneFailed, Text: "The attempt failed" + because(code) + next(ev), Detail: d.str("summary")}
		return l, true
	case "worker_lost":
		return Line{Tone: ui.ToneFailed, Icon: ui.IconMachine, Text: "The worker stopped answering and its lease ended" + next(ev)}, true
	case "non_retryable_failure":
		return Line{Tone: ui.ToneFailed, Text: "The run failed" + because(code) + ". Trying again would not help.", Detail: d.str("summary")}, true
	}
	return Line{}, false
}

func because(code string) string {
	if code == "" {
		return ""
	}
	return " (" + code + ")"
}

// next says what follows a failure, from the state it led to.
func next(ev TimelineEvent) string {
	switch {
	case ev.To == "QUEUED":
		return "; another attempt follows."
	case ev.To == "FAILED":
		return "; no further attempt is allowed, so the run failed."
	case ev.To == "" || ev.To == ev.From:
		return "; another worker will take the work from what is stored."
	default:
		return "."
	}
}

func sayCancel(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "cancel_requested":
		l := Line{Tone: ui.ToneCancelled, Icon: ui.IconPerson, Text: who(ev, "Somebody") + " asked to cancel; the worker is being told to stop.", Detail: d.str("reason"), Points: d.list("unresolved")}
		switch {
		case ev.To == "CANCELLED":
			l.Text = who(ev, "Somebody") + " cancelled the run; no worker held it."
		case ev.From == "CANCELLING":
			l.Text = who(ev, "Somebody") + " asked to cancel too; the run was already stopping."
		}
		return l, true
	case "cancel_confirmed":
		l := Line{Tone: ui.ToneCancelled, Text: "The worker stopped; the run is cancelled.", Detail: d.str("observed"), Points: d.list("unresolved")}
		if d.flag("forced") {
			l.Text = "The worker did not confirm in time; its lease was taken away and the run is cancelled."
		}
		return l, true
	}
	return Line{}, false
}
