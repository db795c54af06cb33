package rig_test

import (
	"testing"

	"signalbox/internal/e2e/rig"
	"signalbox/internal/wire"
)

func TestMain(m *testing.M) { rig.Main(m) }

// R-DOM-14: the shortest whole journey, by which the rig itself is tried.
func TestJourney(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{})
	repo := r.Repository("acme/shop", rig.Shop())
	_, run := r.Person("rita").Submit(rig.Task{
		Repository: repo, Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", rig.Act{Do: "say", New: "Looking for the rate."}, rig.Act{Do: "replace", File: "lib/price.sh", Old: "rate=19", New: "rate=20"}),
	})
	r.Person("ana").Approve(r.AwaitGate(run))
	r.Await(run, wire.RunStateSUCCEEDED)
	branch, _ := repo.Published(run)
	if got := repo.File(branch, "lib/price.sh"); got == repo.File("main", "lib/price.sh") {
		t.Errorf("the branch changes nothing: %s", got)
	}
	t.Log(r.History(run))
}
