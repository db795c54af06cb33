package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

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

// A repository is checked when it is registered and whenever an administrator asks; what was found is kept with its time, stands on
// the page for everybody, and is audited. A check is repeated safely, and asks for the role.
func TestRepositoriesAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git("clone", "--quiet", "--bare", "acme/api.git", "acme/other.git")
	admin, key := w.signedIn(t, adam), db.NewSecret()
	admin.post(t, "/repositories", url.Values{"name": {"acme/other"}, "forge": {typeid.Format(typeid.Forge, db.LocalForge)}, "remote": {"acme/other.git"}, "default_branch": {"main"}, "idempotency_key": {db.NewSecret()}}).want(t, http.StatusSeeOther)
	row := func(b *browser, name string) string {
		t.Helper()
		for _, s := range b.get(t, "/repositories").page(t).Find(".repo").EachIter() {
			if s.Find("h2").Text() == name {
				return strings.Join(strings.Fields(s.Text()), " ")
			}
		}
		return ""
	}
	if got := row(admin, "acme/other"); !strings.Contains(got, "Reachable: yes Branch main stands at ") || !strings.Contains(got, "Can push: yes The server made a branch of ours and removed it.") || !strings.Contains(got, "From a worker: not checked") {
		t.Errorf("after it was registered: %s", got)
	}
	if got := row(admin, "acme/api"); !strings.Contains(got, "Nobody has checked yet") {
		t.Errorf("one that nobody checked: %s", got)
	}
	check := "/repositories/" + typeid.Format(typeid.Repo, w.repo) + "/check"
	w.git("--git-dir", "acme/api.git", "branch", "-m", "main", "moved")
	w.signedIn(t, rita).post(t, check, url.Values{"idempotency_key": {key}}).want(t, http.StatusForbidden)
	for range 2 {
		admin.post(t, check, url.Values{"idempotency_key": {key}}).want(t, http.StatusSeeOther)
	}
	if got := row(w.signedIn(t, vera), "acme/api"); !strings.Contains(got, "Reachable: no The branch was not found") || strings.Contains(got, "Can push") || strings.Contains(got, "Check again") {
		t.Errorf("what a viewer reads after the branch went: %s", got)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var n int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'repository.check' AND actor_name LIKE 'Adam%'`).Scan(&n))
	if n != 1 {
		t.Errorf("%d audit lines of one check that was sent twice", n)
	}
	admin.post(t, "/repositories/"+typeid.Format(typeid.Repo, typeid.New())+"/check", url.Values{"idempotency_key": {db.NewSecret()}}).want(t, http.StatusNotFound)
}

// The pages about budgets and retention say what is used and kept now, from the tenant's own policy.
func TestBudgetsShowWhatIsUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.signedIn(t, adam)
	got(w.store.SavePolicy(t.Context(), db.DefaultTenant, "version: bounded\nadmission:\n  reviewers:\n    open_gates: 1\n    open_gates_of_one: 4\nbudget:\n  daily_cents: 1234\n  time_zone: Europe/Zurich\n"))(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	w.waiting(t, w.worker(t, "one"))
	text := mainText(admin.get(t, "/admin/budgets").page(t))
	for _, want := range []string{"version bounded of the policy", "0.00 USD of 12.34 USD", "(Europe/Zurich)", "Decisions that wait for a person Reached | 1 | 1 | admission.reviewers.open_gates", "Runs that wait for a worker | 0 | no bound | admission.quota.max_queued",
		"Of one person at most 4 decisions and no bound pull requests", "Rita Requester | 0.00 USD | 1 | 0", "acme/api | 0.00 USD | 1 | 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("budgets do not say %q: %s", want, text)
		}
	}
	text = mainText(admin.get(t, "/admin/retention").page(t))
	for _, want := range []string{"Runs, their events and decisions | 1 runs | without end | nothing", "Answers to requests, for repeats | ", " | 7 days | 0 | "} {
		if !strings.Contains(text, want) {
			t.Errorf("retention does not say %q: %s", want, text)
		}
	}
	w.sql(t, `UPDATE idempotency_keys SET created_at = created_at - interval '8 days'`)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	var n int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM idempotency_keys WHERE tenant_id = $1`, db.DefaultTenant).Scan(&n))
	text = mainText(admin.get(t, "/admin/retention").page(t))
	if want := fmt.Sprintf("Answers to requests, for repeats | %d | 7 days | %d | ", n, n); n == 0 || !strings.Contains(text, want) {
		t.Errorf("of answers that are due it does not say %q: %s", want, text)
	}
}

// mainText is the text of a page, with its tables' cells set apart.
func mainText(d *goquery.Document) string {
	d.Find("td").Each(func(_ int, s *goquery.Selection) { s.PrependHtml(" | ") })
	return strings.Join(strings.Fields(d.Find("main").Text()), " ")
}
