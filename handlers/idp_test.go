package handlers_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const clientID = "signalbox"

// idPerson is somebody at the identity provider.
type idPerson struct {
	sub, name, email string
	groups           []string
}

// idp is an OpenID provider that can be told to misbehave.
type idp struct {
	t      *testing.T
	url    string
	key    *rsa.PrivateKey
	mu     sync.Mutex
	next   idPerson
	codes  map[string]pending
	claims func(map[string]any)
	// sign replaces how the token is signed.
	sign func(t *testing.T, claims []byte) string
	// answer replaces what the token endpoint answers; honest is what it would say.
	answer func(w http.ResponseWriter, honest map[string]any)
	// discovery changes the published description.
	discovery  func(map[string]any)
	userinfo   map[string]any
	challenges []string
	fetched    int
}

type pending struct {
	person                   idPerson
	nonce, challenge, method string
	redirect, state          string
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	return newIDPWith(t, got(rsa.GenerateKey(rand.Reader, 2048))(t))
}

// newIDPWith is another provider that signs with a key which takes no time to make.
func newIDPWith(t *testing.T, key *rsa.PrivateKey) *idp {
	t.Helper()
	p := &idp{t: t, key: key, codes: map[string]pending{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.getDiscovery)
	mux.HandleFunc("GET /authorize", p.getAuthorize)
	mux.HandleFunc("POST /token", p.postToken)
	mux.HandleFunc("GET /jwks", p.getKeys)
	mux.HandleFunc("GET /userinfo", p.getUserInfo)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *idp) signInAs(person idPerson) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = person
}

// misbehave changes the claims of the tokens from now on.
func (p *idp) misbehave(claims func(map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

func (p *idp) getDiscovery(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	doc := map[string]any{
		"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/jwks",
		"userinfo_endpoint": p.url + "/userinfo", "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid", "profile", "email", "groups"},
	}
	if p.discovery != nil {
		p.discovery(doc)
	}
	writeJSON(w, doc)
}

func (p *idp) getAuthorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	code := rand.Text()
	p.challenges = append(p.challenges, q.Get("code_challenge_method"))
	p.codes[code] = pending{p.next, q.Get("nonce"), q.Get("code_challenge"), q.Get("code_challenge_method"), q.Get("redirect_uri"), q.Get("state")}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *idp) postToken(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code, ok := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if !ok || code.method != "S256" || base64.RawURLEncoding.EncodeToString(sum[:]) != code.challenge || code.redirect != r.FormValue("redirect_uri") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		writeJSON(w, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": p.url, "sub": code.person.sub, "aud": clientID, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "auth_time": now.Unix(), "nonce": code.nonce,
		"name": code.person.name, "email": code.person.email, "groups": code.person.groups,
	}
	if p.claims != nil {
		p.claims(claims)
	}
	raw, err := json.Marshal(claims)
	must(p.t, err)
	sign := p.sign
	if sign == nil {
		sign = func(t *testing.T, claims []byte) string { return p.signed(t, jose.RS256, p.key, claims) }
	}
	honest := map[string]any{"access_token": "at-" + code.person.sub, "token_type": "Bearer", "expires_in": 60, "id_token": sign(p.t, raw)}
	if p.answer != nil {
		p.answer(w, honest)
		return
	}
	writeJSON(w, honest)
}

func (p *idp) signed(t *testing.T, alg jose.SignatureAlgorithm, key any, claims []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1").WithType("JWT"))
	must(t, err)
	object, err := signer.Sign(claims)
	must(t, err)
	compact, err := object.CompactSerialize()
	must(t, err)
	return compact
}

func (p *idp) getKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched++
	writeJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
}

func (p *idp) getUserInfo(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	writeJSON(w, maps.Clone(p.userinfo))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
