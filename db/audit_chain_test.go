package db_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/evidence"
	"signalbox/internal/run"
	"signalbox/migrations"
)

// audits writes n rows as the engine does, some of them with text that is hostile to an encoding.
func (w *world) audits(t testing.TB, n int) {
	t.Helper()
	conn := got(pgx.Connect(t.Context(), w.db.EngineURL))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	texts := []string{"", "plain", "é\u202e\"'\\", "a\nb\x01", strings.Repeat("x", 3000)}
	for i := range n {
		_, err := conn.Exec(t.Context(), `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, actor_name, channel, remote_addr, request_id, action, object_type, object_id, result, reason, detail)
			VALUES ($1, 'human', $2, $3, 'page', '192.0.2.1', 'req', 'gate.approve', 'gate', $2, 'recorded', $3, $4)`,
			w.Tenant, fmt.Sprint("u", i), texts[i%len(texts)], map[string]any{"b": i, "aa": 1.50, "text": texts[i%len(texts)]})
		must(t, err)
	}
}

func (w *world) verify(t testing.TB, points []evidence.Checkpoint) db.AuditReport {
	t.Helper()
	return got(w.Store.VerifyAudit(t.Context(), w.Tenant, points))(t)
}

// every makes a checkpoint at each number.
func (w *world) every(t testing.TB) (all []evidence.Checkpoint) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	rows, err := w.Owner.Query(t.Context(), `SELECT seq, hash FROM audit_log WHERE tenant_id = $1 ORDER BY seq`, w.Tenant)
	must(t, err)
	var seq int64
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &hash}, func() error {
		all = append(all, evidence.Sign(key, w.Tenant, seq, slices.Clone(hash), time.Unix(seq, 0)))
		return nil
	})
	must(t, err)
	return all
}

// tampering is what a person with all rights on the database does to row number $1 of tenant $2.
type tampering struct {
	name string
	// sql, several statements separated by ;; in which $n is the number and $t the tenant.
	sql string
	// first bad number, from that of the row.
	first func(n, last int64) int64
	// hidden tampering can be found with checkpoints only.
	hidden bool
}

// rechain computes all hashes anew from a number on, and the head.
const rechain = `DO $$ DECLARE r audit_log; prev bytea; BEGIN
	SELECT coalesce((SELECT hash FROM audit_log WHERE tenant_id = '$t' AND seq = $n - 1), '') INTO prev;
	FOR r IN SELECT * FROM audit_log WHERE tenant_id = '$t' AND seq >= $n ORDER BY seq LOOP
		prev := sha256(prev || audit_record(r));
		UPDATE audit_log SET hash = prev WHERE tenant_id = '$t' AND seq = r.seq;
	END LOOP;
	UPDATE audit_heads SET hash = prev, seq = (SELECT max(seq) FROM audit_log WHERE tenant_id = '$t') WHERE tenant_id = '$t'; END $$`

