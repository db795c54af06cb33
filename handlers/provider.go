package handlers

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"signalbox/db"
	"signalbox/internal/egress"
	"signalbox/internal/fault"
)

const (
	idpTimeout  = 5 * time.Second
	idpMaxBytes = 1 << 20
	// rediscover is how long a provider's own description is believed.
	rediscover = time.Hour
	maxGroups  = 500
	// idpLeeway is how far the provider's clock may be behind ours (O16).
	idpLeeway = time.Minute
)

// providers keeps the discovered description of each configured provider. Keys rotate by themselves.
type providers struct {
	// http is for logins, and strangers for what anybody may send: each has its own bound on how often it asks, so that nobody uses
	// up what logins need.
	http, strangers *http.Client

	mu    sync.Mutex
	known map[uuid.UUID]*provider
}

type provider struct {
	row      db.Provider
	oidc     *oidc.Provider
	sendsIss bool
	// endSession is where a person signs out at the provider; empty where it has no such address.
	endSession string
	// logouts checks logout tokens.
	logouts *oidc.IDTokenVerifier
	http    *http.Client
	at      time.Time
}

// newProviders calls providers under the guard: their descriptions name the addresses of keys, tokens and people (O17).
func newProviders(allow egress.Allow) *providers {
	client := egress.Guard{Purpose: "login provider", Allow: allow, Timeout: idpTimeout, MaxBody: idpMaxBytes}.Client()
	bounded := func() *http.Client {
		c := *client
		c.Transport = seldom{client.Transport, &fetches{by: map[string]*bucket{}}}
		return &c
	}
	return &providers{known: map[uuid.UUID]*provider{}, http: bounded(), strangers: bounded()}
}

// seldom refuses to ask for descriptions and keys again and again (O15).
type seldom struct {
	next    http.RoundTripper
	fetches *fetches
}

func (b seldom) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.Header.Get("Authorization") == "" && !b.fetches.allow(r.URL.Path, r.URL.Host, time.Now()) {
		return nil, errors.New("asked for a moment ago, too often")
	}
	return b.next.RoundTrip(r)
}

// get returns the provider of a row, discovering it when it is new, changed or not looked at for an hour.
func (p *providers) get(ctx context.Context, row db.Provider) (*provider, error) {
	p.mu.Lock()
	known, ok := p.known[row.ID]
	p.mu.Unlock()
	if ok && known.row.Issuer == row.Issuer && known.row.ClientID == row.ClientID && known.row.ClientSecret.Equal(row.ClientSecret) && time.Since(known.at) < rediscover {
		return known, nil
	}
	// The provider outlives the request: its key set fetches later with this client, but not with this context.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.http), row.Issuer)
	if err != nil {
		if ok && known.row.Issuer == row.Issuer {
			return known, nil
		}
		if _, refused := errors.AsType[*egress.RefusedError](err); refused {
			return nil, fault.Wrap(fault.Unavailable, err, "Nobody can sign in with this provider: its address is one that this server does not call. An administrator finds the address, and the setting that opens it, in the server's log.").WithCode("provider_refused")
		}
		return nil, fault.Wrap(fault.Unavailable, err, "Nobody can sign in with this provider now: it does not answer as it should. People who are signed in stay so; try again in a moment.").WithCode("provider_unavailable")
	}
	var extra struct {
		SendsIss   bool     `json:"authorization_response_iss_parameter_supported"`
		EndSession string   `json:"end_session_endpoint"`
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := found.Claims(&extra); err != nil {
		return nil, fmt.Errorf("read discovery of %s: %w", row.Issuer, err)
	}
	fresh := &provider{row: row, oidc: found, sendsIss: extra.SendsIss, endSession: webAddress(extra.EndSession), http: p.http, at: time.Now()}
	config := verifies(row.ClientID)
	// As the library does for logins: neither none nor a secret that both know.
	config.SupportedSigningAlgs = slices.DeleteFunc(extra.Algorithms, func(name string) bool {
		return !slices.Contains([]string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}, name)
	})
	fresh.logouts = oidc.NewVerifier(row.Issuer, oidc.NewRemoteKeySet(oidc.ClientContext(context.WithoutCancel(ctx), p.strangers), extra.Keys), config)
	p.mu.Lock()
	p.known[row.ID] = fresh
	p.mu.Unlock()
	return fresh, nil
}

func (p *provider) client(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.http)
}

func (p *provider) config(callback string) *oauth2.Config {
	scopes := []string{oidc.ScopeOpenID, "profile", "email"}
	var supported struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := p.oidc.Claims(&supported); err == nil && slices.Contains(supported.Scopes, "groups") {
		scopes = append(scopes, "groups")
	}
	return &oauth2.Config{
		ClientID: p.row.ClientID, ClientSecret: p.row.ClientSecret.Reveal(), Endpoint: p.oidc.Endpoint(), RedirectURL: callback, Scopes: scopes,
	}
}

