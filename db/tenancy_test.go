package db_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// global are the tables without a tenant (D-10); with a tenant_id they hold a session's or credential's scope.
var global = []string{"tenants", "users", "providers", "identities", "login_states", "sessions", "api_tokens", "login_codes", "logout_tokens", "worker_credentials", "provider_pauses", "control_heartbeat",
	"worker_boots", "feed_cursors", "admin_links", "goose_db_version"}

// partly are global tables of which the app's role sees the rows that concern its tenant, and of those no secret.
var partly = map[string]struct{ shown, hidden string }{
	"users":              {"id, name, email, created_at, disabled_at", ""},
	"api_tokens":         {"id, tenant_id, user_id, kind, name, scopes, auth_time, created_at, expires_at, last_used_at, revoked_at", "hash"},
	"worker_credentials": {"id, tenant_id, name, phases, created_at, last_used_at, revoked_at", "hash"},
	"worker_boots":       {"*", ""},
	"providers":          {"id, name, issuer, groups_claim, dev", "client_id, client_secret, created_at"},
}

// ownWrites are the tables that the app's role writes itself: nothing in them moves work.
var ownWrites = []string{"drafts", "viewed_files", "saved_views", "hints_dismissed"}

// R-TEN-1, T3: every table is either global, and closed to the app's role but for the rows of partly, or carries tenant_id
// NOT NULL with forced row-level security and two policies; keys between tenant tables carry the tenant.
func TestEveryTableBelongsToATenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	rows, err := w.Owner.Query(t.Context(), `SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity,
			EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND a.attnotnull),
			(SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
			has_table_privilege('signalbox_app', c.oid, 'SELECT'),
			has_table_privilege('signalbox_app', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER, REFERENCES'),
			EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'id' AND a.atttypid = 'uuid'::regtype),
			EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'u' AND pg_get_constraintdef(k.oid) = 'UNIQUE (tenant_id, id)')
		FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace`)
	must(t, err)
	seen := 0
	for rows.Next() {
		var name string
		var rls, forced, tenant, reads, writes, id, unique bool
		var policies int
		must(t, rows.Scan(&name, &rls, &forced, &tenant, &policies, &reads, &writes, &id, &unique))
		seen++
		if slices.Contains(global, name) {
			_, part := partly[name]
			if reads && name != "worker_boots" || writes {
				t.Errorf("%s is global and open to the app's role", name)
			}
			// Providers are the installation's: whoever is shown the login page may read of all of them what the app may.
			if held := rls && forced && policies == 2; held != (part && name != "providers") {
				t.Errorf("%s: row-level security %t, forced %t, %d policies", name, rls, forced, policies)
			}
			continue
		}
		if !tenant || !rls || !forced || policies != 2 || !reads {
			t.Errorf("%s: tenant_id NOT NULL %t, row-level security %t, forced %t, %d policies, readable %t", name, tenant, rls, forced, policies, reads)
		}
		if writes != slices.Contains(ownWrites, name) {
			t.Errorf("%s: the app's role may write: %t", name, writes)
		}
		if id && !unique {
			t.Errorf("%s has an id and no UNIQUE (tenant_id, id), so nothing could refer to it within its tenant", name)
		}
	}
	must(t, rows.Err())
	if seen < 40 {
		t.Errorf("only %d tables were looked at", seen)
	}
	composite := regexp.MustCompile(`^(\w+): FOREIGN KEY \((.*)\) REFERENCES (\w+)\((.*)\)`)
	for name, def := range w.constraints(t, "f") {
		m := composite.FindStringSubmatch(def)
		if m == nil {
			t.Fatalf("cannot read %s", def)
		}
		if slices.Contains(global, m[1]) || slices.Contains(global, m[3]) {
			continue
		}
		if m[2][:10] != "tenant_id," || m[4] != "tenant_id, id" {
			t.Errorf("%s does not carry the tenant: %s", name, def)
		}
	}
}

// R-TEN-1: the app's role sees its tenant and nothing else; without a tenant it sees nothing, and it writes nothing.
func TestTheAppSeesItsTenantOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	w.at(t, run.Succeeded)
	w.at(t, run.WaitingForApproval)
	got(other.To(t.Context(), run.Executing))(t)
	conn := got(pgx.Connect(t.Context(), w.db.AppURL))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	tables := []string{}
	rows, err := w.Owner.Query(t.Context(), `SELECT table_name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = 'public' AND column_name = 'tenant_id' AND table_type = 'BASE TABLE' ORDER BY 1`)
	must(t, err)
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		if !slices.Contains(global, name) {
			tables = append(tables, name)
		}
	}
	must(t, rows.Err())
	tables = append(tables, "queue_items")
	filled := 0
	for _, table := range tables {
		if w.count(t, `SELECT count(*) FROM `+table+` WHERE tenant_id = $1`, w.Tenant) > 0 {
			filled++
		}
		for tenant, want := range map[string]uuid.UUID{w.Tenant.String(): w.Tenant, other.Tenant.String(): other.Tenant, "": uuid.Nil, uuid.NewString(): uuid.Nil} {
			must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				if tenant != "" {
					if _, err := tx.Exec(t.Context(), `SELECT set_config('app.tenant', $1, true)`, tenant); err != nil {
						return err
					}
				}
				var sees, foreign int64
				if err := tx.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE tenant_id <> $1) FROM `+table, want).Scan(&sees, &foreign); err != nil {
					return err
				}
				if has := w.count(t, `SELECT count(*) FROM `+table+` WHERE tenant_id = $1`, want); sees != has || foreign != 0 {
					t.Errorf("%s as tenant %q: sees %d rows, %d of them foreign; the tenant has %d", table, tenant, sees, foreign, has)
				}
				return nil
			}))
		}
	}
	if filled < 20 {
		t.Errorf("only %d tables held anything to see", filled)
	}
	for _, table := range global {
		part, ok := partly[table]
		if !ok {
			denied(t, conn, `SELECT FROM `+table)
			continue
		}
		got(conn.Exec(t.Context(), `SELECT `+part.shown+` FROM `+table))(t)
		for column := range strings.SplitSeq(part.hidden, ", ") {
			if column != "" {
				denied(t, conn, `SELECT `+column+` FROM `+table)
			}
		}
	}
	for _, table := range tables {
		if table != "queue_items" && !slices.Contains(ownWrites, table) {
			denied(t, conn, `DELETE FROM `+table)
			denied(t, conn, `UPDATE `+table+` SET tenant_id = tenant_id`)
		}
	}
	// A draft can be written for the own tenant alone.
	must(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('app.tenant', $1, true)`, w.Tenant.String()); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO drafts (tenant_id, user_id, key, body) VALUES ($1, $2, 'k', 'b')`, w.Tenant, w.Requester.ID)
		return err
	}))
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT set_config('app.tenant', $1, true)`, w.Tenant.String()); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `INSERT INTO drafts (tenant_id, user_id, key, body) VALUES ($1, $2, 'k', 'b')`, other.Tenant, w.Requester.ID)
		return err
	})
	if err == nil {
		t.Error("a draft was written into another tenant")
	}
}
