package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/audit"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// S12: the audit makes the quorum again that a rule of the policy raised, bars whom the policy bars, and knows who asked from the task's own
// log; each lie about one of them is noticed.
func TestAuditMakesTheQuorumAgain(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	w := drive.New(t, d, drive.Options{})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.SetPolicy(ctx, "version: ruled\ngates:\n  patch: {when: always, quorum: 1, role: approver}\nrules:\n  - name: code\n    when: paths.exists(p, p == \"main.go\")\n    then: {gates: [patch], approvals: 2}\n"))
	at, err := w.To(ctx, run.WaitingForApproval)
	must(err)
	_, err = w.Decide(ctx, at.Ref, w.Approvers[0], policy.RequestChanges, "Another line, please.")
	must(err)
	l, err := w.ClaimRun(ctx, w.Workers[0], at.Ref)
	must(err)
	_, err = l.HandIn(ctx, drive.Diff("main.go", "another line"))
	must(err)
	l, err = w.ClaimRun(ctx, w.Workers[1], at.Ref)
	must(err)
	_, err = l.Verify(ctx, db.VerificationRecord{Passed: true, Summary: "1 check passed."})
	must(err)
	_, err = l.Judge(ctx, run.VerdictPass, 0.95)
	must(err)
	if _, err := w.Decide(ctx, at.Ref, w.Approvers[0], policy.Approve, ""); err == nil || !strings.Contains(err.Error(), "last change request") {
		t.Fatalf("who wrote the last change request is answered %v", err)
	}
	for _, p := range w.Approvers[1:3] {
		_, err = w.Decide(ctx, at.Ref, p, policy.Approve, "")
		must(err)
	}
	must(w.Is(ctx, at.Ref, run.PRCreating))

	conn, err := pgx.Connect(ctx, d.SuperuserURL(t))
	must(err)
	defer conn.Close(ctx)
	read := func(q audit.Querier) []audit.Finding {
		t.Helper()
		l, err := audit.Read(ctx, q)
		must(err)
		if out := l.Published(); len(out) != 1 {
			t.Fatalf("went out: %v", out)
		}
		return l.Findings(audit.Want{})
	}
	if found := read(conn); len(found) > 0 {
		t.Fatalf("nothing was planted and it finds %v", found)
	}
	const event = `UPDATE run_events SET payload = `
	const approved = ` WHERE run_id = $1 AND kind = 'approved'`
	for _, c := range []struct{ name, why, sql string }{
		{"one of two", "asks for 2", event + `payload #- '{payload,deciders,1}'` + approved},
		{"no facts", "does not say", event + `payload #- '{payload,policy,facts}'` + approved},
		{"facts that the log knows better", "another changed_files", event + `jsonb_set(payload, '{payload,policy,facts,changed_files}', '7')` + approved},
		{"facts of another requester", "another requester", event + `jsonb_set(payload, '{payload,policy,facts,requester}', '"somebody"')` + approved},
		{"who wrote the change request", "policy ruled bars", event + `jsonb_set(payload, '{payload,deciders,0,id}', (SELECT payload #> '{by,id}' FROM run_events WHERE run_id = $1 AND kind = 'changes_requested'))` + approved},
		{"who asked, by the task's log", "had a part", `UPDATE task_events SET actor_id = (SELECT payload #>> '{payload,deciders,0,id}' FROM run_events WHERE run_id = $1 AND kind = 'approved')
			WHERE kind = 'task_submitted' AND task_id = (SELECT task_id FROM runs WHERE id = $1)`},
	} {
		tx, err := conn.Begin(ctx)
		must(err)
		_, err = tx.Exec(ctx, `SET LOCAL session_replication_role = replica`)
		must(err)
		tag, err := tx.Exec(ctx, c.sql, at.Ref.Run)
		must(err)
		if tag.RowsAffected() != 1 {
			t.Errorf("%s: %d rows are planted", c.name, tag.RowsAffected())
		}
		found := read(tx)
		if !slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Kind == audit.Unapproved && strings.Contains(f.Why, c.why) }) {
			t.Errorf("%s: it finds %v, want one that says %q", c.name, found, c.why)
		}
		must(tx.Rollback(ctx))
	}
}
