package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// O14: a logout that ends logins in several tenants locks their audit logs in one order, so that two of them wait for each other
// one way round and never in a circle.
func TestLogoutLocksTenantsInOneOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	super := w.superuser(t)
	provider := uuid.New()
	w.owner(t, `INSERT INTO providers (id, name, issuer, client_id) VALUES ('`+provider.String()+`', 'p', 'https://p.example', 'c')`)
	const tenants = 6
	for n := range tenants {
		w.owner(t, `INSERT INTO tenants (id, name) VALUES ('`+tenant(n).String()+`', 'tenant '||'`+tenant(n).String()+`')`)
		w.owner(t, `INSERT INTO audit_heads (tenant_id, seq, hash) VALUES ('`+tenant(n).String()+`', 0, '')`)
	}
	for range 4 {
		for n := range tenants {
			_, err := w.Owner.Exec(t.Context(), `INSERT INTO sessions (id_hash, user_id, tenant_id, provider_id, subject, auth_time, idle_expires_at, expires_at)
				VALUES (gen_random_uuid()::text::bytea, $1, $2, $3, 'ana', now(), now() + interval '1 day', now() + interval '1 day')`, w.Admin.ID, tenant(n), provider)
			must(t, err)
		}
		other := got(w.Owner.Begin(t.Context()))(t)
		t.Cleanup(func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }) // where the test ends before
		lock := func(n int) error {
			var seq int64
			return other.QueryRow(t.Context(), `SELECT seq FROM audit_heads WHERE tenant_id = $1 FOR UPDATE NOWAIT`, tenant(n)).Scan(&seq)
		}
		must(t, lock(0))
		done := make(chan error, 1)
		go func() {
			_, err := w.Store.EndByProvider(t.Context(), db.ProviderLogout{Provider: provider, Subject: "ana", TokenID: uuid.NewString(),
				ExpiresAt: time.Now().Add(time.Hour), Audit: &db.Audit{Action: "session.end", ObjectType: "user", Result: "ended", By: run.Actor{Kind: run.ControlPlane}}})
			done <- err
		}()
		waitFor(t, super, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%InsertAudit%'`)
		for n := 1; n < tenants; n++ {
			if err := lock(n); err != nil {
				t.Fatalf("a logout that waits for the first tenant holds number %d already: %v", n+1, err)
			}
		}
		must(t, other.Rollback(t.Context()))
		must(t, <-done)
	}
}

func tenant(n int) uuid.UUID { return uuid.UUID{0: 1, 15: byte(n + 1)} }
