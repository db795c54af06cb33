package handlers_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
)

// hostile is what a provider's text looks like that wants to be more than text.
const hostile = `<script>alert("idp")</script>`

// malformed is a login in which one thing is wrong.
type malformed struct {
	claims    func(map[string]any)
	sign      func(*testing.T, []byte) string
	answer    func(w http.ResponseWriter, honest map[string]any)
	discovery func(map[string]any)
	callback  func(url.Values)
}

// R-UI-4, goal S8: whatever is wrong with a login, nobody is signed in by it; the page says that nobody was, and repeats
// nothing that the provider sent.
func TestMalformedLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	sessions := func() (n int) {
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&n))
		return n
	}
	cases := malformedClaims()
	maps.Copy(cases, malformedSignatures(w))
	maps.Copy(cases, malformedAnswers())
	maps.Copy(cases, malformedCallbacks())
	maps.Copy(cases, malformedDiscovery(w))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		p, at := w.idp, w.provider
		if c.discovery != nil {
			p, at = w.otherProvider(t, name, c.discovery)
		}
		p.signInAs(adam)
		p.mu.Lock()
		p.claims, p.sign, p.answer = c.claims, c.sign, c.answer
		p.mu.Unlock()
		b := w.browser()
		a := b.walk(t, at, c.callback)
		if a.StatusCode < 400 || !strings.Contains(a.body, "obody") || !strings.Contains(a.body, "sign") {
			t.Errorf("%s: answered %d, and does not say that nobody was signed in", name, a.StatusCode)
		}
		if strings.Contains(a.body, hostile) || strings.Contains(a.body, "alert(") {
			t.Errorf("%s: the page repeats what the provider sent", name)
		}
		if n := sessions(); n != 0 {
			t.Fatalf("%s: %d sessions", name, n)
		}
	}
	if len(cases) < 60 {
		t.Errorf("only %d malformed logins", len(cases))
	}
	t.Logf("S8: %d malformed logins, %d sessions", len(cases), sessions())
	// What fails is what was made wrong: the same walk with nothing wrong signs in.
	w.idp.mu.Lock()
	w.idp.claims, w.idp.sign, w.idp.answer = nil, nil, nil
	w.idp.mu.Unlock()
	w.browser().walk(t, w.provider, nil).want(t, http.StatusSeeOther)
	// RFC 9207: who says that it names itself in its answer, and does, is believed; so is an issuer that nobody announced.
	p, at := w.otherProvider(t, "names itself", func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true })
	p.signInAs(adam)
	w.browser().walk(t, at, func(q url.Values) { q.Set("iss", p.url) }).want(t, http.StatusSeeOther)
	w.browser().walk(t, w.provider, func(q url.Values) { q.Set("iss", w.idp.url) }).want(t, http.StatusSeeOther)
	if n := sessions(); n != 3 {
		t.Errorf("%d sessions of three honest logins", n)
	}
}

// walk is one login as a browser makes it, with the answer in the address changed on its way.
func (b *browser) walk(t *testing.T, provider uuid.UUID, change func(url.Values)) answer {
	t.Helper()
	a := b.get(t, "/login/"+typeid.Format(typeid.Provider, provider))
	if a.StatusCode != http.StatusFound {
		return a
	}
	a = b.get(t, a.Header.Get("Location"))
	if a.StatusCode != http.StatusFound {
		t.Fatalf("the provider answered %d", a.StatusCode)
	}
	u := got(url.Parse(a.Header.Get("Location")))(t)
	q := u.Query()
	if change != nil {
		change(q)
	}
	u.RawQuery = q.Encode()
	return b.get(t, u.String())
}

// otherProvider configures one more provider, which describes itself in its own way.
func (w *world) otherProvider(t *testing.T, name string, discovery func(map[string]any)) (*idp, uuid.UUID) {
	t.Helper()
	p := newIDPWith(t, w.idp.key)
	p.discovery = discovery
	id := got(w.store.SaveProvider(t.Context(), db.Provider{
		Name: name, Issuer: p.url, ClientID: clientID, ClientSecret: secret.New("secret"), GroupsClaim: "groups", Groups: map[string][]policy.Role{"admins": {policy.RoleAdmin}},
	}))(t)
	return p, id
}

