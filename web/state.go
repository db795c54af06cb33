package web

import (
	"fmt"
	"strings"
	"time"

	"signalbox/web/ui"
)

// StateSentence says what is true, since when, what happens next and who can act.
func StateSentence(r RunView, now time.Time) string {
	since := ui.Rough(now.Sub(r.Since))
	parts := []string{}
	add := func(format string, a ...any) { parts = append(parts, fmt.Sprintf(format, a...)) }
	switch r.State {
	case "CREATED":
		add("Waiting for admission for %s.", since)
		if r.QueueReason != "" {
			add("%s", r.QueueReason)
		}
	case "QUEUED":
		add("In the queue for %s.", since)
		parts = append(parts, queueWords(r, now))
	case "LEASED":
		add("%s took the run %s ago and is about to start.", workerName(r), since)
	case "PREPARING":
		add("%s has been preparing a sandbox and a checkout for %s.", workerName(r), since)
	case "CONTEXT_BUILDING", "PLANNING", "EXECUTING", "PATCH_READY", "VERIFYING", "JUDGING", "PR_CREATING":
		parts = append(parts, workSentence(r, since))
		if !r.Leased {
			parts = append(parts, queueWords(r, now))
		}
	case "WAITING_FOR_APPROVAL":
		parts = append(parts, gateSentence(r, now))
	case "AWAITING_VERIFICATION":
		add("Waiting for an attestation for %s. The work itself is done.", since)
	case "PR_CREATED":
		add("The pull request is open; the run is being completed.")
	case "CANCELLING":
		asker := orSomebody(r.CancelBy)
		if r.Ladder != nil {
			asker = r.Ladder.asker()
		}
		add("Cancelling: asked by %s %s.", asker, ui.Ago(first(r.CancelAt, r.Since), now))
		if r.CancelAcked {
			add("The worker was told and is stopping.")
		} else {
			add("The worker is being told; it stops at the next safe point, at the latest when its lease ends.")
		}
	default:
		parts = append(parts, endSentence(r))
	}
	if r.SetAside != "" {
		parts = append(parts, r.SetAside)
	}
	return strings.Join(parts, " ")
}

func workerName(r RunView) string {
	if r.Worker != "" {
		return r.Worker
	}
	return "A worker"
}

func orSomebody(s string) string {
	if s == "" {
		return "somebody"
	}
	return s
}

func first(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}

func queueWords(r RunView, now time.Time) string {
	switch {
	case r.RetryAt.After(now):
		return "It is tried again " + ui.Ago(r.RetryAt, now) + ", not before " + ui.Clock(r.RetryAt) + "."
	case r.QueueReason != "":
		return r.QueueReason
	default:
		return "It waits for a free worker; nothing is needed from you."
	}
}

func workSentence(r RunView, since string) string {
	if !r.Leased {
		switch r.State {
		case "PATCH_READY", "VERIFYING", "JUDGING":
			return "The patch is stored and waits for verification, " + since + " so far."
		case "PR_CREATING":
			return "Approved; the pull request is about to be opened, " + since + " so far."
		case "PLANNING":
			return "The agent is asked to plan again, " + since + " so far."
		default:
			return "The agent is about to go on, " + since + " so far."
		}
	}
	w := workerName(r)
	switch r.State {
	case "CONTEXT_BUILDING":
		return w + " has been reading the repository for " + since + ". Nothing is edited yet."
	case "PLANNING":
		return "The agent has been planning on " + w + " for " + since + ". Nothing is edited yet."
	case "EXECUTING":
		s := "The agent has been changing code in a sandbox on " + w + " for " + since + "."
		if r.RepairRound > 0 {
			s += fmt.Sprintf(" This is repair round %d.", r.RepairRound)
		}
		return s + " Nothing leaves the sandbox before it is verified."
	case "PATCH_READY":
		return "The patch is stored; " + w + " prepares a fresh checkout to verify it."
	case "VERIFYING":
		return w + " has been verifying the patch on a fresh checkout for " + since + "."
	case "JUDGING":
		return "Verification is through; the result is being judged."
	default:
		return w + " has been pushing the branch and opening the pull request for " + since + "."
	}
}

