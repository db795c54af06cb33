package db_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"signalbox/db"
	"signalbox/internal/coalesce"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// A panic in the middle of a claim is an error to who asked and to nobody else: the connection and what it held are free, and
// the next claims go on.
func TestAPanicInAClaimHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{Policy: "version: one-1\nconcurrency: {tenant: 1}\n"})
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	got(w.Run(t.Context(), drive.Ordinary()))(t)
	var broken atomic.Bool
	s := got(db.Open(t.Context(), db.Options{URL: w.db.EngineURL, AppURL: w.db.AppURL, MaxConns: 1, Observer: db.Observer{HeldBack: func(string, int) {
		if broken.Load() {
			panic("a bad row")
		}
	}}}))(t)
	t.Cleanup(s.Close)
	boot := got(s.RegisterBoot(t.Context(), w.Workers[0].WorkerID, db.Boot{Name: "able", Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 4}))(t)
	claim := func() ([]db.Claimed, error) {
		given, _, err := s.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("claim"), Worker: w.Workers[0].WorkerID, Boot: boot, Phases: run.Phases(), Max: 2})
		return given, err
	}
	broken.Store(true)
	if _, err := claim(); err == nil {
		t.Fatal("a claim that panicked says nothing")
	} else if _, ok := errors.AsType[*coalesce.PanicError](err); !ok {
		t.Fatal(err)
	}
	broken.Store(false)
	if given := got(claim())(t); len(given) != 1 {
		t.Errorf("%d leases after the panic, want 1: it gave none and held none", len(given))
	}
}
