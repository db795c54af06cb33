package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/checkpoint"
	"signalbox/internal/control"
	"signalbox/internal/dbtest"
)

// R-ATT-4: the command holds the whole log against the checkpoints, says the first number that cannot be trusted and why, and ends
// with code 1; with nothing wrong it ends with 0.
func TestAuditVerify(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	store, err := db.Open(t.Context(), db.Options{URL: d.EngineURL, MaxConns: 2})
	must(t, err)
	t.Cleanup(store.Close)
	owner, err := pgx.Connect(t.Context(), d.OwnerURL)
	must(t, err)
	defer owner.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		_, err := owner.Exec(t.Context(), sql)
		must(t, err)
	}
	seed := bytes.Repeat([]byte{3}, ed25519.SeedSize)
	key := ed25519.NewKeyFromSeed(seed)
	public := base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	folder, err := checkpoint.Open(filepath.Join(t.TempDir(), "points[1]*"))
	must(t, err)
	seal := &control.Checkpoints{Store: store, Folder: folder, Key: key, Every: time.Nanosecond}
	for range 3 {
		exec(`INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result) VALUES ('` + db.DefaultTenant.String() + `', 'human', 'a', 'b', 'c', 'd', 'e')`)
		_, err := seal.RunOnce(t.Context())
		must(t, err)
	}
	verify := func(want int, says string, env map[string]string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		code := execute(t.Context(), append([]string{"audit"}, args...), terminal{Out: &out, Err: &out, Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
		if code != want || !strings.Contains(out.String(), says) {
			t.Errorf("audit %v: code %d, want %d and %q:\n%s", args, code, want, says, out.String())
		}
	}
	set := map[string]string{"SIGNALBOX_DATABASE_URL": d.EngineURL, "SIGNALBOX_AUDIT_CHECKPOINTS": string(folder), "SIGNALBOX_AUDIT_KEY": base64.StdEncoding.EncodeToString(seed)}
	alone := map[string]string{"SIGNALBOX_DATABASE_URL": d.EngineURL}
	verify(0, public, set, "key")
	verify(1, "32 random bytes", alone, "key")
	verify(0, "default: 3 rows hold, 3 of them agree with a checkpoint", set, "verify")
	verify(0, "Without checkpoints", alone, "verify")
	verify(0, "3 of them agree", alone, "verify", "--checkpoints", string(folder), "--public-key", public, "--tenant", "default")
	verify(1, "no checkpoint is about any of them", set, "verify", "--checkpoints", t.TempDir())
	verify(1, "there is no tenant", set, "verify", "--tenant", "nobody")
	verify(1, "SIGNALBOX_DATABASE_URL is not set", nil, "verify")
	verify(1, "does not hold", set, "verify", "--public-key", base64.StdEncoding.EncodeToString(make([]byte, 32)))

	exec(`DELETE FROM audit_log WHERE seq = 3`)
	exec(`UPDATE audit_heads SET seq = 2, hash = (SELECT hash FROM audit_log WHERE seq = 2)`)
	verify(0, "default: 2 rows hold", alone, "verify")
	verify(1, "default: 2 rows hold, then number 3 is the first that does not: it is missing", set, "verify")
	exec(`UPDATE audit_log SET reason = 'x' WHERE seq = 2`)
	verify(1, "default: 1 rows hold, then number 2", alone, "verify")
}
