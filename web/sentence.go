package web

import (
	"fmt"
	"strings"

	"signalbox/web/ui"
)

// Line is what a timeline says about one event: a plain sentence that needs no log to be understood (R-UI-1).
type Line struct {
	Tone   ui.Tone
	Icon   ui.Icon
	Text   string
	Detail string   // instruction, reason or summary as somebody wrote it; untrusted, may have several lines
	Points []string // reasons in words, each its own line
	Minor  bool     // a step on the way, shown smaller
}

// Sentence says what an event means. It is total: a kind it does not know is named as it is, never dropped.
func Sentence(ev TimelineEvent) Line {
	d := payload(ev.Data)
	for _, say := range []func(TimelineEvent, payload) (Line, bool){
		sayQueue, sayWork, sayVerify, sayGate, sayPublish, sayFailure, sayCancel, sayFact,
	} {
		if line, ok := say(ev, d); ok {
			if line.Icon == (ui.Icon{}) {
				line.Icon = ui.Of("", line.Tone).Icon
			}
			return line
		}
	}
	return Line{Tone: ui.ToneNeutral, Icon: ui.IconNote, Text: "Event " + ev.Kind + " was recorded.", Minor: true}
}

func who(ev TimelineEvent, fallback string) string {
	if ev.ActorName != "" {
		return ev.ActorName
	}
	return fallback
}

func sayQueue(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "run_created":
		return Line{Tone: ui.ToneQueued, Text: "The run was created; policy has to admit it."}, true
	case "run_deferred":
		l := Line{Tone: ui.ToneQueued, Text: "Admission has to wait.", Points: d.list("reasons")}
		if wait := d.span("retry_after"); wait > 0 {
			l.Text = "Admission has to wait; asked again in " + ui.Dur(wait) + "."
		}
		return l, true
	case "run_enqueued":
		l := Line{Tone: ui.ToneQueued, Text: "Policy admitted the run; it waits for a free worker.", Points: d.list("reasons")}
		if v := d.str("policy_version"); v != "" {
			l.Text = "Policy version " + v + " admitted the run; it waits for a free worker."
		}
		return l, true
	case "policy_denied":
		return Line{Tone: ui.ToneDenied, Text: "Policy does not allow this run. Nothing was executed after this point.", Points: d.list("reasons")}, true
	case "lease_acquired":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconMachine, Text: leaseText(ev, d), Minor: ev.From == ev.To && ev.From != ""}, true
	case "worker_started":
		return Line{Tone: ui.ToneRunning, Text: who(ev, "The worker") + " started and prepares a sandbox.", Minor: true}, true
	case "timeout":
		switch d.str("code") {
		case "DEFER_TIMEOUT":
			return Line{Tone: ui.ToneExpired, Text: "Admission was put off for too long, so the run expired. Nothing was executed."}, true
		case "QUEUE_TIMEOUT":
			l := Line{Tone: ui.ToneExpired, Text: "No worker took the run in time, so it expired. What was stored is kept."}
			if why := WaitedFor(ev); why != "" {
				l.Text += " Why it still waited then: " + why
			}
			return l, true
		}
		return Line{Tone: ui.ToneExpired, Text: "The run waited too long and expired. What was stored is kept."}, true
	case "run_timeout":
		if d.flag("fail") {
			return Line{Tone: ui.ToneFailed, Text: "The run used up its active time and failed. What was stored is kept."}, true
		}
		return Line{Tone: ui.ToneExpired, Text: "The run used up its active time and expired. What was stored is kept."}, true
	}
	return Line{}, false
}

// WaitedFor says why nobody had taken a run when its time in the queue was over; empty for every other event and where
// an older version recorded none.
func WaitedFor(ev TimelineEvent) string {
	if ev.Kind != "timeout" {
		return ""
	}
	return sentence(payload(ev.Data).str("why"))
}

func leaseText(ev TimelineEvent, d payload) string {
	worker := d.str("lease.worker_name")
	if worker == "" {
		worker = who(ev, "A worker")
	}
	switch phase := d.str("lease.phase"); {
	case ev.To == "LEASED" && ev.Attempt > 1:
		return fmt.Sprintf("%s took the run; attempt %d begins.", worker, ev.Attempt)
	case ev.To == "LEASED":
		return worker + " took the run."
	case phase == "verify":
		return worker + " took the stored patch for verification on a fresh checkout."
	case phase == "publish":
		return worker + " took the approved patch to publish it."
	default:
		return worker + " took the run and continues it."
	}
}

