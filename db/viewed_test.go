package db_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
)

// What a person has viewed is theirs alone, of one run and in one tenant; the newest state counts, and after 90 days and a
// login none of it is left.
func TestViewedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	v := db.Viewer{Tenant: w.Tenant, User: w.Requester.ID, Run: got(w.Run(t.Context(), drive.Ordinary()))(t).Run}
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	long := strings.Repeat("deep/", 3000) + "file"
	must(t, w.Store.MarkViewed(t.Context(), v, "a.go", one))
	must(t, w.Store.MarkViewed(t.Context(), v, "a.go", two))
	must(t, w.Store.MarkViewed(t.Context(), v, long, one))
	seen := got(w.Store.Viewed(t.Context(), v))(t)
	for path, want := range map[string]string{"a.go": two, long: one, "b.go": ""} {
		if digest, ok := seen.Of(path); digest != want || ok != (want != "") {
			t.Errorf("%.20s: %q %v", path, digest, ok)
		}
	}
	for name, other := range map[string]db.Viewer{"another person": {v.Tenant, w.Approvers[0].ID, v.Run}, "another run": {v.Tenant, v.User, uuid.New()}, "another tenant": {uuid.New(), v.User, v.Run}} {
		if n := len(got(w.Store.Viewed(t.Context(), other))(t)); n != 0 {
			t.Errorf("%s has viewed %d files", name, n)
		}
		must(t, w.Store.UnmarkViewed(t.Context(), other, "a.go"))
	}
	must(t, w.Store.UnmarkViewed(t.Context(), v, long))
	must(t, w.Store.UnmarkViewed(t.Context(), v, long))
	if n := len(got(w.Store.Viewed(t.Context(), v))(t)); n != 1 {
		t.Errorf("%d files are viewed, want 1", n)
	}
	if err := w.Store.MarkViewed(t.Context(), v, "a.go", "no digest"); err == nil {
		t.Error("nonsense is kept as a digest")
	}

	provider := got(w.Store.SaveProvider(t.Context(), db.Provider{Name: "p", Issuer: "https://p.example", ClientID: "c"}))(t)
	in := got(w.Store.SignIn(t.Context(), db.SignIn{Provider: provider, Subject: "s", Name: "S"}))(t)
	w.owner(t, `UPDATE viewed_files SET user_id = '`+in.User.String()+`', viewed_at = now() - interval '91 days'`)
	must(t, w.Store.MarkViewed(t.Context(), v, "a.go", one))
	got(w.Store.SignIn(t.Context(), db.SignIn{Provider: provider, Subject: "s", Name: "S"}))(t)
	if n := w.count(t, `SELECT count(*) FROM viewed_files`); n != 1 {
		t.Errorf("%d rows are left, want the new one", n)
	}
}
