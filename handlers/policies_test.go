package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/wire"
)

// An administrator writes a version on the page: mistakes are named with their line while the text is kept, a version is
// stored with its reason, listed and compared, and nobody else may.
func TestPolicyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, adam)
	page := b.get(t, "/policies/new").want(t, http.StatusOK).page(t)
	key := page.Find("#policy-form input[name=idempotency_key]").AttrOr("value", "")
	bad := url.Values{"idempotency_key": {key}, "document": {"version: page-1\nlimits: {max_attempts: 99}\n"}, "reason": {"Kept reason."}}
	for _, to := range []string{"/policies", "/policies/simulate"} {
		a := b.post(t, to, bad).want(t, http.StatusUnprocessableEntity)
		if !strings.Contains(a.body, "Line 2") || !strings.Contains(a.body, "max_attempts: 99") || !strings.Contains(a.body, "Kept reason.") {
			t.Errorf("%s lost the text or its mistake:\n%s", to, a.body)
		}
	}
	if a := b.post(t, "/policies/check", bad, "HX-Request", "true").want(t, http.StatusOK); strings.Contains(a.body, "<html") || !strings.Contains(a.body, "Line 2") {
		t.Errorf("while typing: %s", a.body)
	}
	// An example that comes out differently refuses the version, wherever it is to be stored.
	differs := "version: page-1\ntests:\n  - name: nobody looks\n    facts: {repository: acme/api}\n    expect: {approvals: 0}\n"
	const told = "example &#34;nobody looks&#34; comes out differently: the result needs 1 approvals and not 0"
	refused := b.post(t, "/policies", url.Values{"idempotency_key": {key}, "document": {differs}, "reason": {"Kept reason."}}).want(t, http.StatusUnprocessableEntity)
	if !strings.Contains(refused.body, told) || !strings.Contains(refused.body, "Line 5") {
		t.Errorf("an example that comes out differently:\n%s", refused.body)
	}
	if a := w.cli(t, adam).call(t, "POST", "/policies", wire.PolicyChange{Document: differs, Reason: "x"}).want(t, http.StatusUnprocessableEntity); !strings.Contains(a.body, "nobody looks") {
		t.Errorf("through the API: %s", a.body)
	}
	good := url.Values{"idempotency_key": {key}, "document": {"version: page-1\r\ngates:\r\n  patch: {when: always, quorum: 2}\r\n"}, "reason": {"Two people look."}}
	if a := b.post(t, "/policies/check", good).want(t, http.StatusOK); !strings.Contains(a.body, "can be stored") {
		t.Error("a good text is not called good")
	}
	b.post(t, "/policies", good).want(t, http.StatusSeeOther)
	a := b.get(t, "/policies").want(t, http.StatusOK)
	if !strings.Contains(a.body, "Two people look.") || !strings.Contains(a.body, "In force") {
		t.Errorf("the list:\n%s", a.body)
	}
	if a := b.get(t, "/policies/diff?from=default-1&to=page-1").want(t, http.StatusOK); a.page(t).Find(".dtable code").Length() != 3 {
		t.Errorf("the difference:\n%s", a.body)
	}
	if a := b.get(t, "/policies/versions/page-1").want(t, http.StatusOK); !strings.Contains(a.body, "quorum: 2") {
		t.Error("the version's text is missing")
	}
	b.get(t, "/policies/versions/none").want(t, http.StatusNotFound)
	r := w.signedIn(t, rita)
	r.post(t, "/policies", good).want(t, http.StatusForbidden)
	r.get(t, "/policies/new").want(t, http.StatusForbidden)
	// S10: an API token never changes a policy, whatever its owner may do.
	who := w.user(t, adam)
	script := client{w, db.Mint(db.PrefixToken)}
	got(w.store.CreateToken(t.Context(), db.Token{Tenant: who.Tenant, User: who.User, Name: "script", Scopes: []string{"read", "tasks", "repositories"}, ExpiresAt: time.Now().Add(time.Hour)}, script.token))(t)
	script.call(t, "POST", "/policies", wire.PolicyChange{Document: "version: token-1\n", Reason: "x"}).want(t, http.StatusForbidden)
}

// With two administrators asked for, the page shows the proposed change to both, and only the other one may confirm it.
func TestPolicyProposalPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: two-1\nchanges: {second_admin: true}\n"))(t)
	b := w.signedIn(t, adam)
	form := url.Values{"idempotency_key": {"0123456789"}, "document": {"version: two-2\n"}, "reason": {"One is enough."}}
	b.post(t, "/policies", form).want(t, http.StatusSeeOther)
	a := b.get(t, "/policies").want(t, http.StatusOK)
	if p := a.page(t); p.Find("form[action$=confirm]").Length() != 0 || p.Find("form[action$=withdraw]").Length() != 1 || !strings.Contains(a.body, "another administrator must confirm") {
		t.Errorf("who proposed it is offered to confirm it:\n%s", a.body)
	}
	b.post(t, "/policies/versions/two-2/confirm", url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusForbidden)
	if rules := got(w.store.Rules(t.Context(), db.DefaultTenant))(t); rules.Version != "two-1" {
		t.Errorf("%s is in force", rules.Version)
	}
	b.post(t, "/policies/versions/two-2/withdraw", url.Values{"idempotency_key": {"0123456789"}}).want(t, http.StatusSeeOther)
}
