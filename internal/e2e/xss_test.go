package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

// untrusted are the columns whose text people, agents, workers, repositories and login providers choose.
var untrusted = []string{
	"tasks.title", "tasks.goal", "tasks.base_ref", "tasks.agent_profile", "repositories.name", "repositories.clone_url", "repositories.default_branch", "runs.branch", "runs.adapter_version",
	"pull_requests.title", "pull_requests.body", "pull_requests.head_branch", "pull_requests.base_branch", "policies.reason", "policy_proposals.reason", "feedback.text", "feedback.author", "decisions.text",
	"api_tokens.name", "worker_credentials.name", "worker_enrolments.name", "worker_boots.name", "worker_boots.version", "worker_boots.capabilities", "worker_boots.pools", "users.name", "users.email", "sessions.browser",
	"memberships.groups", "group_roles.group_name", "providers.name", "audit_log.actor_name", "audit_log.reason", "audit_log.object_id", "audit_log.request_id", "audit_log.remote_addr", "audit_log.detail",
	"paused_queues.reason", "paused_queues.by_name", "saved_views.name", "steps.name", "steps.summary", "gates.reasons", "gates.policy_version", "run_events.actor_name", "run_events.payload", "task_events.actor_name", "task_events.reason", "usages.model",
	"bypass_reviews.reason", "bypass_reviews.ticket", "bypass_reviews.note", "runs.failure_summary", "tasks.reason_words", "verifications.summary", "provider_pauses.reason", "artifacts.name", "policy_decisions.reasons",
}

// unseen are those of them that no page of this test's product shows: the API alone gives them out, as JSON that no browser takes for a page
// (see otherTexts), or there is no row of them here.
var unseen = []string{"policy_proposals.reason", "feedback.text", "feedback.author", "worker_boots.capabilities", "worker_boots.pools", "audit_log.detail", "task_events.actor_name", "task_events.reason", "usages.model",
	"verifications.summary", "provider_pauses.reason", "policy_decisions.reasons"}

// Fields that an agent writes: they come the whole way from its sandbox.
const (
	fieldLog = 90 + iota
	fieldContent
	fieldPath
)

// S6, B4–B6: more than two hundred attacks stand at once in every field that somebody else may write, and every page is looked at in a
// browser that would tell of anything they did: of the payloads none runs, none loads, none asks, and the content policy had nothing to stop.
func TestBrowserXSS(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1, Policy: "version: roomy-1\nlimits: {changed_files: 1000, diff_lines: 20000}\n"})
	worker := r.StartWorker(rig.WorkerOptions{})
	payloads := len(hostilePayloads())
	pages := hostileProduct(t, r)
	b := newTab(r, t, "adam")
	watched := witness(b)
	b.signIn("adam")
	b.open("/help/states") // which has no stream that would break
	// Nobody else may hold a lock meanwhile.
	worker.Terminate()
	r.StopServer()
	t.Cleanup(func() { restore(t, r) })
	rows := poisonDatabase(t, r)
	r.StartServer()
	// The witness sees what runs, and the browser tells what the content policy stops.
	eval[any](b, `pwned("0.0"), null`)
	if got := watched.executions(); len(got) != 1 || got[0] != "0.0" {
		t.Fatalf("the witness does not see an execution: %q", got)
	}
	shown := map[int]map[string]bool{}
	for _, path := range pages {
		b.open(path)
		eval[any](b, `(() => { for (const e of document.querySelectorAll("main *")) for (const n of ["mouseover", "pointerenter", "focus", "toggle", "animationstart", "load", "error"]) e.dispatchEvent(new Event(n)); return null })()`)
		if strange := eval[[]string](b, foreignElements); len(strange) != 0 {
			t.Errorf("%s: %d elements come from hostile text: %.300q", path, len(strange), strange)
		}
		for _, mark := range eval[[]string](b, `[...new Set(document.documentElement.outerHTML.match(/pwned\(\d+\.\d{4}\)/g) || [])]`) {
			var field int
			var n string
			if _, err := fmt.Sscanf(mark, "pwned(%d.%4s)", &field, &n); err != nil {
				t.Fatalf("%q: %v", mark, err)
			}
			if shown[field] == nil {
				shown[field] = map[string]bool{}
			}
			shown[field][n] = true
		}
	}
	ran, sent, stopped, away := watched.executions(), watched.changing(), b.count("content policy"), b.count("request to")
	if len(ran)+len(sent)+stopped+away != 0 {
		t.Errorf("%d payloads ran: %q; the pages sent %q", len(ran), ran[:min(len(ran), 20)], sent)
	}
	total, full := 0, 0
	var absent []string
	for i, column := range append(slices.Clone(untrusted), "log lines", "patch content", "patch paths") {
		field := i
		if i >= len(untrusted) {
			field = fieldLog + i - len(untrusted)
		}
		n := len(shown[field])
		total += n
		switch {
		case n == 0:
			if absent = append(absent, column); !slices.Contains(unseen, column) {
				t.Errorf("no page shows %s, so that nothing is known of it", column)
			}
		case n >= 200:
			full++
		}
		t.Logf("%-28s %3d rows, %3d payloads shown", column, rows[column], n)
	}
	t.Logf("S6: %d payloads × %d fields on %d pages; %d shown in all, %d fields with at least 200 on a page; not shown anywhere: %q; %d executions, %d reports of the content policy, %d requests that change something, %d to other hosts",
		payloads, len(untrusted)+3, len(pages), total, full, absent, len(ran), stopped, len(sent), away)
	if payloads < 200 || full < 45 {
		t.Errorf("%d payloads, %d fields show 200 of them or more", payloads, full)
	}
	// A page that did let one through would be noticed: the content policy stops it, and the browser tells.
	eval[any](b, `document.body.insertAdjacentHTML("beforeend", '<img src=x onerror="pwned(1)">'), null`)
	b.until("the report", `true`)
	b.reported(t)
}

