package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/policy"
	"signalbox/web/ui"
)

// InboxPageData is the home page: whose turn it is.
type InboxPageData struct {
	Shell
	Group      string      // one of the groupings, or anything else for one list
	Mine       []InboxItem // this person may act
	Snoozed    []InboxItem // this person may act, and has put them off
	Others     []InboxItem // open, but waiting for somebody else
	MoreOthers bool        // there are more than Others holds
	Recent     []InboxDecided
	Bypasses   []BypassView // that this person may review
	Hints      []Hint
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
	Shape        string    // equal for patches that look alike; empty where there is none
	Turn         TurnView
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

// InboxLiveData is what came of My turn since its page was made.
type InboxLiveData struct {
	Now  time.Time
	New  int               // items that wait for this person and are not on the page
	Rows map[string]string // what became of the gate of each row; empty: it waits as before
}

// MovedOn says why a gate waits for its reader no more.
func MovedOn(state, by string, at time.Time) string {
	by = title(orSomebody(by))
	switch state {
	case "satisfied":
		return by + " approved this at " + ui.Clock(at) + "."
	case "changes_requested":
		return by + " requested changes at " + ui.Clock(at) + "."
	case "rejected":
		return by + " rejected this at " + ui.Clock(at) + "."
	case "cancelled":
		return "The run was cancelled at " + ui.Clock(at) + "; there is nothing to decide any more."
	case "expired":
		return "This request expired at " + ui.Clock(at) + "; it can be asked again."
	case "open":
		return "This does not wait for you any more."
	default:
		return "A newer revision takes its place."
	}
}

// newsID is where a row says what became of it.
func newsID(gateID string) string { return "news-" + gateID }

// inboxStream is the stream of a page with the rows that wait for its reader.
func inboxStream(d InboxPageData) string {
	var rows []string
	for _, it := range d.Mine {
		rows = append(rows, it.GateID)
	}
	return InboxStreamURL(rows)
}

func inboxTitle(d InboxPageData) string {
	if n := len(d.Mine); n > 0 {
		return fmt.Sprintf("(%d) My turn", n)
	}
	return "My turn"
}

// InboxGroup is a heading with its items; a single list has no heading.
type InboxGroup struct {
	Name  string
	Items []InboxItem
}

// inboxGroups puts the most urgent item first: by risk, then by what expires first, then by what waits longest. A group stands where
// its most urgent item would.
func inboxGroups(items []InboxItem, by string) []InboxGroup {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b InboxItem) int {
		return cmp.Or(policy.Risk(b.Risk).Rank()-policy.Risk(a.Risk).Rank(), a.ExpiresAt.Compare(b.ExpiresAt), a.WaitingSince.Compare(b.WaitingSince))
	})
	var groups []InboxGroup
	for _, it := range sorted {
		name := map[string]string{"repository": it.Repository, "risk": ui.RiskStatus(it.Risk).Word, "requester": it.Requester, "shape": shapeName(it)}[by]
		i := slices.IndexFunc(groups, func(g InboxGroup) bool { return g.Name == name })
		if i < 0 {
			groups, i = append(groups, InboxGroup{Name: name}), len(groups)
		}
		groups[i].Items = append(groups[i].Items, it)
	}
	return groups
}

// shapeName names what looks alike: the same lines changed in the same way, wherever they are.
func shapeName(it InboxItem) string {
	if it.Shape == "" {
		return "Not a patch"
	}
	return "Change " + ui.Head(it.Shape)
}

// groupings are the ways to group, as addresses.
func groupings(group string) []Option {
	all := []Option{{Value: "none", Label: "None"}, {Value: "repository", Label: "Repository"}, {Value: "risk", Label: "Risk"}, {Value: "requester", Label: "Requester"},
		{Value: "shape", Label: "Shape of the change"}}
	chosen := max(slices.IndexFunc(all, func(o Option) bool { return o.Value == group }), 0)
	all[chosen].Selected = true
	for i := range all {
		all[i].Value = InboxURL + "?group=" + all[i].Value
	}
	return all
}

// late reports whether three quarters of a gate's time have gone (A21).
func (it InboxItem) late(now time.Time) bool {
	return !it.ExpiresAt.IsZero() && now.Sub(it.WaitingSince)*4 >= it.ExpiresAt.Sub(it.WaitingSince)*3
}

// expiresWord is the name of the time that is left.
func (it InboxItem) expiresWord(now time.Time) string {
	if now.Before(it.ExpiresAt) {
		return "Expires"
	}
	return "Expired"
}

func mineMore(d InboxPageData) string {
	if d.MyTurn <= len(d.Mine) {
		return ""
	}
	return fmt.Sprintf("%d of %d are shown: those that expire first.", len(d.Mine), d.MyTurn)
}

func inboxQuiet(d InboxPageData) string {
	var parts []string
	if n := len(d.Others); n > 0 {
		words := ui.Count(n, "item waits", "items wait")
		if d.MoreOthers {
			words = fmt.Sprintf("More than %d items wait", n)
		}
		parts = append(parts, words+" for others.")
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
