package git_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/internal/egress"
	"signalbox/internal/egress/egresstest"
	"signalbox/internal/git"
)

// S9 for clone addresses (W11, W12): git looks names up by itself and by default goes where it is sent; it is held to the
// addresses that were checked.
func TestGitReachesNothingInside(t *testing.T) {
	t.Parallel()
	in, names := egresstest.Listen(t), egresstest.Serve(t)
	open := func(entries ...string) *git.Git {
		t.Helper()
		allow, err := egress.ParseAllow("SIGNALBOX_GIT_ALLOW", entries)
		if err != nil {
			t.Fatal(err)
		}
		g, err := git.New(t.Context(), git.Config{Home: t.TempDir(), Allow: allow, Resolver: names.Resolver(), RemoteTimeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := open(fmt.Sprintf("%s:%d", egresstest.Outside, in.Port), fmt.Sprintf(":%d", in.Port))
	cases := 0
	ask := func(g *git.Git, address string) error {
		cases++
		r, err := g.ParseRemote(address)
		if err == nil {
			_, err = g.LsRemote(t.Context(), r, "main")
		}
		return err
	}
	for i, addr := range egresstest.ClosedAddresses() {
		if err := ask(g, egresstest.Address(addr, in.Port)+"/a/b.git"); git.CodeOf(err) != git.CodeRemoteRefused {
			t.Errorf("%s: %v", addr, err)
		}
		name := fmt.Sprintf("n%d.example.org", i)
		names.Set(name, []string{addr})
		if err := ask(g, egresstest.Address(name, in.Port)+"/a/b.git"); git.CodeOf(err) != git.CodeRemoteRefused || !strings.Contains(err.Error(), "SIGNALBOX_GIT_ALLOW") {
			t.Errorf("a name that leads to %s: %v", addr, err)
		}
	}
	// git is started for these: one answer is open, the other not; or the name has moved by the time git would ask.
	for i, addr := range []string{"127.0.0.1", "127.0.0.3", "::1", "0.0.0.0", "::ffff:127.0.0.1"} {
		name := fmt.Sprintf("m%d.example.org", i)
		for _, lists := range [][][]string{{{egresstest.Outside, addr}}, {{addr, egresstest.Outside}}, {{egresstest.Outside}, {addr}}} {
			names.Set(name, lists...)
			if err := ask(g, egresstest.Address(name, in.Port)+"/a/b.git"); err == nil {
				t.Errorf("%s %q was answered", addr, lists)
			}
		}
	}
	for _, spelling := range egresstest.Spellings() {
		if err := ask(g, fmt.Sprintf(spelling, in.Port)+"a/b.git"); err == nil {
			t.Errorf("%q was answered", spelling)
		}
	}
	// Somebody who may be called sends on to where nobody may, or says that the objects lie there. They stay with their own protocol,
	// so that it is not the change of protocol that git refuses.
	inside := []string{"127.0.0.1", "127.0.0.3", "::1", "0.0.0.0"}
	sender := sendOn(t, func(i int) string {
		return strings.Replace(egresstest.Address(inside[i], in.Port), "https:", "http:", 1)
	})
	s := open(strings.TrimPrefix(sender, "http://"), fmt.Sprintf(":%d", in.Port))
	for i, addr := range inside {
		if err := ask(s, fmt.Sprintf("%s/redirect/%d/x.git", sender, i)); err == nil {
			t.Errorf("sent on to %s and answered", addr)
		}
		cases++
		r, err := s.ParseRemote(fmt.Sprintf("%s/alternate/%d/x.git", sender, i))
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Mirror(t.Context(), t.TempDir(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Branch(t.Context(), "main"); err == nil {
			t.Errorf("objects came from %s", addr)
		}
	}
	if n := in.Hits(); n != 0 {
		t.Errorf("S9: %d connections came inside", n)
	}
	if cases < 100 {
		t.Errorf("only %d cases", cases)
	}
	t.Logf("S9, clone addresses: %d cases, %d internal hits", cases, in.Hits())
	// What is counted can be reached.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := open("127.0.0.1:*")
	for i, name := range []string{"open.example.org", "oPEn.eXample.ORG"} { // the pin holds in whatever case a name is written
		names.Set(name, []string{"127.0.0.1"})
		r, err := o.ParseRemote(egresstest.Address(name, in.Port) + "/a/b.git")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.LsRemote(ctx, r, "main"); err == nil || in.Hits() <= i {
			t.Errorf("the open guard, %s: %v, %d hits, so the count says nothing", name, err, in.Hits())
		}
	}
}

// sendOn serves addresses that are open: one kind redirects to place(i), the other is a repository whose objects lie there.
func sendOn(t *testing.T, place func(i int) string) string {
	t.Helper()
	l, err := net.Listen("tcp", egresstest.Outside+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4)
		i, err := strconv.Atoi(parts[1])
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case parts[0] == "redirect":
			http.Redirect(w, r, place(i)+"/x.git/"+parts[3]+"?"+r.URL.RawQuery, http.StatusFound)
		case parts[3] == "info/refs":
			fmt.Fprintf(w, "%s\trefs/heads/main\n", strings.Repeat("ab", 20))
		case parts[3] == "HEAD":
			fmt.Fprintln(w, "ref: refs/heads/main")
		case parts[3] == "objects/info/http-alternates", parts[3] == "objects/info/alternates":
			fmt.Fprintln(w, place(i)+"/objects")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// W11: a server that prints back what it was sent puts no credential into an error, whichever part of it it prints.
func TestAnEchoTellsNoCredential(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	pair := base64.StdEncoding.EncodeToString([]byte("signalbox:s3cr3t-word"))
	parts := []string{"Authorization: Basic " + pair, pair, "signalbox:s3cr3t-word", "s3cr3t-word"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil || r.Header.Get("Authorization") != "Basic "+pair {
			t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "We do not know you, <%s>.\n", parts[i])
	}))
	t.Cleanup(server.Close)
	for i, part := range parts {
		r, err := h.git.ParseRemote(fmt.Sprintf("%s/%d/x.git", server.URL, i))
		if err != nil {
			t.Fatal(err)
		}
		r.AuthHeader = parts[0]
		if _, err = h.git.LsRemote(t.Context(), r, "main"); err == nil || strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "We do not know you, <[redacted]>") {
			t.Errorf("%q is printed back: %v", part, err)
		}
	}
}
