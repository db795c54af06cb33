package handlers_test

import (
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/wire"
)

// Each attempt has a log of its own, listed under its number: what one printed is not shown with another, and a failed one's stays.
// Field reports: dagster#30063, actions/runner#1118, buildkite/feedback#157.
func TestEachAttemptKeepsItsLog(t *testing.T) {
	t.Parallel()
	b, first := printing(t)
	first.say(t, "", "the first try\n")
	b.w.sql(t, "UPDATE run_leases SET expires_at = clock_timestamp() - interval '1 second'") // its worker fell silent
	b.post(t, "/runs/"+first.as.RunId+"/resume", url.Values{"idempotency_key": {"give-it-to-another"}}).want(t, http.StatusSeeOther)
	second := first.worker.claim(t, "execute")
	if second.as.RunId != first.as.RunId || second.as.AttemptNo != 2 {
		t.Fatalf("given out: run %s, attempt %d", second.as.RunId, second.as.AttemptNo)
	}
	second.do(t, wire.RunCommand{Command: wire.CmdStart})
	second.say(t, "", "the second try\n")
	for l, want := range map[*lease]string{first: "the first try", second: "the second try"} {
		if _, texts := shown(b.get(t, l.logURL()).want(t, http.StatusOK).page(t)); strings.Join(texts, "|") != want {
			t.Errorf("the log of attempt %d is %q, want %q", l.as.AttemptNo, texts, want)
		}
	}
	list := b.get(t, "/runs/"+first.as.RunId+"/logs").want(t, http.StatusOK).page(t)
	for n, l := range map[string]*lease{"1": first, "2": second} {
		links := list.Find("section[aria-labelledby=attempt-" + n + "] a")
		if links.Length() != 1 || links.AttrOr("href", "") != l.logURL() {
			t.Errorf("attempt %s leads to %d logs, the first at %q", n, links.Length(), links.AttrOr("href", ""))
		}
	}
}

// What was decided about an earlier revision stays to be read on the later one, marked as outdated, with the person's words, and
// counts there for nothing.
// Field reports: gitea#27114, atlantis#6280.
func TestEarlierDecisionsStayToBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got(w.store.SavePolicy(t.Context(), w.user(t, adam).Tenant, "version: two\ngates:\n  patch: {quorum: 2}\n"))(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	k := w.worker(t, "one")
	gate, run := w.waiting(t, k)
	decide := func(p idPerson, verdict, text string) {
		b := w.signedIn(t, p)
		form := b.gateForm(t, gate)
		form.Set("verdict", verdict)
		form.Set("text", text)
		b.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	}
	decide(ana, "approve", "Fine with me.")
	decide(ben, "request_changes", "Use the word three.")
	k.claim(t, "execute").handIn(t, diff("a.txt", "three"))
	k.claim(t, "verify").verify(t)
	next := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?state=open&run_id="+run, nil).want(t, http.StatusOK)).Items
	if len(next) != 1 || next[0].Revision != 2 {
		t.Fatalf("gates %+v", next)
	}
	page := w.signedIn(t, ana).get(t, "/gates/"+next[0].Id).want(t, http.StatusOK).page(t)
	var rows []string
	for _, li := range page.Find(".decisions li.outdated").EachIter() {
		rows = append(rows, strings.Join(strings.Fields(li.Text()), " "))
	}
	all := strings.Join(rows, " | ")
	for _, want := range []string{"Approved, outdated", "Ana Approver", "Fine with me.", "Requested changes", "Ben Approver", "Use the word three.", "revision 1"} {
		if len(rows) != 2 || !strings.Contains(all, want) {
			t.Errorf("of the earlier revision the page does not say %q: %q", want, rows)
		}
	}
	if panel := page.Find("#gate-panel").Text(); !strings.Contains(panel, "0 of 2") || page.Find("#gate-panel button[value=approve]").Length() != 1 {
		t.Errorf("the approval of the earlier revision counts, or keeps its giver from the next: %s", panel)
	}
}

