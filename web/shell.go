package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"signalbox/internal/policy"
	"signalbox/web/ui"
)

// Shell is what every page shows around its content. The handler fills it once per request.
type Shell struct {
	Now          time.Time // the server's clock; all ages on the page are counted from it
	User         *User     // nil: nobody is signed in, the navigation is not shown
	MyTurn       int       // items waiting for this person, shown beside "My turn"
	Path         string    // path and query of this page, for return_to of small forms
	Theme        string    // "" or "system", "light", "dark"
	KeysOff      bool      // single keys do nothing (WCAG 2.1.4)
	DevMode      bool      // signalbox dev: a banner says that data and people are samples
	Unsafe       string    // non-empty: a sentence about missing isolation, shown on every page
	AuditFault   string    // non-empty: what is wrong with the audit log, for administrators
	Flash        *Flash    // result of the action that led here
	Admin        bool      // leads to the pages of an administrator
	LocalTimes   bool      // instants are shown in the reader's zone, which only the browser knows; otherwise in UTC
	SessionsNote string    // optional sentence under the user menu, such as when the login ends
}

// User is who is signed in.
type User struct {
	Name  string
	Email string
	Roles []string
}

// mayAsk reports whether this person may submit tasks; a button that only leads to a refusal is not shown.
func (s Shell) mayAsk() bool {
	return s.User != nil && (slices.Contains(s.User.Roles, string(policy.RoleRequester)) || slices.Contains(s.User.Roles, string(policy.RoleAdmin)))
}

// isAdmin reports whether this person administers the tenant.
func (s Shell) isAdmin() bool {
	return s.User != nil && slices.Contains(s.User.Roles, string(policy.RoleAdmin))
}

// shortCount keeps the navigation in one line on a phone.
func shortCount(n int) string {
	if n > 99 {
		return "99+"
	}
	return strconv.Itoa(n)
}

// Flash is the persistent trace of an action: shown as a box at the top, announced once.
type Flash struct {
	Tone  ui.Tone
	Title string
	Text  string // optional
	Link  *Link  // optional way on
}

// Link is a labelled address of this server, or an external one (shown with its host).
type Link struct {
	Text string
	Href string
}

// Option is one entry of a select.
type Option struct {
	Value    string
	Label    string
	Selected bool
}

func themeOf(s Shell) string {
	switch s.Theme {
	case "light", "dark":
		return s.Theme
	default:
		return "system"
	}
}

func themes() []Option {
	return []Option{{Value: "system", Label: "System"}, {Value: "light", Label: "Light"}, {Value: "dark", Label: "Dark"}}
}

func loginURL(returnTo string) string {
	if returnTo == "" {
		return LoginURL
	}
	return LoginURL + "?return_to=" + url.QueryEscape(returnTo)
}

// sentenceList joins words as a sentence does: "a", "a and b", "a, b and c".
func sentenceList(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
	}
}

// current marks the link to where the reader is. The attribute needs its value: an empty one says that this is not the page.
func current(here bool) templ.Attributes {
	if !here {
		return nil
	}
	return templ.Attributes{"aria-current": "page"}
}
