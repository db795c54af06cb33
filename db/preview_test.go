package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
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

// A list of runs is read against what is usual: the middle of the repository's runs that succeeded, whatever others cost or took, with
// each run's own cost by where its number comes from.
func TestMeasuresOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	ctx := t.Context()
	var refs []uuid.UUID
	w.write(t, `ALTER TABLE runs DISABLE TRIGGER USER`)
	for _, minutes := range []int{3, 1, 20} {
		at := w.at(t, run.Succeeded)
		refs = append(refs, at.Ref.Run)
		w.write(t, `UPDATE runs SET active_ms = $2 WHERE id = $1`, at.Ref.Run, minutes*60_000)
		w.write(t, `DELETE FROM usages WHERE run_id = $1`, at.Ref.Run)
	}
	failed := w.at(t, run.Failed)
	w.write(t, `UPDATE runs SET active_ms = 1 WHERE id = $1`, failed.Ref.Run)
	for source, micros := range map[string]int{"reported": 7, "estimated": 11, "unknown": 0} {
		w.write(t, `INSERT INTO usages (tenant_id, run_id, attempt_no, lease_id, cost_micros, source) VALUES ($1, $2, 1, $2, $3, $4)`, w.Tenant, refs[0], micros, source)
	}
	waiting := w.at(t, run.Queued)
	m := got(w.Store.MeasuresOf(ctx, w.Tenant, []db.RunInfo{w.info(t, db.Ref{Tenant: w.Tenant, Run: refs[0]}), w.info(t, waiting.Ref)}))(t)
	if u := m.Usual[w.Repo]; u.Active != 3*time.Minute || u.Runs != 3 {
		t.Errorf("usual: %+v", u)
	}
	if c := m.Cost[refs[0]]; c != (db.Money{Reported: 7, Estimated: 11, UnknownCalls: 1}) || m.Cost[waiting.Ref.Run] != (db.Money{}) {
		t.Errorf("cost: %+v", m.Cost)
	}
	info := w.info(t, waiting.Ref)
	if at := info.StateSince.Add(90 * time.Second); info.ActiveAt(at) != info.Active+90*time.Second {
		t.Errorf("a queued run is active for %s", info.ActiveAt(at))
	}
	if gone := w.info(t, db.Ref{Tenant: w.Tenant, Run: refs[1]}); gone.ActiveAt(gone.StateSince.Add(time.Hour)) != time.Minute {
		t.Errorf("a finished run grows to %s", gone.ActiveAt(gone.StateSince.Add(time.Hour)))
	}
}
