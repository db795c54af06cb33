package e2e_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/wire"
)

// ask is one call about the run.
type ask struct {
	op    string // claim, release, cancel, get
	token int64
}

// said is how it was answered.
type said struct {
	unknown bool
	token   int64 // of a claim that gave the run
	refused bool  // 409
	already bool  // of a cancel
	state   string
}

// register is the run as the model has it.
type register struct {
	state string
	token int64
}

// model is the run as one register: who reads it sees the last write, a token of the past writes nothing.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{state: "QUEUED"} },
		Step: func(s, in, out any) (bool, any) {
			r, a, o := s.(register), in.(ask), out.(said)
			switch a.op {
			case "claim":
				if o.token == 0 {
					return r.state != "QUEUED", r
				}
				return r.state == "QUEUED" && o.token > r.token, register{"LEASED", o.token}
			case "release":
				holds := (r.state == "LEASED" || r.state == "CANCELLING") && r.token == a.token
				next := r
				switch {
				case holds && r.state == "LEASED":
					next.state = "QUEUED"
				case holds:
					next.state = "CANCELLED"
				}
				return o.unknown || o.refused != holds, next
			case "cancel":
				next := r
				switch r.state {
				case "QUEUED":
					next.state = "CANCELLED"
				case "LEASED":
					next.state = "CANCELLING"
				}
				// Two cancels at once may both be told that they were the first; nobody is told "already" who was.
				return o.unknown || !o.already || next == r, next
			}
			return o.state == r.state, r
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
}

// history is what several clients asked about one run, and when.
type history struct {
	r     *rig.Rig
	run   string
	boot  string
	hosts [][2]*wire.ClientWithResponses // worker and person, by way to the server
	began time.Time

	mu     sync.Mutex
	leases map[int64]string
	ops    []porcupine.Operation
}

func (h *history) record(client int, a ask, do func() said) {
	call := time.Since(h.began).Nanoseconds()
	o := do()
	back := time.Since(h.began).Nanoseconds()
	if o.unknown {
		// It may have been carried out, at any time from then on, or never.
		back = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: a, Call: call, Output: o, Return: back})
}

// forgive leaves out the claims that found nothing while somebody else held the run for nothing, for no claim waits: a cancel holds
// the waiting item until it has committed; a release that lost to another write holds the row that it waited for until its own
// transaction, which carries the writes of others too, has ended. Such an answer tells nothing, and a worker that waits looks again.
func (h *history) forgive() {
	h.ops = slices.DeleteFunc(slices.Clone(h.ops), func(claim porcupine.Operation) bool {
		return claim.Input.(ask).op == "claim" && claim.Output.(said).token == 0 && slices.ContainsFunc(h.ops, func(c porcupine.Operation) bool {
			lost := c.Output.(said).refused || c.Output.(said).unknown
			op := c.Input.(ask).op
			return (op == "cancel" || op == "release" && lost) && c.Call < claim.Return && claim.Call < c.Return
		})
	})
}

// lease is one that was given at some time, the newest or one of the past.
func (h *history) lease(rng *rand.Rand) (token int64, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := rng.IntN(3) > 0
	for k, v := range h.leases {
		if token == 0 || newest && k > token || !newest && rng.IntN(2) == 0 {
			token, id = k, v
		}
	}
	return token, id
}

// R-TRN-5, R-LEASE-1, R-LEASE-2, R-Q-2: eight clients claim, hand back, cancel and read one run at two replicas, over ways of which one
// loses answers. There is one order of all that explains every answer.
func TestHistoriesAreLinear(t *testing.T) {
	t.Parallel()
	const histories, clients, calls = 10, 8, 9
	// The model's register knows no waits: what is given back is there at once.
	r := rig.New(t, rig.Options{Workers: -1, Timing: db.Timing{LeaseTTL: 2 * time.Minute, CancelGrace: 2 * time.Minute, BackoffScale: 1e-12}})
	repo := r.Repository("acme/shop", rig.Shop())
	id := repo.ID()
	credential := db.Mint(db.PrefixWorker)
	if _, err := r.Store.CreateWorkerCredential(t.Context(), db.WorkerCredential{Tenant: db.DefaultTenant, Name: "linear", Phases: run.Phases()}, credential); err != nil {
		t.Fatal(err)
	}
	person := r.API()
	first := r.ServeProcess()
	second := r.ServeReplica()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	loose := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	newMessenger(t, loose, first.Address, second.Address).mode.Store(loses)
	var hosts [][2]*wire.ClientWithResponses
	for _, url := range []string{"http://" + first.Address, "http://" + second.Address, loose} {
		there := *r
		there.URL = url
		var pair [2]*wire.ClientWithResponses
		for i, c := range []*wire.ClientWithResponses{as(&there, credential), person} {
			own := *c.ClientInterface.(*wire.Client)
			own.Server = url + "/api/v1/"
			own.RequestEditors = append(slices.Clone(own.RequestEditors), func(_ context.Context, q *http.Request) error {
				q.Host = strings.TrimPrefix(r.URL, "http://") // the name that people use
				return nil
			})
			pair[i] = &wire.ClientWithResponses{ClientInterface: &own}
		}
		hosts = append(hosts, pair)
	}
	answer, err := hosts[0][0].RegisterWorkerWithResponse(t.Context(), wire.WorkerRegister{Name: "linear", Phases: []wire.Phase{wire.Execute}, Isolation: wire.Bwrap, MaxConcurrentRuns: 100, Capabilities: []string{"agent:default"}, Version: "test"})
	if err != nil || answer.JSON201 == nil {
		t.Fatalf("register: %v %s", err, answer.Body)
	}
	unknown, total := 0, 0
	for n := range histories {
		_, one := r.Submit(wire.TaskCreate{RepositoryId: id, Title: "Raise the tax", Goal: rig.Recipe("Tax is 20 per cent now.", good())})
		r.Await(one, wire.RunStateQUEUED)
		h := &history{r: r, run: one, boot: answer.JSON201.BootId, hosts: hosts, began: time.Now(), leases: map[int64]string{}}
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(c)))
				for i := range calls {
					h.call(c, i, rng)
				}
			})
		}
		wg.Wait()
		h.forgive()
		if got := porcupine.CheckOperationsTimeout(model(), h.ops, time.Minute); got != porcupine.Ok {
			t.Errorf("history %d is %s: no order explains\n%s", n, got, h.words())
		}
		for _, o := range h.ops {
			if total++; o.Return == math.MaxInt64 {
				unknown++
			}
		}
		h.end()
	}
	t.Logf("%d histories of %d clients: %d calls, %d with unknown outcome; each has an order", histories, clients, total, unknown)
	if unknown == 0 {
		t.Error("no answer was lost")
	}
}

