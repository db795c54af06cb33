package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/internal/typeid"
)

// R-VER-1: the checks of a repository are what its administrator typed: quotes hold words together, what only a shell
// could carry out is refused with the way on, and the page shows the commands as they will run.
func TestRepositoryFormReadsCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("clone", "--quiet", "--bare", "acme/api.git", "acme/quoted.git")
	admin := w.signedIn(t, adam)
	form := func(name, verify string) url.Values {
		return url.Values{"name": {name}, "forge": {typeid.Format(typeid.Forge, db.LocalForge)}, "remote": {"acme/quoted.git"}, "default_branch": {"main"}, "verify": {verify}, "idempotency_key": {db.NewSecret()}}
	}
	for typed, says := range map[string]string{
		"make test\ngo vet && go test": "command 2, go vet && go test: & means something only to a shell",
		`sh -c 'echo`:                  "a single quote is not closed",
		"make test\nmake test":         `two checks are named "make test"`,
	} {
		a := admin.post(t, "/repositories", form("acme/refused", typed)).want(t, http.StatusUnprocessableEntity)
		page := a.page(t)
		if text := page.Find("#e-verify").Text(); !strings.Contains(text, says) {
			t.Errorf("%q is answered %q, want %q", typed, text, says)
		}
		if kept := page.Find("#f-verify").Text(); kept != typed {
			t.Errorf("the form kept %q of %q", kept, typed)
		}
	}
	typed := "go test ./...\nsh -c \"echo a && echo b\""
	admin.post(t, "/repositories", form("acme/quoted", typed)).want(t, http.StatusSeeOther)
	all, err := w.store.Repositories(t.Context(), db.DefaultTenant, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, repo := range all {
		if repo.Name == "acme/refused" {
			t.Error("a refused repository was registered")
		}
		if repo.Name == "acme/quoted" {
			for _, c := range repo.Verification {
				got = append(got, c.Argv)
			}
		}
	}
	if diff := cmp.Diff([][]string{{"go", "test", "./..."}, {"sh", "-c", "echo a && echo b"}}, got); diff != "" {
		t.Errorf("stored commands (-want +got)\n%s", diff)
	}
	if page := admin.get(t, "/repositories").page(t).Find(".repo").Text(); !strings.Contains(page, "sh -c 'echo a && echo b'") {
		t.Errorf("the page shows %s", page)
	}
}
