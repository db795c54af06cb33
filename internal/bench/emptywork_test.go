package bench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/dbtest/drive"
	"signalbox/internal/pgserver"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// Sizes of empty work.
const (
	emptyRuns       = 2000   // runs of one round
	emptyJobs       = 20_000 // jobs of one round of the peer
	emptyRounds     = 7
	emptyClaimers   = 4
	emptyCompleters = 128 // as many workers report at once as make the product fastest, as for the peer
)

// BenchmarkEmptyWork prints how fast runs that do nothing are claimed and completed; b.N means nothing to it.
func BenchmarkEmptyWork(b *testing.B) {
	p := start(b)
	f := p.figure()
	defer f.print()
	p.emptyWork(f.line)
}

// emptyWork claims and completes runs over HTTP, each call answered after its commit, beside River's burn-down of empty
// jobs in its own process: at its best, and with each completion durable before the next.
func (p *product) emptyWork(line func(string, ...any)) {
	river := p.river()
	var ours, best, durable []float64
	for round := range emptyRounds {
		kinds := []func(){
			func() { ours = append(ours, p.burnDown()) },
			func() { best = append(best, river("best", emptyJobs)) },
			func() { durable = append(durable, river("durable", emptyJobs/10)) },
		}
		rand.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, k := range kinds {
			k()
		}
		fmt.Fprintf(os.Stderr, "empty work, round %d of %d: ours %.0f/s, River %.0f/s and %.0f/s\n", round+1, emptyRounds, ours[round], best[round], durable[round])
	}
	line("Empty work claimed and completed over HTTP: %.0f runs/s. River in its own process: %.0f jobs/s at its best, ratio %s; %.0f jobs/s with durable completions, ratio %s.",
		quantile(ours, 0.5), quantile(best, 0.5), ratio(ours, best), quantile(durable, 0.5), ratio(ours, durable))
}

// river builds the peer once and returns a call of it, on a database of its own in the same cluster.
func (p *product) river() func(mode string, jobs int) float64 {
	p.b.Helper()
	binary := filepath.Join(p.b.TempDir(), "river")
	build := exec.CommandContext(p.b.Context(), "go", "build", "-o", binary, ".")
	build.Dir = "river"
	if said, err := build.CombinedOutput(); err != nil {
		p.b.Fatalf("bench: build River: %v\n%s", err, said)
	}
	p.exec(`CREATE DATABASE river`)
	address := p.cluster.Server().URL(pgserver.Superuser, "river")
	return func(mode string, jobs int) float64 {
		said, err := exec.CommandContext(p.b.Context(), binary, address, strconv.Itoa(jobs), mode).Output()
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			p.b.Fatalf("bench: River: %v\n%s", err, e.Stderr)
		}
		p.must(err, "run River")
		n, err := strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
		p.must(err, "read River's rate")
		return n
	}
}

// burnDown submits runs without counting the time, then has them claimed and completed as fast as they go.
func (p *product) burnDown() float64 {
	p.b.Helper()
	p.hurried(func() {
		p.each(emptyRuns, func(int) error {
			_, err := p.world.Task(p.b.Context(), drive.Ordinary())
			return err
		})
	})
	var claimers, completers sync.WaitGroup
	var given, done atomic.Int64
	work := make(chan wire.Assignment, emptyRuns)
	errs := make(chan error, emptyClaimers+emptyCompleters)
	began := time.Now()
	for range emptyCompleters {
		completers.Go(func() { errs <- p.complete(work, &done) })
	}
	for _, boot := range p.boots[:emptyClaimers] {
		claimers.Go(func() { errs <- p.claimInto(work, boot, &given) })
	}
	claimers.Wait()
	close(work)
	completers.Wait()
	took := time.Since(began)
	for range cap(errs) {
		p.must(<-errs, "claim and complete")
	}
	if done.Load() != emptyRuns {
		p.b.Fatalf("bench: %d of %d runs were completed", done.Load(), emptyRuns)
	}
	return emptyRuns / took.Seconds()
}

// claimInto claims for one boot until all runs are given out.
func (p *product) claimInto(work chan<- wire.Assignment, boot uuid.UUID, given *atomic.Int64) error {
	c, err := p.dial()
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for given.Load() < emptyRuns {
		body, err := c.do(p.request("/workers/claims", p.secret, p.key(), wire.Claim{BootId: typeid.Format(typeid.Boot, boot), ClaimId: p.key(), Max: 50, Phases: []wire.Phase{wire.Execute}}), http.StatusOK)
		if err != nil {
			return err
		}
		var ack wire.ClaimAck
		if err := json.Unmarshal(body, &ack); err != nil {
			return err
		}
		for _, a := range ack.Assignments {
			work <- a
		}
		given.Add(int64(len(ack.Assignments)))
	}
	return nil
}

// complete ends what was claimed, on a connection of its own.
func (p *product) complete(work <-chan wire.Assignment, done *atomic.Int64) error {
	c, err := p.dial()
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for a := range work {
		if _, err := c.do(p.fail(a), http.StatusOK); err != nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

// fail is the shortest completion there is: the run ends, and its task with it or to be run again.
func (p *product) fail(a wire.Assignment) []byte {
	return p.request("/runs/"+a.RunId+"/commands", p.secret, p.key(), wire.RunCommand{Command: wire.CmdAttemptFailed, LeaseId: a.LeaseId, FencingToken: a.FencingToken,
		AttemptFailed: &wire.AttemptFailed{ReasonCode: string(run.CodeTaskContractInvalid), Summary: "Empty work."}})
}
