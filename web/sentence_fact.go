package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/web/ui"
)

// FactKinds lists the facts beside the state machine that a timeline knows.
func FactKinds() []string {
	return []string{
		"step_started", "step_finished", "artifact_stored", "late_evidence", "decision_recorded", "usage_recorded",
		"operation_intended", "operation_dispatched", "operation_observed", "operation_ambiguous", "operation_reconciled",
		"cancel_acknowledged", "reminder_sent", "escalated", "agent_message",
	}
}

func sayFact(ev TimelineEvent, d payload) (Line, bool) {
	name := d.str("name", "step", "title")
	switch ev.Kind {
	case "step_started":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconTool, Text: "Step " + quoted(name) + " started.", Minor: true}, true
	case "step_finished":
		return stepLine(name, d), true
	case "artifact_stored":
		l := Line{Tone: ui.ToneNeutral, Icon: ui.IconFile, Text: "Stored " + artifactWords(d.str("kind")) + ".", Minor: true}
		if size := d.num("size"); size > 0 {
			l.Text = fmt.Sprintf("Stored %s, %s.", artifactWords(d.str("kind")), ui.Bytes(int64(size)))
		}
		return l, true
	case "late_evidence":
		return Line{Tone: ui.ToneNeutral, Icon: ui.IconFile, Text: "A worker without a lease handed in " + artifactWords(d.str("kind")) + "; it was kept as late evidence and changed nothing."}, true
	case "decision_recorded":
		return decisionLine(ev, d), true
	case "usage_recorded":
		return Line{Tone: ui.ToneNeutral, Text: "Usage was recorded.", Detail: d.str("summary"), Minor: true}, true
	case "operation_intended":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconBranch, Text: "About to " + operationWords(d) + ".", Minor: true}, true
	case "operation_dispatched":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconBranch, Text: "Sent to the forge: " + operationWords(d) + ".", Minor: true}, true
	case "operation_observed":
		return Line{Tone: ui.ToneDone, Icon: ui.IconBranch, Text: "Seen at the forge: " + operationWords(d) + ".", Minor: true}, true
	case "operation_ambiguous":
		return Line{Tone: ui.ToneWaiting, Icon: ui.IconBranch, Text: "It is not certain whether this reached the forge: " + operationWords(d) + "."}, true
	case "operation_reconciled":
		return Line{Tone: ui.ToneDone, Icon: ui.IconBranch, Text: "Looked up at the forge and settled: " + operationWords(d) + "."}, true
	case "cancel_acknowledged":
		return Line{Tone: ui.ToneCancelled, Icon: ui.IconMachine, Text: "The worker was told to stop.", Minor: true}, true
	case "reminder_sent":
		return Line{Tone: ui.ToneWaiting, Text: "A reminder was sent to the people who can decide.", Minor: true}, true
	case "escalated":
		return Line{Tone: ui.ToneWaiting, Text: "Nobody acted in time, so the escalation list was told."}, true
	case "agent_message":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconAgent, Text: "The agent reports:", Detail: d.str("text", "summary"), Minor: true}, true
	}
	return Line{}, false
}

func stepLine(name string, d payload) Line {
	l := Line{Tone: ui.ToneDone, Icon: ui.IconTool, Detail: d.str("summary", "reason"), Minor: true}
	took := ""
	if ms := d.num("duration_ms"); ms > 0 {
		took = " after " + ui.Dur(time.Duration(ms)*time.Millisecond)
	}
	switch state := d.str("state", "outcome"); state {
	case "FAILED":
		l.Tone, l.Minor = ui.ToneFailed, false
		l.Text = "Step " + quoted(name) + " failed" + took + exitWords(d) + "."
	case "TIMED_OUT":
		l.Tone, l.Minor = ui.ToneExpired, false
		l.Text = "Step " + quoted(name) + " ran out of time" + took + " and was stopped."
	case "CANCELLED":
		l.Tone = ui.ToneCancelled
		l.Text = "Step " + quoted(name) + " was stopped" + took + "."
	default:
		l.Text = "Step " + quoted(name) + " passed" + took + "."
	}
	return l
}

func exitWords(d payload) string {
	if code := d.num("exit_code"); code != 0 {
		return fmt.Sprintf(" with exit code %d", code)
	}
	return ""
}

func decisionLine(ev TimelineEvent, d payload) Line {
	l := Line{Icon: ui.IconPerson, Detail: d.str("text", "comment", "note")}
	person := who(ev, "A person")
	switch d.str("verdict") {
	case "approve":
		l.Tone = ui.ToneDone
		l.Text = person + " approved; more approvals are needed."
		if d.flag("extra") {
			l.Text = person + " approved too; it was recorded but not needed."
		} else if need := d.num("need"); need > 0 {
			l.Text = fmt.Sprintf("%s approved: %d of %d.", person, d.num("have"), need)
		}
	case "reject":
		l.Tone = ui.ToneFailed
		l.Text = person + " rejected; the gate stays open for others."
	case "request_changes":
		l.Tone = ui.ToneWaiting
		l.Text = person + " requested changes."
	default:
		l.Tone = ui.ToneNeutral
		l.Text = person + " recorded a decision."
	}
	return l
}

func artifactWords(kind string) string {
	switch kind {
	case "patch":
		return "the patch"
	case "plan":
		return "the plan"
	case "report", "analysis_report":
		return "the analysis report"
	case "verification_report":
		return "the verification report"
	case "judge_report":
		return "the judge's report"
	case "context":
		return "the repository map"
	case "log":
		return "a log"
	case "":
		return "a file"
	default:
		return "a file of kind " + kind
	}
}

func operationWords(d payload) string {
	switch kind := d.str("kind", "operation"); kind {
	case "create_branch", "push", "push_branch":
		return "push branch " + d.str("branch", "target", "parameters.branch")
	case "open_pr", "open_pull_request", "create_pr":
		return "open the pull request"
	case "comment":
		return "comment on the pull request"
	case "":
		return "an external effect"
	default:
		return strings.ReplaceAll(kind, "_", " ")
	}
}
