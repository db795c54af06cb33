package handlers_test

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/internal/workercmd"
)

// enrolment makes an enrolment token as an administrator does.
func (w *world) enrolment(t testing.TB, name string) wire.MintedToken {
	t.Helper()
	return into[wire.MintedToken](t, w.cli(t, adam).call(t, "POST", "/worker-enrolments", wire.WorkerCredentialCreate{Name: name, Phases: []wire.Phase{wire.Verify}}).want(t, http.StatusCreated))
}

// S11: an enrolment token is worth one worker: of many that trade it at once, one gets a credential, and it is what the token says
// and nothing that the request says.
func TestAnEnrolmentTokenMakesOneWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.enrolment(t, "build-1")
	if !strings.HasPrefix(token.Secret, db.PrefixEnrolment) || token.ExpiresAt.IsZero() {
		t.Fatalf("token %+v", token)
	}
	root := got(pgx.Connect(t.Context(), w.data.SuperuserURL(t)))(t)
	defer root.Close(t.Context())
	// All of them are under way before one gets the token.
	first := got(root.Begin(t.Context()))(t)
	got(first.Exec(t.Context(), `SELECT FROM worker_enrolments FOR UPDATE`))(t)
	var all sync.WaitGroup
	answers := make([]answer, 6)
	for i := range answers {
		all.Go(func() {
			answers[i] = client{w: w}.call(t, "POST", "/workers/enrol", wire.WorkerEnrol{Token: token.Secret})
		})
	}
	for waiting := 0; waiting < len(answers); {
		waiting = w.countAs(t, w.data.SuperuserURL(t), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	}
	must(t, first.Rollback(t.Context()))
	all.Wait()
	var made []wire.MintedToken
	for _, a := range answers {
		if a.StatusCode == http.StatusCreated {
			made = append(made, into[wire.MintedToken](t, a))
		} else if p := a.plain(t); a.StatusCode != http.StatusForbidden || p.Code != "enrolment_used" || !strings.Contains(p.Detail, "No worker was enrolled: this enrolment token was used at ") {
			t.Errorf("a second trade: %d %s", a.StatusCode, a.body)
		}
	}
	if len(made) != 1 {
		t.Fatalf("%d workers came of one token", len(made))
	}
	if p := into[wire.Principal](t, client{w, made[0].Secret}.call(t, "GET", "/me", nil).want(t, http.StatusOK)); p.Kind != wire.PrincipalWorker || p.Name != "build-1" || p.CredentialId != made[0].Id {
		t.Errorf("the worker is %+v", p)
	}
	list := into[wire.WorkerEnrolmentList](t, w.cli(t, adam).call(t, "GET", "/worker-enrolments", nil).want(t, http.StatusOK))
	if len(list.Items) != 1 || list.Items[0].CredentialId != made[0].Id || list.Items[0].UsedAt.IsZero() || list.Items[0].CreatedBy != adam.name {
		t.Errorf("the list: %+v", list.Items)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	trade := func(token string) answer {
		return client{w: w}.call(t, "POST", "/workers/enrol", wire.WorkerEnrol{Token: token})
	}
	withdrawn, old := w.enrolment(t, "withdrawn"), w.enrolment(t, "old")
	w.cli(t, adam).call(t, "DELETE", "/worker-enrolments/"+withdrawn.Id, nil).want(t, http.StatusNoContent)
	w.cli(t, adam).call(t, "DELETE", "/worker-enrolments/"+token.Id, nil).want(t, http.StatusNotFound)
	got(conn.Exec(t.Context(), "UPDATE worker_enrolments SET expires_at = now() - interval '1 second' WHERE name = 'old'"))(t)
	for want, a := range map[string]answer{
		"enrolment_withdrawn": trade(withdrawn.Secret).want(t, http.StatusForbidden), "enrolment_expired": trade(old.Secret).want(t, http.StatusForbidden),
		"bad_code": trade(db.Mint(db.PrefixEnrolment)).want(t, http.StatusUnauthorized), "invalid": trade(made[0].Secret).want(t, http.StatusUnprocessableEntity),
	} {
		if p := a.plain(t); p.Code != want || !strings.HasPrefix(p.Detail, "No worker was enrolled: ") {
			t.Errorf("%s: %+v", want, p)
		}
	}
	// It is no other token: no route takes it.
	client{w, w.enrolment(t, "other").Secret}.call(t, "GET", "/me", nil).want(t, http.StatusUnauthorized)
	var lines string
	must(t, conn.QueryRow(t.Context(), "SELECT string_agg(action || ' ' || actor_kind || ' ' || actor_name, ', ' ORDER BY id) FROM audit_log WHERE action LIKE 'worker%' AND object_id IN ($1, $2)", token.Id, made[0].Id).Scan(&lines))
	if lines != "worker_enrolment.create human Adam Admin, worker.enrol worker build-1" {
		t.Errorf("audit: %s", lines)
	}
}

// S11, R-WRK-1: the worker trades the token itself, by the command an administrator gives; the credential is readable for its
// owner alone, the next start uses it, and what is there is never replaced.
func TestAWorkerEnrolsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "worker")
	start := func(stdin string, env map[string]string, args ...string) (int, string) {
		var out bytes.Buffer
		set := map[string]string{"SIGNALBOX_SERVER_URL": w.url, "SIGNALBOX_WORKER_DIR": dir, "SIGNALBOX_WORKER_SANDBOX": "process"}
		for k, v := range env {
			set[k] = v
		}
		code := workercmd.Main(args, workercmd.Options{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &out, Lookup: func(name string) (string, bool) { v, ok := set[name]; return v, ok }})
		return code, out.String()
	}
	if code, out := start("", nil); code != 2 || !strings.Contains(out, "ask an administrator for an enrolment token") {
		t.Errorf("without any identity: %d %s", code, out)
	}
	token := w.enrolment(t, "build-1")
	if code, out := start(token.Secret+"\n", nil, "--enrol"); code != 0 || !strings.Contains(out, "Enrolled.") || strings.Contains(out, db.PrefixWorker) {
		t.Fatalf("enrol: %d %s", code, out)
	}
	path := filepath.Join(dir, "credential")
	if mode := got(os.Stat(path))(t).Mode().Perm(); mode != 0o600 {
		t.Errorf("the credential's mode is %v", mode)
	}
	secret := strings.TrimSpace(string(got(os.ReadFile(path))(t)))
	client{w, secret}.call(t, "GET", "/me", nil).want(t, http.StatusOK)
	if left := got(os.ReadDir(dir))(t); len(left) != 1 {
		t.Errorf("%d files in the worker's folder", len(left))
	}
	second := w.enrolment(t, "build-2")
	if code, out := start(second.Secret, nil, "--enrol"); code != 1 || !strings.Contains(out, "The token was not used") {
		t.Errorf("enrolling twice: %d %s", code, out)
	}
	elsewhere := map[string]string{"SIGNALBOX_WORKER_DIR": filepath.Join(t.TempDir(), "b")}
	if code, out := start(token.Secret, elsewhere, "--enrol"); code != 1 || !strings.Contains(out, "was used at") {
		t.Errorf("another machine with the same token: %d %s", code, out)
	}
	if left := got(os.ReadDir(elsewhere["SIGNALBOX_WORKER_DIR"]))(t); len(left) != 0 {
		t.Errorf("a refused enrolment left %d files", len(left))
	}
	must(t, os.Chmod(path, 0o644))
	if code, out := start("", nil, "--check"); code != 2 || !strings.Contains(out, "open to others") {
		t.Errorf("a credential that others may read: %d %s", code, out)
	}
}

