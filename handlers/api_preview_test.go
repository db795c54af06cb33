package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// R-ADM-1: the API foresees what the form foresees, in the same sentences, and stores nothing either.
func TestPreviewByAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, ana)
	b, c := w.signedIn(t, rita), w.cli(t, rita)
	ask := wire.TaskCreate{Title: "One word", Goal: "Replace one word.", RepositoryId: typeid.Format(typeid.Repo, w.repo), Mode: "pr_created", Risk: "HIGH"}
	preview := func(ask wire.TaskCreate) wire.TaskPreview {
		t.Helper()
		return into[wire.TaskPreview](t, c.call(t, "POST", "/tasks/preview", ask).want(t, http.StatusOK))
	}
	p := preview(ask)
	page := b.preview(t, b.newTask(t, "goal", ask.Goal, "risk", "HIGH"))
	said := append([]string{p.Message, p.MayNotWhy, p.Wait.Message, p.Wait.Reason, p.LastRuns.Cost, p.Limits, "By policy " + p.PolicyVersion}, p.NotAsked...)
	for _, g := range p.Gates {
		said = append(append(said, g.Title, g.Short), g.Reasons...)
	}
	for _, text := range said {
		if !strings.Contains(page, strings.Join(strings.Fields(text), " ")) {
			t.Errorf("the API says %q, the page %s", text, page)
		}
	}
	if len(p.Gates) != 2 || p.Gates[0].Kind != "plan" || strings.Join(p.Gates[0].Approvers, " ") != "Ana Approver" || p.Admission != wire.WouldAdmit || p.Refused {
		t.Errorf("foreseen: %+v", p)
	}
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "schema: 1\nversion: preview\nadmission: {repositories: [other/*]}\n"))(t)
	if p := preview(ask); p.Admission != wire.WouldDeny || len(p.Reasons) == 0 || p.Wait != nil || p.LastRuns != nil || p.Limits != "" {
		t.Errorf("what policy refuses is expected to wait and cost: %+v", p)
	}
	ask.Risk, ask.RepositoryId = "", typeid.Format(typeid.Repo, typeid.New())
	c.call(t, "POST", "/tasks/preview", ask).want(t, http.StatusUnprocessableEntity)
	ask.RepositoryId = typeid.Format(typeid.Repo, w.repo)
	w.token(t, rita, "read").call(t, "POST", "/tasks/preview", ask).want(t, http.StatusOK)
	w.token(t, rita, "tasks").call(t, "POST", "/tasks/preview", ask).want(t, http.StatusForbidden)
	w.cli(t, ana).call(t, "POST", "/tasks/preview", ask).want(t, http.StatusForbidden)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var n int
	must(t, conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM policy_decisions)").Scan(&n))
	if n != 0 {
		t.Errorf("a preview stored %d rows", n)
	}
}