// malformedClaims are tokens with a good signature that say something wrong (O2, O4, O5, O7, O16).
func malformedClaims() map[string]malformed {
	all := map[string]malformed{}
	set := func(name, claim string, value any) {
		all[name] = malformed{claims: func(c map[string]any) { c[claim] = value }}
	}
	for _, claim := range []string{"nonce", "aud", "iss", "sub", "exp", "iat"} {
		all[claim+" absent"] = malformed{claims: func(c map[string]any) { delete(c, claim) }}
		set(claim+" empty", claim, "")
		set(claim+" null", claim, nil)
	}
	set("nonce of another login", "nonce", strings.Repeat("n", 43))
	set("nonce is a list", "nonce", []string{"x"})
	all["nonce under another name"] = malformed{claims: func(c map[string]any) { c["Nonce"], c["nonce"] = c["nonce"], nil; delete(c, "nonce") }}
	all["nonce cut short"] = malformed{claims: func(c map[string]any) { c["nonce"] = c["nonce"].(string)[:20] }}
	set("audience of another program", "aud", "other")
	set("audience that begins alike", "aud", clientID+"2")
	set("audience in another case", "aud", strings.ToUpper(clientID))
	set("no audience in the list", "aud", []string{})
	set("two audiences and nobody authorised", "aud", []string{clientID, "other"})
	all["two audiences, the other one authorised"] = malformed{claims: func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "other"}, "other" }}
	set("another program authorised", "azp", "other")
	set("nobody authorised", "azp", "")
	set("a list authorised", "azp", []string{clientID})
	set("another issuer", "iss", "https://evil.example")
	all["issuer with a slash"] = malformed{claims: func(c map[string]any) { c["iss"] = c["iss"].(string) + "/" }}
	all["issuer in capitals"] = malformed{claims: func(c map[string]any) { c["iss"] = strings.ToUpper(c["iss"].(string)) }}
	set("expired ten minutes ago", "exp", time.Now().Add(-10*time.Minute).Unix())
	set("valid from tomorrow", "nbf", time.Now().Add(24*time.Hour).Unix())
	set("made tomorrow", "iat", time.Now().Add(24*time.Hour).Unix())
	set("login of tomorrow", "auth_time", time.Now().Add(24*time.Hour).Unix())
	set("login at no time", "auth_time", "now")
	set("login before all time", "auth_time", -1)
	set("subject too long", "sub", strings.Repeat("s", 256))
	set("subject is a number", "sub", 7)
	set("access token of another", "at_hash", "AAAAAAAAAAAAAAAAAAAAAA")
	set("claim names that are none", "_claim_names", "groups")
	set("claim that leads nowhere", "_claim_names", map[string]any{"groups": "src1"})
	return all
}

// malformedSignatures are tokens that nobody signed whom the server knows (O6).
func malformedSignatures(w *world) map[string]malformed {
	enc := base64.RawURLEncoding.EncodeToString
	header := func(h string) func(*testing.T, []byte) string {
		return func(_ *testing.T, claims []byte) string { return enc([]byte(h)) + "." + enc(claims) + "." }
	}
	part := func(change func(parts []string) string) func(*testing.T, []byte) string {
		return func(t *testing.T, claims []byte) string {
			return change(strings.Split(w.idp.signed(t, jose.RS256, w.idp.key, claims), "."))
		}
	}
	return map[string]malformed{
		"unsigned":            {sign: header(`{"alg":"none","typ":"JWT"}`)},
		"unsigned, capital":   {sign: header(`{"alg":"NONE","kid":"1"}`)},
		"no algorithm":        {sign: header(`{"kid":"1"}`)},
		"header is no object": {sign: header(`[]`)},
		"signed with the public key": {sign: func(t *testing.T, claims []byte) string {
			return w.idp.signed(t, jose.HS256, w.idp.key.PublicKey.N.Bytes(), claims)
		}},
		"algorithm that was not agreed": {sign: func(t *testing.T, claims []byte) string { return w.idp.signed(t, jose.RS512, w.idp.key, claims) }},
		"key of a stranger": {sign: func(t *testing.T, claims []byte) string {
			return w.idp.signed(t, jose.RS256, got(rsa.GenerateKey(rand.Reader, 2048))(t), claims)
		}},
		"signature cut off": {sign: part(func(p []string) string { return p[0] + "." + p[1] })},
		"signature empty":   {sign: part(func(p []string) string { return p[0] + "." + p[1] + "." })},
		"signature of something else": {sign: part(func(p []string) string {
			return p[0] + "." + enc([]byte(`{"sub":"adam"}`)) + "." + p[2]
		})},
		"two signatures": {sign: part(func(p []string) string {
			raw, _ := json.Marshal(map[string]any{"payload": p[1], "signatures": []any{
				map[string]any{"protected": p[0], "signature": p[2]}, map[string]any{"protected": p[0], "signature": p[2]},
			}})
			return string(raw)
		})},
		"key brought along": {sign: func(t *testing.T, claims []byte) string {
			own := got(rsa.GenerateKey(rand.Reader, 2048))(t)
			signer := got(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: own, KeyID: "1"}}, &jose.SignerOptions{EmbedJWK: true}))(t)
			return got(got(signer.Sign(claims))(t).CompactSerialize())(t)
		}},
		"no token at all": {sign: func(*testing.T, []byte) string { return "" }},
		"claims are no object": {sign: func(t *testing.T, _ []byte) string {
			return w.idp.signed(t, jose.RS256, w.idp.key, []byte(`"`+hostile+`"`))
		}},
		"token is a page": {sign: func(*testing.T, []byte) string { return hostile }},
	}
}

