package handlers

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
	"signalbox/web"
)

const (
	// loginLifetime is how long a login may take from the first redirect to the callback.
	loginLifetime = 10 * time.Minute
	// maxLogins is how many logins one browser may have under way, one per tab.
	maxLogins = 5
)

// loginCookie binds one attempt to one browser: its name carries the attempt, its value is known to nobody else.
func (s *server) loginCookie(state string) string {
	name := "login-" + state[:12]
	if s.secure() {
		return "__Host-" + name
	}
	return name
}

func (s *server) setLoginCookie(w http.ResponseWriter, name, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(age.Seconds()),
	})
}

// getLogin is the page that offers the providers.
func (s *server) getLogin(w http.ResponseWriter, r *http.Request) error {
	to := returnPath(r.URL.Query().Get("return_to"))
	if who(r).kind == person {
		return see(w, r, to)
	}
	return s.loginPage(w, r, http.StatusOK, to, happened(r.URL.Query().Get("why")), "")
}

// happened turns the reason in the address into a sentence; the address itself is never shown.
func happened(why string) string {
	switch why {
	case "ended":
		return "Your login has ended, so nothing was sent. Sign in to go on where you were."
	case "signed-out":
		return "You are signed out."
	}
	return ""
}

func (s *server) loginPage(w http.ResponseWriter, r *http.Request, code int, to, happened, failed string) error {
	providers, err := s.store.Providers(r.Context())
	if err != nil {
		return err
	}
	data := web.LoginPageData{Shell: s.shell(r), Happened: happened, Failed: failed, ReturnTo: to, DevPeople: s.devPeople}
	if failed != "" {
		data.RequestID = requestID(r)
	}
	for _, p := range providers {
		data.Providers = append(data.Providers, web.LoginProvider{ID: typeid.Format(typeid.Provider, p.ID), Name: p.Name})
	}
	return s.render(w, r, code, web.LoginPage(data))
}

// getLoginProvider begins an attempt: fresh state, nonce and PKCE verifier, kept here and single-use (O1, O2, O3).
func (s *server) getLoginProvider(w http.ResponseWriter, r *http.Request) error {
	to := returnPath(r.URL.Query().Get("return_to"))
	if who(r).kind == person {
		return see(w, r, to)
	}
	id, err := pathID(r, "provider", typeid.Provider)
	if err != nil {
		return err
	}
	row, err := s.store.Provider(r.Context(), id)
	if err != nil {
		return err
	}
	p, err := s.providers.get(r.Context(), row)
	if err != nil {
		return s.loginFailed(w, r, to, err)
	}
	return s.beginLogin(w, r, p, db.LoginAttempt{Provider: id, ReturnTo: to})
}

// beginLogin sends the browser to the provider with an attempt of its own.
func (s *server) beginLogin(w http.ResponseWriter, r *http.Request, p *provider, attempt db.LoginAttempt, more ...oauth2.AuthCodeOption) error {
	state, nonce, browser, verifier := db.NewSecret(), db.NewSecret(), db.NewSecret(), oauth2.GenerateVerifier()
	attempt.Nonce, attempt.Verifier = nonce, verifier
	if err := s.store.BeginLogin(r.Context(), state, browser, attempt, loginLifetime); err != nil {
		return err
	}
	s.dropLogins(w, r, maxLogins-1)
	s.setLoginCookie(w, s.loginCookie(state), browser, loginLifetime)
	options := append(more, oauth2.SetAuthURLParam("nonce", nonce), oauth2.S256ChallengeOption(verifier))
	http.Redirect(w, r, p.config(s.callbackURL(p.row)).AuthCodeURL(state, options...), http.StatusFound)
	return nil
}

// dropLogins forgets attempts beyond keep, so that cookies do not pile up.
func (s *server) dropLogins(w http.ResponseWriter, r *http.Request, keep int) {
	var names []string
	for _, c := range r.Cookies() {
		if strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), "login-") && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	for _, name := range names[:max(len(names)-keep, 0)] {
		s.setLoginCookie(w, name, "", -time.Second)
	}
}

func (s *server) callbackURL(p db.Provider) string {
	return s.publicURL.String() + "/auth/oidc/" + typeid.Format(typeid.Provider, p.ID) + "/callback"
}