func tamperings(t *testing.T, w *world, other uuid.UUID) []tampering {
	same := func(n, _ int64) int64 { return n }
	row := ` WHERE tenant_id = '$t' AND seq = $n`
	all := []tampering{
		{name: "delete", sql: `DELETE FROM audit_log` + row, first: same},
		{name: "truncate, the head left", sql: `DELETE FROM audit_log WHERE tenant_id = '$t' AND seq >= $n`, first: same},
		{name: "truncate, the head moved", hidden: true, first: same, sql: `DELETE FROM audit_log WHERE tenant_id = '$t' AND seq >= $n;;
			UPDATE audit_heads SET seq = $n - 1, hash = coalesce((SELECT hash FROM audit_log WHERE tenant_id = '$t' AND seq = $n - 1), '') WHERE tenant_id = '$t'`},
		{name: "reorder with the next", first: func(n, last int64) int64 { return min(n, last-1) }, sql: `UPDATE audit_log SET seq = CASE seq WHEN least($n, $l - 1) THEN least($n, $l - 1) + 1 ELSE least($n, $l - 1) END
			WHERE tenant_id = '$t' AND seq IN (least($n, $l - 1), least($n, $l - 1) + 1)`},
		{name: "exchange the contents with the next", first: func(n, last int64) int64 { return min(n, last-1) }, sql: `UPDATE audit_log a SET reason = b.reason, actor_id = b.actor_id, detail = b.detail
			FROM audit_log b WHERE a.tenant_id = '$t' AND b.tenant_id = '$t' AND a.seq IN (least($n, $l - 1), least($n, $l - 1) + 1) AND b.seq = 2 * least($n, $l - 1) + 1 - a.seq`},
		{name: "insert a copy", first: same, sql: `UPDATE audit_log SET seq = seq + 1 WHERE tenant_id = '$t' AND seq >= $n;;
			INSERT INTO audit_log (id, xid, tenant_id, seq, at, actor_kind, actor_id, action, object_type, object_id, result, hash)
				SELECT id + 100000, xid, tenant_id, $n, at, actor_kind, 'forged', action, object_type, object_id, result, hash FROM audit_log WHERE tenant_id = '$t' AND seq = $n + 1;;
			UPDATE audit_heads SET seq = seq + 1 WHERE tenant_id = '$t'`},
		{name: "double a number", first: func(n, _ int64) int64 { return max(n-1, 1) }, sql: `UPDATE audit_log SET seq = greatest($n - 1, 1) WHERE tenant_id = '$t' AND seq = greatest($n, 2)`},
		{name: "edit and chain anew", hidden: true, first: same, sql: `UPDATE audit_log SET reason = 'forged' || reason` + row + `;;` + rechain},
		{name: "delete, number and chain anew", hidden: true, first: same, sql: `DELETE FROM audit_log` + row + `;;
			UPDATE audit_log SET seq = seq - 1 WHERE tenant_id = '$t' AND seq > $n;;` + rechain},
	}
	rows, err := w.Owner.Query(t.Context(), `SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'audit_log' ORDER BY 1`)
	must(t, err)
	var name, kind string
	edits := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		to := map[string]string{"text": name + ` || 'x'`, "bigint": name + ` + 1000`, "bytea": `set_byte(hash, 3, get_byte(hash, 3) # 1)`, "jsonb": `detail || '{"x": 1}'`,
			"uuid": `'` + other.String() + `'`, "timestamp with time zone": name + ` + interval '1 microsecond'`, "xid8": `(xid::text::bigint + 1)::text::xid8`}[kind]
		if to == "" {
			t.Errorf("nobody edits column %s of type %s", name, kind)
		}
		edits++
		all = append(all, tampering{name: "edit " + name, sql: `UPDATE audit_log SET ` + name + ` = ` + to + row, first: same})
		return nil
	})
	must(t, err)
	if edits < 18 {
		t.Errorf("only %d columns are edited", edits)
	}
	return all
}

