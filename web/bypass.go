package web

import (
	"time"

	"signalbox/web/ui"
)

// BypassPageData is the page on which a gate is bypassed in an emergency, or a bypass is reviewed.
type BypassPageData struct {
	Shell
	GateID, Kind, Title, Repository, RunID, Digest string
	Revision                                       int
	Open                                           bool
	// WhyNot says why this person cannot bypass; ConfirmURL sends them to prove who they are first.
	WhyNot, ConfirmURL string
	MinReason          int
	// Typed are the fields of the form by name; Kept says that they wait for the person to come back from their provider.
	Typed          map[string]string
	Kept           bool
	Refused        string
	Errors         map[string]string
	IdempotencyKey string
	Done           *BypassView
}

// BypassView is a bypass with its review.
type BypassView struct {
	GateID, Kind, By, Reason, Ticket, Title, Repository, RunID string
	At, Due, Reviewed                                          time.Time
	Reviewer, Note                                             string
	MayReview                                                  bool
}

// Words is the sentence that stays with a run and its pull request for good.
func (b BypassView) Words() string {
	return "The " + kindWord(b.Kind) + " gate was bypassed by " + b.By + ": “" + b.Reason + "” (" + b.Ticket + ")."
}

func (b BypassView) tone(now time.Time) ui.Tone {
	switch {
	case !b.Reviewed.IsZero():
		return ui.ToneNeutral
	case b.Due.Before(now):
		return ui.ToneFailed
	}
	return ui.ToneWaiting
}

// BypassDraft is the key under which what somebody typed waits while they prove who they are; each field is a part of it.
func BypassDraft(gate string) string { return "bypass:" + gate }

// BypassURL is the page of a gate's bypass; it takes the POST that bypasses, and below it the one that reviews.
func BypassURL(gate string, rest ...string) string {
	return sub("/gates", gate, append([]string{"bypass"}, rest...)...)
}
