package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/a-h/templ"

	"signalbox/web/ui"
)

// invalid marks a refused field for assistive technology and ties it to its message.
func invalid(errs map[string]string, field string) templ.Attributes {
	if errs[field] == "" {
		return templ.Attributes{}
	}
	return templ.Attributes{"aria-invalid": "true", "aria-describedby": "e-" + field}
}

// described is invalid for a field that has a hint as well.
func described(errs map[string]string, field, hint string) templ.Attributes {
	a := invalid(errs, field)
	if errs[field] != "" {
		a["aria-describedby"] = hint + " e-" + field
	} else {
		a["aria-describedby"] = hint
	}
	return a
}

func newTaskFields() []Option {
	return []Option{
		{Value: "repository", Label: "Repository"}, {Value: "goal", Label: "What should change"}, {Value: "mode", Label: "It is complete when"},
		{Value: "risk", Label: "Least risk"}, {Value: "base_ref", Label: "Start from"}, {Value: "title", Label: "Title"}, {Value: "scope", Label: "Only these paths"}, {Value: "exclude", Label: "Never these paths"},
	}
}

// CompletionModes are the choices of the new-task form, the usual one first.
func CompletionModes(selected string) []Option {
	list := []Option{{Value: "pr_created"}, {Value: "pr_merged"}, {Value: "patch_ready_for_review"}, {Value: "analysis_report_created"}}
	for i := range list {
		list[i].Label = title(modeWords(list[i].Value))
		list[i].Selected = list[i].Value == selected
	}
	return list
}

func modeWords(mode string) string {
	switch mode {
	case "pr_created":
		return "a pull request is open"
	case "pr_merged":
		return "its pull request is merged"
	case "patch_ready_for_review":
		return "an approved patch is ready to download"
	case "analysis_report_created":
		return "a report is written; no code changes"
	default:
		return mode
	}
}

func yesNo(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// shortID keeps an id recognisable in a table: the prefix and the last eight characters.
func shortID(id string) string {
	prefix, rest, ok := strings.Cut(id, "_")
	if !ok || len(rest) <= 8 {
		return id
	}
	return prefix + "_…" + rest[len(rest)-8:]
}

func attemptWords(n, most int) string {
	if n == 0 {
		return "—"
	}
	if most > 0 {
		return fmt.Sprintf("%d of %d", n, most)
	}
	return fmt.Sprint(n)
}

// runRowStatus separates "a worker has it" from "waiting for a worker", which the state alone does not say.
func runRowStatus(r RunRow) ui.Status {
	s := ui.RunStatus(r.State)
	switch {
	case r.State == "WAITING_FOR_APPROVAL" && r.GateKind != "":
		s.Word = title(kindWord(r.GateKind)) + " waits for approval"
	case needsWorker(r.State) && !r.Leased:
		return ui.Of(s.Word+", waiting for a worker", ui.ToneQueued)
	}
	return s
}

// needsWorker lists the states that are worked on under a lease and can for a moment have none.
func needsWorker(state string) bool {
	switch state {
	case "CONTEXT_BUILDING", "PLANNING", "EXECUTING", "PATCH_READY", "VERIFYING", "JUDGING", "PR_CREATING":
		return true
	}
	return false
}

func terminal(state string) bool {
	switch state {
	case "SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED":
		return true
	}
	return false
}

func taskSentence(t TaskView, now time.Time) string {
	age := ui.Rough(now.Sub(t.Since))
	var s string
	switch t.State {
	case "DRAFT":
		s = "A draft since " + ui.Stamp(t.Since) + ". Nothing runs until it is submitted."
	case "SUBMITTED", "VALIDATING":
		s = "Submitted " + age + " ago; policy is checking it."
	case "READY":
		s = "Ready for " + age + ". No run is active."
	case "REJECTED":
		s = "Policy refused this task. Nothing was executed."
	case "RUNNING":
		s = "Running for " + age + "."
	case "WAITING_FOR_APPROVAL":
		s = "Waiting for a person for " + age + ". No worker is held meanwhile."
	case "COMPLETED":
		s = "Completed " + ui.Ago(t.Since, now) + ": " + modeWords(t.Mode) + "."
	case "FAILED":
		s = "Failed " + ui.Ago(t.Since, now) + "."
	case "CANCELLED":
		s = "Cancelled " + ui.Ago(t.Since, now) + ". What was made until then is kept."
	}
	if t.Reason != "" {
		s = strings.TrimSpace(s + " " + t.Reason)
	}
	return s
}

func actorIcon(actor string) ui.Icon {
	switch actor {
	case "human", "attestor":
		return ui.IconPerson
	case "agent_runtime", "agent":
		return ui.IconAgent
	case "worker", "verifier", "judge":
		return ui.IconMachine
	case "policy":
		return ui.IconPolicy
	case "git_integration":
		return ui.IconBranch
	default:
		return ui.IconClock
	}
}

func actorSide(actor string) string {
	if actor == "human" || actor == "attestor" {
		return "person"
	}
	return "machine"
}

// actorName says who acted: a name where there is one, else the role in words.
func actorName(kind, name string) string {
	if name != "" {
		return name
	}
	switch kind {
	case "human":
		return "a person"
	case "agent_runtime":
		return "agent"
	case "control_plane":
		return "control plane"
	case "git_integration":
		return "publisher"
	default:
		return strings.ReplaceAll(kind, "_", " ")
	}
}

// pullShort names a pull request within a sentence.
func pullShort(p PullRef) string {
	if p.Number > 0 {
		return fmt.Sprintf("pull request %d", p.Number)
	}
	return "the pull request"
}

func pullName(p PullRef) string {
	switch {
	case p.Number > 0 && p.Title != "":
		return fmt.Sprintf("Pull request %d: %s", p.Number, p.Title)
	case p.Number > 0:
		return fmt.Sprintf("Pull request %d", p.Number)
	case p.Title != "":
		return p.Title
	default:
		return "Pull request"
	}
}

// pullHref accepts paths of this server and plain web addresses, nothing else.
func pullHref(p PullRef) string {
	if strings.HasPrefix(p.Href, "/") && !strings.HasPrefix(p.Href, "//") && !strings.HasPrefix(p.Href, "/\\") {
		return p.Href
	}
	return ExternalURL(p.Href)
}

func relFor(href string) string {
	if strings.HasPrefix(href, "/") {
		return "related"
	}
	return "external nofollow noopener noreferrer"
}

// counted is ui.Count for numbers that may be long: "1,180 events".
func counted(n int, one, many string) string {
	if n < 1000 {
		return ui.Count(n, one, many)
	}
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " " + many
}
