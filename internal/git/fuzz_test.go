package git_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/egress"
	"signalbox/internal/git"
)

// FuzzParseRemote: whatever address somebody registers, what git is given is https, or plain http to an address that was opened; it names
// nobody, asks nothing, is no option, and reads the same again. No folder is reached where there is no local forge.
func FuzzParseRemote(f *testing.F) {
	allow, err := egress.ParseAllow("test", []string{"127.0.0.1:*"})
	if err != nil {
		f.Fatal(err)
	}
	g, err := git.New(f.Context(), git.Config{Home: f.TempDir(), Allow: allow})
	if err != nil {
		f.Fatal(err)
	}
	for _, raw := range []string{
		"https://example.org/a/b.git", "http://127.0.0.1:3000/a", "ext::sh -c touch% x", "--upload-pack=x", "https://a@b/x", "https://example.org/%2e%2e/x", "file:///etc", "/etc", "https://[::1]/x", "https://127.1/x",
		"https://example.org\\@evil.org/x", "HTTPS://EXAMPLE.org:443/x/", "https://example.org/a/../b",
	} {
		f.Add(raw)
	}
	plain := regexp.MustCompile(`^(https://[A-Za-z0-9.\[\]:-]+|http://127\.0\.0\.1(:\d+)?)(/[A-Za-z0-9._~/+@-]+)$`)
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := g.ParseRemote(raw)
		if err != nil {
			if git.CodeOf(err) != git.CodeRemoteRefused {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		u, err := url.Parse(r.String())
		if err != nil || !plain.MatchString(r.String()) || r.Local() || u.User != nil || strings.Contains(u.Path, "/-") || strings.Contains(u.Path+"/", "/../") {
			t.Fatalf("%q is %q: %v", raw, r, err)
		}
		if again, err := g.ParseRemote(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%q is %q, and that again %q: %v", raw, r, again, err)
		}
	})
}
