// Package oidc is the OpenID provider built into dev mode: a handful of sample people and a page of "Sign in as …"
// buttons, so that the whole login works with nothing installed.
//
// It owns those people, the login page and the signing key. It is a real provider (code flow, PKCE required, signed
// tokens), and it refuses to be more: there is no password, so whoever reaches its address may be anybody in it. It
// belongs on a loopback address and in no production.
package oidc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/op"
)

// Person can be signed in as.
type Person struct {
	// Subject is the stable id that the product stores (D-24); it also names the button in the form.
	Subject string
	Name    string
	Email   string
	// Groups are given to the client in the claim "groups".
	Groups []string
	// About says on the login page what this person is for.
	About string
}

// SamplePeople are the four of D-16: one who asks, two who may approve (so that a quorum of two can be met), and an
// admin, who for all that may not approve.
func SamplePeople() []Person {
	return []Person{
		{"rita", "Rita Requester", "rita@example.test", []string{"requester"}, "asks for changes; may not approve them"},
		{"ana", "Ana Approver", "ana@example.test", []string{"approver"}, "approves or rejects what others asked for"},
		{"ben", "Ben Approver", "ben@example.test", []string{"approver"}, "a second approver, for changes that need two"},
		{"adam", "Adam Admin", "adam@example.test", []string{"admin"}, "looks after repositories, workers and policies; being an admin does not make him an approver"},
	}
}

// Options of a provider.
type Options struct {
	// Issuer is the address at which the handler is served, without a path and without a trailing slash; clients must
	// spell it the same.
	Issuer string
	// ClientID and ClientSecret are the one client's. The secret is needed besides PKCE.
	ClientID, ClientSecret string
	// RedirectURIs are the exact addresses that a code may be sent to.
	RedirectURIs []string
	// KeyDir keeps the signing key over restarts; the folder is made when missing.
	KeyDir string
	// People who can be signed in as.
	People []Person
}

// New makes the provider. What it hands out lives in memory: a login that was under way when it stopped starts again.
func New(o Options) (http.Handler, error) {
	issuer, err := url.Parse(o.Issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("issuer: %w", err)
	case issuer.Host == "" || issuer.Path != "":
		return nil, fmt.Errorf("issuer %q: want scheme and host alone", o.Issuer)
	case o.ClientID == "" || o.ClientSecret == "" || len(o.RedirectURIs) == 0 || len(o.People) == 0:
		return nil, errors.New("openid provider: client id, client secret, a redirect address and people are needed")
	}
	key, err := loadKey(o.KeyDir)
	if err != nil {
		return nil, err
	}
	store := newStorage(o, key)
	provider, err := op.NewProvider(&op.Config{
		// Seals authorisation codes and access tokens; derived, so that one file is enough to keep.
		CryptoKey:                sha256.Sum256(append([]byte("signalbox dev provider: token sealing\n"), key.der...)),
		CryptoKeyId:              "1",
		DefaultLogoutRedirectURI: "/signed-out",
		CodeMethodS256:           true,
		AuthMethodPost:           true,
		SupportedScopes:          []string{"openid", "profile", "email", "groups"},
		SupportedClaims:          []string{"sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "name", "preferred_username", "email", "email_verified", "groups"},
	}, store, op.StaticIssuer(o.Issuer), op.WithAllowInsecure())
	if err != nil {
		return nil, fmt.Errorf("make the openid provider: %w", err)
	}
	pages := &pages{people: o.People, store: store, callback: op.AuthCallbackURL(provider), formTargets: origins(o.RedirectURIs)}
	withIssuer := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", pages.getLogin)
	mux.HandleFunc("POST /login", withIssuer.HandlerFunc(pages.postLogin))
	mux.HandleFunc("GET /login.css", pages.getStyle)
	mux.HandleFunc("GET /signed-out", pages.getSignedOut)
	mux.Handle("/", provider)
	return onlyHost(issuer.Host, mux), nil
}

// onlyHost refuses requests for another host: a page elsewhere whose name was made to lead to this machine must not
// be able to press the buttons.
func onlyHost(host string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != host {
			http.Error(w, "This is not the address of the sample people's provider.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// origins are scheme and host of each address, for the login page's form-action: browsers hold the whole chain of
// redirects after a form to it, and the last one goes back to the product.
func origins(addresses []string) []string {
	var all []string
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			all = append(all, u.Scheme+"://"+u.Host)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// logoutURIs are the places that a logout may lead back to: the front page of each place that a login may lead to.
func logoutURIs(redirects []string) []string {
	var all []string
	for _, o := range origins(redirects) {
		all = append(all, o, strings.TrimSuffix(o, "/")+"/")
	}
	return all
}