// R-ATT-4 (S14): whatever somebody with all rights does to any row of the audit log is found, with the first number that cannot be
// trusted; what the log alone cannot show is found with checkpoints; an unharmed log is never called broken.
func TestTamperingWithTheAuditIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	other := uuid.New()
	w.owner(t, `INSERT INTO tenants (id, name) VALUES ('`+other.String()+`', 'elsewhere')`)
	const last = 12
	w.audits(t, last)
	points := w.every(t)
	// Somebody with all rights is held up by no rule of the schema either.
	for _, sql := range []string{`ALTER TABLE audit_log DISABLE TRIGGER audit_log_chain`, `ALTER TABLE audit_log DROP CONSTRAINT audit_log_seq_key`,
		`ALTER TABLE audit_log ALTER COLUMN id DROP IDENTITY`, `CREATE TABLE kept AS SELECT * FROM audit_log`, `CREATE TABLE kept_heads AS SELECT * FROM audit_heads`} {
		w.owner(t, sql)
	}
	tried, found, alarms := 0, 0, 0
	for _, x := range tamperings(t, w, other) {
		for n := int64(1); n <= last; n++ {
			if v := w.verify(t, points); v.Fault != nil || v.Rows != last || v.Vouched != last {
				alarms++
				t.Errorf("a false alarm before %s of number %d: %+v", x.name, n, v)
			}
			fill := strings.NewReplacer("$n", fmt.Sprint(n), "$l", fmt.Sprint(last), "$t", w.Tenant.String())
			for sql := range strings.SplitSeq(x.sql, ";;") {
				w.owner(t, fill.Replace(sql))
			}
			tried++
			alone, sealed := w.verify(t, nil), w.verify(t, points)
			want := x.first(n, last)
			switch {
			case x.hidden && alone.Fault != nil:
				t.Errorf("%s of number %d: found without checkpoints: %v", x.name, n, alone.Fault)
			case !x.hidden && (alone.Fault == nil || alone.Fault.Seq != want):
				t.Errorf("%s of number %d: %v, want number %d", x.name, n, alone.Fault, want)
			case sealed.Fault == nil || sealed.Fault.Seq != want:
				t.Errorf("%s of number %d, with checkpoints: %v, want number %d", x.name, n, sealed.Fault, want)
			default:
				found++
			}
			for _, sql := range []string{`DELETE FROM audit_log`, `INSERT INTO audit_log SELECT * FROM kept`, `DELETE FROM audit_heads`, `INSERT INTO audit_heads SELECT * FROM kept_heads`} {
				w.owner(t, sql)
			}
		}
	}
	t.Logf("S14: %d of %d tamperings found with the exact first number, %d false alarms", found, tried, alarms)
	for sql, want := range map[string]int64{`UPDATE audit_heads SET seq = seq + 1`: last + 1, `UPDATE audit_heads SET seq = seq - 1`: last, `UPDATE audit_heads SET hash = '\x00'`: last, `DELETE FROM audit_heads`: 1} {
		w.owner(t, sql)
		if v := w.verify(t, nil); v.Fault == nil || v.Fault.Seq != want {
			t.Errorf("%s: %v, want number %d", sql, v.Fault, want)
		}
		w.owner(t, `DELETE FROM audit_heads`)
		w.owner(t, `INSERT INTO audit_heads SELECT * FROM kept_heads`)
	}
	// A row that moves to another tenant is found there, too.
	w.owner(t, `UPDATE audit_log SET tenant_id = '`+other.String()+`' WHERE seq = 1`)
	if v := got(w.Store.VerifyAudit(t.Context(), other, nil))(t); v.Fault == nil || v.Fault.Seq != 1 {
		t.Errorf("in the other tenant: %v", v.Fault)
	}
}

