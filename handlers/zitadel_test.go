package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/oidc"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
)

// zitadel is a provider that others wrote, in this process, and how often it asked who is there.
type zitadel struct {
	url, login string
	asked      int
}

func (w *world) zitadel(t *testing.T) *zitadel {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	t.Cleanup(server.Close)
	id := typeid.Format(typeid.Provider, got(w.store.SaveProvider(t.Context(), db.Provider{
		Name: "Zitadel's", Issuer: server.URL, ClientID: "signalbox", ClientSecret: secret.New("needed"), GroupsClaim: "groups", Groups: map[string][]policy.Role{"approver": {policy.RoleApprover}},
	}))(t))
	handler = got(oidc.New(oidc.Options{
		Issuer: server.URL, ClientID: "signalbox", ClientSecret: "needed", RedirectURIs: []string{w.url + "/auth/oidc/" + id + "/callback"}, KeyDir: t.TempDir(), People: oidc.SamplePeople(),
	}))(t)
	return &zitadel{url: server.URL, login: "/login/" + id}
}

// walk follows a browser through product and provider, pressing Ana's button where the provider asks, until the product leads to
// a page that is no step of a login. It returns the addresses it came through, the last one not visited.
func (f *zitadel) walk(t *testing.T, b *browser, a answer) (through []string) {
	t.Helper()
	for range 12 {
		if a.StatusCode == http.StatusOK {
			f.asked++
			form := url.Values{"id": {a.page(t).Find("input[name=id]").AttrOr("value", "")}, "person": {"ana"}}
			r := got(http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/login", strings.NewReader(form.Encode())))(t)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			a = b.do(t, r)
			continue
		}
		to := got(a.Location())(t)
		through = append(through, to.String())
		if strings.HasPrefix(to.String(), b.w.url) && !strings.HasPrefix(to.Path, "/auth/") && !strings.HasPrefix(to.Path, "/login") {
			return through
		}
		a = b.get(t, to.String())
	}
	t.Fatalf("no end of redirects: %v", through)
	return nil
}

// O1, O12, O14, A24, R-UI-4: with a provider that is not ours a person signs in, confirms who they are when their login is old (it
// asks again, max_age), and signs out there as well as here.
func TestAForeignProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	f := w.zitadel(t)
	b := w.browser()
	if through := f.walk(t, b, b.get(t, f.login+"?return_to=/inbox")); through[len(through)-1] != w.url+"/inbox" || !b.signedIn(t) || f.asked != 1 {
		t.Fatalf("signed in: %t, asked %d times, through %v", b.signedIn(t), f.asked, through)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	got(conn.Exec(t.Context(), "UPDATE sessions SET auth_time = now() - interval '16 minutes'"))(t)
	through := f.walk(t, b, b.get(t, "/login/confirm?return_to=/inbox"))
	if through[len(through)-1] != w.url+"/inbox?done=confirmed" || f.asked != 2 {
		t.Errorf("confirmed: asked %d times, through %v", f.asked, through)
	}
	var age time.Duration
	must(t, conn.QueryRow(t.Context(), "SELECT max(now() - auth_time) FROM sessions").Scan(&age))
	if age > time.Minute {
		t.Errorf("the login is %s old after it was confirmed", age)
	}
	out := strings.TrimPrefix(b.post(t, "/logout", nil).want(t, http.StatusOK).Header.Get("Refresh"), "0; url=")
	if !strings.HasPrefix(out, f.url) {
		t.Fatalf("signing out leads to %q", out)
	}
	through = f.walk(t, b, b.get(t, out))
	if through[len(through)-1] != w.url+"/" || b.signedIn(t) || f.asked != 2 {
		t.Errorf("signed in: %t, asked %d times, through %v", b.signedIn(t), f.asked, through)
	}
}
