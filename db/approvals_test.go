package db_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/db"
	"signalbox/internal/dbtest/audit"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// deciding is a run at its patch gate, with people and a policy that change under it.
type deciding struct {
	*world
	people   []drive.Person // the first asked for the change
	task     uuid.UUID
	ref      db.Ref
	old      *db.Verdict // somebody's approval of what stood there before
	versions int
	refused  map[string]int
}

// S12, T5, T6, T7, T8: whatever people do at gates, and whatever happens to policy, roles and runs meanwhile: the logs alone show that of every
// patch that went out a quorum stood for exactly it, as large as the policy's own rules ask for, by people who held the role and had no
// part in it.
func TestNothingGoesOutUnapproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Approvers: 3})
	both := got(w.NewPerson(t.Context(), "Both", policy.RoleRequester, policy.RoleApprover, policy.RoleAdmin))(t)
	w.Requester = both
	d := &deciding{world: w, people: append([]drive.Person{both}, w.Approvers...), refused: map[string]int{}}
	by := map[run.Kind]int{}
	var l audit.Log
	enough := func() bool {
		return by[run.KindApproved] >= 5 && (by[run.KindApprovalCarried] > 0 || testing.Short())
	}
	// A busy machine walks less at a time, and dice fall as they fall: the walk goes on until enough went out.
	for round := 0; round < 40 && !enough(); round++ {
		rapid.Check(t, d.interleave)
		l = got(audit.Read(t.Context(), w.Owner))(t)
		clear(by)
		for _, p := range l.Published() {
			by[p.By]++
		}
	}
	for _, f := range l.Findings(audit.Want{}) {
		t.Error(f)
	}
	t.Logf("S12: %d runs, %d events, %d words at gates, %d versions of the policy; went out: %v; refused: %v", len(l.Rows), len(l.Events), len(l.Said), len(l.Policies), by, d.refused)
	if !enough() {
		t.Errorf("went out: %v", by)
	}
}

func (d *deciding) interleave(t *rapid.T) {
	ctx := context.Background()
	d.policy(t, ctx)
	d.old = nil
	a, err := d.Task(ctx, drive.Ordinary())
	if err != nil || a.Run == nil {
		t.Fatalf("%v %v", a.Reasons, err)
	}
	d.task, d.ref = a.Task, db.Ref{Tenant: d.Tenant, Run: *a.Run}
	d.work(t, ctx)
	for range rapid.IntRange(3, 9).Draw(t, "steps") {
		who := rapid.IntRange(0, len(d.people)-1).Draw(t, "who")
		switch rapid.SampledFrom([]string{"approve", "approve", "approve", "approve", "stale", "changes", "reject", "withdraw", "policy", "roles", "cancel", "moved"}).Draw(t, "what") {
		case "approve":
			d.say(t, ctx, d.people[who], policy.Approve)
		case "stale":
			if d.old != nil {
				v := *d.old
				v.Key = d.Key("stale")
				v.Hash, v.By = drive.Hash(v.Key), d.people[who].Decider()
				_, err := d.Store.Decide(ctx, v)
				d.may(t, "stale", err)
			}
		case "changes":
			d.say(t, ctx, d.people[who], policy.RequestChanges)
			d.work(t, ctx)
		case "reject":
			d.say(t, ctx, d.people[who], policy.Reject)
		case "withdraw":
			if d.old != nil {
				_, err := d.Withdraw(ctx, d.old.Gate, d.people[who])
				d.may(t, "withdraw", err)
			}
		case "policy":
			d.policy(t, ctx)
		case "roles":
			d.roles(t, ctx, who)
		case "cancel":
			if _, err := d.Cancel(ctx, d.ref); d.may(t, "cancel", err) {
				again, err := d.Store.RunAgain(ctx, d.Request(d.people[0], "again"), d.task)
				if d.may(t, "run again", err) && again.Run != nil {
					d.ref.Run, d.old = *again.Run, nil
					d.work(t, ctx)
				}
			}
		case "moved":
			d.moved(t, ctx)
		}
	}
	// Whatever is left waiting holds up nobody.
	if info, err := d.Store.RunInfo(ctx, d.ref.Tenant, d.ref.Run); err != nil {
		t.Fatal(err)
	} else if info.State == run.PRCreating {
		l, err := d.ClaimRun(ctx, d.Workers[0], d.ref)
		if d.may(t, "claim", err) && l != nil {
			_, err := l.Publish(ctx)
			d.may(t, "publish", err)
		}
	}
	_, err = d.Cancel(ctx, d.ref)
	d.may(t, "cancel", err)
}

