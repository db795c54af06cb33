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
