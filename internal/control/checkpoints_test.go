package control_test

import (
	"bytes"
	"crypto/ed25519"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

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

// R-ATT-4: a log of which nothing is left is an alarm although nobody writes to it any more, and so is a checkpoint by another key than
// the server's until that is named as an old one; administrators read it, and those of the installation what nobody else is left to.
func TestCheckpointsNoticeWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	folder := got(checkpoint.Open(filepath.Join(t.TempDir(), "points")))(t)
	key, next := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	quiet := uuid.New()
	for _, tenant := range []uuid.UUID{w.Tenant, quiet} {
		w.exec(t, `INSERT INTO tenants (id, name) VALUES ($1::uuid, $1::uuid::text) ON CONFLICT DO NOTHING`, tenant)
		w.exec(t, `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result) VALUES ($1, 'human', 'a', 'b', 'c', 'd', 'e')`, tenant)
	}
	c := &control.Checkpoints{Store: w.Store, Folder: folder, Key: key, Every: time.Nanosecond}
	once(t, c.RunOnce, 2)
	once(t, c.RunOnce, 0)
	if c.Fault(w.Tenant)+c.Fault(quiet) != "" {
		t.Fatalf("all is well, and %q, %q", c.Fault(w.Tenant), c.Fault(quiet))
	}

	changed := &control.Checkpoints{Store: w.Store, Folder: folder, Key: next, Every: time.Nanosecond}
	if n, err := changed.RunOnce(t.Context()); n != 0 || err == nil || strings.Count(err.Error(), "AUDIT_KEY_UNKNOWN") != 2 || !strings.Contains(changed.Fault(quiet), "SIGNALBOX_AUDIT_OLD_KEYS") {
		t.Errorf("with another key: %d checkpoints, %v, %q", n, err, changed.Fault(quiet))
	}
	changed.Old = []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
	w.exec(t, `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result) VALUES ($1, 'human', 'a', 'b', 'c', 'd', 'e')`, w.Tenant)
	once(t, changed.RunOnce, 1)
	if words := changed.Fault(w.Tenant); words != "" {
		t.Errorf("the old key is named, and %q", words)
	}

	w.exec(t, `DELETE FROM audit_log WHERE tenant_id = $1`, quiet)
	w.exec(t, `DELETE FROM audit_heads WHERE tenant_id = $1`, quiet)
	if n, err := changed.RunOnce(t.Context()); n != 0 || err == nil || !strings.Contains(err.Error(), "AUDIT_TAMPERED") || !strings.Contains(err.Error(), quiet.String()) {
		t.Errorf("a quiet log is gone: %d checkpoints, %v", n, err)
	}
	for _, tenant := range []uuid.UUID{quiet, w.Tenant} {
		if words := changed.Fault(tenant); !strings.Contains(words, quiet.String()) || !strings.Contains(words, "number 1") {
			t.Errorf("administrators of %s read %q", tenant, words)
		}
	}
}
