package db_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// U7: what is written belongs to one person in one tenant, and ends with the decision that was made from it, in the same
// transaction: a refused one ends nothing.
func TestKeptTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Approvers: 2})
	at := w.at(t, run.WaitingForApproval)
	v := got(w.Verdict(t.Context(), at.Ref, w.Approvers[0], policy.RequestChanges, "Smaller steps."))(t)
	v.Draft = "gate:" + typeid.Format(typeid.Gate, v.Gate)
	mine := db.DraftKey{Tenant: w.Tenant, User: w.Approvers[0].ID, Key: v.Draft}
	step, longer, other, abroad := mine, mine, mine, mine
	step.Key += ":1:2"
	longer.Key += "x"
	other.User = w.Approvers[1].ID
	abroad.Tenant = uuid.New()
	for _, k := range []db.DraftKey{mine, step, longer, other} {
		must(t, w.Store.SaveDraft(t.Context(), k, "first"))
		must(t, w.Store.SaveDraft(t.Context(), k, k.Key))
	}
	kept := func(k db.DraftKey) (texts []string) {
		for _, d := range got(w.Store.Drafts(t.Context(), k))(t) {
			texts = append(texts, d.Text)
			if d.At.IsZero() {
				t.Error("nobody knows when it was kept")
			}
		}
		return texts
	}
	same(t, "kept", kept(mine), []string{mine.Key, step.Key})
	same(t, "kept elsewhere", kept(abroad), nil)

	stale := v
	stale.Digest = "0"
	if _, err := w.Store.Decide(t.Context(), stale); err == nil {
		t.Fatal("a stale verdict was taken")
	}
	same(t, "kept after a refusal", kept(mine), []string{mine.Key, step.Key})
	if a := got(w.Store.Decide(t.Context(), v))(t); a.State != run.GateChangesRequested {
		t.Fatalf("decided: %+v", a)
	}
	same(t, "kept after the decision", kept(mine), nil)
	same(t, "kept of another person", kept(other), []string{mine.Key})
	same(t, "kept of another form", kept(longer), []string{longer.Key})

	// An empty text is none; what is old is shown to nobody, and deleted when somebody signs in.
	must(t, w.Store.SaveDraft(t.Context(), longer, ""))
	same(t, "kept after it was emptied", kept(longer), nil)
	w.owner(t, `UPDATE drafts SET updated_at = now() - interval '31 days'`)
	same(t, "kept after a month", kept(other), nil)
	if n := w.count(t, `SELECT count(*) FROM drafts`); n != 1 {
		t.Fatalf("%d drafts, want the old one", n)
	}
	provider := got(w.Store.SaveProvider(t.Context(), db.Provider{Name: "p", Issuer: "https://p.example", ClientID: "c"}))(t)
	got(w.Store.SignIn(t.Context(), db.SignIn{Provider: provider, Subject: "s", Name: "S"}))(t)
	if n := w.count(t, `SELECT count(*) FROM drafts`); n != 0 {
		t.Errorf("%d old drafts are left", n)
	}
}

// same fails where two lists differ.
func same(t *testing.T, what string, have, want []string) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("%s: %q, want %q", what, have, want)
	}
}
