package handlers_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// R-RCV-1: over the API a resume tells what was found, releases what was set aside, and says where there is nothing to
// do; page and API show what was set aside meanwhile. The same key again gets the same answer.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	b.submit(t, "Replace one word.")
	l := w.worker(t, "one").claim(t, "execute")
	c := w.cli(t, rita)
	found := func(r wire.RunResumed) (all string) {
		for _, n := range r.Found {
			all += n.Code + " "
		}
		return all
	}
	r := into[wire.RunResumed](t, c.call(t, "POST", "/runs/"+l.as.RunId+"/resume", nil).want(t, http.StatusOK))
	if !strings.Contains(found(r), "lease_active") || len(r.Done) != 0 || !strings.HasPrefix(r.Next, "There is nothing to do") {
		t.Errorf("of a run that is worked on: %+v", r)
	}
	id := got(typeid.Parse(typeid.Run, l.as.RunId))(t)
	got(w.store.SetAside(t.Context(), id, "reaper", 6, errors.New("nothing <b>works</b>")))(t)
	if s := into[wire.Run](t, c.call(t, "GET", "/runs/"+l.as.RunId, nil)).Sentence; !strings.Contains(s, "Set aside") {
		t.Errorf("the API says %q", s)
	}
	if page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK); !strings.Contains(page.body, "Set aside") {
		t.Error("the page does not say that it was set aside")
	}
	key := []string{"Idempotency-Key", uuid.NewString()}
	r = into[wire.RunResumed](t, c.call(t, "POST", "/runs/"+l.as.RunId+"/resume", nil, key...).want(t, http.StatusOK))
	if !strings.Contains(found(r), "set_aside") || len(r.Done) != 1 || r.Done[0].Code != "released" {
		t.Errorf("of a run that was set aside: %+v", r)
	}
	again := c.call(t, "POST", "/runs/"+l.as.RunId+"/resume", nil, key...).want(t, http.StatusOK)
	if again.Header.Get("Idempotency-Replayed") != "true" || into[wire.RunResumed](t, again).Next != r.Next {
		t.Errorf("again: %v", again.Header)
	}
	if page := b.get(t, "/runs/"+l.as.RunId).want(t, http.StatusOK); strings.Contains(page.body, "Set aside") {
		t.Error("the page says still that it is set aside")
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer func() { must(t, conn.Close(t.Context())) }()
	var lines int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'run.resume' AND object_id = $1 AND tenant_id = $2`, l.as.RunId, db.DefaultTenant).Scan(&lines))
	if lines != 2 {
		t.Errorf("%d lines in the audit", lines)
	}
	c.call(t, "POST", "/runs/"+typeid.Format(typeid.Run, uuid.New())+"/resume", nil).want(t, http.StatusNotFound)
}

// R-RCV-1, R-Q-10: a run whose worker fell silent is listed on the page of workers, and whoever may ask for work releases it
// there without a script; the run waits again at once, and its old worker is told that it lost the lease.
func TestReleaseAndRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	viewer := w.signedIn(t, idPerson{sub: "vera", name: "Vera Viewer", groups: []string{"viewers"}})
	b.submit(t, "Replace one word.")
	one := w.worker(t, "one")
	l := one.claim(t, "execute")
	release := "form[action='/runs/" + l.as.RunId + "/resume']"
	if b.get(t, "/workers").want(t, http.StatusOK).page(t).Find(release).Length() != 0 {
		t.Error("a run that is worked on can be taken away")
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer func() { must(t, conn.Close(t.Context())) }()
	got(conn.Exec(t.Context(), `UPDATE run_leases SET expires_at = clock_timestamp() - interval '1 second'`))(t)
	if viewer.get(t, "/workers").want(t, http.StatusOK).page(t).Find(release).Length() != 0 {
		t.Error("a viewer is offered a button that does not work")
	}
	form := b.get(t, "/workers").want(t, http.StatusOK).page(t).Find(release)
	key, ok := form.Find("input[name='idempotency_key']").Attr("value")
	if form.Length() != 1 || !ok {
		t.Fatal("no button for the run that is stuck")
	}
	viewer.post(t, "/runs/"+l.as.RunId+"/resume", url.Values{"idempotency_key": {key}}).want(t, http.StatusForbidden)
	page := b.post(t, "/runs/"+l.as.RunId+"/resume", url.Values{"idempotency_key": {key}}).want(t, http.StatusSeeOther)
	if at := page.Header.Get("Location"); at != "/runs/"+l.as.RunId+"?done=run-resumed" {
		t.Errorf("leads to %q", at)
	}
	got := into[wire.Run](t, w.cli(t, rita).call(t, "GET", "/runs/"+l.as.RunId, nil))
	if got.State != wire.RunStateQUEUED {
		t.Errorf("the run is %s", got.State)
	}
	b.post(t, "/runs/"+l.as.RunId+"/resume", url.Values{"idempotency_key": {uuid.NewString()}}).want(t, http.StatusSeeOther)
	if again := one.claim(t, "execute"); again.as.RunId != l.as.RunId || again.as.FencingToken <= l.as.FencingToken {
		t.Errorf("given out as %+v", again.as)
	}
}
