package control_test

import (
	"bytes"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/internal/checkpoint"
	"signalbox/internal/control"
	"signalbox/internal/dbtest/drive"
)

// R-ATT-4: the ends of all tenants' audit logs are signed once a minute where something is new; a log that contradicts what was signed
// is an alarm, gets no further checkpoint, and hides no other tenant's.
func TestCheckpointsAreMadeWhereSomethingIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	keys := []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
	folder := got(checkpoint.Open(filepath.Join(t.TempDir(), "points")))(t)
	act := func(who *drive.World) {
		w.exec(t, `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result) VALUES ($1, 'human', 'a', 'b', 'c', 'd', 'e')`, who.Tenant)
	}
	c := &control.Checkpoints{Store: w.Store, Folder: folder, Key: key}
	kept := func() (n int) {
		all, problems, err := folder.Read(keys)
		must(t, err)
		if len(problems) != 0 {
			t.Errorf("%v", problems)
		}
		return len(all)
	}
	once(t, c.RunOnce, 0)
	act(w.World)
	act(other)
	once(t, c.RunOnce, 2)
	act(w.World)
	c.Every = time.Hour
	once(t, c.RunOnce, 0) // it is not over
	c.Every = time.Nanosecond
	once(t, c.RunOnce, 1)
	once(t, c.RunOnce, 0) // nothing is new
	if n := kept(); n != 3 {
		t.Fatalf("%d checkpoints are kept", n)
	}
	all, _, err := folder.Read(keys)
	must(t, err)
	if v := got(w.Store.VerifyAudit(t.Context(), w.Tenant, all))(t); v.Fault != nil || v.Vouched != 2 {
		t.Errorf("%+v", v)
	}

	w.exec(t, `DELETE FROM audit_log WHERE tenant_id = $1 AND seq = 2`, w.Tenant)
	w.exec(t, `UPDATE audit_heads SET seq = 1, hash = (SELECT hash FROM audit_log WHERE tenant_id = $1 AND seq = 1) WHERE tenant_id = $1`, w.Tenant)
	act(w.World)
	act(w.World)
	act(other)
	if n, err := c.RunOnce(t.Context()); n != 1 || err == nil || !strings.Contains(err.Error(), "AUDIT_TAMPERED") || !strings.Contains(err.Error(), w.Tenant.String()) {
		t.Errorf("%d checkpoints, %v", n, err)
	}
	if v := got(w.Store.VerifyAudit(t.Context(), w.Tenant, all))(t); v.Fault == nil || v.Fault.Seq != 2 {
		t.Errorf("%+v", v.Fault)
	}
	if v := got(w.Store.VerifyAudit(t.Context(), other.Tenant, all))(t); v.Fault != nil {
		t.Errorf("%+v", v.Fault)
	}
}
