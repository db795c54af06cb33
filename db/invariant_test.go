package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// broke returns the name of the rule that a statement of the owner breaks; the statement is rolled back.
func (w *world) broke(t testing.TB, sql string, args ...any) string {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), w.Owner, func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), sql, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("no row was touched by %s", sql)
		}
		return errors.New("accepted")
	})
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.ConstraintName != "" {
		return pe.ConstraintName
	}
	return err.Error()
}

// R-DOM-4, R-DOM-13: what SQL can say of the invariants of runs it says: a statement that breaks one fails, even when
// the owner sends it. Every named CHECK of runs is broken here once.
func TestInvariantsOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := map[run.State]uuid.UUID{}
	for _, s := range []run.State{run.Queued, run.Leased, run.Executing, run.PatchReady, run.Verifying, run.Judging, run.WaitingForApproval, run.PRCreating,
		run.AwaitingVerification, run.Cancelling, run.Succeeded} {
		at[s] = w.at(t, s).Ref.Run
	}
	const released = `lease_id = NULL, lease_phase = NULL, lease_worker = NULL, lease_boot = NULL`
	const failure = `failure_category = 'UNKNOWN', failure_code = 'UNKNOWN', failure_retryable = false, finished_at = now()`
	cases := []struct {
		rule string
		from run.State
		set  string
	}{
		{"runs_state_check", run.Executing, `state = 'THINKING'`},
		{"runs_mode_check", run.Executing, `mode = 'magic'`},
		{"runs_risk_check", run.Executing, `risk = 'NONE'`},
		{"runs_lease_phase_check", run.Executing, `lease_phase = 'dream'`},
		{"runs_queued_check", run.Queued, `queued = 'dream'`},
		{"runs_gate_kind_check", run.WaitingForApproval, `gate_kind = 'mood'`},
		{"runs_outcome_check", run.Executing, `outcome = 'mood'`},
		{"runs_failure_category_check", run.Executing, `failure_category = 'MOOD'`},
		{"runs_stop_signal_check", run.Executing, `stop_signal = 'mood'`},
		{"runs_version_check", run.Executing, `version = 0`},
		{"runs_lease_complete_check", run.Executing, `lease_worker = NULL`},
		{"runs_lease_or_item_check", run.Executing, `queued = 'execute'`},
		{"runs_work_check", run.Executing, released},
		{"runs_work_check", run.Queued, `queued = NULL`},
		{"runs_leased_check", run.Leased, released + `, queued = 'execute'`},
		{"runs_leased_check", run.Cancelling, released},
		{"runs_attempt_check", run.Executing, `attempt_id = NULL`},
		{"runs_admitted_check", run.Executing, `policy_version = ''`},
		{"runs_planned_check", run.Executing, `plan_digest = ''`},
		{"runs_patch_check", run.PatchReady, `patch = NULL`},
		{"runs_patch_check", run.PRCreating, `patch = NULL`},
		{"runs_judging_check", run.Judging, `verification_digest = ''`},
		{"runs_judging_check", run.Judging, `outcome = 'report'`},
		{"runs_waiting_check", run.WaitingForApproval, `gate_id = NULL, gate_kind = NULL, gate_revision = NULL, gate_digest = NULL, gate_expired = NULL`},
		{"runs_waiting_check", run.WaitingForApproval, `queued = 'publish'`},
		{"runs_gate_check", run.Executing, `gate_id = gen_random_uuid()`},
		{"runs_awaiting_check", run.AwaitingVerification, `queued = 'publish'`},
		{"runs_pr_check", run.PRCreating, `state = 'PR_CREATED', ` + released},
		{"runs_succeeded_check", run.Verifying, `state = 'SUCCEEDED', verdict = '', finished_at = now(), ` + released},
		{"runs_failed_check", run.Executing, `state = 'FAILED', finished_at = now(), ` + released},
		{"runs_cancelled_check", run.Executing, `state = 'CANCELLED', finished_at = now(), ` + released},
		{"runs_cancelled_check", run.Cancelling, `cancel_reason = NULL`},
		{"runs_expired_check", run.Executing, `state = 'EXPIRED', finished_at = now(), ` + released},
		{"runs_terminal_check", run.Executing, `state = 'FAILED', ` + failure},
		{"runs_terminal_check", run.Queued, `state = 'FAILED', ` + failure},
		{"runs_finished_check", run.Executing, `finished_at = now()`},
		{"runs_finished_check", run.Executing, `state = 'FAILED', failure_category = 'UNKNOWN', failure_code = 'UNKNOWN', failure_retryable = false, ` + released},
		{"runs_state_needs_event", run.Executing, `state = 'PLANNING'`},
		{"runs_terminal_is_final", run.Succeeded, `verdict = 'other'`},
	}
	broken := map[string]bool{}
	for _, c := range cases {
		sql := `UPDATE runs SET version = version + 1, ` + c.set + ` WHERE id = $1`
		if strings.Contains(c.set, "version") || c.rule == "runs_state_needs_event" {
			sql = `UPDATE runs SET ` + c.set + ` WHERE id = $1`
		}
		if got := w.broke(t, sql, at[c.from]); got != c.rule {
			t.Errorf("%s, set %s: broke %s, want %s", c.from, c.set, got, c.rule)
		}
		broken[c.rule] = true
	}
	for name, def := range w.constraints(t, "c") {
		if strings.HasPrefix(def, "runs: ") && !broken[name] {
			t.Errorf("%s is broken by no case: %s", name, def)
		}
	}
}