func gateSentence(r RunView, now time.Time) string {
	if r.Gate == nil {
		return "Waiting for approval for " + ui.Rough(now.Sub(r.Since)) + ". No worker is held meanwhile."
	}
	g := *r.Gate
	what := gateNoun(g.Kind)
	if g.State == "expired" {
		return "The request to approve the " + what + " expired" + expiredAt(g) + ". Nothing was approved and nothing is lost; it can be asked again."
	}
	opened := first(g.OpenedAt, r.Since)
	s := fmt.Sprintf("Waiting for approval of the %s for %s", what, ui.Rough(now.Sub(opened)))
	if g.Need > 1 {
		s += fmt.Sprintf("; %d of %d given", g.Have, g.Need)
	}
	s += "."
	if r.MyTurn {
		s += " You can decide."
	}
	s += " No worker is held meanwhile."
	if !g.ExpiresAt.IsZero() {
		s += " It expires " + ui.Ago(g.ExpiresAt, now) + "."
	}
	return s
}

func gateNoun(kind string) string {
	switch kind {
	case "budget":
		return "raised limit"
	case "reconcile":
		return "way to publish"
	default:
		return kind
	}
}

func expiredAt(g GateRef) string {
	if g.ExpiresAt.IsZero() {
		return ""
	}
	return " at " + ui.Stamp(g.ExpiresAt)
}

func endSentence(r RunView) string {
	switch r.State {
	case "SUCCEEDED":
		if r.Pull != nil {
			return title(pullShort(*r.Pull)) + " is open. The run is complete."
		}
		return "The run is complete: " + modeWords(r.Mode) + "."
	case "FAILED":
		s := "Failed" + where(r.EndedFrom) + "."
		if r.Reason != "" {
			s += " " + sentence(r.Reason)
		}
		if r.Retryable {
			s += " A new run may go better."
		}
		return s
	case "CANCELLED":
		s := "Cancelled"
		if r.CancelBy != "" {
			s += " by " + r.CancelBy
		}
		if l := r.Ladder; l != nil && Cause(r.State, l.Cause, l.Code) == "Timed out" {
			s = "Timed out and cancelled"
		}
		s += where(r.EndedFrom) + "."
		if r.Reason != "" {
			s += " Reason: " + sentence(r.Reason)
		}
		s += " What was made until then is kept."
		if r.Pull != nil && r.Pull.State == "OPEN" {
			s += " " + title(pullShort(*r.Pull)) + " is still open; it can be closed on its page."
		}
		return s
	case "EXPIRED":
		s := "Expired" + where(r.EndedFrom) + "."
		if r.Reason != "" {
			s += " " + sentence(r.Reason)
		}
		if r.WaitedFor != "" {
			s += " Why it still waited then: " + sentence(r.WaitedFor)
		}
		return s + " What was stored is kept."
	default:
		return ui.RunStatus(r.State).Word + "."
	}
}

// sentence makes sure that a reason ends as a sentence does.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

func where(from string) string {
	switch from {
	case "":
		return ""
	case "CREATED", "QUEUED":
		return " while in the queue"
	case "LEASED", "PREPARING":
		return " while the sandbox was prepared"
	case "CONTEXT_BUILDING":
		return " while the repository was read"
	case "PLANNING":
		return " while planning"
	case "EXECUTING":
		return " while the agent worked"
	case "PATCH_READY", "VERIFYING":
		return " in verification"
	case "JUDGING":
		return " in judging"
	case "WAITING_FOR_APPROVAL":
		return " at the gate"
	case "PR_CREATING", "PR_CREATED":
		return " while publishing"
	case "AWAITING_VERIFICATION":
		return " waiting for the attestation"
	default:
		if strings.HasPrefix(from, "gate:") {
			return " at the gate"
		}
		return ""
	}
}