// getLoginCallback ends an attempt. Every check that fails leaves no session.
func (s *server) getLoginCallback(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	id, err := pathID(r, "provider", typeid.Provider)
	if err != nil {
		return err
	}
	state := q.Get("state")
	if len(state) != sessionNameLen || len(q["state"]) != 1 || len(q["code"]) > 1 {
		return errAttempt
	}
	name := s.loginCookie(state)
	c, err := r.Cookie(name)
	if err != nil {
		return errAttempt
	}
	s.setLoginCookie(w, name, "", -time.Second)
	attempt, err := s.store.TakeLogin(r.Context(), state, c.Value)
	if fault.KindOf(err) == fault.NotFound {
		return errAttempt
	}
	if err != nil {
		return err
	}
	// The provider is fixed by the attempt, not by the address (O4).
	if attempt.Provider != id {
		return errAttempt
	}
	row, err := s.store.Provider(r.Context(), attempt.Provider)
	if err != nil {
		return err
	}
	// A program between us and the provider may show this answer again, and it names a code.
	w.Header().Set("Cache-Control", "no-store")
	if reason := q.Get("error"); reason != "" {
		return s.loginFailed(w, r, attempt.ReturnTo, refuse(refusedWords(reason), fmt.Errorf("the provider answered %.100q", reason)))
	}
	session, err := s.finishLogin(r, row, attempt, q)
	if err != nil {
		return s.loginFailed(w, r, attempt.ReturnTo, err)
	}
	return s.startSession(w, r, session, attempt.ReturnTo)
}

var errAttempt = fault.New(fault.Malformed, "Nobody was signed in: this login was not started in this browser, was used before, or took longer than ten minutes. Start again from the login page.").WithCode("login_attempt")

func (s *server) startSession(w http.ResponseWriter, r *http.Request, row db.Session, to string) error {
	session, err := s.sessions.Get(r, s.sessions.cookie)
	if err != nil {
		return err
	}
	row.Browser = browserWords(r.UserAgent())
	session.Values[valueSession] = row
	if err := session.Save(r, w); err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	return see(w, r, to)
}

// finishLogin exchanges the code, checks the ID token and finds the person (O2 to O7, O10).
func (s *server) finishLogin(r *http.Request, row db.Provider, attempt db.LoginAttempt, q url.Values) (db.Session, error) {
	ctx := r.Context()
	p, err := s.providers.get(ctx, row)
	if err != nil {
		return db.Session{}, err
	}
	if len(q["iss"]) > 1 {
		return db.Session{}, refuse("the answer names several issuers", nil)
	}
	if iss := q.Get("iss"); (iss != "" || p.sendsIss) && subtle.ConstantTimeCompare([]byte(iss), []byte(row.Issuer)) != 1 {
		return db.Session{}, refuse("the answer came from another issuer", nil)
	}
	if q.Get("code") == "" {
		return db.Session{}, refuse("the provider sent no code", nil)
	}
	ctx = p.client(ctx)
	tokens, err := p.config(s.callbackURL(row)).Exchange(ctx, q.Get("code"), oauth2.VerifierOption(attempt.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
			return db.Session{}, refuse(codeWords(refused.ErrorCode), err)
		}
		return db.Session{}, fault.Wrap(fault.Unavailable, err, "Nobody was signed in: the provider did not answer as it should. Try again in a moment; people who are signed in stay so.")
	}
	claims, err := p.verify(ctx, tokens, attempt.Nonce)
	if err != nil {
		return db.Session{}, err
	}
	if err := s.confirmed(r, attempt, p, claims); err != nil {
		return db.Session{}, err
	}
	return s.signIn(r, p, claims, tokens)
}

// signIn finds the person behind a checked ID token, with what a logout needs later.
func (s *server) signIn(r *http.Request, p *provider, claims identity, tokens *oauth2.Token) (db.Session, error) {
	session, err := s.store.SignIn(r.Context(), db.SignIn{
		Provider: p.row.ID, Subject: claims.subject, Name: claims.name, Email: claims.email, Groups: claims.groups, AuthTime: claims.authTime,
		Appointed: s.admin.Subject != "" && p.row.Issuer == s.admin.Issuer && claims.subject == s.admin.Subject,
		Audit:     auditOf(r, act{action: "session.start", object: "user"}),
	})
	if err != nil {
		return db.Session{}, fmt.Errorf("sign in: %w", err)
	}
	session.ProviderSID = claims.sid
	if raw, _ := tokens.Extra("id_token").(string); p.endSession != "" && len(raw) <= maxHint {
		session.IDToken = secret.New(raw)
	}
	return session, nil
}

func refuse(why string, cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "Nobody was signed in: "+why+". Start again from the login page.").WithCode("login_refused")
}

// postLogout ends the session at once and clears what the browser kept.
func (s *server) postLogout(w http.ResponseWriter, r *http.Request) error {
	session, err := s.sessions.Get(r, s.sessions.cookie)
	if err != nil {
		return err
	}
	session.Options.MaxAge = -1
	if err := session.Save(r, w); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	ended, _ := session.Values[valueEnded].(db.EndedSession)
	if to := s.providerLogout(r, ended); to != "" {
		return s.signedOut(w, r, to)
	}
	return see(w, r, web.LoginURL+"?why=signed-out")
}
