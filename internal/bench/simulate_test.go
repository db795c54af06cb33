package bench_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/internal/run"
)

// simulated is how many stored runs a draft of a policy is tried on.
const simulated = 10_000

// BenchmarkSimulate prints how long a draft of a policy takes over stored runs, without rules and with a hundred; b.N means nothing to
// it. The goal is ten seconds.
func BenchmarkSimulate(b *testing.B) {
	p := start(b)
	f := p.figure()
	defer f.print()
	at, err := p.world.To(b.Context(), run.WaitingForApproval)
	p.must(err, "drive a run to its patch gate")
	p.hurried(func() {
		p.exec(`INSERT INTO runs SELECT (jsonb_populate_record(r, jsonb_build_object('id', md5('past' || n)::uuid, 'created_at', r.created_at - n * interval '1 second'))).*
			FROM runs r, generate_series(1, $2::int) n WHERE r.id = $1`, at.Ref.Run, simulated)
	})
	p.exec(`VACUUM ANALYZE runs`)
	var rules strings.Builder
	for i := range 100 {
		fmt.Fprintf(&rules, "  - name: r%d\n    when: repository.glob('other/%d-**') || changed_files > %d\n    then: {risk: HIGH}\n", i, i, i)
	}
	for name, more := range map[string]string{"without rules": "", "with 100 rules": "rules:\n" + rules.String()} {
		began := time.Now()
		sim, err := p.world.Store.SimulatePolicy(b.Context(), p.world.Tenant, "version: draft\ngates:\n  patch: {when: always, quorum: 2}\n"+more, simulated)
		p.must(err, "simulate")
		f.line("A draft %s tried on %d stored runs: %.2f s, %d of them would have been decided otherwise.", name, sim.Runs, time.Since(began).Seconds(), sim.Changed)
	}
}