// foreignElements are those of a page that none of ours is like.
const foreignElements = `[...document.querySelectorAll('img:not([src^="/static/"]), iframe, object, embed, base, style, video, audio, marquee, math, template[shadowrootmode], script:not([src^="/static/"]), [onload], [onerror], [onfocus], [onmouseover], [ontoggle], [style], [hx-trigger]:not(#policy-check, #task-preview), [data-hx-trigger], [hx-put], [hx-delete], [data-hx-post], [data-hx-get], [hx-ext]'),
	...[...document.links].filter(a => a.origin !== location.origin), ...[...document.forms].filter(f => new URL(f.getAttribute("action") || "", location).origin !== location.origin)].map(e => e.outerHTML.slice(0, 200))`

// reported takes back the one violation that was made on purpose, and fails where the browser did not tell of it.
func (b *tab) reported(t *testing.T) {
	t.Helper()
	b.r.Eventually("the browser reports the violation", rig.Patience, func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return slices.ContainsFunc(b.troubles, func(s string) bool { return strings.HasPrefix(s, "content policy") }), fmt.Sprint(b.troubles)
	})
	b.forgive("onerror|img-src|script-src-attr|inline event handler|Content Security Policy|content policy|404")
}

// count is how many troubles of a kind the tab has had.
func (b *tab) count(kind string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.troubles {
		if strings.HasPrefix(s, kind) {
			n++
		}
	}
	return n
}

// evidenceOf is what a tab did that nobody asked it for.
type evidenceOf struct {
	mu          sync.Mutex
	ran, writes []string
}

func (e *evidenceOf) executions() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ran := e.ran
	e.ran = nil
	return ran
}

func (e *evidenceOf) changing() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.writes)
}

