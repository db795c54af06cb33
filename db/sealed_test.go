package db_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/fault"
	"signalbox/internal/secret"
)

// vault is one database with stores that know different keys.
type vault struct {
	t     *testing.T
	d     dbtest.Database
	owner *pgx.Conn
}

func newVault(t *testing.T) *vault {
	t.Helper()
	d := dbtest.New(t)
	owner := got(pgx.Connect(t.Context(), d.OwnerURL))(t)
	t.Cleanup(func() { must(t, owner.Close(context.WithoutCancel(t.Context()))) })
	return &vault{t, d, owner}
}

func (v *vault) store(keys ...string) *db.Store {
	v.t.Helper()
	ring := got(secret.ParseRing(strings.Join(keys, "\n")))(v.t)
	s := got(db.Open(v.t.Context(), db.Options{URL: v.d.EngineURL, MaxConns: 2, Keys: ring}))(v.t)
	v.t.Cleanup(s.Close)
	return s
}

func (v *vault) exec(statement string, args ...any) {
	v.t.Helper()
	_, err := v.owner.Exec(v.t.Context(), statement, args...)
	must(v.t, err)
}

// everything is all that lies in the tables of secrets, as text.
func (v *vault) everything() (all string) {
	v.t.Helper()
	must(v.t, v.owner.QueryRow(v.t.Context(), `SELECT coalesce((SELECT string_agg(p::text, ' ') FROM providers p), '') || coalesce((SELECT string_agg(s::text, ' ') FROM sessions s), '')
		|| coalesce((SELECT string_agg(l::text, ' ') FROM login_states l), '')`).Scan(&all))
	return all
}

func provider(name string) db.Provider {
	return db.Provider{Name: name, Issuer: "https://id.example/" + name, ClientID: "signalbox", ClientSecret: secret.New("the-client-secret-of-" + name), GroupsClaim: "groups"}
}

// signedIn makes a session with an ID token under a cookie's hash.
func (v *vault) signedIn(s *db.Store, cookie string) []byte {
	v.t.Helper()
	id := got(s.SaveProvider(v.t.Context(), provider("people")))(v.t)
	session := got(s.SignIn(v.t.Context(), db.SignIn{Provider: id, Subject: "x", Name: "X", AuthTime: time.Now()}))(v.t)
	session.IDToken = secret.New("the-id-token-of-" + cookie)
	must(v.t, s.StartSession(v.t.Context(), session, db.HashToken(cookie), nil, time.Hour, time.Hour))
	return db.HashToken(cookie)
}

// S2, W15: what is stored and shown to nobody lies sealed, opens in its own row alone, and only under its key.
func TestSecretsLieSealed(t *testing.T) {
	t.Parallel()
	v, key := newVault(t), secret.NewKey("one")
	s := v.store(key)
	hash := v.signedIn(s, "cookie-a")
	id := got(s.SaveProvider(t.Context(), provider("people")))(t)
	other := got(s.SaveProvider(t.Context(), provider("others")))(t)
	must(t, s.BeginLogin(t.Context(), "state", "browser", db.LoginAttempt{Provider: id, Nonce: "the-nonce-of-it", Verifier: "the-verifier-of-it", ReturnTo: "/"}, time.Minute))
	if all := v.everything(); strings.Contains(all, "the-") || strings.Count(all, "v1.one.") != 3 {
		t.Errorf("the tables hold a secret, or not all seals: %s", all)
	}
	if p := got(s.Provider(t.Context(), id))(t); p.ClientSecret.Reveal() != "the-client-secret-of-people" {
		t.Error("the client secret is another one")
	}
	if a := got(s.TakeLogin(t.Context(), "state", "browser"))(t); a.Nonce != "the-nonce-of-it" || a.Verifier != "the-verifier-of-it" {
		t.Errorf("the login attempt is %+v", a)
	}

	// Somebody who writes to the database moves one provider's secret to a provider of their own.
	v.exec(`UPDATE providers SET client_secret_sealed = (SELECT client_secret_sealed FROM providers WHERE id = $1) WHERE id = $2`, id, other)
	if p, err := s.Provider(t.Context(), other); fault.KindOf(err) != fault.Unavailable || p.ClientSecret.IsSet() {
		t.Errorf("a moved secret opens: %v", err)
	}
	// Or they leave it where it is, and send it to an issuer of their own.
	v.exec(`UPDATE providers SET issuer = 'https://id.example.net' WHERE id = $1`, id)
	if p, err := s.Provider(t.Context(), id); fault.KindOf(err) != fault.Unavailable || p.ClientSecret.IsSet() {
		t.Errorf("a secret opens for another issuer: %v", err)
	}
	v.exec(`UPDATE providers SET issuer = $2 WHERE id = $1`, id, provider("people").Issuer)
	// The names of providers are there all the same: one secret that does not open keeps nobody from the others.
	if all := got(s.Providers(t.Context()))(t); len(all) != 2 || all[0].ClientSecret.IsSet() {
		t.Errorf("providers %v", all)
	}
	v.signedIn(s, "cookie-b")
	v.exec(`UPDATE sessions SET id_token_sealed = (SELECT id_token_sealed FROM sessions WHERE id_hash = $1) WHERE id_hash <> $1`, hash)
	if ended := got(s.EndSession(t.Context(), db.HashToken("cookie-b"), nil))(t); ended.IDToken.IsSet() {
		t.Error("a moved ID token opens")
	}
	if ended := got(s.EndSession(t.Context(), hash, nil))(t); ended.IDToken.Reveal() != "the-id-token-of-cookie-a" {
		t.Error("the ID token is another one")
	}

	// Another key of the same name is no key.
	if _, err := v.store(secret.NewKey("one")).Provider(t.Context(), id); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("opened under another key: %v", err)
	}
	if _, err := v.owner.Exec(t.Context(), `UPDATE providers SET client_secret_sealed = 'the-client-secret'`); err == nil {
		t.Error("the sealed column takes what is not sealed")
	}
}

