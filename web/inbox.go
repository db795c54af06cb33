package web

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox/web/ui"
)

// InboxPageData is the home page: whose turn it is.
type InboxPageData struct {
	Shell
	Mine   []InboxItem // this person may act
	Others []InboxItem // open, but waiting for somebody else
	Recent []InboxDecided
}

// InboxItem is one open gate.
type InboxItem struct {
	GateID       string
	Kind         string // plan, patch, report, budget, reconcile
	State        string // gate state
	Revision     int
	TaskID       string
	Title        string // one line of the goal
	Repository   string
	RunID        string
	Requester    string
	Risk         string // LOW, MEDIUM, HIGH, CRITICAL or empty
	RiskReason   string
	Files        int
	Added        int
	Removed      int
	QuorumHave   int
	QuorumNeed   int
	Why          string // why me, or for Others: who is awaited
	WaitingSince time.Time
	ExpiresAt    time.Time // zero: does not expire
}

// InboxDecided is a gate that was decided lately.
type InboxDecided struct {
	GateID     string
	Kind       string
	State      string
	Title      string
	Repository string
	By         string
	At         time.Time
}

func inboxTitle(d InboxPageData) string {
	if n := len(d.Mine); n > 0 {
		return fmt.Sprintf("(%d) My turn", n)
	}
	return "My turn"
}

func inboxQuiet(d InboxPageData) string {
	var parts []string
	if n := len(d.Others); n > 0 {
		parts = append(parts, fmt.Sprintf("%s for others.", ui.Count(n, "item waits", "items wait")))
	}
	if len(d.Recent) > 0 {
		parts = append(parts, "The last decision was "+ui.Ago(d.Recent[0].At, d.Now)+".")
	}
	if len(parts) == 0 {
		return "When a plan or a patch needs a decision that you may make, it appears here."
	}
	return strings.Join(parts, " ")
}

func kindWord(kind string) string {
	switch kind {
	case "plan", "patch", "report", "budget":
		return kind
	case "reconcile":
		return "publishing"
	default:
		return kind
	}
}

func gateBadge(it InboxItem) ui.Status {
	s := ui.GateStatus(it.State)
	if it.State == "open" {
		s.Word = title(kindWord(it.Kind)) + " to decide"
	}
	return s
}

// title raises the first letter.
func title(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[size:]
}