// The same for what belongs to runs: one lease, one item, one gate, one attempt of a number, one event of a number.
func TestInvariantsAroundRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	executing, waiting, done := w.at(t, run.Executing).Ref.Run, w.at(t, run.WaitingForApproval).Ref.Run, w.at(t, run.Succeeded).Ref.Run
	queued := w.at(t, run.Queued).Ref.Run
	awaiting := w.at(t, run.AwaitingVerification).Ref.Run
	other := drive.New(t, w.db, drive.Options{Tenant: "other", Store: w.Store})
	for _, c := range []struct {
		rule, sql string
		args      []any
	}{
		{"run_leases_pkey", `INSERT INTO run_leases SELECT run_id, gen_random_uuid(), tenant_id, fencing_token + 1, phase, worker_id, boot_id, attempt_id, repository_id, user_id, claim_id, now(), now(), now() FROM run_leases WHERE run_id = $1`, []any{executing}},
		{"run_queue_pkey", `INSERT INTO run_queue (run_id, tenant_id, phase, repository_id, user_id, risk) SELECT run_id, tenant_id, 'verify', repository_id, user_id, risk FROM run_queue WHERE run_id = $1`, []any{queued}},
		{"gates_one_open_idx", `INSERT INTO gates SELECT gen_random_uuid(), tenant_id, run_id, task_id, kind, 'open', 1, digest, artifact_id, base_commit, quorum, role, policy_version, reasons, opened_at, expires_at FROM gates WHERE run_id = $1`, []any{waiting}},
		{"gates_quorum_check", `UPDATE gates SET quorum = 0 WHERE run_id = $1`, []any{waiting}},
		{"gates_revision_check", `UPDATE gates SET revision = 0 WHERE run_id = $1`, []any{waiting}},
		{"attempts_run_no_key", `INSERT INTO attempts SELECT gen_random_uuid(), tenant_id, run_id, attempt_no, state, code, worker_id, started_at, ended_at FROM attempts WHERE run_id = $1`, []any{executing}},
		{"attempts_no_check", `UPDATE attempts SET attempt_no = 0 WHERE run_id = $1`, []any{executing}},
		{"attempts_ended_check", `UPDATE attempts SET state = 'FAILED' WHERE run_id = $1`, []any{executing}},
		{"run_events_run_seq_key", `INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash)
			SELECT tenant_id, run_id, seq, schema, event_id || 'x', kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash FROM run_events WHERE run_id = $1 AND seq = 1`, []any{executing}},
		{"run_events_run_event_id_key", `INSERT INTO run_events (tenant_id, run_id, seq, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash)
			SELECT tenant_id, run_id, 1000, schema, event_id, kind, actor_kind, actor_id, from_state, to_state, attempt_no, at, body, payload, hash FROM run_events WHERE run_id = $1 AND seq = 1`, []any{executing}},
		{"attestations_one_idx", `INSERT INTO attestations SELECT gen_random_uuid(), tenant_id, run_id, state, statement, expires_at FROM attestations WHERE run_id = $1`, []any{awaiting}},
		{"pull_requests_head_key", `INSERT INTO pull_requests (id, tenant_id, repository_id, task_id, run_id, number, state, url, title, body, head_branch, base_branch, head_sha)
			SELECT gen_random_uuid(), tenant_id, repository_id, task_id, run_id, number + 1000, state, url, title, body, head_branch, base_branch, head_sha FROM pull_requests WHERE run_id = $1`, []any{done}},
		{"pull_requests_number_key", `INSERT INTO pull_requests (id, tenant_id, repository_id, task_id, run_id, number, state, url, title, body, head_branch, base_branch, head_sha)
			SELECT gen_random_uuid(), tenant_id, repository_id, task_id, run_id, number, state, url, title, body, head_branch || 'x', base_branch, head_sha FROM pull_requests WHERE run_id = $1`, []any{done}},
		{"tasks_terminal_check", `UPDATE tasks SET active_run_id = gen_random_uuid() WHERE id = (SELECT task_id FROM runs WHERE id = $1)`, []any{done}},
		{"tasks_runs_check", `UPDATE tasks SET runs_used = max_runs + 1 WHERE id = (SELECT task_id FROM runs WHERE id = $1)`, []any{done}},
		// Composite keys: nothing of one tenant refers to another's.
		{"runs_task_fk", `UPDATE runs SET tenant_id = $2 WHERE id = $1`, []any{queued, other.Tenant}},
		{"tasks_repository_fk", `UPDATE tasks SET repository_id = $2 WHERE id = (SELECT task_id FROM runs WHERE id = $1)`, []any{done, other.Repo}},
		{"run_queue_run_fk", `UPDATE run_queue SET tenant_id = $2 WHERE run_id = $1`, []any{queued, other.Tenant}},
		{"run_leases_run_fk", `UPDATE run_leases SET tenant_id = $2 WHERE run_id = $1`, []any{executing, other.Tenant}},
		{"artifacts_run_fk", `UPDATE artifacts SET tenant_id = $2 WHERE run_id = $1 AND kind = 'context'`, []any{waiting, other.Tenant}},
		{"usages_amounts_check", `INSERT INTO usages (tenant_id, run_id, attempt_no, lease_id, input_tokens) SELECT tenant_id, id, 1, gen_random_uuid(), -1 FROM runs WHERE id = $1`, []any{waiting}},
	} {
		// Which of the keys that a moved run breaks is named first is not ours to say.
		if got := w.broke(t, c.sql, c.args...); got != c.rule && !(c.rule == "runs_task_fk" && strings.HasSuffix(got, "_fk")) {
			t.Errorf("broke %s, want %s", got, c.rule)
		}
	}
}

