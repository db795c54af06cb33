package oidc_test

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"signalbox/internal/oidc"
)

// rig is a provider on loopback and a browser without JavaScript that stops before it leaves the provider.
type rig struct {
	t        *testing.T
	keyDir   string
	server   *httptest.Server
	browser  *http.Client
	config   oauth2.Config
	verifier *goidc.IDTokenVerifier
	provider *goidc.Provider
}

const redirect = "http://127.0.0.1:65000/auth/callback"

func newRig(t *testing.T, keyDir string) *rig {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	var err error
	handler, err = oidc.New(oidc.Options{
		Issuer: server.URL, ClientID: "signalbox", ClientSecret: "not-a-secret-but-needed",
		RedirectURIs: []string{redirect}, KeyDir: keyDir, People: oidc.SamplePeople(),
	})
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goidc.NewProvider(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{
		t: t, keyDir: keyDir, server: server, provider: provider,
		browser: &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			if !strings.HasPrefix(req.URL.String(), server.URL) {
				return http.ErrUseLastResponse
			}
			return nil
		}},
		config: oauth2.Config{
			ClientID: "signalbox", ClientSecret: "not-a-secret-but-needed", Endpoint: provider.Endpoint(),
			RedirectURL: redirect, Scopes: []string{"openid", "profile", "email"},
		},
		verifier: provider.Verifier(&goidc.Config{ClientID: "signalbox"}),
	}
}

var hiddenID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// loginPage follows the product's redirect to the page with the buttons and answers its hidden id.
func (r *rig) loginPage(options ...oauth2.AuthCodeOption) (id string, page *http.Response) {
	r.t.Helper()
	page, err := r.browser.Get(r.config.AuthCodeURL("the-state", options...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	match := hiddenID.FindSubmatch(body)
	if page.StatusCode != http.StatusOK || match == nil {
		r.t.Fatalf("the login page answered %d:\n%s", page.StatusCode, body)
	}
	return string(match[1]), page
}

// press posts the form as a browser would and answers the address that leads back to the product.
func (r *rig) press(id, person string) (*http.Response, *url.URL) {
	r.t.Helper()
	resp, err := r.browser.PostForm(r.server.URL+"/login", url.Values{"id": {id}, "person": {person}})
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	back, _ := resp.Location()
	return resp, back
}

type claims struct {
	Sub, Name, Email, Nonce string
	Groups                  []string
}

func (r *rig) signIn(person string) (string, claims) {
	r.t.Helper()
	verifier := oauth2.GenerateVerifier()
	id, _ := r.loginPage(oauth2.S256ChallengeOption(verifier), goidc.Nonce("the-nonce"))
	_, back := r.press(id, person)
	if back == nil || !strings.HasPrefix(back.String(), redirect) {
		r.t.Fatalf("the form led to %v, want %s", back, redirect)
	}
	if back.Query().Get("state") != "the-state" {
		r.t.Errorf("the state came back as %q", back.Query().Get("state"))
	}
	token, err := r.config.Exchange(r.t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		r.t.Fatal(err)
	}
	raw, _ := token.Extra("id_token").(string)
	idToken, err := r.verifier.Verify(r.t.Context(), raw)
	if err != nil {
		r.t.Fatal(err)
	}
	var c claims
	if err := idToken.Claims(&c); err != nil {
		r.t.Fatal(err)
	}
	info, err := r.provider.UserInfo(r.t.Context(), oauth2.StaticTokenSource(token))
	if err != nil {
		r.t.Fatal(err)
	}
	var fromInfo claims
	if err := info.Claims(&fromInfo); err != nil {
		r.t.Fatal(err)
	}
	fromInfo.Nonce = c.Nonce
	if diff := cmp.Diff(c, fromInfo); diff != "" {
		r.t.Errorf("ID token and userinfo differ:\n%s", diff)
	}
	if _, err := r.config.Exchange(context.Background(), back.Query().Get("code"), oauth2.VerifierOption(verifier)); err == nil {
		r.t.Error("a code was taken twice")
	}
	return raw, c
}

func TestEverySamplePersonSignsIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	for _, p := range oidc.SamplePeople() {
		t.Run(p.Subject, func(t *testing.T) {
			r := *r
			r.t = t
			_, got := r.signIn(p.Subject)
			want := claims{Sub: p.Subject, Name: p.Name, Email: p.Email, Nonce: "the-nonce", Groups: p.Groups}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAKeyOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newRig(t, dir)
	raw, _ := first.signIn("rita")
	second := newRig(t, dir)
	keys := goidc.NewRemoteKeySet(t.Context(), second.server.URL+"/keys")
	verifier := goidc.NewVerifier(first.server.URL, keys, &goidc.Config{ClientID: "signalbox"})
	if _, err := verifier.Verify(t.Context(), raw); err != nil {
		t.Errorf("a token from before the restart: %v", err)
	}
	info, err := os.Stat(filepath.Join(dir, "oidc-signing-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the key's file has mode %04o, want 0600", mode)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	verifier := oauth2.GenerateVerifier()

	t.Run("without PKCE", func(t *testing.T) {
		resp, err := r.browser.Get(r.config.AuthCodeURL("s"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if back, _ := resp.Location(); back == nil || back.Query().Get("error") != "invalid_request" {
			t.Errorf("answered %d to %v, want error=invalid_request", resp.StatusCode, back)
		}
	})
	t.Run("another redirect address", func(t *testing.T) {
		c := r.config
		c.RedirectURL = "http://127.0.0.1:65000/elsewhere"
		resp, err := r.browser.Get(c.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("answered %d, want 400", resp.StatusCode)
		}
	})
	t.Run("unknown person", func(t *testing.T) {
		id, _ := r.loginPage(oauth2.S256ChallengeOption(verifier))
		if resp, _ := r.press(id, "mallory"); resp.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("answered %d, want 422", resp.StatusCode)
		}
	})
	t.Run("unknown login", func(t *testing.T) {
		if resp, _ := r.press("made-up", "rita"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("answered %d, want 404", resp.StatusCode)
		}
	})
	t.Run("wrong verifier and wrong secret", func(t *testing.T) {
		for name, exchange := range map[string]func(code string) error{
			"verifier": func(code string) error {
				_, err := r.config.Exchange(t.Context(), code, oauth2.VerifierOption(oauth2.GenerateVerifier()))
				return err
			},
			"secret": func(code string) error {
				c := r.config
				c.ClientSecret = "guess"
				_, err := c.Exchange(t.Context(), code, oauth2.VerifierOption(verifier))
				return err
			},
		} {
			id, _ := r.loginPage(oauth2.S256ChallengeOption(verifier))
			_, back := r.press(id, "rita")
			if err := exchange(back.Query().Get("code")); err == nil {
				t.Errorf("a code was given up for a wrong %s", name)
			}
		}
	})
}

func TestTheLoginPageIsStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	_, page := r.loginPage(oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	want := "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' http://127.0.0.1:65000"
	if got := page.Header.Get("Content-Security-Policy"); got != want {
		t.Errorf("policy is\n%s, want\n%s", got, want)
	}
	if got := page.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
}

func TestAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+"/.well-known/openid-configuration", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example:80"
	resp, err := r.browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("answered %d, want 421", resp.StatusCode)
	}
}
