package control_test

import (
	"testing"
	"time"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-FAIL-5: how long an expired gate stays parked and how long a task may lie idle is each tenant's own rule: the
// default tenant's patience holds for no other, and rules that cannot be read stop nobody else's clocks.
func TestClocksGoByTheTenantsOwnRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	hasty := &world{World: drive.New(t, w.db, drive.Options{Store: w.Store, Tenant: "hasty", Policy: "schema: 1\nversion: hasty\nlimits: {max_park: 1h, task_idle: 2h}\n"}), db: w.db}
	broken := &world{World: drive.New(t, w.db, drive.Options{Store: w.Store, Tenant: "broken"}), db: w.db}

	slow, fast := w.at(t, run.WaitingForApproval), hasty.at(t, run.WaitingForApproval)
	left, ended := w.at(t, run.Cancelled), hasty.at(t, run.Cancelled)
	kept := broken.at(t, run.Cancelled)
	broken.exec(t, `INSERT INTO policies (id, tenant_id, version, document) VALUES (gen_random_uuid(), $1, 'broken', 'no rules')`, broken.Tenant)

	w.pass(t, 3*day+time.Minute)
	once(t, w.gates(), 2)
	w.pass(t, 2*time.Hour)
	once(t, w.gates(), 1)
	w.is(t, slow.Ref, run.WaitingForApproval)
	hasty.is(t, fast.Ref, run.Cancelled)

	n, err := w.tasks()(t.Context())
	if err == nil {
		t.Error("nobody is told of the rules that cannot be read")
	}
	// The hasty tenant's cancelled run has left a second idle task only when the gate was parked, minutes ago.
	if n != 1 || hasty.task(t, ended).State != run.TaskFailed || w.task(t, left).State != run.TaskReady || broken.task(t, kept).State != run.TaskReady {
		t.Errorf("%d tasks closed; hasty %s, default %s, broken %s", n, hasty.task(t, ended).State, w.task(t, left).State, broken.task(t, kept).State)
	}
}

// Tasks that cannot be closed, as many as a look takes and more, hide none behind them.
func TestTasksThatCannotBeClosedHideNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	at := w.at(t, run.Cancelled)
	last := w.at(t, run.Cancelled)
	w.exec(t, `ALTER TABLE tasks ADD CONSTRAINT stuck CHECK (title <> 'stuck' OR state = 'READY') NOT VALID`)
	w.exec(t, `INSERT INTO tasks SELECT (jsonb_populate_record(t, jsonb_build_object('title', 'stuck',
		'id', overlay(t.id::text PLACING lpad(to_hex(n), 4, '0') FROM 33)))).* FROM tasks t, generate_series(1, 105) n WHERE t.id = $1`, at.Task.Task)
	w.exec(t, `UPDATE tasks SET title = 'stuck' WHERE id = $1`, at.Task.Task)
	w.pass(t, 15*day)
	once(t, w.tasks(), 1)
	if s := w.task(t, last).State; s != run.TaskFailed {
		t.Errorf("the task behind them is %s", s)
	}
}
