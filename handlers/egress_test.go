package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/egress/egresstest"
)

// O17, S9 for login providers: what a provider says about where its keys, tokens and people are found, and where it sends us on
// to, leads nowhere inside, and nobody is signed in by it.
func TestProvidersLeadNowhereInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := egresstest.Listen(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	// The tests' provider is at 127.0.0.1, which is open here; the rest of this machine is as closed as the rest of the inside.
	var closed []string
	for _, addr := range egresstest.ClosedAddresses() {
		if addr != "127.0.0.1" && addr != "::ffff:127.0.0.1" {
			closed = append(closed, addr)
		}
	}
	cases := 0
	try := func(name, field, address string) {
		t.Helper()
		cases++
		p, at := w.otherProvider(t, fmt.Sprintf("%s %d", name, cases), func(d map[string]any) { d[field] = address })
		p.signInAs(adam)
		// Without the claim the user info is asked for the groups.
		p.misbehave(func(c map[string]any) { delete(c, "groups") })
		if a := w.browser().walk(t, at, nil); a.StatusCode < 400 || !strings.Contains(a.body, "obody") || strings.Contains(a.body, address) {
			t.Errorf("%s: answered %d, or repeats the address", name, a.StatusCode)
		}
	}
	for i, addr := range closed {
		field := []string{"jwks_uri", "token_endpoint", "userinfo_endpoint"}[i%3]
		try(field+" at "+addr, field, egresstest.Address(addr, in.Port)+"/x")
	}
	for _, spelling := range egresstest.Spellings() {
		if address := fmt.Sprintf(spelling, in.Port); !strings.Contains(address, "127.0.0.1") {
			try("spelling", "token_endpoint", address)
		}
	}
	for _, field := range []string{"jwks_uri", "userinfo_endpoint", "token_endpoint"} {
		sends := http.RedirectHandler(egresstest.Address("127.0.0.3", in.Port), http.StatusTemporaryRedirect)
		try("sent on from "+field, field, listen(t, sends))
	}
	// A description that is itself inside, configured by somebody who may configure providers.
	for i, addr := range closed[:12] {
		cases++
		id := got(w.store.SaveProvider(t.Context(), db.Provider{Name: fmt.Sprintf("inside %d", i), Issuer: egresstest.Address(addr, in.Port), ClientID: clientID, GroupsClaim: "groups"}))(t)
		a := w.browser().walk(t, id, nil)
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "its address is one that this server does not call") {
			t.Errorf("issuer at %s: answered %d", addr, a.StatusCode)
		}
	}
	var sessions int
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&sessions))
	if sessions != 0 || in.Hits() != 0 {
		t.Errorf("S9: %d sessions, %d internal hits", sessions, in.Hits())
	}
	if !strings.Contains(w.log.String(), "login provider: no connection was made to 127.0.0.3:") {
		t.Error("the log does not say which address was refused")
	}
	if cases < 80 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("S9, login providers: %d cases, %d internal hits, %d sessions", cases, in.Hits(), sessions)
}

func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
