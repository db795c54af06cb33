package db_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/interleave"
	"signalbox/internal/run"
)

// T3: a connection keeps nothing of the tenant that it served. A thousand requests of two tenants, interleaved over two connections,
// some of which are given up midway or fail: none sees a row of the other tenant, and afterwards no connection has a tenant.
func TestConnectionsForgetTheirTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{MaxConns: 4})
	next := drive.New(t, w.db, drive.Options{Tenant: "next door", Store: w.Store})
	type home struct {
		tenant uuid.UUID
		ref    db.Ref
	}
	homes := []home{{w.Tenant, w.at(t, run.Executing).Ref}, {next.Tenant, got(next.To(t.Context(), run.Executing))(t).Ref}}
	const requests, clients = 1000, 16
	var turn, foreign, seen, failed atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for n := turn.Add(1); n <= requests; n = turn.Add(1) {
				own, other := homes[n%2], homes[(n+1)%2]
				ctx, stop := context.WithCancel(t.Context())
				if n%10 == 0 {
					stop()
				}
				tasks, err := w.Store.Tasks(ctx, own.tenant, db.TaskFilter{Limit: 10})
				for _, k := range tasks {
					seen.Add(1)
					if r, rerr := w.Store.RunInfo(t.Context(), own.tenant, k.LastRun); rerr == nil && r.Tenant != own.tenant {
						foreign.Add(1)
					}
				}
				// The other's run by its id, in the own tenant and, which the condition alone would let pass, in the name of the other.
				if _, rerr := w.Store.RunInfo(t.Context(), own.tenant, other.ref.Run); rerr == nil {
					foreign.Add(1)
				}
				others, cerr := w.Store.CountInTenant(t.Context(), own.tenant, `SELECT count(*) FROM runs WHERE tenant_id = $1`, other.tenant)
				if foreign.Add(others); cerr != nil {
					t.Errorf("count: %v", cerr)
				}
				if n%7 == 0 {
					err = errors.Join(err, w.Store.ExecInTenant(t.Context(), own.tenant, false, `SELECT 1 / 0`))
				}
				if err != nil {
					failed.Add(1)
				}
				stop()
			}
		})
	}
	all.Wait()
	kept, connections, err := w.Store.KeptTenants(t.Context())
	must(t, err)
	t.Logf("%d requests over %d connections, %d of them failed or were given up; %d own rows, %d foreign rows", requests, connections, failed.Load(), seen.Load(), foreign.Load())
	if foreign.Load() != 0 || seen.Load() < requests/2 || failed.Load() < requests/10 || connections != 2 {
		t.Errorf("%d foreign rows, %d own ones, %d failures, %d connections", foreign.Load(), seen.Load(), failed.Load(), connections)
	}
	if len(kept) > 0 {
		t.Errorf("connections keep the tenant %q", kept)
	}
}

// Decision 11: to read as the app costs no round trip: the tenant, the question and their end travel together, also where several
// questions do.
func TestTheTenantTravelsWithTheQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ref := w.at(t, run.Executing).Ref
	gate := interleave.NewGate(t, w.db.EngineURL)
	s := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: gate.URL(t, w.db.AppURL), MaxConns: 1}))(t)
	t.Cleanup(s.Close)
	for name, c := range map[string]struct {
		ask  func() error
		want int
	}{
		"a run":            {func() error { _, err := s.RunInfo(t.Context(), w.Tenant, ref.Run); return err }, 1},
		"whether runs are": {func() error { _, err := s.AnyRun(t.Context(), w.Tenant); return err }, 1},
		"a list of tasks":  {func() error { _, err := s.Tasks(t.Context(), w.Tenant, db.TaskFilter{Limit: 5}); return err }, 2},
		"a draft": {func() error {
			return s.SaveDraft(t.Context(), db.DraftKey{Tenant: w.Tenant, User: w.Requester.ID, Key: "k"}, "text")
		}, 1},
	} {
		must(t, c.ask()) // statements are prepared once for each connection
		before := gate.Requests()
		must(t, c.ask())
		if n := gate.Requests() - before; n != c.want {
			t.Errorf("%s takes %d round trips, want %d", name, n, c.want)
		}
	}
}