func sayWork(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "sandbox_ready":
		l := Line{Tone: ui.ToneRunning, Text: "The sandbox is ready.", Minor: true}
		switch tier := d.str("tier"); tier {
		case "":
		case "process":
			l.Text = "The sandbox is ready. Isolation is process only, which is unsafe for untrusted code."
			l.Tone, l.Minor = ui.ToneWaiting, false
		default:
			l.Text = "The sandbox is ready; isolation is " + tier + "."
		}
		return l, true
	case "context_ready":
		return Line{Tone: ui.ToneRunning, Text: "The repository was read and its map stored.", Minor: true}, true
	case "plan_created":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconAgent, Text: "The agent stored its plan and went on to change code.",
			Detail: d.str("plan.summary"), Points: d.list("policy.reasons")}, true
	case "plan_approval_required":
		return Line{Tone: ui.ToneWaiting, Text: "The plan is ready. A person has to approve it before any code changes.",
			Detail: d.str("plan.summary"), Points: d.list("policy.reasons")}, true
	case "patch_created":
		l := Line{Tone: ui.ToneRunning, Icon: ui.IconAgent, Text: "The agent delivered a patch; the server parsed, scanned and stored it."}
		if files := d.num("patch.files"); files > 0 {
			l.Text = fmt.Sprintf("The agent delivered a patch of %s, +%d −%d; the server parsed, scanned and stored it.",
				ui.Count(files, "file", "files"), d.num("patch.added"), d.num("patch.removed"))
		}
		if rev := d.num("patch.revision"); rev > 1 {
			l.Text = strings.Replace(l.Text, "a patch", fmt.Sprintf("revision %d of the patch", rev), 1)
			l.Text = strings.Replace(l.Text, "the patch of ", "the patch, ", 1)
		}
		return l, true
	case "report_created":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconAgent, Text: "The agent delivered its analysis report; no file was changed."}, true
	case "no_change_reported":
		return Line{Tone: ui.ToneRunning, Icon: ui.IconAgent, Text: "The agent found nothing to change.", Detail: d.str("summary")}, true
	case "lease_released":
		l := Line{Tone: ui.ToneQueued, Text: "The worker gave the run back; this costs no attempt.", Minor: true}
		if d.num("before") > 0 {
			l.Text = "The worker gave the run back, and so did others before it; it waits a little until the next one. This costs no attempt."
		}
		if reason := d.str("reason"); reason != "" {
			l.Detail = reason
		}
		return l, true
	case "attempt_exhausted":
		l := Line{Tone: ui.ToneWaiting, Text: "The repair rounds of this attempt are spent; a new attempt begins on a clean checkout.", Detail: d.str("summary")}
		if d.flag("identical") {
			l.Text = "The same failure came twice in a row, so repairing stopped; a new attempt begins on a clean checkout."
		}
		return l, true
	}
	return Line{}, false
}

func sayVerify(ev TimelineEvent, d payload) (Line, bool) {
	switch ev.Kind {
	case "verification_started":
		commands := d.list("commands")
		l := Line{Tone: ui.ToneRunning, Text: "Verification started on a fresh checkout of the stored patch.", Points: commands}
		if n := len(commands); n > 0 {
			l.Text = fmt.Sprintf("Verification started: %s on a fresh checkout of the stored patch.", ui.Count(n, "command", "commands"))
		}
		if d.flag("same_worker") {
			l.Text += " It is the same worker that made the patch."
		}
		return l, true
	case "verification_passed":
		return Line{Tone: ui.ToneDone, Text: "Verification passed for exactly this patch.", Detail: d.str("report.summary")}, true
	case "verification_failed_retryable":
		return Line{Tone: ui.ToneWaiting, Text: "Verification failed; the agent was given the result and repairs the patch.", Detail: d.str("report.summary")}, true
	case "judge_requires_fix":
		return Line{Tone: ui.ToneWaiting, Text: "The judge asked for a fix; the agent was given its reasons.", Points: append(d.list("judge.reasons"), d.list("policy.reasons")...)}, true
	case "human_approval_required":
		return Line{Tone: ui.ToneWaiting, Text: "The result is ready. A person has to decide before it goes any further.",
			Points: append(d.list("policy.reasons"), d.list("judge.reasons")...)}, true
	case "approval_carried":
		return Line{Tone: ui.ToneDone, Icon: ui.IconPolicy, Text: "The base moved" + movedBy(d, " by %s") + "; the patch is the same (same patch id), so " + keptApproval(d) + " kept.", Points: d.list("policy.reasons")}, true
	case "auto_pr_allowed":
		return Line{Tone: ui.ToneDone, Icon: ui.IconPolicy, Text: "Policy let the pull request be opened without a person: every guard is met.", Points: d.list("guards")}, true
	case "completion_condition_met":
		return Line{Tone: ui.ToneDone, Text: "The run succeeded: its completion condition is met."}, true
	case "attestation_required":
		return Line{Tone: ui.ToneWaiting, Text: "The result waits for an attestation.", Points: d.list("policy.reasons")}, true
	case "attestation_accepted":
		return Line{Tone: ui.ToneDone, Text: who(ev, "The attestor") + " attested the result; the run is verified."}, true
	case "attestation_refused":
		return Line{Tone: ui.ToneFailed, Text: who(ev, "The attestor") + " refused the attestation; the run failed.", Detail: d.str("reason")}, true
	case "attestation_expired":
		switch d.str("outcome") {
		case "fail":
			return Line{Tone: ui.ToneFailed, Text: "No attestation came in time; by policy the run failed."}, true
		case "expire":
			return Line{Tone: ui.ToneExpired, Text: "No attestation came in time; the run expired."}, true
		}
		return Line{Tone: ui.ToneWaiting, Text: "No attestation came in time; it was escalated and can still be given."}, true
	}
	return Line{}, false
}
