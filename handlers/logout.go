package handlers

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

const (
	// maxHint bounds the ID token that is kept to be shown again at the logout: it travels in an address.
	maxHint = 4 << 10
	// maxLogoutToken bounds the form of a provider's logout.
	maxLogoutToken = 64 << 10
	// logoutLife is how far ahead a logout token may end: it is remembered for as long.
	logoutLife = 24 * time.Hour
	// A provider is asked for one address this often at most, after a few times at once.
	fetchBurst = 20
	fetchEvery = 3 * time.Second
)

// fetches bounds how often each address of a provider is asked, whoever sends us tokens with keys that do not exist.
type fetches struct {
	mu sync.Mutex
	by map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func (f *fetches) allow(path, host string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.by[host+path]
	if b == nil {
		b = &bucket{left: fetchBurst, at: now}
		f.by[host+path] = b
	}
	b.left, b.at = min(b.left+now.Sub(b.at).Seconds()/fetchEvery.Seconds(), fetchBurst), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// webAddress is an address that a person can be sent to, or empty.
func webAddress(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return ""
	}
	return u.String()
}

// providerLogout is where a person whose session ended signs out at the provider as well; empty where that is nowhere. The way
// back is fixed, so that nothing in a request decides it.
func (s *server) providerLogout(r *http.Request, ended db.EndedSession) string {
	if !ended.IDToken.IsSet() {
		return ""
	}
	row, err := s.store.Provider(r.Context(), ended.Provider)
	if err != nil {
		s.note(r, err)
		return ""
	}
	p, err := s.providers.get(r.Context(), row)
	if err != nil || p.endSession == "" {
		s.note(r, err)
		return ""
	}
	u, err := url.Parse(p.endSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("id_token_hint", ended.IDToken.Reveal())
	q.Set("client_id", row.ClientID)
	q.Set("post_logout_redirect_uri", s.publicURL.String()+"/")
	u.RawQuery = q.Encode()
	return u.String()
}

// signedOut says that the person is signed out here, and leads on to the provider. It is a page and no redirect: browsers do
// not let a form's answer lead to another site.
func (s *server) signedOut(w http.ResponseWriter, r *http.Request, to string) error {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Refresh", "0; url="+to)
	shell := s.shell(r)
	shell.User = nil
	return s.render(w, r, http.StatusOK, web.SignedOutPage(web.SignedOutPageData{Shell: shell, Provider: to}))
}

// postBackChannelLogout takes a provider's word that somebody signed out there (OpenID Connect Back-Channel Logout). It comes
// from the provider itself and not from a browser; all that counts is the token.
func (s *server) postBackChannelLogout(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	bad := func(why string, cause error) error {
		return fault.Wrap(fault.Malformed, cause, "Nobody was signed out: "+why+".").WithCode("logout_token")
	}
	id, err := pathID(r, "provider", typeid.Provider)
	if err != nil {
		return err
	}
	values, err := form(r)
	if err != nil {
		return err
	}
	row, err := s.store.Provider(r.Context(), id)
	if err != nil {
		return err
	}
	p, err := s.providers.get(r.Context(), row)
	if err != nil {
		return err
	}
	ctx := p.client(r.Context())
	token, err := p.logouts.VerifyLogout(ctx, values.Get("logout_token"))
	if err != nil {
		return bad("the logout token does not hold", err)
	}
	// Longer names than these were never stored with a session.
	if len(token.TokenID) > 1000 || len(token.Subject) > 255 || len(token.SessionID) > 255 || token.Expiry.After(time.Now().Add(logoutLife)) {
		return bad("the logout token names more, or a later time, than any honest one", nil)
	}
	n, err := s.store.EndByProvider(r.Context(), db.ProviderLogout{
		Provider: id, Subject: token.Subject, SID: token.SessionID, TokenID: token.TokenID, ExpiresAt: token.Expiry.Add(idpLeeway),
		Audit: auditOf(r, act{action: "session.end_by_provider", object: "user"}),
	})
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "the provider ended logins", "request_id", requestID(r), "provider", row.Name, "ended", n)
	w.WriteHeader(http.StatusOK)
	return nil
}
