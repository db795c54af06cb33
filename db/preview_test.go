package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// What is expected of a new run stands on what there is: who goes first and for how long, and what the repository's last finished
// runs cost. A run of which part has no known price is counted and not averaged in; a run of another tenant counts for nothing.
func TestPreviewStandsOnWhatThereIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	other := drive.New(t, w.db, drive.Options{Tenant: "blue", Store: w.Store})
	got(other.To(ctx, run.Queued))(t)
	in := w.Request(w.Requester, "preview")
	p := got(w.Store.PreviewTask(ctx, in, w.spec()))(t)
	if p.Place == nil || p.Place.Ahead != 0 || !p.Place.Oldest.IsZero() || !p.Place.Free || p.Last == nil || len(p.Last.Costs) != 0 {
		t.Errorf("an empty installation: place %+v, last %+v", p.Place, p.Last)
	}
	for n := range 3 {
		ended := w.at(t, run.Succeeded)
		source := "reported"
		if n == 1 {
			source = "unknown"
		}
		w.write(t, `DELETE FROM usages WHERE run_id = $1`, ended.Ref.Run)
		w.write(t, `INSERT INTO usages (tenant_id, run_id, attempt_no, lease_id, cost_micros, source) VALUES ($1, $2, 1, $2, $3, $4)`, w.Tenant, ended.Ref.Run, 1000*(3-n), source)
	}
	w.at(t, run.Queued)
	w.at(t, run.Queued)
	p = got(w.Store.PreviewTask(ctx, in, w.spec()))(t)
	if p.Place.Ahead != 2 || time.Since(p.Place.Oldest) > time.Hour {
		t.Errorf("two runs wait: %+v", p.Place)
	}
	if fmt.Sprint(p.Last.Costs) != "[1000 3000]" || p.Last.Unpriced != 1 || len(p.Last.Worked) != 3 {
		t.Errorf("three runs finished: %+v", p.Last)
	}
	spec := w.spec()
	spec.Repository = uuid.Nil
	if p = got(w.Store.PreviewTask(ctx, in, spec))(t); p.Place != nil || p.Last != nil || !p.Result.Gate.Gate {
		t.Errorf("without a repository: %+v", p)
	}
	spec.Repository = other.Repo
	if _, err := w.Store.PreviewTask(ctx, in, spec); err == nil {
		t.Error("another tenant's repository is known")
	}
}