// S11: a worker is who its credential says: with the boot of another it neither speaks for that one, nor claims, nor ends it.
func TestAWorkerSpeaksForNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.worker(t, "one"), w.worker(t, "two")
	w.signedIn(t, rita).submit(t, "Replace one word.")
	for path, body := range map[string]func(boot string) any{
		"/workers/heartbeat": func(boot string) any {
			return wire.Heartbeat{BootId: boot, State: wire.WorkerDraining, Leases: []wire.HeldLease{}}
		},
		"/workers/claims": func(boot string) any {
			return wire.Claim{ClaimId: strings.Repeat("c", 26), BootId: boot, Phases: []wire.Phase{wire.Execute}, Max: 1}
		},
		"/workers/deregister": func(boot string) any { return wire.BootRef{BootId: boot} },
	} {
		a, none := two.call(t, "POST", path, body(one.boot)), two.call(t, "POST", path, body(typeid.Format(typeid.Boot, typeid.New())))
		if a.StatusCode < http.StatusBadRequest || a.StatusCode != none.StatusCode || a.plain(t).Detail != none.plain(t).Detail {
			t.Errorf("%s with another's boot: %d %s\nwith one that never was: %d %s", path, a.StatusCode, a.body, none.StatusCode, none.body)
		}
	}
	// What says otherwise in its body or head is not believed.
	mine := into[wire.Principal](t, two.call(t, "GET", "/me", nil, "X-Worker-Id", one.boot, "X-Agent-Id", "1").want(t, http.StatusOK))
	if mine.Name != "two" {
		t.Errorf("it is %+v", mine)
	}
	one.claim(t, wire.Execute).plan(t)
}