// R-DOM-10: a terminal run is final: no column that the reducer owns can be changed, by nobody, in none of the four
// terminal states; the facts beside them can.
func TestTerminalIsFinal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	rows, err := w.Owner.Query(t.Context(), `SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'runs'`)
	must(t, err)
	columns := map[string]string{}
	for rows.Next() {
		var name, kind string
		must(t, rows.Scan(&name, &kind))
		columns[name] = kind
	}
	must(t, rows.Err())
	other := map[string]string{"uuid": `gen_random_uuid()`, "text": `coalesce(%s, '') || 'x'`, "integer": `coalesce(%s, 0) + 1`, "bigint": `coalesce(%s, 0) + 1`,
		"boolean": `NOT coalesce(%s, false)`, "jsonb": `'{"x": 1}'`, "timestamp with time zone": `coalesce(%s, now()) + interval '1 second'`, "bytea": `%s || '\x00'`}
	for _, s := range []run.State{run.Succeeded, run.Failed, run.Cancelled, run.Expired} {
		id := w.at(t, s).Ref.Run
		for name, kind := range columns {
			set := other[kind]
			if set == "" {
				t.Fatalf("column %s has the unknown type %s", name, kind)
			}
			if strings.Contains(set, "%s") {
				set = fmt.Sprintf(set, name)
			}
			got := w.broke(t, `UPDATE runs SET `+name+` = `+set+` WHERE id = $1`, id)
			switch {
			case name == "campaign_id" && got == "runs_terminal_is_final", !slices.Contains(facts, name) && got == "runs_terminal_is_final":
			case slices.Contains(facts, name) && (got == "accepted" || got == "runs_stop_signal_check"):
			default:
				t.Errorf("%s: changing %s: %s", s, name, got)
			}
		}
		if got := w.broke(t, `UPDATE runs SET state = 'QUEUED', queued = 'execute', finished_at = NULL, version = version + 1 WHERE id = $1`, id); got != "runs_terminal_is_final" {
			t.Errorf("%s: brought back to life: %s", s, got)
		}
	}
}

// R-DOM-10, R-ATT-4: the engine's role cannot rewrite or remove what is recorded, whatever the code does.
func TestTheLogIsAppendOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.WaitingForApproval)
	must(t, w.Approve(t.Context(), at.Ref))
	conn := got(pgx.Connect(t.Context(), w.db.EngineURL))(t)
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, table := range []string{"run_events", "task_events", "audit_log", "audit_heads", "decisions", "gate_revisions", "ended_leases"} {
		for _, sql := range []string{`UPDATE %s SET tenant_id = tenant_id`, `DELETE FROM %s`, `TRUNCATE %s`} {
			denied(t, conn, fmt.Sprintf(sql, table))
		}
	}
	for _, table := range []string{"runs", "tasks", "attempts", "gates", "artifacts", "patches", "verifications", "operations"} {
		denied(t, conn, `DELETE FROM `+table)
		denied(t, conn, `TRUNCATE `+table+` CASCADE`)
	}
	denied(t, conn, `ALTER TABLE runs DISABLE TRIGGER runs_guard`)
	denied(t, conn, `SET session_replication_role = replica`)
	denied(t, conn, `CREATE TABLE mine (x int)`)
}

// denied holds that a statement fails for want of a right.
func denied(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	if pe, ok := errors.AsType[*pgconn.PgError](err); !ok || pe.Code != "42501" {
		t.Errorf("%s: %v, want permission denied", sql, err)
	}
}