// Decision 11: what pages read is read-only, and what the app writes is written for the own tenant alone.
func TestTheAppWritesWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	next := drive.New(t, w.db, drive.Options{Tenant: "next door", Store: w.Store})
	const draft = `INSERT INTO drafts (tenant_id, user_id, key, body) VALUES ($1, $2, 'k', 'b')`
	who := w.Requester.ID
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a draft through a reader":         {w.Store.ExecInTenant(t.Context(), w.Tenant, false, draft, w.Tenant, who), "25006"},
		"a draft of another tenant":        {w.Store.ExecInTenant(t.Context(), w.Tenant, true, draft, next.Tenant, who), "42501"},
		"a draft without a tenant":         {w.Store.ExecInTenant(t.Context(), uuid.Nil, true, draft, w.Tenant, who), "42501"},
		"a run":                            {w.Store.ExecInTenant(t.Context(), w.Tenant, true, `UPDATE runs SET version = 1`), "42501"},
		"an audit row":                     {w.Store.ExecInTenant(t.Context(), w.Tenant, true, `DELETE FROM audit_log`), "42501"},
		"a draft of the own tenant":        {w.Store.ExecInTenant(t.Context(), w.Tenant, true, draft, w.Tenant, who), ""},
		"a token's hash, read":             {w.Store.ExecInTenant(t.Context(), w.Tenant, false, `SELECT hash FROM api_tokens`), "42501"},
		"the tenant's name":                {w.Store.ExecInTenant(t.Context(), w.Tenant, true, `UPDATE tenants SET name = 'x'`), "42501"},
		"a session's key, read by a write": {w.Store.ExecInTenant(t.Context(), w.Tenant, true, `SELECT id_hash FROM sessions`), "42501"},
	} {
		if code := db.SQLState(c.err); code != c.want {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

// Decision 11: no other role is taken for the app's. One that sees every tenant would make the wall a picture of a wall.
func TestAnotherRoleIsNotTakenForTheApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	for role, url := range map[string]string{"signalbox_engine": w.db.EngineURL, "signalbox_owner": w.db.OwnerURL, "postgres": w.db.SuperuserURL(t)} {
		s, err := db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: url})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), role) {
			t.Errorf("a store whose pages are read as %s: %v", role, err)
		}
	}
	// Without any, pages are not read with the other one's rights.
	s := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, MaxConns: 1}))(t)
	t.Cleanup(s.Close)
	if _, err := s.Tasks(t.Context(), w.Tenant, db.TaskFilter{Limit: 1}); err == nil || !strings.Contains(err.Error(), "signalbox_app") {
		t.Errorf("a read of a store without the app's address: %v", err)
	}
}

// T4: the side doors of row-level security. Functions run with the rights of who calls them, but for the trigger that chains the audit
// log, which nobody can call; views ask as who asks them; and what is unique is so within its tenant or by a random id, so that an
// insert tells nothing of others' rows.
func TestRowLevelSecurityHasNoSideDoors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	if definers := w.strings(t, `SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef
		AND NOT (p.proname = 'audit_log_chain' AND p.prorettype = 'trigger'::regtype AND 'search_path=pg_catalog, public, pg_temp' = ANY(p.proconfig))`); len(definers) > 0 {
		t.Errorf("functions that run with their owner's rights: %v", definers)
	}
	if views := w.strings(t, `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND (relkind = 'm'
		OR relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY(reloptions), false))`); len(views) > 0 {
		t.Errorf("views that show what their owner sees: %v", views)
	}
	if makers := w.strings(t, `SELECT r FROM unnest(ARRAY['signalbox_app', 'signalbox_engine']) r WHERE has_schema_privilege(r, 'public', 'CREATE')`); len(makers) > 0 {
		t.Errorf("roles that could put functions of their own before ours: %v", makers)
	}
	indexes := w.strings(t, `SELECT x.relname || ': ' || pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
		WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)
		AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
			AND (a.attname = 'tenant_id' OR a.atttypid = 'uuid'::regtype OR a.attname IN ('hash', 'token_hash', 'id_hash') OR a.attidentity = 'a'))`)
	// Numbers of rows of audit_log and outbox, which the database gives out.
	numbered := []string{"audit_chain_audit_key", "notices_outbox_key"}
	for _, def := range indexes {
		if name, _, _ := strings.Cut(def, ":"); !slices.Contains(numbered, name) {
			t.Errorf("unique over tenants: %s", def)
		}
	}
}