// identity is what a checked ID token says. The subject identifies, the rest are labels (O7, O9).
type identity struct {
	subject, name, email string
	// sid is the provider's own name of its session; empty where it gives none.
	sid      string
	groups   []string
	authTime time.Time
}

// verifier keeps the provider's keys with the provider: they are fetched again for a key that is not known, and not for each login.
func (p *provider) verifier() *oidc.IDTokenVerifier {
	return p.oidc.Verifier(verifies(p.row.ClientID))
}

func verifies(clientID string) *oidc.Config {
	return &oidc.Config{ClientID: clientID, Now: func() time.Time { return time.Now().Add(-idpLeeway) }}
}

// verify checks the ID token: signature, issuer, audience and times (go-oidc), and what that library leaves to its
// caller: nonce, authorised party, access token hash.
func (p *provider) verify(ctx context.Context, tokens *oauth2.Token, nonce string) (identity, error) {
	raw, ok := tokens.Extra("id_token").(string)
	if !ok || raw == "" {
		return identity{}, refuse("the provider sent no ID token", nil)
	}
	token, err := p.verifier().Verify(ctx, raw)
	if err != nil {
		return identity{}, refuse("the ID token does not hold", err)
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return identity{}, refuse("the ID token could not be read", err)
	}
	// The claims are read by their exact names: the library, like any decoder of Go, takes NONCE for nonce.
	if said, _ := claims["nonce"].(string); said == "" || subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1 {
		return identity{}, refuse("the ID token belongs to another login", nil)
	}
	if azp, has := claims["azp"]; (has || len(token.Audience) > 1) && azp != p.row.ClientID {
		return identity{}, refuse("the ID token was made for another program", nil)
	}
	at, err := authTime(claims, token.IssuedAt, time.Now())
	if err != nil {
		return identity{}, err
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(tokens.AccessToken); err != nil {
			return identity{}, refuse("ID token and access token do not belong together", err)
		}
	}
	if token.Subject == "" || len(token.Subject) > 255 {
		return identity{}, refuse("the ID token names nobody", nil)
	}
	id := identity{subject: token.Subject, name: text(claims["name"], 200), email: text(claims["email"], 254), authTime: at}
	if id.name == "" {
		id.name = text(claims["preferred_username"], 200)
	}
	if id.name == "" {
		id.name = "Person " + token.Subject[:min(len(token.Subject), 12)]
	}
	if sid, _ := claims["sid"].(string); len(sid) <= 255 {
		id.sid = sid
	}
	id.groups, err = p.groups(ctx, tokens, token, claims)
	return id, err
}

// groups reads the group claim, from the user info endpoint where the ID token does not carry it. A claim that is
// only pointed to, or of another form, gives no role at all (O10).
func (p *provider) groups(ctx context.Context, tokens *oauth2.Token, token *oidc.IDToken, claims map[string]any) ([]string, error) {
	name := p.row.GroupsClaim
	if overage, ok := claims["_claim_names"].(map[string]any); ok && overage[name] != nil {
		return nil, nil
	}
	value, ok := claims[name]
	if !ok && p.oidc.UserInfoEndpoint() != "" {
		info, err := p.oidc.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "Nobody was signed in: the provider did not say which groups you are in. Try again in a moment.")
		}
		if info.Subject != token.Subject {
			return nil, refuse("the provider answered about another person", nil)
		}
		extra := map[string]any{}
		if err := info.Claims(&extra); err != nil {
			return nil, refuse("the provider's answer could not be read", err)
		}
		value = extra[name]
	}
	list, ok := value.([]any)
	if !ok || len(list) > maxGroups {
		return nil, nil
	}
	var groups []string
	for _, item := range list {
		if g, ok := item.(string); ok {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// authTime is when the person last proved to the provider who they are; zero where it does not say. When the token was made
// is no proof of that: a provider that remembers people makes one without asking anybody (A24). A time that is still to
// come would never grow old, so it is refused (O16).
func authTime(claims map[string]any, issued, now time.Time) (time.Time, error) {
	if issued.IsZero() || issued.After(now.Add(idpLeeway)) {
		return time.Time{}, refuse("the ID token does not say when it was made, or names a time that is still to come", nil)
	}
	said, has := claims["auth_time"]
	if !has {
		return time.Time{}, nil
	}
	at, ok := said.(float64)
	if !ok || at <= 0 || at > float64(now.Add(idpLeeway).Unix()) {
		return time.Time{}, refuse("the ID token's time of the login is none", nil)
	}
	return time.Unix(int64(at), 0), nil
}

// text reads a label: bounded, valid, without control characters.
func text(v any, most int) string {
	t, _ := v.(string)
	var out []rune
	for _, c := range t {
		if c >= ' ' && c != 0x7f && c != 0xFFFD && len(out) < most {
			out = append(out, c)
		}
	}
	return string(out)
}
