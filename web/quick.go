package web

import (
	"fmt"
	"strings"

	"github.com/a-h/templ"

	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/web/ui"
)

// QuickField is the name of the field by which a form says that it stood in a list, below all of the content. The server
// looks for itself whether that can be so.
const QuickField = "quick"

// QuickPageData is the page of one gate to read and approve, for a browser without a script.
type QuickPageData struct {
	Shell
	Quick QuickData
}

// QuickData is all of a gate's plan or patch with Approve at its end, or why it is not offered.
type QuickData struct {
	Panel  GatePanelData
	Why    []string // it is approved on its own page only; then nothing of the content is shown
	Plan   *PlanView
	Files  []DiffFile
	Checks string // what verification and judge say, in a sentence
	Unsent bool   // the person wrote something on the gate's page that this form does not send
	InRow  bool   // of My turn, where it takes the focus
}

// QuickPlan is what is known of a plan that is shown as this view; whole says that the view leaves out nothing of it.
func QuickPlan(v PlanView, whole bool) policy.QuickContent {
	c := policy.QuickContent{Whole: whole}
	if !whole {
		c.Missing = "The plan says more than can be shown in a list."
	}
	texts := append([]string{v.Summary, v.Raw}, append(v.Assumptions, v.OutOfScope...)...)
	for _, s := range v.Steps {
		texts = append(append(append(append(texts, s.Title, s.Text), s.Files...), s.Commands...), s.Effects...)
	}
	for _, text := range texts {
		c.Hidden = c.Hidden || concealed(text)
	}
	return c
}

// QuickPatch is what is known of a patch that is shown as this diff.
func QuickPatch(d patch.Diff) policy.QuickContent {
	c := policy.QuickContent{Whole: true, Hidden: len(d.Hidden) > 0}
	missing := map[string]bool{}
	for _, o := range d.Omitted {
		missing[o.Path] = true
	}
	for _, f := range d.Files {
		c.Hidden = c.Hidden || concealed(f.File.Path()+f.File.OldPath)
		for _, h := range f.Hunks {
			if h.SectionOdd {
				missing[f.File.Path()] = true
			}
			c.Hidden = c.Hidden || concealed(h.Section)
			for _, l := range h.Lines {
				c.Hidden = c.Hidden || concealed(l.Text)
			}
		}
	}
	if n := len(missing); n > 0 {
		c.Whole, c.Missing = false, ui.Count(n, "file is", "files are")+" too large or no text, so not all of the patch can be shown in a list."
	}
	return c
}

// concealed reports whether a text of several lines holds characters that nobody sees as they are.
func concealed(text string) bool {
	_, revealed := patch.Reveal(strings.ReplaceAll(text, "\r\n", "\n"))
	return revealed || strings.ContainsFunc(text, hidden)
}

// quick reports whether a row offers to read and approve right there. What the content says is looked at when it is opened.
func (it InboxItem) quick() bool {
	return len(policy.Quick(policy.GateKind(it.Kind), policy.Risk(it.Risk), policy.QuickContent{Whole: true})) == 0
}

// ChecksSentence says what verification and judge found; empty where neither is stored.
func ChecksSentence(e Evidence) string {
	var parts []string
	passed := 0
	for _, c := range e.Commands {
		if c.Passed {
			passed++
		}
	}
	if n := len(e.Commands); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s passed on a fresh checkout.", passed, ui.Count(n, "command", "commands")))
	}
	if e.Verdict != "" {
		parts = append(parts, "The judge's verdict: "+verdictWords(e.Verdict)+".")
	}
	return strings.Join(parts, " ")
}

func quickID(gate string) string { return "quick-" + gate }

func (d QuickData) done() bool { return d.Panel.Outcome != nil && !keepsText(d.Panel.Outcome.Kind) }

// saidWhy reports whether the outcome says already why it is not approved here.
func (d QuickData) saidWhy() bool {
	return d.Panel.Outcome != nil && d.Panel.Outcome.Kind == OutcomeNotQuick
}

func quickSummary(d QuickData) string {
	switch {
	case d.done():
		return "Decided here"
	case len(d.Why) > 0 || !decidable(d.Panel):
		return "It cannot be approved here"
	}
	return "All of the " + kindWord(d.Panel.Kind) + ", with Approve at its end"
}

// quickFocus moves the focus to what a row was opened to, and says it; an outcome does that itself.
func quickFocus(d QuickData) templ.Attributes {
	if !d.InRow || d.Panel.Outcome != nil {
		return nil
	}
	return templ.Attributes{"data-focus": quickID(d.Panel.GateID) + "-title", "data-announce": quickSummary(d) + "."}
}
