package db_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/run"
)

// R-Q-4, R-Q-5: ten thousand items that a limit holds back, or that nobody who asks can do, hide nobody behind them, and a
// claim that gives nothing touches no more for them.
func TestWhatIsHeldBackHidesNobody(t *testing.T) {
	t.Parallel()
	const backlog = 10_000
	for name, c := range map[string]struct {
		policy string
		held   string // what makes the backlog differ from the last item, unless it is its repository
	}{
		"a repository's limit": {"concurrency: {repository: 1}", ""},
		"a provider's limit":   {"concurrency: {providers: {busy: 1}}", `provider = 'busy'`},
		"the tenant's limit":   {"concurrency: {tenant: 1}", ""},
		"no worker is able":    {"", `requires = '{jdk >= 21}'`},
		"no worker is there":   {"", `pool = 'far'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newStatistics(t, drive.Options{MaxConns: 2, Policy: "version: held-1\n" + c.policy + "\n"})
			first := got(w.Run(t.Context(), drive.Ordinary()))(t)
			w.plant(t, first, "held", backlog)
			if c.held != "" {
				_, err := w.superuser(t).Exec(t.Context(), `UPDATE run_queue SET `+c.held)
				must(t, err)
			}
			_, err := w.superuser(t).Exec(t.Context(), `VACUUM ANALYZE run_queue`)
			must(t, err)
			boot := got(w.Store.RegisterBoot(t.Context(), w.Workers[0].WorkerID, db.Boot{Name: "able", Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 1000}))(t)
			claim := func() []db.Claimed {
				t.Helper()
				given, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("claim"), Worker: w.Workers[0].WorkerID, Boot: boot, Phases: run.Phases(), Max: 1})
				must(t, err)
				return given
			}
			if n := len(claim()); (n == 1) != (c.policy != "") {
				t.Fatalf("%d leases given", n)
			}
			claim() // plans are made
			w.forget(t)
			if len(claim()) != 0 {
				t.Fatal("given over the limit")
			}
			pages := w.pages(t)
			t.Logf("a claim that gives nothing touches %d pages beside %d items", pages, backlog)
			if most := int64(200); pages > most {
				t.Errorf("more than %d pages", most)
			}
			switch name {
			case "the tenant's limit":
				return
			case "a repository's limit":
				w.Repo = w.crowd(t).repos[1]
			}
			last := got(w.Run(t.Context(), drive.Ordinary()))(t)
			if given := claim(); len(given) != 1 || given[0].Ref != last {
				t.Errorf("%s was given, want the one behind the others", fmt.Sprint(given))
			}
		})
	}
}

// R-WRK-1: a contract that requires as much as one may is queued and given, however long that is: no index row has room for it.
func TestLongRequirements(t *testing.T) {
	t.Parallel()
	w := newWorld(t, drive.Options{})
	contract, offers := drive.Ordinary(), []string{}
	for i := range 50 {
		sum := sha256.Sum256([]byte{byte(i)})
		name := "x" + hex.EncodeToString(sum[:])
		contract.Requires, offers = append(contract.Requires, name+" >= 1"), append(offers, name+"=2")
	}
	ref := got(w.Run(t.Context(), contract))(t)
	boot := got(w.Store.RegisterBoot(t.Context(), w.Workers[0].WorkerID, db.Boot{Name: "able", Version: "test", Phases: run.Phases(), Isolation: "bwrap", MaxConcurrent: 1, Capabilities: append(offers, "agent:stoic")}))(t)
	given, _, err := w.Store.Claim(t.Context(), db.ClaimRequest{ClaimID: w.Key("claim"), Worker: w.Workers[0].WorkerID, Boot: boot, Phases: run.Phases(), Max: 1})
	must(t, err)
	if len(given) != 1 || given[0].Ref != ref {
		t.Errorf("%v was given", given)
	}
}
