package audit_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/audit"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// tenants is a limit of one lease for each tenant.
func tenants(most int) audit.Limit {
	return audit.Limit{Name: "tenant", Most: most, Key: func(h audit.Held) string { return h.Tenant.String() }}
}

// The audit notices each planted fault, names its run, and finds nothing where nothing was planted.
func TestAuditNoticesWhatIsPlanted(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	w := drive.New(t, d, drive.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at, err := w.To(t.Context(), run.Succeeded)
	must(err)
	victim := at.Ref.Run
	lost, err := w.To(t.Context(), run.Executing)
	must(err)
	_, err = w.Reap(t.Context(), lost.Ref)
	must(err)
	must(w.Due(t.Context(), lost.Ref))
	_, err = w.ClaimRun(t.Context(), w.Workers[1], lost.Ref)
	must(err)
	_, err = w.To(t.Context(), run.WaitingForApproval)
	must(err)
	conn, err := pgx.Connect(t.Context(), d.SuperuserURL(t))
	must(err)
	defer conn.Close(t.Context())
	read := func(q audit.Querier, w audit.Want) []audit.Finding {
		t.Helper()
		l, err := audit.Read(t.Context(), q)
		must(err)
		return l.Findings(w)
	}
	clean := audit.Want{Limits: []audit.Limit{tenants(2)}}
	clean.Runs = append(clean.Runs, victim, lost.Ref.Run)
	if found := read(conn, clean); len(found) > 0 {
		t.Fatalf("nothing was planted and it finds %v", found)
	}
	settled := clean
	settled.Settled = true
	for _, c := range []struct {
		name string
		kind audit.Kind
		want audit.Want
		run  any
		sql  string
	}{
		{"a run that is gone", audit.Lost, clean, victim, `DELETE FROM runs WHERE id = $1`},
		{"a run without a log", audit.Lost, clean, victim, `DELETE FROM run_events WHERE run_id = $1`},
		{"a run that stays", audit.Lost, settled, lost.Ref.Run, `SELECT $1::uuid`},
		{"an end that is recorded twice", audit.Doubled, clean, victim, `INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash)
			SELECT tenant_id, run_id, seq + 1, schema, event_id || '-again', kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash FROM run_events WHERE run_id = $1 AND to_state = 'SUCCEEDED'`},
		{"a request that is recorded twice", audit.Doubled, clean, victim, `UPDATE run_events SET event_id = (SELECT event_id FROM run_events WHERE run_id = $1 AND seq = 3) WHERE run_id = $1 AND seq = 4`},
		{"an event that does not fit", audit.Illegal, clean, victim, `UPDATE run_events SET kind = 'approved' WHERE run_id = $1 AND seq = 4`},
		{"a jump", audit.Illegal, clean, victim, `UPDATE run_events SET to_state = 'EXECUTING' WHERE run_id = $1 AND seq = 4`},
		{"a payload that nobody can read", audit.Illegal, clean, victim, `UPDATE run_events SET payload = '{}' WHERE run_id = $1 AND seq = 4`},
		{"an event that is gone", audit.Gap, clean, victim, `DELETE FROM run_events WHERE run_id = $1 AND seq = 5`},
		{"a token that goes back", audit.Tokens, clean, lost.Ref.Run, `UPDATE run_events SET payload = jsonb_set(payload, '{payload,lease,token}', '1') WHERE run_id = $1 AND kind = 'lease_acquired' AND seq > 4`},
		{"a token that is given twice", audit.Tokens, clean, nil, `UPDATE run_events SET payload = jsonb_set(payload, '{payload,lease,token}', (SELECT to_jsonb(max(fencing_token)) FROM ended_leases)) WHERE $1::uuid IS NULL AND kind = 'lease_acquired' AND seq > 4`},
		{"a lease that never ended", audit.TwoLeases, clean, lost.Ref.Run, `DELETE FROM ended_leases WHERE run_id = $1`},
		{"a lease that ended after the next began", audit.TwoLeases, clean, lost.Ref.Run, `UPDATE ended_leases SET ended_at = ended_at + interval '1 hour' WHERE run_id = $1`},
		{"a lease that outlives its run", audit.TwoLeases, clean, victim, `DELETE FROM ended_leases WHERE run_id = $1 AND phase = 'publish'`},
		{"an event under a lease that is over", audit.DeadLease, clean, victim, `UPDATE ended_leases SET ended_at = acquired_at WHERE run_id = $1 AND phase = 'execute'`},
		{"an event under a lease of nobody", audit.DeadLease, clean, victim, `UPDATE run_events SET payload = jsonb_set(payload, '{cause,lease}', '"01920000-0000-7000-8000-00000000dead"') WHERE run_id = $1 AND kind = 'sandbox_ready'`},
		{"more than the limit", audit.OverLimit, audit.Want{Limits: []audit.Limit{tenants(1)}}, nil, `UPDATE ended_leases SET ended_at = ended_at + interval '1 hour' WHERE $1::uuid IS NULL`},
		{"another state", audit.Differs, clean, victim, `UPDATE runs SET state = 'FAILED', failure_category = 'UNKNOWN', failure_code = 'X', failure_retryable = false WHERE id = $1`},
		{"another byte", audit.Differs, clean, victim, `UPDATE run_events SET body = set_byte(body, 40, get_byte(body, 40) # 1) WHERE run_id = $1 AND seq = 4`},
		{"another head", audit.Differs, clean, victim, `UPDATE runs SET head_hash = set_byte(head_hash, 0, get_byte(head_hash, 0) # 1) WHERE id = $1`},
	} {
		tx, err := conn.Begin(t.Context())
		must(err)
		for _, free := range []string{`SET LOCAL session_replication_role = replica`, `ALTER TABLE run_events DROP CONSTRAINT run_events_run_event_id_key`} {
			_, err = tx.Exec(t.Context(), free)
			must(err)
		}
		tag, err := tx.Exec(t.Context(), c.sql, c.run)
		must(err)
		if tag.RowsAffected() == 0 {
			t.Errorf("%s: nothing was planted", c.name)
		}
		found := read(tx, c.want)
		if !slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Kind == c.kind && (c.run == nil || f.Run == c.run) }) {
			t.Errorf("%s: it finds %v, want one that is %q", c.name, found, c.kind)
		}
		must(tx.Rollback(t.Context()))
	}
}

// A process whose folder is mounted for it alone is found; when it has ended it is not.
func TestAuditFindsProcesses(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("not exercised: no mounts of one's own here: %v %s", err, out)
	}
	dir := t.TempDir()
	work := dir + "/work"
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", `mkdir "$0" && mount -t tmpfs none "$0" && echo up && exec sleep 1000`, work)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	found, err := audit.Processes(dir)
	if err != nil || len(found) != 1 || !strings.Contains(found[0], "sleep") {
		t.Errorf("finds %q (%v), want the one that sleeps", found, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if found, err := audit.Processes(dir); err != nil || len(found) != 0 {
		t.Errorf("finds %q (%v) when all is over", found, err)
	}
}
