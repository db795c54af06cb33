package handlers

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/web"
)

// confirmAsk is how fresh a login the provider is asked for: less than policy.ConfirmAge, so that time is left to decide.
const confirmAsk = policy.ConfirmAge * 2 / 3

// getLoginConfirm sends a person who is signed in to their provider, to prove again who they are, and back to where they were
// (A24). Nothing that they were about to do is done on the way.
func (s *server) getLoginConfirm(w http.ResponseWriter, r *http.Request) error {
	to := returnPath(r.URL.Query().Get("return_to"))
	current, ok, err := s.current(r)
	if err != nil {
		return err
	}
	if !ok {
		return see(w, r, web.LoginURL+"?why=ended&return_to="+url.QueryEscape(to))
	}
	row, err := s.store.Provider(r.Context(), current.Provider)
	if err != nil {
		return err
	}
	p, err := s.providers.get(r.Context(), row)
	if err != nil {
		return s.loginFailed(w, r, to, err)
	}
	attempt := db.LoginAttempt{Provider: row.ID, ReturnTo: afterConfirm(to), Confirms: current.User}
	return s.beginLogin(w, r, p, attempt, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(confirmAsk.Seconds()))))
}

// afterConfirm is the page to come back to, with the word that it was they.
func afterConfirm(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return web.HomeURL
	}
	q := u.Query()
	q.Set("done", "confirmed")
	u.RawQuery = q.Encode()
	return u.RequestURI()
}

// confirmed holds that who came back is who was sent, and that the provider asked them. A provider that does not say when it
// asked them may not have asked at all.
func (s *server) confirmed(r *http.Request, attempt db.LoginAttempt, p *provider, claims identity) error {
	if attempt.Confirms == uuid.Nil {
		return nil
	}
	current, ok, err := s.current(r)
	if err != nil {
		return err
	}
	const stays = " You are still signed in as before."
	switch {
	case !ok:
		return refuse("the login that was to be confirmed has ended meanwhile", nil)
	case current.User != attempt.Confirms || current.Provider != p.row.ID || current.Subject != claims.subject:
		return fault.New(fault.Unauthenticated, "Nothing was confirmed: at the provider this was another person. Sign in there as yourself."+stays).WithCode("login_refused")
	case claims.authTime.IsZero() || time.Since(claims.authTime) > policy.ConfirmAge:
		return fault.New(fault.Unauthenticated, "Nothing was confirmed: the provider did not ask you again, or does not say when it did (auth_time). Sign out and in again there, or ask an administrator."+stays).WithCode("login_refused")
	}
	return nil
}

// toConfirm keeps what was written and says how to go on.
func (s *server) toConfirm(r *http.Request, gate string, values url.Values, o *web.Outcome) error {
	o.Kind = web.OutcomeConfirm
	o.Links = []web.Link{{Text: "Confirm it is you", Href: web.LoginConfirmURL(web.GateURL(gate))}}
	return s.keepTexts(r, gate, values)
}
