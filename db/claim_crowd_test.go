package db_test

import (
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// crowded is a queue in which every item differs from every other.
type crowded struct {
	statistics
	boot db.ClaimRequest
}

// newCrowd plants n items, changes them by SQL, and has one worker that offers nothing special.
func newCrowd(t *testing.T, n int, policy, change string) crowded {
	t.Helper()
	w := newStatistics(t, drive.Options{MaxConns: 2, Policy: policy})
	w.plant(t, got(w.Run(t.Context(), drive.Ordinary()))(t), "crowd", n)
	for _, s := range []string{`UPDATE run_queue SET ` + change, `VACUUM ANALYZE run_queue`} {
		_, err := w.superuser(t).Exec(t.Context(), s)
		must(t, err)
	}
	id := w.Workers[0].WorkerID
	id.Tenant = nil // it serves all
	boot := got(w.Store.RegisterBoot(t.Context(), id, db.Boot{Name: "plain", Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 1000}))(t)
	return crowded{w, db.ClaimRequest{Worker: id, Boot: boot, Phases: run.Phases(), Max: 1}}
}

func (w crowded) claim(t *testing.T) []db.Claimed {
	t.Helper()
	w.boot.ClaimID = w.Key("claim")
	given, _, err := w.Store.Claim(t.Context(), w.boot)
	must(t, err)
	return given
}

// within holds a claim that is made n times to a number of pages for each.
func (w crowded) within(t *testing.T, n int, most int64) {
	t.Helper()
	w.claim(t) // plans are made
	w.forget(t)
	began := time.Now()
	for range n {
		w.claim(t)
	}
	took := time.Since(began)
	pages := w.pages(t) / int64(n)
	t.Logf("a claim touches %d pages and takes %s", pages, took/time.Duration(n))
	if pages > most {
		t.Errorf("%d pages, want at most %d", pages, most)
	}
}

// reached counts the claims until the run is given.
func (w crowded) reached(t *testing.T, ref db.Ref, most int) {
	t.Helper()
	for n := 1; n <= most; n++ {
		for _, g := range w.claim(t) {
			if g.Ref == ref {
				t.Logf("given at claim %d", n)
				return
			}
		}
	}
	t.Errorf("%d claims did not give it", most)
}

// mostPages bounds a claim however much waits: some thousand jumps of an index with two or three levels.
const mostPages = 25_000

// R-Q-4, R-Q-5: what one requester asks for that nobody is able to do, each in its own way, costs a claim no more than a bound,
// delays nobody else, and keeps the requester's own ordinary work for some claims only.
func TestManyNeedsAreLookedAtInTurn(t *testing.T) {
	t.Parallel()
	w := newCrowd(t, 10_000, "", `requires = ARRAY['x' || abs(hashtext(run_id::text))::text || ' >= 1']`)
	w.within(t, 3, mostPages)
	own := got(w.Run(t.Context(), drive.Ordinary()))(t)
	w.reached(t, own, 100) // a fifth of what waits is looked at each time: all but one in a billion get there
	other := w.crowd(t).people[1]
	next := got(w.Store.CreateTask(t.Context(), w.Request(other, "task"), db.TaskSpec{Repository: w.Repo, Title: "A change", Goal: "Change one line.", BaseRef: "main", Contract: drive.Ordinary()}))(t)
	if given := w.claim(t); len(given) != 1 || given[0].Ref.Run != *next.Run {
		t.Errorf("%v was given, want another requester's run at once", given)
	}
}

// R-Q-5: five thousand requesters of one tenant cost a claim no more than a bound and delay no other tenant's run; whoever of
// them can be served is, within some claims, also where nobody else can.
func TestManyRequestersAreLookedAtInTurn(t *testing.T) {
	t.Parallel()
	w := newCrowd(t, 5_000, "", `user_id = md5(run_id::text)::uuid, pool = 'far'`)
	w.within(t, 3, mostPages)
	last := got(w.Run(t.Context(), drive.Ordinary()))(t)
	_, err := w.Owner.Exec(t.Context(), `UPDATE run_queue SET rank = rank + interval '1 hour' WHERE run_id = $1`, last.Run)
	must(t, err)
	w.reached(t, last, 200) // a tenth is looked at each time: all but one in a billion get there
	_, err = w.superuser(t).Exec(t.Context(), `UPDATE run_queue SET pool = ''`)
	must(t, err)
	w.within(t, 10, mostPages)
	other := drive.New(t, w.db, drive.Options{Store: w.Store, Tenant: "small"})
	alone := got(other.Run(t.Context(), drive.Ordinary()))(t)
	if given := w.claim(t); len(given) != 1 || given[0].Ref != alone {
		t.Errorf("%v was given, want the small tenant's run at once", given)
	}
}