// Without a key nothing is stored that would have to be sealed, and what an older server stored is forgotten or told.
func TestNothingIsStoredWithoutAKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	s := v.store()
	_, err := s.SaveProvider(t.Context(), provider("people"))
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != "no_secret_key" || !strings.Contains(err.Error(), "SIGNALBOX_SECRET_KEYS") {
		t.Errorf("a client secret without a key: %v", err)
	}
	if all := v.everything(); strings.Contains(all, "people") {
		t.Errorf("the provider was saved: %s", all)
	}
	public := provider("people")
	public.ClientSecret = secret.Value{}
	id := got(s.SaveProvider(t.Context(), public))(t)
	session := got(s.SignIn(t.Context(), db.SignIn{Provider: id, Subject: "x", Name: "X", AuthTime: time.Now()}))(t)
	session.IDToken = secret.New("the-id-token")
	must(t, s.StartSession(t.Context(), session, db.HashToken("c"), nil, time.Hour, time.Hour))
	if all := v.everything(); strings.Contains(all, "the-id-token") || strings.Contains(all, "v1.") {
		t.Errorf("the ID token was stored: %s", all)
	}
	v.exec(`UPDATE sessions SET id_token = 'left by an older server'`)
	if n := got(s.Reseal(t.Context()))(t); n != 1 || strings.Contains(v.everything(), "older server") {
		t.Errorf("%d ID tokens were forgotten", n)
	}
	if ended := got(s.EndSession(t.Context(), db.HashToken("c"), nil))(t); ended.IDToken.IsSet() || ended.Provider != id {
		t.Errorf("ended %+v", ended)
	}
}

// S3: a new key takes over everything while the old one still opens; then the old one may go. A key that went too early costs
// nothing but itself.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	v, one, two := newVault(t), secret.NewKey("one"), secret.NewKey("two")
	s := v.store(one)
	for _, cookie := range []string{"a", "b", "c"} {
		v.signedIn(s, cookie)
	}
	id := got(s.SaveProvider(t.Context(), provider("others")))(t)
	// An older server writes beside us, and one row is of a key that nobody has.
	v.exec(`UPDATE providers SET client_secret = client_secret_sealed, client_secret_sealed = '' WHERE name = 'people'`)
	v.exec(`UPDATE providers SET client_secret = 'the-plain-one' WHERE name = 'people'`)
	v.exec(`UPDATE sessions SET id_token_sealed = replace(id_token_sealed, 'v1.one.', 'v1.gone.') WHERE id_hash = $1`, db.HashToken("b"))

	if n, err := v.store(two).Reseal(t.Context()); !errors.Is(err, secret.ErrNoKey) || n != 1 {
		t.Errorf("without the old key %d values were sealed, %v", n, err)
	}
	both := v.store(two, one)
	n, err := both.Reseal(t.Context())
	if n != 3 || !errors.Is(err, secret.ErrNoKey) || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("%d values were sealed, %v", n, err)
	}
	counts := map[string]int{}
	for _, k := range got(both.SecretKeys(t.Context()))(t) {
		counts[k.Name] = k.Secrets
	}
	if counts["two"] != 4 || counts["gone"] != 1 || counts["one"] != 0 || counts[""] != 0 {
		t.Errorf("by key: %v", counts)
	}
	if n, err := both.Reseal(t.Context()); n != 0 || err == nil {
		t.Errorf("again: %d, %v", n, err)
	}
	only := v.store(two)
	if p := got(only.Provider(t.Context(), id))(t); p.ClientSecret.Reveal() != "the-client-secret-of-others" {
		t.Error("the client secret is lost")
	}
	people := got(only.SaveProvider(t.Context(), provider("people")))(t)
	v.exec(`UPDATE providers SET client_secret = 'the-newest-one' WHERE id = $1`, people) // beside what is sealed
	for _, when := range []string{"before", "after"} {
		if p := got(only.Provider(t.Context(), people))(t); p.ClientSecret.Reveal() != "the-newest-one" {
			t.Errorf("what an older server wrote is lost %s it was sealed", when)
		}
		_, err := only.Reseal(t.Context())
		if err != nil && !errors.Is(err, secret.ErrNoKey) {
			t.Error(err)
		}
	}
	if ended := got(only.EndSession(t.Context(), db.HashToken("c"), nil))(t); ended.IDToken.Reveal() != "the-id-token-of-c" {
		t.Error("the ID token is lost")
	}
	if ended := got(only.EndSession(t.Context(), db.HashToken("b"), nil))(t); ended.IDToken.IsSet() {
		t.Error("what no key opens was opened")
	}
	if strings.Contains(v.everything(), "the-") {
		t.Error("a secret lies open")
	}
}