// may counts a refusal in words and ends the test at any other error.
func (d *deciding) may(t *rapid.T, what string, err error) bool {
	if err != nil && fault.KindOf(err) == fault.Internal {
		t.Fatalf("%s: %v", what, err)
	}
	if err != nil {
		d.refused[what]++
	}
	return err == nil
}

func (d *deciding) say(t *rapid.T, ctx context.Context, by drive.Person, v policy.GateVerdict) {
	verdict, err := d.Verdict(ctx, d.ref, by, v, "As you like.")
	if err != nil {
		d.refused["no gate"]++
		return
	}
	d.old = &verdict
	_, err = d.Store.Decide(ctx, verdict)
	d.may(t, string(v), err)
}

// policy puts another one in force, often with a rule of its own that asks for more.
func (d *deciding) policy(t *rapid.T, ctx context.Context) {
	d.versions++
	document := fmt.Sprintf("version: v-%d\ngates:\n  any_reject_blocks: %t\n  patch: {when: always, quorum: %d, role: %s}\n", d.versions, rapid.Bool().Draw(t, "blocks"),
		rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(t, "quorum"), rapid.SampledFrom([]string{"approver", "approver", "approver", "admin"}).Draw(t, "role"))
	if barred := rapid.SampledFrom([]string{"", "", "true", "false"}).Draw(t, "instructor"); barred != "" {
		document += "  last_instructor_may_not_approve: " + barred + "\n"
	}
	if when := rapid.SampledFrom([]string{"", "", `paths.exists(p, p == "main.go")`, "added_lines > 0", "confidence < 0.5", "changed_files > 100"}).Draw(t, "when"); when != "" {
		document += fmt.Sprintf("rules:\n  - name: more\n    when: %s\n    then: {gates: [patch], approvals: %d}\n", strconv.Quote(when), rapid.SampledFrom([]int{2, 2, 3}).Draw(t, "approvals"))
	}
	if err := d.SetPolicy(ctx, document); err != nil {
		t.Fatal(err)
	}
}

// roles gives somebody other roles than before.
func (d *deciding) roles(t *rapid.T, ctx context.Context, who int) {
	has := rapid.SampledFrom([][]policy.Role{{policy.RoleApprover}, {policy.RoleViewer}, {policy.RoleApprover, policy.RoleAdmin}}).Draw(t, "roles")
	if who == 0 {
		has = append(has, policy.RoleRequester)
	}
	d.people[who].Roles = has
	var names []string
	for _, r := range has {
		names = append(names, string(r))
	}
	if _, err := d.Owner.Exec(ctx, `UPDATE memberships SET roles = $1 WHERE user_id = $2`, names, d.people[who].ID); err != nil {
		t.Fatal(err)
	}
}

// moved lets a worker find that the base went on, after which the same patch is verified and judged again.
func (d *deciding) moved(t *rapid.T, ctx context.Context) {
	if info, err := d.Store.RunInfo(ctx, d.ref.Tenant, d.ref.Run); err != nil || info.State != run.PRCreating {
		return
	}
	l, err := d.ClaimRun(ctx, d.Workers[0], d.ref)
	if !d.may(t, "claim", err) || l == nil {
		return
	}
	_, err = l.Do(ctx, run.BaseHasMoved{NewBase: drive.Base, Overlaps: []string{"main.go"}})
	if d.may(t, "moved", err) {
		d.work(t, ctx)
	}
}

// work is what workers do until a person is asked, or the run goes out or ends.
func (d *deciding) work(t *rapid.T, ctx context.Context) {
	for range 6 {
		info, err := d.Store.RunInfo(ctx, d.ref.Tenant, d.ref.Run)
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Terminal() || info.State == run.WaitingForApproval || info.State == run.PRCreating {
			return
		}
		l, err := d.ClaimRun(ctx, d.Workers[rapid.IntRange(0, 1).Draw(t, "worker")], d.ref)
		if !d.may(t, "claim", err) || l == nil {
			return
		}
		switch l.State {
		case run.Leased:
			err = l.Prepare(ctx)
			if err == nil {
				_, err = l.Plan(ctx, d.Key("plan"))
			}
			if err == nil {
				_, err = l.HandIn(ctx, drive.Diff("main.go", d.Key("line")))
			}
		case run.Executing:
			_, err = l.HandIn(ctx, drive.Diff("main.go", d.Key("line")))
		default:
			if _, err = l.Verify(ctx, db.VerificationRecord{Passed: true, Summary: "1 check passed."}); err == nil {
				_, err = l.Judge(ctx, run.VerdictPass, 0.95)
			}
		}
		d.may(t, "work", err)
	}
}