// R-ATT-4: people who act at the same moment, in two tenants and at two replicas, leave numbers without a gap and times in their
// order; a transaction that ends badly leaves nothing, and whoever looks meanwhile is never told of a fault.
func TestTheAuditHasNoGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	const writers, each = 6, 15
	ended := make(chan error, writers+1)
	for n := range writers {
		go func() {
			ended <- func() error {
				for i := range each {
					who := w.World
					if (n+i)%2 == 1 {
						who = other
					}
					a := &db.Audit{Tenant: who.Tenant, By: who.Requester.Actor(), Action: "session.end", ObjectType: "user", Result: "recorded"}
					in := db.Request{Tenant: who.Tenant, By: who.Requester.Actor(), Key: fmt.Sprint(n, i), Hash: drive.Hash(fmt.Sprint(n, i)), Audit: a}
					if _, _, err := who.Store.IssueToken(context.WithoutCancel(t.Context()), in, db.Token{Tenant: who.Tenant, User: who.Requester.ID, Name: fmt.Sprint(n, i)}, uuid.NewString()); err != nil {
						return err
					}
					a.Tenant = uuid.New() // nobody's
					in.Key += "x"
					if _, _, err := who.Store.IssueToken(context.WithoutCancel(t.Context()), in, db.Token{Tenant: who.Tenant, User: who.Requester.ID, Name: "x"}, uuid.NewString()); err == nil {
						return fmt.Errorf("an action was carried out without its audit")
					}
				}
				return nil
			}()
		}()
	}
	done := 0
	looks := 0
	for done < writers {
		select {
		case err := <-ended:
			must(t, err)
			done++
		default:
			if v := w.verify(t, nil); v.Fault != nil {
				t.Fatalf("while others write: %v", v.Fault)
			}
			looks++
		}
	}
	for _, x := range []*drive.World{w.World, other} {
		v := got(w.Store.VerifyAudit(t.Context(), x.Tenant, nil))(t)
		if v.Fault != nil || v.Rows != writers*each/2 {
			t.Errorf("%d rows, %v", v.Rows, v.Fault)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log a JOIN audit_log b ON b.tenant_id = a.tenant_id AND b.seq = a.seq + 1 WHERE b.at < a.at`); n != 0 {
		t.Errorf("%d rows are older than the one before them", n)
	}
	t.Logf("%d rows in two chains, looked at %d times meanwhile", writers*each, looks)
}

// R-ATT-4, R-DOM-10: who may write into the audit can neither choose a row's number, hash and time nor move the head.
func TestTheEngineCannotChooseItsPlaceInTheAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	must(t, w.Approve(t.Context(), at.Ref))
	before := w.verify(t, nil)
	conn := got(pgx.Connect(t.Context(), w.db.EngineURL))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	_, err := conn.Exec(t.Context(), `INSERT INTO audit_log (tenant_id, seq, hash, at, actor_kind, actor_id, action, object_type, object_id, result)
		VALUES ($1, 900, '\x00', '2020-01-01', 'human', 'x', 'x', 'x', 'x', 'x')`, w.Tenant)
	must(t, err)
	if v := w.verify(t, nil); v.Fault != nil || v.Rows != before.Rows+1 {
		t.Errorf("%d rows after %d, %v", v.Rows, before.Rows, v.Fault)
	}
	if n := w.count(t, `SELECT count(*) FROM audit_log WHERE at < '2021-01-01'`); n != 0 {
		t.Error("a row has the time that its writer named")
	}
	denied(t, conn, `INSERT INTO audit_heads (tenant_id, seq, hash) VALUES (gen_random_uuid(), 1, '')`)
	denied(t, conn, `ALTER TABLE audit_log DISABLE TRIGGER audit_log_chain`)
}

// R-ATT-4: an installation that has an audit log already keeps every row of it: the migration chains them in their order, in each tenant
// from number 1 on, and what is written afterwards goes on from there.
func TestTheMigrationChainsWhatIsThere(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	must(t, migrations.DownTo(t.Context(), d.OwnerURL, 39))
	owner := got(pgx.Connect(t.Context(), d.OwnerURL))(t)
	defer owner.Close(context.WithoutCancel(t.Context()))
	other := uuid.New()
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := owner.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	exec(`INSERT INTO tenants (id, name) VALUES ($1, 'other'), (gen_random_uuid(), 'third')`, other)
	const write = `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, action, object_type, object_id, result, detail)
		SELECT CASE n % 3 WHEN 0 THEN $1::uuid ELSE $2::uuid END, 'human', n::text, 'a', 'b', 'c', 'd', jsonb_build_object('n', n) FROM generate_series(1, 30) n`
	exec(write, other, db.DefaultTenant)
	must(t, migrations.Up(t.Context(), d.OwnerURL))
	exec(write, other, db.DefaultTenant)
	store := got(db.Open(t.Context(), db.Options{URL: d.EngineURL, MaxConns: 2}))(t)
	defer store.Close()
	for tenant, want := range map[uuid.UUID]int64{other: 20, db.DefaultTenant: 40} {
		if v := got(store.VerifyAudit(t.Context(), tenant, nil))(t); v.Fault != nil || v.Rows != want {
			t.Errorf("%d rows, want %d, %v", v.Rows, want, v.Fault)
		}
	}
	var wrong int
	must(t, owner.QueryRow(t.Context(), `SELECT count(*) FROM audit_log a JOIN audit_log b ON b.tenant_id = a.tenant_id AND b.seq = a.seq + 1 WHERE b.id < a.id`).Scan(&wrong))
	if wrong != 0 {
		t.Errorf("%d rows were chained in another order", wrong)
	}
}
