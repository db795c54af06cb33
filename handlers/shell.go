package handlers

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/internal/policy"
	"signalbox/web"
	"signalbox/web/ui"
)

// Preferences of a browser, each in a cookie of its own.
const (
	themeCookie = "theme"
	keysCookie  = "keys"
	timesCookie = "times"
)

// shell is what every page shows around its content. It never fails: a page that tells of a failure needs it too.
func (s *server) shell(r *http.Request) web.Shell {
	p := who(r)
	shell := web.Shell{Now: time.Now().UTC(), Path: r.URL.RequestURI(), DevMode: len(s.devPeople) > 0}
	if r.Method != http.MethodGet {
		shell.Path = web.InboxURL
	}
	if c, err := r.Cookie(themeCookie); err == nil && slices.Contains(themes(), c.Value) {
		shell.Theme = c.Value
	}
	if c, err := r.Cookie(keysCookie); err == nil {
		shell.KeysOff = c.Value == "off"
	}
	if c, err := r.Cookie(timesCookie); err == nil {
		shell.LocalTimes = c.Value == "local"
	}
	shell.Flash = flash(r)
	if p.kind == nobody {
		return shell
	}
	shell.User = &web.User{Name: p.name, Email: p.email}
	if shell.Admin = p.has(policy.RoleAdmin); shell.Admin {
		shell.AuditFault = s.auditFault(p.tenant)
	}
	for _, role := range p.roles {
		shell.User.Roles = append(shell.User.Roles, string(role))
	}
	if !p.expires.IsZero() {
		shell.SessionsNote = "This login ends at " + p.expires.UTC().Format("15:04 MST") + "."
	}
	n, err := s.store.MyTurn(r.Context(), p.tenant, p.user, p.roles)
	if err != nil {
		s.log.WarnContext(r.Context(), "inbox not counted", "request_id", requestID(r), "error", err.Error())
	}
	shell.MyTurn = int(n)
	return shell
}

func themes() []string { return []string{"system", "light", "dark"} }

// done are the results that a page may show after a redirect; the address carries only their name.
func flash(r *http.Request) *web.Flash {
	switch name := r.URL.Query().Get("done"); name {
	case "satisfied", "changes_requested", "rejected", "extra", "blocked", "recorded":
		notes, err := strconv.Atoi(r.URL.Query().Get("notes"))
		if err != nil || notes < 0 || notes > web.MaxLineNotes+1 {
			notes = 0
		}
		return web.Done(decidedTitle(name, notes))
	case "task-submitted":
		return web.Done("The task was submitted.")
	case "task-cancelled":
		return web.Done("The cancellation was recorded.")
	case "task-closed":
		return web.Done("The task was closed.")
	case "run-started":
		return web.Done("A new run was started.")
	case "cancel-asked":
		return web.Done("The cancellation was recorded.")
	case "cancel-asked-before":
		return web.Noted("The run was being cancelled already; your request is recorded beside the first one.")
	case "force-stopped":
		return web.Done("The run was stopped by force. Its worker was not waited for.")
	case "draft-discarded":
		return web.Done("The text was discarded.")
	case "notes-kept":
		return web.Done("What you wrote is kept. Nothing is decided yet.")
	case "snoozed":
		return web.Done("It is put off, and listed under Snoozed.")
	case "back":
		return web.Done("It is back in your list.")
	case "claimed":
		return web.Done("Others see for 30 minutes that you are on it.")
	case "released":
		return web.Done("You are not on it any more.")
	case "passed":
		return web.Done("The turn was passed on.")
	case "asked-again":
		return web.Done("The request is open again.")
	case "withdrawn":
		return web.Done("The approval was withdrawn before any worker acted on it.")
	case "merged":
		return web.Done("The pull request was merged.")
	case "pull-closed":
		return web.Done("The pull request is closed. Nothing was merged.")
	case "cancel-pull-kept":
		return &web.Flash{Tone: ui.ToneWaiting, Title: "The cancellation was recorded. The pull request or its branch was kept: look at it."}
	case "repository-added":
		return web.Done("The repository was registered.")
	case "admin-appointed":
		return web.Done("You are an administrator of this installation now.")
	case "admin-dismissed":
		return web.Done("The role that the link gave was taken back.")
	case "bypassed":
		return &web.Flash{Tone: ui.ToneWaiting, Title: "The gate was bypassed. Somebody else reviews it within 24 hours."}
	case "bypass-reviewed":
		return web.Done("The review is closed.")
	case "repository-checked":
		return web.Done("The repository was checked. What was found stands beside it.")
	case "queue-paused":
		return web.Done("The queue is paused. What runs goes on.")
	case "queue-resumed":
		return web.Done("The queue gives out work again.")
	case "provider-resumed":
		return web.Done("The provider's work is given out again.")
	case "policy-stored":
		return web.Done("The version is in force.")
	case "policy-proposed":
		return web.Done("The change waits for a second administrator. Nothing has changed yet.")
	case "policy-withdrawn":
		return web.Done("The change was withdrawn. Nothing has changed.")
	case "worker-drained":
		return web.Done("The worker is asked to finish and end; it hears of it with its next heartbeat.")
	case "view-saved":
		return web.Done("The view was saved.")
	case "view-deleted":
		return web.Done("The view was deleted.")
	case "run-resumed":
		return web.Done("The run goes on from its last durable state.")
	case "run-not-resumed":
		return web.Noted("Nothing had to be done: the run goes on by itself, or waits as its page says.")
	case "enrolment-withdrawn":
		return web.Done("The enrolment token makes no worker any more.")
	case "credential-revoked":
		return web.Done("The credential no longer works.")
	case "confirmed":
		if strings.HasSuffix(r.URL.Path, "/bypass") {
			return web.Done("It is you. Nothing is bypassed yet; what you typed is kept.")
		}
		return web.Done("It is you. Press Approve again; your note is kept.")
	case "session-ended":
		return web.Done("That login has ended.")
	case "sessions-ended":
		return web.Done("All other logins have ended.")
	case "person-ended":
		return web.Done("Nobody is signed in as that person here now, until they sign in again.")
	case "token-revoked":
		return web.Done("The token no longer works.")
	}
	return nil
}

// postPreferences keeps what was chosen in a cookie, the theme, the zone of times or whether keys work alone, and returns to the page.
func (s *server) postPreferences(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	for name, known := range map[string][]string{themeCookie: themes(), keysCookie: {"on", "off"}, timesCookie: {"utc", "local"}} {
		if !values.Has(name) {
			continue
		}
		value := values.Get(name)
		if !slices.Contains(known, value) {
			value = known[0]
		}
		http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode})
	}
	return see(w, r, returnPath(values.Get("return_to")))
}

// getHome leads to the inbox.
func (s *server) getHome(w http.ResponseWriter, r *http.Request) error {
	return see(w, r, web.InboxURL)
}

// mayDecide reports whether a person holds the role that a gate asks for.
func (p *principal) mayDecide(role policy.Role) bool { return p.kind == person && p.has(role) }