// What waits for a person is counted in the header for those whose turn it is, its steps can be read meanwhile, and a rejection is
// told to whoever reads the gate.
// Field reports: woodpecker#1358, woodpecker#2337, woodpecker PR#3114, woodpecker PR#2698.
func TestWhatWaitsIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requester, approver, reader := w.signedIn(t, rita), w.signedIn(t, ana), w.signedIn(t, ben)
	requester.submit(t, "Replace one word.")
	k := w.worker(t, "one")
	l := k.claim(t, "execute")
	l.plan(t)
	l.step(t, "c-1", "go test", wire.StepSucceeded)
	l.handIn(t, diff("a.txt", "two"))
	k.claim(t, "verify").verify(t)
	gate := into[wire.GateList](t, w.cli(t, ana).call(t, "GET", "/gates?state=open&run_id="+l.as.RunId, nil).want(t, http.StatusOK)).Items[0].Id
	count := func(b *browser) string {
		return strings.TrimSuffix(b.get(t, "/runs").page(t).Find(".mainnav .count").Text(), "waiting for you")
	}
	if count(approver) != "1" || count(requester) != "" {
		t.Errorf("counted for the approver %q, for the requester %q", count(approver), count(requester))
	}
	if steps := approver.get(t, "/runs/"+l.as.RunId).page(t).Find("#run-steps").Text(); !strings.Contains(steps, "go test") {
		t.Errorf("while the run waits its steps are %q", steps)
	}
	live, _ := reader.listen(t, "/gates/"+gate+"/stream?revision=1&after="+strconv.FormatInt(w.version(t, l.as.RunId), 10))
	form := approver.gateForm(t, gate)
	form.Set("verdict", "reject")
	form.Set("text", "Not at all.")
	approver.post(t, "/gates/"+gate+"/decisions", form).want(t, http.StatusSeeOther)
	if m := next(t, live); !strings.Contains(m.data, "Ana Approver rejected this") {
		t.Errorf("whoever reads is told %s", m.data)
	}
	if count(approver) != "" {
		t.Errorf("after the rejection %q are counted", count(approver))
	}
}

// A form outlives a login in another tab of the same browser: it holds no token of the session that made it.
// Field reports: muckrock#1100, django-htmx#270.
func TestAFormOutlivesALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, run := w.waiting(t, w.worker(t, "one"))
	b := w.signedIn(t, ana)
	form := b.gateForm(t, gate)
	session := func() string {
		for _, c := range b.Jar.Cookies(got(url.Parse(w.url))(t)) {
			if c.Name == "sid" {
				return c.Value
			}
		}
		return ""
	}
	old := session()
	b.post(t, "/logout", nil).want(t, http.StatusSeeOther)
	b.login(t, ana, "/").want(t, http.StatusSeeOther)
	if now := session(); old == "" || now == old || now == "" {
		t.Fatalf("the session was %q and is %q", old, now)
	}
	form.Set("verdict", "approve")
	b.post(t, "/gates/"+gate+"/decisions", form, "Sec-Fetch-Site", "same-origin").want(t, http.StatusSeeOther)
	if r := into[wire.Run](t, w.cli(t, ana).call(t, "GET", "/runs/"+run, nil)); r.State != "PR_CREATING" {
		t.Errorf("run %s", r.State)
	}
}

// A patch that cannot be read is an error in words, with no button to approve, and what nobody can see nobody approves: it is never a page that only
// lacks it.
// Field report: vibe-kanban#1375.
func TestAPatchThatIsGoneIsNotEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	gate, _ := w.waiting(t, w.worker(t, "one"))
	b := w.signedIn(t, ana)
	form := b.gateForm(t, gate)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	form.Set("verdict", "approve")
	refused := func(why string) {
		t.Helper()
		page := b.get(t, "/gates/"+gate)
		if page.StatusCode < 400 || page.page(t).Find("button[name=verdict]").Length() != 0 || strings.Contains(page.body, "changes no file") {
			t.Errorf("%s: %d %s", why, page.StatusCode, page.page(t).Find("main").Text())
		}
		b.post(t, "/gates/"+gate+"/decisions", form)
		var decided int
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM decisions").Scan(&decided))
		if decided != 0 {
			t.Errorf("%s: approved all the same", why)
		}
	}
	got(conn.Exec(t.Context(), "ALTER TABLE artifacts DISABLE TRIGGER USER"))(t)
	got(conn.Exec(t.Context(), "UPDATE artifacts SET kind = 'log' WHERE kind = 'patch'"))(t)
	refused("its record is gone")
	got(conn.Exec(t.Context(), "UPDATE artifacts SET kind = 'patch' WHERE name = 'patch.txt'"))(t)
	must(t, os.RemoveAll(w.blobs))
	refused("its content is gone")
}
