package db_test

import (
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// R-Q-11: what agents share with others puts new work off while its bound is reached: tokens of a provider, bytes stored, pull
// requests of a forge, and those that keep a repository's CI busy. When the time is over the work begins by itself.
func TestRatesPutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rates, code string
		use         func(*testing.T, *world)
		over        time.Duration // 0: time alone does not end it
	}{
		"tokens": {`provider_tokens: {"": 1000}`, policy.CodeProviderRate, func(t *testing.T, w *world) {
			l := w.at(t, run.Executing).Lease
			got(w.Store.Append(t.Context(), l.Holder(), db.Batch{Sequence: 101, Used: &db.Used{InputTokens: 700, OutputTokens: 300, ProviderCalls: 1}}))(t)
		}, 61 * time.Second},
		"bytes": {"artifact_bytes: 50000", policy.CodeArtifactRate, func(t *testing.T, w *world) {
			got(w.at(t, run.Executing).Lease.Put(t.Context(), "context", strings.Repeat("x", 50_000)))(t)
		}, 61 * time.Second},
		"forge":      {"forge_pulls: 1", policy.CodeForgeRate, opened, 61 * time.Minute},
		"repository": {"repository_pulls: 1", policy.CodeRepositoryCI, opened, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, drive.Options{Policy: "version: shared-1\nlimits: {max_defer: 2d}\nadmission: {rates: {" + c.rates + "}}\n"})
			if ref := got(w.Run(t.Context(), drive.Ordinary()))(t); w.info(t, ref).State != run.Queued {
				t.Fatal("put off before anything was used")
			}
			c.use(t, w)
			ref := got(w.Run(t.Context(), drive.Ordinary()))(t)
			var code string
			must(t, w.Owner.QueryRow(t.Context(), `SELECT code FROM policy_decisions WHERE run_id = $1`, ref.Run).Scan(&code))
			if code != c.code || w.info(t, ref).State != run.Created {
				t.Errorf("%s, and the run is %s", code, w.info(t, ref).State)
			}
			if c.over == 0 {
				_, err := w.Owner.Exec(t.Context(), `UPDATE pull_requests SET state = 'MERGED'`)
				must(t, err)
			}
			dbtest.Advance(t, w.db, max(c.over, 31*time.Second))
			got(w.Store.Admit(t.Context(), ref))(t)
			if s := w.info(t, ref).State; s != run.Queued {
				t.Errorf("when the bound is no longer reached the run is %s", s)
			}
		})
	}
}

// opened brings a run to its open pull request.
func opened(t *testing.T, w *world) {
	t.Helper()
	w.at(t, run.Succeeded)
}