// S6, S10: no minted token is seen a second time: in no line of the log, on no page, in no answer, and in no table, however
// it was used and wherever it was put by mistake.
func TestNoMintedTokenIsSeenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	there := w.existing(t)
	admin := w.signedIn(t, idPerson{sub: "all", name: "All", groups: []string{"viewers", "requesters", "approvers", "admins"}})
	login := w.cli(t, adam)
	secrets := map[string]string{"login": login.token, "API token": w.token(t, adam, "read").token, "worker's credential": w.worker(t, "leak").token}
	form := fields(admin.get(t, "/tokens").page(t).Find("form[action='/tokens']"))
	form.Set("name", "leak")
	form.Set("days", "30")
	form["scopes"] = []string{"read"}
	shown := admin.post(t, "/tokens", form).want(t, http.StatusOK).page(t)
	secrets["token of the page"], _ = shown.Find("#secret").Attr("value")
	secrets["token of the API"] = into[wire.MintedToken](t, login.call(t, "POST", "/tokens", map[string]any{"name": "leak", "scopes": []string{"read"}, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).want(t, http.StatusCreated)).Secret
	secrets["credential of the API"] = into[wire.MintedToken](t, login.call(t, "POST", "/worker-credentials", wire.WorkerCredentialCreate{Name: "leak", Phases: []wire.Phase{"verify"}}).want(t, http.StatusCreated)).Secret
	enrolment := w.enrolment(t, "leak")
	secrets["enrolment"] = enrolment.Secret
	secrets["enrolled worker"] = into[wire.MintedToken](t, client{w: w}.call(t, "POST", "/workers/enrol", wire.WorkerEnrol{Token: enrolment.Secret}).want(t, http.StatusCreated)).Secret
	for _, c := range admin.Jar.Cookies(got(url.Parse(w.url))(t)) {
		if strings.Contains(c.Name, "sid") || strings.Contains(c.Name, "session") {
			secrets["session cookie"] = c.Value
		}
	}
	if len(secrets) != 9 {
		t.Fatalf("%d kinds of secret: %v", len(secrets), secrets)
	}
	var seen []string
	for name, secret := range secrets {
		if len(secret) < 40 {
			t.Fatalf("%s: %q", name, secret)
		}
		if name == "session cookie" {
			continue // nobody pastes one
		}
		// Used as it should be, a second time, and where it does not belong.
		c := client{w, secret}
		seen = append(seen, c.call(t, "GET", "/me", nil).body, c.call(t, "POST", "/workers/enrol", wire.WorkerEnrol{Token: secret}).body,
			c.call(t, "GET", "/tasks/"+secret, nil).body, c.call(t, "GET", "/runs?cursor="+secret, nil).body, c.call(t, "POST", "/login/exchange", wire.LoginExchange{Code: secret, Verifier: strings.Repeat("v", 43)}).body)
	}
	for _, r := range w.routes(t) {
		if r.Method != http.MethodGet || strings.HasSuffix(r.Pattern, "/stream") {
			continue
		}
		if strings.HasPrefix(r.Pattern, "/api/v1/") {
			seen = append(seen, login.call(t, "GET", strings.TrimPrefix(there.into(r.Pattern), "/api/v1"), nil).body)
		} else {
			seen = append(seen, admin.get(t, there.into(r.Pattern)).body)
		}
	}
	answers, log := strings.Join(seen, "\n"), w.log.String()
	var dump strings.Builder
	for table := range w.rows(t, conn, "") {
		var rows string
		must(t, conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(x::text, ' '), '') FROM "+pgx.Identifier{table}.Sanitize()+" x").Scan(&rows))
		dump.WriteString(rows)
	}
	for name, secret := range secrets {
		for place, text := range map[string]string{"the log": log, "an answer": answers, "the database": dump.String()} {
			if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
				at := strings.Index(text, secret)
				t.Errorf("the %s is in %s: …%s…", name, place, text[max(0, at-80):max(at, 0)])
			}
		}
	}
	t.Logf("%d secrets in %d answers (%d bytes), %d bytes of log and %d of tables", len(secrets), len(seen), len(answers), len(log), dump.Len())
}