// call does one thing by one of the ways, chosen by chance.
func (h *history) call(client, i int, rng *rand.Rand) {
	ctx, key := h.r.T.Context(), fmt.Sprintf("linear-%s-%d-%d", h.run, client, i)
	host := h.hosts[rng.IntN(2)]
	if rng.IntN(5) == 0 {
		host = h.hosts[2]
	}
	switch n := rng.IntN(20); {
	case n < 7:
		h.record(client, ask{op: "claim"}, func() said {
			for {
				got, err := host[0].ClaimWithResponse(ctx, wire.Claim{BootId: h.boot, ClaimId: key, Max: 1, Phases: []wire.Phase{wire.Execute}})
				if err != nil || got.JSON200 == nil {
					if err == nil && got.StatusCode() < 500 {
						h.r.T.Errorf("claim: answered %s: %s", got.Status(), got.Body)
						return said{}
					}
					host = h.hosts[0] // the same claim again, by a way that answers
					continue
				}
				if len(got.JSON200.Assignments) == 0 {
					return said{}
				}
				a := got.JSON200.Assignments[0]
				h.mu.Lock()
				h.leases[a.FencingToken] = a.LeaseId
				h.mu.Unlock()
				return said{token: a.FencingToken}
			}
		})
	case n < 13:
		token, lease := h.lease(rng)
		if token == 0 {
			return
		}
		h.record(client, ask{"release", token}, func() said {
			got, err := host[0].PostRunCommandWithResponse(ctx, h.run, &wire.PostRunCommandParams{IdempotencyKey: key},
				wire.RunCommand{Command: wire.CmdRelease, LeaseId: lease, FencingToken: token, Release: &wire.Release{Reason: "for others"}})
			if err != nil || got.StatusCode() >= 500 {
				return said{unknown: true}
			}
			return said{refused: got.StatusCode() == http.StatusConflict}
		})
	case n == 13 && i > 3:
		h.record(client, ask{op: "cancel"}, func() said {
			got, err := host[1].CancelRunWithResponse(ctx, h.run, &wire.CancelRunParams{IdempotencyKey: key}, wire.Reason{Reason: "Not needed."})
			if err != nil || got.JSON200 == nil {
				return said{unknown: true}
			}
			return said{already: got.JSON200.Already}
		})
	default:
		h.record(client, ask{op: "get"}, func() said {
			for {
				got, err := host[1].GetRunWithResponse(ctx, h.run)
				switch {
				case err != nil && ctx.Err() == nil:
				case err != nil || got.JSON200 == nil:
					h.r.T.Errorf("get: %v", err)
					return said{}
				default:
					return said{state: string(got.JSON200.State)}
				}
			}
		})
	}
}

// end leaves nothing that the next history could be given.
func (h *history) end() {
	t := h.r.T
	t.Helper()
	if _, err := h.hosts[0][1].CancelRunWithResponse(t.Context(), h.run, &wire.CancelRunParams{IdempotencyKey: "linear-end-" + h.run}, wire.Reason{Reason: "Over."}); err != nil {
		t.Fatal(err)
	}
	var newest int64
	for k := range h.leases {
		newest = max(newest, k)
	}
	if newest > 0 {
		if _, err := h.hosts[0][0].PostRunCommandWithResponse(t.Context(), h.run, &wire.PostRunCommandParams{IdempotencyKey: "linear-end-" + h.run},
			wire.RunCommand{Command: wire.CmdRelease, LeaseId: h.leases[newest], FencingToken: newest, Release: &wire.Release{Reason: "over"}}); err != nil {
			t.Fatal(err)
		}
	}
	h.r.Await(h.run, wire.RunStateCANCELLED)
}

func (h *history) words() (out string) {
	for _, o := range h.ops {
		out += fmt.Sprintf("client %d, %d to %d µs: %+v → %+v\n", o.ClientId, o.Call/1000, o.Return/1000, o.Input, o.Output)
	}
	return out
}
