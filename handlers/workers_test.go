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

// R-TEST-17, R-Q-7: the page and the API show a provider that asked to slow down; an administrator ends its pause, without a
// script, and nobody else is offered to.
func TestPausedProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.signedIn(t, idPerson{sub: "ada", name: "Ada Admin", groups: []string{"admins"}})
	viewer := w.signedIn(t, idPerson{sub: "vera", name: "Vera Viewer", groups: []string{"viewers"}})
	if admin.get(t, "/workers").want(t, http.StatusOK).page(t).Find("#providers").Length() != 0 {
		t.Error("a section about nothing")
	}
	owner := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer owner.Close(t.Context())
	got(owner.Exec(t.Context(), `INSERT INTO provider_pauses (provider, until, failures, reason) VALUES ('stoic', now() + interval '9 minutes', 3, 'not for everybody')`))(t)
	form := url.Values{"provider": {"stoic"}, "idempotency_key": {db.NewSecret()}}
	seen := viewer.get(t, "/workers").want(t, http.StatusOK)
	if !strings.Contains(seen.body, "Provider stoic asked to slow down.") || !strings.Contains(seen.body, "3 times in a row") || strings.Contains(seen.body, "not for everybody") ||
		seen.page(t).Find("form[action='/workers/providers/resume']").Length() != 0 {
		t.Errorf("a viewer sees:\n%s", seen.body)
	}
	viewer.post(t, "/workers/providers/resume", form).want(t, http.StatusForbidden)
	if admin.get(t, "/workers").want(t, http.StatusOK).page(t).Find("form[action='/workers/providers/resume']").Length() != 1 {
		t.Error("an administrator is offered no way to end the pause")
	}
	admin.post(t, "/workers/providers/resume", form).want(t, http.StatusSeeOther)
	admin.post(t, "/workers/providers/resume", form).want(t, http.StatusSeeOther) // sent twice
	refused := admin.post(t, "/workers/providers/resume", url.Values{"provider": {"stoic"}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusConflict)
	if !strings.Contains(refused.body, "provider stoic is not paused") {
		t.Errorf("refused:\n%s", refused.body)
	}
	for _, name := range []string{"", "a\x01b", "\u202eevil", "../x", strings.Repeat("x", 40_000)} {
		refused := admin.post(t, "/workers/providers/resume", url.Values{"provider": {name}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusUnprocessableEntity)
		if !strings.Contains(refused.body, "this is no name of a provider") || name != "" && strings.Contains(refused.body, name) {
			t.Errorf("%.10q is repeated", name)
		}
	}
	if n := audited(t, w, "provider.resume"); n != 1 {
		t.Errorf("%d lines in the audit, want 1", n)
	}
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

// Field reports: temporalio/ui#3475, littlehorse#2427. What a worker is, is computed from its last heartbeat: one that is silent is
// not said to run, whatever it said of itself last.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	w.worker(t, "one").claim(t, "execute")
	row := func() string {
		return b.get(t, "/workers").want(t, http.StatusOK).page(t).Find("tr[id^='worker-']").Text()
	}
	if text := row(); !strings.Contains(text, "Ready") || strings.Contains(text, "No heartbeat") {
		t.Errorf("a worker that was heard of: %s", text)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), "UPDATE worker_boots SET heartbeat_at = now() - interval '1 hour'")
	must(t, err)
	if text := row(); strings.Contains(text, "Ready") || !strings.Contains(text, "No heartbeat") {
		t.Errorf("a worker that is silent: %s", text)
	}
}
