package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
)

func audited(t *testing.T, w *world, action string) (n int64) {
	t.Helper()
	owner := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer owner.Close(t.Context())
	must(t, owner.QueryRow(t.Context(), "SELECT count(*) FROM audit_log WHERE action = $1", action).Scan(&n))
	return n
}

// R-Q-7, R-Q-9, R-Q-10, R-WRK-1: the page says first how things are, shows every queue, worker and waiting run with its
// reason, and an administrator pauses and resumes a queue from it without a script, for a reason that is kept.
func TestWorkersPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.signedIn(t, idPerson{sub: "ada", name: "Ada Admin", groups: []string{"admins"}})
	viewer := w.signedIn(t, idPerson{sub: "vera", name: "Vera Viewer", groups: []string{"viewers"}})
	page := admin.get(t, "/workers").want(t, http.StatusOK)
	if !strings.Contains(page.body, "Nothing to do, and nobody to do it.") || page.page(t).Find("form[action='/workers/queues/pause']").Length() != 1 {
		t.Errorf("an empty installation:\n%s", page.body)
	}
	if viewer.get(t, "/workers").want(t, http.StatusOK).page(t).Find("form[action^='/workers']").Length() != 0 {
		t.Error("a viewer is offered buttons that do not work")
	}
	viewer.post(t, "/workers/queues/pause", url.Values{"queue": {"default"}, "reason": {"x"}, "idempotency_key": {"0123456789"}}).want(t, http.StatusForbidden)

	refused := admin.post(t, "/workers/queues/pause", url.Values{"queue": {"default"}, "reason": {" "}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusUnprocessableEntity)
	if !strings.Contains(refused.body, "Nothing was paused: say why") || refused.page(t).Find("tr#queue-default details[open]").Length() != 1 {
		t.Errorf("refused:\n%s", refused.body)
	}
	form := url.Values{"queue": {"default"}, "reason": {"The registry is down."}, "idempotency_key": {db.NewSecret()}}
	admin.post(t, "/workers/queues/pause", form).want(t, http.StatusSeeOther)
	admin.post(t, "/workers/queues/pause", form).want(t, http.StatusSeeOther) // sent twice
	paused := admin.get(t, "/workers").want(t, http.StatusOK)
	if !strings.Contains(paused.body, "The registry is down.") || paused.page(t).Find("form[action='/workers/queues/resume']").Length() != 1 {
		t.Errorf("paused:\n%s", paused.body)
	}
	admin.post(t, "/workers/queues/resume", url.Values{"queue": {"default"}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusSeeOther)
	admin.post(t, "/workers/queues/resume", url.Values{"queue": {"default"}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusConflict)
	if audited(t, w, "queue.pause") != 1 || audited(t, w, "queue.resume") != 1 {
		t.Errorf("audited %d pauses, %d resumptions", audited(t, w, "queue.pause"), audited(t, w, "queue.resume"))
	}
	admin.post(t, "/workers/wrk_01m8m1aqhhfh1vgchmwcf2qjxb/drain", url.Values{"idempotency_key": {db.NewSecret()}}).want(t, http.StatusNotFound)
}
