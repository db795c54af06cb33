package db_test

import (
	"testing"

	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/dbtest/throwaway"
	"signalbox/internal/run"
)

// What every run asks is planned once for each connection. Postgres plans a statement anew each time as long as knowing its
// arguments makes a plan look cheaper than one for any arguments: a list of one id, where it would guess ten. To plan such a look-up
// cost as much as to carry it out.
func TestHotStatementsArePlannedOnce(t *testing.T) {
	t.Parallel()
	// Statistics that are taken of a few rows in the middle of it would have some planned anew: on a busy machine this takes long
	// enough for that.
	d, _ := dbtest.NewCluster(t, throwaway.Options{Settings: map[string]string{"autovacuum": "off"}})
	w := &world{World: drive.New(t, d, drive.Options{MaxConns: 1}), db: d}
	for range 8 {
		w.at(t, run.Succeeded)
	}
	kept, anew, err := w.Store.Plans(t.Context())
	must(t, err)
	const trial = 5 // how often Postgres plans a statement before it asks whether to keep a plan
	hot := 0
	for name := range anew {
		if kept[name]+anew[name] <= trial {
			continue
		}
		hot++
		if anew[name] > trial {
			t.Errorf("%s was planned %d times, and carried out %d times with a plan that was kept", name, anew[name], kept[name])
		}
	}
	if hot < 40 {
		t.Errorf("%d statements were looked at", hot)
	}
}
