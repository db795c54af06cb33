package web

import (
	"strconv"
	"time"

	"github.com/a-h/templ"

	"signalbox/web/ui"
)

// MaxSteps is how many steps of a plan take a comment.
const MaxSteps = 100

// Draft is a text that a person had not sent yet, as a form shows it again.
type Draft struct {
	Key    string // names the form; empty: nothing is kept for it
	Person string // whose browser may hold a copy of it
	Text   string
	At     time.Time // when it was kept; zero: nothing is
}

// Unsent is a text of a form that was not taken, shown so that it can be copied.
type Unsent struct{ Name, Label, Text string }

// Texts are the fields of forms that hold a text of a person's own, with their labels.
func Texts() []Option {
	return []Option{{Value: "text", Label: "Your text"}, {Value: "goal", Label: "What should change"}, {Value: "reason", Label: "Your reason"}}
}

// GateDraft is the key of a gate's text.
func GateDraft(gate string) string { return "gate:" + gate }

// StepDraft is the key of a comment on a step of a gate's plan, counted from 1.
func StepDraft(gate string, revision, step int) string {
	return GateDraft(gate) + ":" + strconv.Itoa(revision) + ":" + strconv.Itoa(step)
}

// CommentField is the name of the field for a comment on a step of a plan, counted from 1.
func CommentField(step int) string { return "comment-" + strconv.Itoa(step) }

// decisionFormID is what fields outside the decision form belong to.
const decisionFormID = "decision"

// commentable says that the steps of the plan beside a panel take comments.
func commentable(d GatePanelData) bool { return d.Kind == "plan" && decidable(d) }

// LinesCommentable says that the lines of the patch beside a panel take comments.
func LinesCommentable(d GatePanelData) bool { return d.Kind == "patch" && decidable(d) }

func stepDraft(d GatePanelData, step int) Draft {
	if d.Draft.Key == "" {
		return Draft{}
	}
	kept := d.Draft
	kept.Key = StepDraft(d.GateID, d.Revision, step)
	return kept
}

// NewTaskDraft is the key of the goal of a new task, filled from an earlier one or, where that is empty, from nothing.
func NewTaskDraft(from string) string {
	if from == "" {
		from = "new"
	}
	return "task:" + from
}

// DraftURL takes the POST that keeps a text.
func DraftURL(key string) string { return sub("/drafts", key) }

// DraftDiscardURL takes the POST that forgets a text.
func DraftDiscardURL(key string) string { return sub("/drafts", key, "discard") }

// kept makes a text area one whose text is kept; without a script nothing keeps it.
func kept(d Draft) templ.Attributes {
	if d.Key == "" {
		return nil
	}
	a := templ.Attributes{"data-draft": d.Key, "data-person": d.Person}
	if !d.At.IsZero() {
		a["data-kept"] = strconv.FormatInt(d.At.UnixMilli(), 10)
	}
	return a
}

// keptWords says since when a text is kept: the time alone on the same day.
func keptWords(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	words := ui.Stamp(at)
	if at.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		words = at.UTC().Format("15:04") + " UTC"
	}
	return "Your text of " + words + " was kept."
}