// witness gives every document of the tab the function that the payloads call, and hears of calls and of requests that change something.
func witness(b *tab) *evidenceOf {
	b.t.Helper()
	e := &evidenceOf{}
	signing := regexp.MustCompile(`/vitals$|/login|/auth/|^http://127\.0\.0\.1:\d+/(authorize|login)`)
	if err := chromedp.Listen(b.ctx, func(ev any) {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventBindingCalled:
			e.ran = append(e.ran, ev.Payload)
		case *network.EventRequestWillBeSent:
			if m := ev.Request.Method; m != http.MethodGet && m != http.MethodHead && strings.HasPrefix(ev.Request.URL, b.r.URL) && !signing.MatchString(ev.Request.URL) {
				e.writes = append(e.writes, m+" "+ev.Request.URL)
			}
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	b.do("set up the witness", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		if _, err := cdp.Call(ctx, target, runtime.AddBinding, runtime.AddBindingParams{Name: "pwnedBinding"}); err != nil {
			return chromedp.Void{}, err
		}
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.pwned = x => pwnedBinding(String(x))`})
		return chromedp.Void{}, err
	})
	return e
}

// hostileProduct is a product with something of everything, and the addresses of its pages.
func hostileProduct(t *testing.T, r *rig.Rig) []string {
	t.Helper()
	files := rig.Shop()
	plain := func(field int, keep func(string) bool) string {
		var all []string
		for n, p := range hostilePayloads() {
			if p = marked(p, field, n); keep(p) {
				all = append(all, p)
			}
		}
		return strings.Join(all, "\n") + "\n"
	}
	files["hostile/log"] = plain(fieldLog, func(p string) bool { return !strings.ContainsAny(p, "\r\n") })
	files["hostile/content"] = plain(fieldContent, func(p string) bool { return !strings.ContainsAny(p, "\r\n") })
	name := regexp.MustCompile(`^[\x20-\x21\x23-\x2e\x30-\x5b\x5d-\x7e]{1,200}$`)
	files["hostile/paths"] = regexp.MustCompile(`/`).ReplaceAllString(plain(fieldPath, func(p string) bool {
		p = strings.ReplaceAll(p, "/", "")
		return name.MatchString(p) && strings.TrimSpace(p) == p && !strings.HasSuffix(p, ".")
	}), "")
	repo := r.Repository("acme/shop", files)
	rita, ana, adam := r.Person("rita"), r.Person("ana"), r.Person("adam")
	goal := rig.Recipe("Everything at once.", sh(`cat hostile/log; mkdir -p new; cp hostile/content new/content.txt; cat hostile/content >> greeting.txt; cd new; while IFS= read -r n; do printf 'x\n' > "$n"; done < ../hostile/paths; exit 0`), good())
	_, published := rita.Submit(rig.Task{Repository: repo, Title: "To be published", Goal: rig.Recipe("A little.", sh("cat hostile/log"), good())})
	first := r.AwaitGate(published)
	ana.RequestChanges(first, "Do it again.")
	gate := r.AwaitGate(published, first)
	task, waits := rita.Submit(rig.Task{Repository: repo, Title: "To be decided", Goal: goal})
	open := r.AwaitGate(waits)
	ana.Approve(gate)
	r.Await(published, wire.RunStateSUCCEEDED)
	_, ended := rita.Submit(rig.Task{Repository: repo, Title: "To fail", Goal: "No recipe."})
	r.Await(ended, wire.RunStateFAILED)
	credentials(r)
	bypasses(r)
	adam.Fill("/workers", "/workers/queues/pause", url.Values{"reason": {"Down."}})
	adam.Fill("/admin/workers", "/admin/workers", url.Values{"name": {"one"}, "phases": {"verify"}})
	adam.Fill("/runs?state=FAILED", "/views", url.Values{"name": {"mine"}})
	_, waiting := rita.Submit(rig.Task{Repository: repo, Title: "To wait", Goal: goal})
	r.Await(waiting, wire.RunStateQUEUED)

	base, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	// Two of each kind of page, and what they lead to.
	shape := regexp.MustCompile(`\w+_[0-9a-z]{26}|\b\d+\b`)
	of, known := map[string]int{}, map[string]bool{}
	todo := []string{"/inbox", "/tasks", "/runs", "/runs/" + waits, "/runs/" + published, "/runs/" + ended, "/runs/" + waiting, "/gates/" + open, "/gates/" + gate, "/gates/" + first, "/gates/" + open + "?view=split", "/gates/" + open + "/quick",
		"/tasks/" + task, "/tasks/new", "/runs/" + waits + "/cancel", "/runs/" + waits + "/stop", "/runs/" + waits + "/logs", "/repositories", "/workers", "/sessions", "/tokens", "/admin", "/admin/people", "/admin/providers", "/admin/tokens", "/admin/workers", "/audit", "/policies", "/policies/new", "/docs/api"}
	var pages []string
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		u, err := base.Parse(path)
		if err != nil || u.Host != base.Host || known[u.RequestURI()] || of[shape.ReplaceAllString(u.Path, "*")] >= 3 || strings.HasPrefix(u.Path, "/login") || strings.HasPrefix(u.Path, "/static/") {
			continue
		}
		known[u.RequestURI()] = true
		of[shape.ReplaceAllString(u.Path, "*")]++
		p, err := adam.Browser.Get(t.Context(), u.RequestURI())
		if err != nil {
			t.Fatal(err)
		}
		if p.Status != http.StatusOK || !strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") || p.Header.Get("Content-Disposition") != "" {
			continue
		}
		pages = append(pages, u.RequestURI())
		p.Doc.Find("a[href]").Each(func(_ int, s *goquery.Selection) {
			if href, _, _ := strings.Cut(s.AttrOr("href", ""), "#"); strings.HasPrefix(href, "/") {
				todo = append(todo, href)
			}
		})
	}
	slices.Sort(pages)
	return pages
}

// bypasses gives two gates a bypass, of which one was reviewed.
func bypasses(r *rig.Rig) {
	r.T.Helper()
	conn, err := pgx.Connect(r.T.Context(), r.Database.SuperuserURL(r.T))
	if err != nil {
		r.T.Fatal(err)
	}
	defer conn.Close(r.T.Context())
	if _, err := conn.Exec(r.T.Context(), `INSERT INTO bypass_reviews (gate_id, tenant_id, run_id, user_id, reason, ticket, at, due_at, reviewed_by, reviewed_at, note)
		SELECT g.id, g.tenant_id, g.run_id, ana.id, repeat('Because. ', 5), 'INC-1', g.opened_at, g.opened_at + interval '1 day', CASE WHEN n = 2 THEN ben.id END, CASE WHEN n = 2 THEN g.opened_at END, CASE WHEN n = 2 THEN 'Right.' ELSE '' END
		FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM gates) g, (SELECT id FROM users WHERE name LIKE 'Ana%') ana, (SELECT id FROM users WHERE name LIKE 'Rita%') ben WHERE n <= 2`); err != nil {
		r.T.Fatal(err)
	}
}

// poisonDatabase puts every payload into every untrusted column, past all rules about lengths, and returns how many rows hold it.
func poisonDatabase(t *testing.T, r *rig.Rig) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), r.Database.SuperuserURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(q string, args ...any) int {
		t.Helper()
		tag, err := conn.Exec(t.Context(), q, args...)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		return int(tag.RowsAffected())
	}
	exec(`SET session_replication_role = replica`)
	exec(`CREATE TABLE kept_runs AS SELECT * FROM runs`)
	exec(`CREATE TABLE kept_events AS SELECT * FROM run_events`)
	for _, column := range untrusted {
		table, _, _ := strings.Cut(column, ".")
		exec(fmt.Sprintf(`DO $$ DECLARE c record; BEGIN
			FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = '%[1]s'::regclass AND (contype IN ('c', 'u') OR contype = 'p' AND '%[1]s' IN ('group_roles', 'saved_views')) LOOP EXECUTE 'ALTER TABLE %[1]s DROP CONSTRAINT IF EXISTS ' || quote_ident(c.conname) || ' CASCADE'; END LOOP;
			FOR c IN SELECT indexrelid::regclass::text AS i FROM pg_index WHERE indrelid = '%[1]s'::regclass AND NOT indisprimary LOOP EXECUTE 'DROP INDEX IF EXISTS ' || c.i || ' CASCADE'; END LOOP; END $$`, table))
	}
	rows := map[string]int{}
	for field, column := range untrusted {
		table, name, _ := strings.Cut(column, ".")
		text := strings.ToValidUTF8(everyPayload(field, " "), "?")
		var kind string
		if err := conn.QueryRow(t.Context(), `SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2`, table, name).Scan(&kind); err != nil {
			t.Fatalf("%s: %v", column, err)
		}
		switch kind {
		case "text":
			rows[column] = exec(fmt.Sprintf(`UPDATE %s SET %s = $1`, table, name), text)
		case "text[]":
			rows[column] = exec(fmt.Sprintf(`UPDATE %s SET %s = ARRAY[$1::text]`, table, name), text)
		case "jsonb":
			rows[column] = poisonJSON(t, conn, table, name, text)
		default:
			t.Fatalf("%s is %s", column, kind)
		}
	}
	return rows
}

// poisonJSON replaces the sentences in JSON, and leaves ids and words of machines as they are.
func poisonJSON(t *testing.T, conn *pgx.Conn, table, column, text string) int {
	t.Helper()
	found, err := conn.Query(t.Context(), fmt.Sprintf(`SELECT ctid::text, %s FROM %s`, column, table))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		at  string
		doc any
	}
	all, err := pgx.CollectRows(found, func(x pgx.CollectableRow) (r row, err error) { return r, x.Scan(&r.at, &r.doc) })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range all {
		changed := false
		var walk func(v any) any
		walk = func(v any) any {
			switch v := v.(type) {
			case string:
				if strings.Contains(v, " ") {
					changed = true
					return text
				}
			case map[string]any:
				for k := range v {
					v[k] = walk(v[k])
				}
			case []any:
				for k := range v {
					v[k] = walk(v[k])
				}
			}
			return v
		}
		doc, err := json.Marshal(walk(r.doc))
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			n++
			if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE %s SET %s = $1::jsonb WHERE ctid = $2::tid`, table, column), string(doc), r.at); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// restore puts the runs and their events back, which are replayed at the end.
func restore(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, r.Database.SuperuserURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, q := range []string{
		`SET session_replication_role = replica`,
		`UPDATE runs r SET branch = k.branch, adapter_version = k.adapter_version, failure_summary = k.failure_summary FROM kept_runs k WHERE k.id = r.id`,
		`UPDATE run_events e SET payload = k.payload, actor_name = k.actor_name FROM kept_events k WHERE k.run_id = e.run_id AND k.seq = e.seq`,
		`UPDATE pull_requests SET head_branch = id::text`,
		`DROP TABLE kept_runs, kept_events`,
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
}
