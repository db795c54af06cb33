package e2e_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/api"
	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// bodies are JSON bodies that no operation accepts.
func badBodies() map[string]struct{ kind, body string } {
	const js = "application/json"
	return map[string]struct{ kind, body string }{
		"nothing": {js, ""}, "not JSON": {js, "{"}, "a number": {js, "7"}, "a list": {js, "[]"}, "null": {js, "null"}, "two values": {js, "{} {}"},
		"an unknown field": {js, `{"unheard_of": 1, "state": "SUCCEEDED"}`}, "wrong types": {js, `{"title": {"a": [1]}, "goal": 3, "lease_id": [], "fencing_token": "x", "reason": 7, "name": {}, "boot_id": 1, "digest": false, "code": 1}`},
		"deep nesting": {js, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)}, "deep lists": {js, strings.Repeat("[", 100_000)},
		"huge numbers": {js, `{"fencing_token": 1e999, "sequence": -99999999999999999999999999, "limit": 1e308}`}, "huge body": {js, `{"goal":"` + strings.Repeat("a", 3<<20) + `"}`},
		"no UTF-8": {js, "{\"title\":\"\xff\xfe\"}"}, "a lone surrogate": {js, `{"title":"\ud800","unheard_of":"\udfff"}`}, "a zero": {js, `{"title":"\u0000","unheard_of":"\u0000"}`},
		"text": {"text/plain", `{}`}, "a form": {"application/x-www-form-urlencoded", "title=x"}, "no type": {"", `{}`}, "another charset": {"application/json; charset=utf-16", "\xfe\xff\x00{\x00}"},
		"XML": {"application/xml", `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>`},
	}
}

var pathParam = regexp.MustCompile(`\{[a-z_]+\}`)

// answered is what the server said to a raw request.
type answered struct {
	status  int
	kind    string
	problem wire.Problem
	raw     string
}

func call(r *rig.Rig, method, path, token, kind, body string) answered {
	r.T.Helper()
	req, err := http.NewRequestWithContext(r.T.Context(), method, r.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		r.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Idempotency-Key", rand.Text())
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.T.Fatal(err)
	}
	a := answered{status: resp.StatusCode, kind: resp.Header.Get("Content-Type"), raw: string(raw)}
	if a.status >= 400 {
		if err := json.Unmarshal(raw, &a.problem); err != nil {
			a.problem.Detail = "not a problem document: " + string(raw)
		}
	}
	return a
}

// refusedWell asserts that a bad request was refused as the caller's fault, in words.
func refusedWell(t *testing.T, what string, a answered) {
	t.Helper()
	p := a.problem
	if a.status < 400 || a.status > 499 {
		t.Errorf("%s: answered %d: %.300s", what, a.status, a.raw)
		return
	}
	if a.kind != "application/problem+json" || p.Status != a.status || p.Title == "" || len(p.Detail) < 15 || p.Instance == "" || !utf8.ValidString(p.Detail) {
		t.Errorf("%s: %d as %s: %+v", what, a.status, a.kind, p)
	}
	if strings.Contains(p.Detail, "SQLSTATE") || strings.Contains(p.Detail, "goroutine") || strings.Contains(p.Detail, ".go:") {
		t.Errorf("%s: the answer shows our inside: %s", what, p.Detail)
	}
}

// credentials mints what the API takes: a person's login with every role, an API token with every scope, a worker.
func credentials(r *rig.Rig) map[string]string {
	t := r.T
	t.Helper()
	all := map[string]string{"person": db.Mint(db.PrefixLogin), "token": db.Mint(db.PrefixToken), "worker": db.Mint(db.PrefixWorker)}
	r.Person("adam") // signs in, and so exists
	for name, k := range map[string]db.Token{
		"person": {Name: "bad input", Login: true, AuthTime: time.Now()},
		"token":  {Name: "bad input", Scopes: []string{"read", "tasks", "repositories"}},
	} {
		k.Tenant, k.ExpiresAt = db.DefaultTenant, time.Now().Add(time.Hour)
		if err := r.Owner.QueryRow(t.Context(), `SELECT i.user_id FROM identities i WHERE i.subject = 'adam'`).Scan(&k.User); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Store.CreateToken(t.Context(), k, all[name]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: "rogue", Phases: run.Phases()}, all["worker"]); err != nil {
		t.Fatal(err)
	}
	return all
}

// R-TRN-1, R-TRN-6: whatever is sent to whichever operation by whoever may call it, a bad request is answered as the
// caller's fault with a sentence, nothing is stored, and nothing fails inside.
func TestBadInputAPI(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady()})
	repo := r.Repository("acme/shop", rig.Shop())
	task, id := r.Submit(wire.TaskCreate{RepositoryId: repo.ID(), Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
	gate := r.AwaitGate(id)
	creds := credentials(r)
	doc, err := api.Parse()
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.API().ListRunArtifactsWithResponse(t.Context(), id)
	if err != nil || list.JSON200 == nil {
		t.Fatal(err)
	}
	real := strings.NewReplacer("{run_id}", id, "{task_id}", task, "{gate_id}", gate, "{repository_id}", repo.ID(), "{artifact_id}", list.JSON200.Items[0].Id)
	before := everything(r, repo)
	n := 0
	for _, op := range doc.Operations() {
		t.Run(op.OperationID, func(t *testing.T) {
			r := r.For(t)
			// Who may call it at all is another test's matter: every kind is tried, one of them gets through.
			for who, token := range creds {
				if op.BodySchema() != "" {
					for name, b := range badBodies() {
						n++
						refusedWell(t, who+": "+name, call(r, op.Method, pathParam.ReplaceAllString(real.Replace(op.Path), typeid.Format(typeid.Task, typeid.New())), token, b.kind, b.body))
					}
				}
				if !strings.Contains(op.Path, "{") {
					continue
				}
				for _, bad := range []string{
					typeid.Format(typeid.Attempt, typeid.New()), "run_", "0", "-1", "%00", "%2e%2e%2f%2e%2e", "run_01h455vb4pex5vsknk084sn02q%0a", "'%20OR%201=1--", strings.Repeat("a", 3000), "run_00000000000000000000000000", "run_zzzzzzzzzzzzzzzzzzzzzzzzzz", "%ff%fe",
				} {
					n++
					a := call(r, op.Method, pathParam.ReplaceAllLiteralString(op.Path, bad), token, "application/json", "{}")
					refusedWell(t, fmt.Sprintf("%s: the id %.40q", who, bad), a)
				}
			}
		})
	}
	if diff := cmp.Diff(before, everything(r, repo)); diff != "" {
		t.Errorf("bad requests changed something (-before +after):\n%s", diff)
	}
	t.Logf("%d bad requests", n)
}
