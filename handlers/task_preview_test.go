package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// form is the form for a new task as it stands.
func (b *browser) newTask(t testing.TB, more ...string) url.Values {
	t.Helper()
	v := fields(b.get(t, "/tasks/new").want(t, http.StatusOK).page(t).Find("#task-form"))
	v.Set("repository", typeid.Format(typeid.Repo, b.w.repo))
	v.Set("mode", "pr_created")
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return v
}

// preview posts the form as htmx does and returns what is shown in one line of text.
func (b *browser) preview(t testing.TB, v url.Values) string {
	t.Helper()
	a := b.post(t, "/tasks/preview", v, "HX-Request", "true").want(t, http.StatusOK)
	page := a.page(t)
	if page.Find("main, form").Length() != 0 {
		t.Error("a part is asked for and a whole page comes")
	}
	return words(page.Selection)
}

func words(s *goquery.Selection) string { return strings.Join(strings.Fields(s.Text()), " ") }

// R-ADM-1: before anything is submitted the form says which people will be asked, who they can be, and whether work would begin.
func TestPreviewOfATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	says := func(v url.Values, want ...string) {
		t.Helper()
		got := b.preview(t, v)
		for _, text := range want {
			if not, ok := strings.CutPrefix(text, "!"); ok == strings.Contains(got, strings.TrimPrefix(text, "!")) {
				t.Errorf("the preview says %q (unwanted: %v, %s): %s", text, ok, not, got)
			}
		}
	}
	v := b.newTask(t)
	says(v, "Policy would let it begin now.", "Patch: 1 approval by the role approver", "Nobody else holds the role approver", "No worker is there at this moment",
		"Not known yet", "Not enough data: 0 runs", "This gate asks for the role approver, which you do not hold.", "!Plan: ")
	w.signedIn(t, ana)
	w.signedIn(t, idPerson{sub: "rita", name: rita.name, groups: []string{"requesters", "approvers"}})
	v.Set("risk", "HIGH")
	says(v, "Plan: 1 approval by the role approver", "1 person may approve: Ana Approver.", "You asked for this change, so another person must approve it.", "!Nobody else holds")
	v.Del("risk")
	v.Set("plan_gate", "on")
	says(v, "The task asks for a person to approve the plan.")
	v.Del("repository")
	says(v, "Choose a repository", "Patch: 1 approval", "!What to expect")
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var n int
	must(t, conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM tasks) + (SELECT count(*) FROM runs) + (SELECT count(*) FROM policy_decisions)").Scan(&n))
	if n != 0 {
		t.Errorf("a preview stored %d rows", n)
	}
}

// R-ADM-4: what the preview says of admission is what a submission then gets, in the same words.
func TestPreviewSaysWhatSubmissionGets(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{
		"refused": "admission: {repositories: [other/*]}",
		"put off": "admission: {incident: {on: true, message: 'Storage is down.', retry_after: 1m}}",
		"full":    "admission: {quota: {max_queued: 1}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.signedIn(t, rita)
			if name == "full" {
				b.submit(t, "Replace another word.")
			}
			got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "schema: 1\nversion: preview\n"+rules+"\n"))(t)
			v := b.newTask(t, "goal", "Replace one word.")
			foreseen := b.preview(t, v)
			b.post(t, "/tasks", v).want(t, http.StatusSeeOther)
			conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
			defer conn.Close(t.Context())
			var verdict, reason string
			must(t, conn.QueryRow(t.Context(), "SELECT verdict, reasons[1] FROM policy_decisions ORDER BY id DESC LIMIT 1").Scan(&verdict, &reason))
			title := map[string]string{"DENY": "Policy would refuse it now.", "DEFER": "Policy would put it off now."}[verdict]
			if title == "" || !strings.Contains(foreseen, title) || !strings.Contains(foreseen, reason) {
				t.Errorf("the submission got %s, %q; the preview said %s", verdict, reason, foreseen)
			}
		})
	}
}

// R-UI: the form without a script: "Preview" brings it back as it was filled, with the preview; nothing is submitted.
func TestPreviewKeepsTheForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.signedIn(t, rita)
	from := b.submit(t, "Replace one word.", "title", "The first")
	first := b.get(t, "/tasks/new?from="+strings.TrimPrefix(from, "/tasks/")).want(t, http.StatusOK).page(t)
	v := fields(first.Find("#task-form"))
	for name, text := range map[string]string{"repository": typeid.Format(typeid.Repo, w.repo), "goal": "Replace <two> words.", "title": "The second", "mode": "analysis_report_created",
		"risk": "MEDIUM", "scope": "src/**\nlib/**", "exclude": "vendor/**", "base_ref": "main", "plan_gate": "on"} {
		v.Set(name, text)
	}
	page := b.post(t, "/tasks/preview", v).want(t, http.StatusOK).page(t)
	for _, name := range []string{"goal", "scope", "exclude"} {
		if got := page.Find("textarea[name=" + name + "]").Text(); got != v.Get(name) {
			t.Errorf("%s came back as %q", name, got)
		}
	}
	for _, name := range []string{"repository", "mode", "risk"} {
		if got, _ := page.Find("select[name=" + name + "] option[selected]").Attr("value"); got != v.Get(name) {
			t.Errorf("%s came back as %q", name, got)
		}
	}
	for _, name := range []string{"title", "base_ref"} {
		if got, _ := page.Find("input[name=" + name + "]").Attr("value"); got != v.Get(name) {
			t.Errorf("%s came back as %q", name, got)
		}
	}
	if page.Find("#f-plan_gate[checked]").Length() != 1 || page.Find("#f-auto_pr[checked]").Length() != 0 {
		t.Error("the boxes came back otherwise")
	}
	if text := words(page.Find("main")); !strings.Contains(text, "Started from the task The first") || !strings.Contains(text, "Policy would let it begin now.") {
		t.Errorf("the page says %s", text)
	}
	if got := rows(b.get(t, "/tasks").page(t)); got != "The first" {
		t.Errorf("the tasks are %s", got)
	}
	link := "a[href='/tasks/new?from=" + strings.TrimPrefix(from, "/tasks/") + "']"
	run, _ := b.get(t, from).page(t).Find("a[href^='/runs/run_']").Attr("href")
	viewer := w.signedIn(t, vera)
	for _, path := range []string{from, run} {
		if n := b.get(t, path).page(t).Find(link).Length(); n != 1 {
			t.Errorf("%s leads %d times to a new task from this one", path, n)
		}
		if viewer.get(t, path).page(t).Find(link).Length() != 0 {
			t.Errorf("%s offers a new task to somebody who may not ask", path)
		}
	}
	viewer.post(t, "/tasks/preview", v).want(t, http.StatusForbidden)
}

// A copy says what it leaves out: a task that was submitted over the API can have more than the form asks for.
func TestStartFromSaysWhatIsNotCopied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.token(t, rita, "read", "tasks").call(t, "POST", "/tasks", wire.TaskCreate{Title: "Rich", Goal: "Do it.", RepositoryId: typeid.Format(typeid.Repo, w.repo), Attestation: true},
		"Idempotency-Key", "a-rich-task").want(t, http.StatusCreated)
	b := w.signedIn(t, rita)
	task, _ := b.get(t, "/tasks").page(t).Find(".table tbody th a").Attr("href")
	if text := words(b.get(t, "/tasks/new?from="+strings.TrimPrefix(task, "/tasks/")).page(t).Find("main")); !strings.Contains(text, "Not copied: the attestation.") {
		t.Errorf("the page says %s", text)
	}
}