// malformedAnswers are answers of the token endpoint that are none (O3, O15).
func malformedAnswers() map[string]malformed {
	fails := func(status int, kind, body string) malformed {
		return malformed{answer: func(w http.ResponseWriter, _ map[string]any) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}}
	}
	const js = "application/json"
	return map[string]malformed{
		"code refused":         fails(400, js, `{"error":"invalid_grant","error_description":"<script>alert(\"idp\")</script>"}`),
		"secret refused":       fails(401, js, `{"error":"invalid_client"}`),
		"refused with a page":  fails(403, "text/html", hostile),
		"broken inside":        fails(500, "text/html", hostile),
		"success with a page":  fails(200, "text/html", hostile),
		"success with nothing": fails(200, js, ``),
		"success and an error": fails(200, js, `{"error":"<script>alert(1)</script>"}`),
		"access token alone":   fails(200, js, `{"access_token":"at","token_type":"Bearer"}`),
		"token in a list":      fails(200, js, `{"access_token":"at","token_type":"Bearer","id_token":["x"]}`),
		"sent elsewhere": {answer: func(w http.ResponseWriter, _ map[string]any) {
			w.Header().Set("Location", "/userinfo")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
		"three megabytes": {answer: func(w http.ResponseWriter, honest map[string]any) {
			honest["padding"] = strings.Repeat("A", 3<<20)
			writeJSON(w, honest)
		}},
	}
}

// malformedCallbacks are answers that were changed on their way through the browser (O1, O4).
func malformedCallbacks() map[string]malformed {
	change := func(f func(url.Values)) malformed { return malformed{callback: f} }
	refused := func(code string) malformed {
		return change(func(q url.Values) { q.Del("code"); q.Set("error", code); q.Set("error_description", hostile) })
	}
	return map[string]malformed{
		"state absent":         change(func(q url.Values) { q.Del("state") }),
		"state empty":          change(func(q url.Values) { q.Set("state", "") }),
		"state of nobody":      change(func(q url.Values) { q.Set("state", strings.Repeat("s", 43)) }),
		"state twice":          change(func(q url.Values) { q.Add("state", q.Get("state")) }),
		"state, other ending":  change(func(q url.Values) { q.Set("state", q.Get("state")[:42]+"!") }),
		"code absent":          change(func(q url.Values) { q.Del("code") }),
		"code of nobody":       change(func(q url.Values) { q.Set("code", "guessed") }),
		"code twice":           change(func(q url.Values) { q.Add("code", "x") }),
		"issuer mixed up":      change(func(q url.Values) { q.Set("iss", "https://evil.example") }),
		"two issuers":          change(func(q url.Values) { q["iss"] = []string{"", "https://evil.example"} }),
		"the person refused":   refused("access_denied"),
		"login needed there":   refused("login_required"),
		"not now":              refused("temporarily_unavailable"),
		"request not accepted": refused("invalid_scope"),
		"error that is a page": refused(hostile),
	}
}

// malformedDiscovery are descriptions of a provider that cannot be trusted (O4, O15).
func malformedDiscovery(w *world) map[string]malformed {
	return map[string]malformed{
		"announced issuer is missing": {discovery: func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }},
		"describes another issuer":    {discovery: func(d map[string]any) { d["issuer"] = "https://evil.example" }},
		"describes no issuer":         {discovery: func(d map[string]any) { delete(d, "issuer") }},
		"keys of another address":     {discovery: func(d map[string]any) { d["jwks_uri"] = w.url + "/healthz" }},
		"no keys":                     {discovery: func(d map[string]any) { delete(d, "jwks_uri") }},
		"description without end":     {discovery: func(d map[string]any) { d["padding"] = strings.Repeat("A", 3<<20) }},
	}
}
