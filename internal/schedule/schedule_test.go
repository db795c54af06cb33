package schedule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

func calm() schedule.State {
	return schedule.State{Now: noon, Aging: 10 * time.Minute, Installation: policy.Default().Installation,
		Tenants: map[uuid.UUID]schedule.Tenant{id('t', 0): {Name: "acme", Rules: policy.Default()}, id('t', 1): {Name: "blue", Rules: policy.Default()}}}
}

func item(n, tenant, user, priority int, age time.Duration) schedule.Item {
	since := noon.Add(-age)
	return schedule.Item{Run: id('r', n), Tenant: id('t', tenant), User: id('u', user), Repository: id('p', n), Phase: "execute", Risk: policy.RiskLow, Since: since,
		Rank: schedule.Rank(since, priority, 10*time.Minute), Route: policy.Route{Queue: "default", Priority: priority}}
}

func sorted(items ...schedule.Item) []schedule.Item {
	slices.SortStableFunc(items, func(a, b schedule.Item) int { return a.Rank.Compare(b.Rank) })
	return items
}

func worker(free int) schedule.Offer {
	return schedule.Offer{Worker: id('w', 1), Phases: []string{"execute", "verify", "publish"}, Isolation: policy.IsolationBwrap, Free: free}
}

func order(grants []schedule.Grant) (runs []int) {
	for _, g := range grants {
		runs = append(runs, int(g.Item.Run[15]))
	}
	return runs
}

// R-Q-4, R-TEST-6: priority orders eligible work of one requester and of one tenant, and it bypasses no limit.
func TestPriorityOrders(t *testing.T) {
	t.Parallel()
	low, normal, urgent, other := item(1, 0, 1, -3, time.Minute), item(2, 0, 1, 0, time.Minute), item(3, 0, 1, 4, time.Second), item(4, 0, 2, 2, time.Second)
	if got, want := order(schedule.Assign(calm(), []schedule.Offer{worker(10)}, sorted(low, normal, urgent, other))), []int{3, 4, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	s := calm()
	acme := s.Tenants[id('t', 0)]
	acme.Rules.Concurrency.Risks = map[policy.Risk]int{policy.RiskHigh: 1}
	s.Tenants[id('t', 0)] = acme
	s.Held = []schedule.Held{{Tenant: id('t', 0), User: id('u', 1), Risk: policy.RiskHigh, Count: 1}}
	urgent.Risk = policy.RiskHigh
	if got, want := order(schedule.Assign(s, []schedule.Offer{worker(10)}, sorted(low, normal, urgent))), []int{2, 1}; !slices.Equal(got, want) {
		t.Errorf("over its limit: %v, want %v", got, want)
	}
}

// R-Q-4: waiting work of low priority is not starved: each aging step counts as one priority.
func TestPriorityAges(t *testing.T) {
	t.Parallel()
	old, fresh := item(1, 0, 1, -2, 42*time.Minute), item(2, 0, 1, 2, time.Minute)
	if got := order(schedule.Assign(calm(), []schedule.Offer{worker(1)}, sorted(old, fresh))); !slices.Equal(got, []int{1}) {
		t.Errorf("after 42 minutes the order is %v", got)
	}
	old.Since = noon.Add(-39 * time.Minute)
	old.Rank = schedule.Rank(old.Since, -2, 10*time.Minute)
	if got := order(schedule.Assign(calm(), []schedule.Offer{worker(1)}, sorted(old, fresh))); !slices.Equal(got, []int{2}) {
		t.Errorf("after 39 minutes the order is %v", got)
	}
	// The same over two requesters, of whom neither is being served.
	fresh.User = id('u', 2)
	old.Since = noon.Add(-42 * time.Minute)
	old.Rank = schedule.Rank(old.Since, -2, 10*time.Minute)
	if got := order(schedule.Assign(calm(), []schedule.Offer{worker(1)}, sorted(old, fresh))); !slices.Equal(got, []int{1}) {
		t.Errorf("over two requesters the order is %v", got)
	}
}

// R-Q-5: a tenant, and a requester inside a tenant, with 10,000 waiting runs delays another's single run by one claim, even
// when that heap is a day old.
func TestAHeapDelaysNobody(t *testing.T) {
	t.Parallel()
	var heap []schedule.Item
	for n := range 10_000 {
		i := item(n%250, 0, 1, 0, 24*time.Hour)
		i.Run = id('h', n)
		heap = append(heap, i)
	}
	s := calm()
	s.Held = []schedule.Held{{Tenant: id('t', 0), User: id('u', 1), Count: 4, Newest: noon.Add(-time.Minute)}}
	for what, single := range map[string]schedule.Item{"tenant": item(7, 1, 9, 0, 0), "requester": item(7, 0, 9, 0, 0)} {
		got := schedule.Assign(s, []schedule.Offer{worker(2)}, append(slices.Clone(heap), single))
		if len(got) != 2 || got[0].Item.Run != single.Run {
			t.Errorf("another %s's single run is not the first of %d", what, len(got))
		}
	}
}

// Shares follow the weights.
func TestWeights(t *testing.T) {
	t.Parallel()
	s := calm()
	s.Installation.Tenants = map[string]policy.TenantShare{"acme": {Weight: 3}}
	var items []schedule.Item
	for n := range 40 {
		items = append(items, item(n, n%2, 1+n%2, 0, time.Minute))
	}
	count := map[uuid.UUID]int{}
	for _, g := range schedule.Assign(s, []schedule.Offer{worker(12)}, items) {
		count[g.Item.Tenant]++
	}
	if count[id('t', 0)] != 9 || count[id('t', 1)] != 3 {
		t.Errorf("acme got %d and blue %d of 12, want 9 and 3", count[id('t', 0)], count[id('t', 1)])
	}
}

// What cannot be given does not stand in the way of what stands behind it.
func TestWhatCannotBeGivenHidesNothing(t *testing.T) {
	t.Parallel()
	a, b := item(1, 0, 1, 0, time.Minute), item(2, 0, 1, 0, time.Second)
	a.Requires = []string{"jdk >= 21"}
	if got := order(schedule.Assign(calm(), []schedule.Offer{worker(2)}, sorted(a, b))); !slices.Equal(got, []int{2}) {
		t.Errorf("given %v", got)
	}
}

// R-WRK-3: ordinary work goes to the worker that offers least, so that what needs more finds one, whoever asked first.
func TestAblerWorkersAreLeftToWhatNeedsThem(t *testing.T) {
	t.Parallel()
	plain, able, near, every := worker(1), worker(1), worker(1), worker(1)
	plain.Tenant, able.Tenant, near.Tenant = id('t', 0), id('t', 0), id('t', 0)
	able.Capabilities, near.Pools = []string{"jdk=21.0.2"}, []string{"big"}
	ordinary, special, pooled, other := item(1, 0, 1, 3, time.Minute), item(2, 0, 1, 2, time.Minute), item(3, 0, 1, 1, time.Minute), item(4, 1, 1, 0, time.Minute)
	special.Requires, pooled.Pool = []string{"jdk >= 21"}, "big"
	for _, offers := range [][]schedule.Offer{{every, able, near, plain}, {plain, near, able, every}, {able, every, plain, near}} {
		if got := schedule.Assign(calm(), offers, sorted(ordinary, special, pooled, other)); len(got) != 4 {
			t.Errorf("only %v were given of four items for four workers", order(got))
		}
	}
}

// R-Q-7, R-Q-9: the reason for waiting is true and says what would help.
func TestWhy(t *testing.T) {
	t.Parallel()
	busy := worker(0)
	verifier := busy
	verifier.Phases = []string{"verify"}
	plain := item(1, 0, 1, 0, time.Minute)
	java := plain
	java.Requires = []string{"jdk >= 21", "docker"}
	pooled := plain
	pooled.Queue, pooled.Pool = "security-review", "gvisor"
	limited := calm()
	acme := limited.Tenants[id('t', 0)]
	acme.Rules.Concurrency.Tenant = 2
	limited.Tenants[id('t', 0)] = acme
	limited.Held = []schedule.Held{{Tenant: id('t', 0), User: id('u', 1), Count: 2}}
	parked := calm()
	parked.Parked = map[string]schedule.Parking{"anthropic": {Until: noon.Add(5 * time.Minute), Failures: 1}}
	slow := plain
	slow.Provider = "anthropic"
	incident := calm()
	shut := incident.Tenants[id('t', 0)]
	shut.Rules.Admission.Incident = policy.IncidentRules{On: true, Message: "Storage is down."}
	incident.Tenants[id('t', 0)] = shut
	check := plain
	check.Phase = "verify"
	docker := worker(1)
	docker.Capabilities = []string{"docker"}
	jdk := worker(1)
	jdk.Capabilities = []string{"jdk=21"}
	weak := worker(1)
	weak.Isolation = policy.IsolationProcess
	for name, c := range map[string]struct {
		state   schedule.State
		workers []schedule.Offer
		item    schedule.Item
		ahead   int
		code    string
		words   string
	}{
		"limit":      {limited, []schedule.Offer{worker(3)}, plain, 2, schedule.CodeTenantLimit, "2 of 2 running for acme. It is number 3 in line for acme."},
		"nobody":     {calm(), nil, plain, 0, schedule.CodeNoWorker, "No worker of this tenant is live."},
		"phase":      {calm(), []schedule.Offer{verifier}, plain, 0, schedule.CodeNoWorker, "No live worker takes the phase execute."},
		"capability": {calm(), []schedule.Offer{docker}, java, 0, schedule.CodeNoWorker, "No live worker offers jdk >= 21."},
		"together":   {calm(), []schedule.Offer{docker, jdk}, java, 0, schedule.CodeNoWorker, "No live worker offers jdk >= 21, docker together."},
		"queue":      {calm(), []schedule.Offer{worker(1)}, pooled, 0, schedule.CodeNoWorker, "No live worker serves the queue security-review."},
		"isolation":  {calm(), []schedule.Offer{weak}, plain, 0, schedule.CodeNoWorker, "isolation bwrap or stronger"},
		"busy":       {calm(), []schedule.Offer{busy}, plain, 0, schedule.CodeWorkersBusy, "Every worker that can take it is busy (1 worker). It is next in line for acme."},
		"next":       {calm(), []schedule.Offer{worker(1)}, plain, 0, schedule.CodeNext, "A worker is free"},
		"incident":   {incident, []schedule.Offer{worker(1)}, plain, 0, schedule.CodeIncident, "Incident mode is on for acme, so no agent begins until it is over: Storage is down. It is next in line for acme."},
		"started":    {incident, []schedule.Offer{verifier}, check, 0, schedule.CodeWorkersBusy, "Every worker that can take it is busy"},
		"parked":     {parked, []schedule.Offer{worker(1)}, slow, 0, schedule.CodeProviderParked, "Provider anthropic asked to slow down; it is tried again at 12:05:00 UTC."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := schedule.Why(c.state, c.workers, c.item, c.ahead)
			if got.Code != c.code || !strings.Contains(got.Words, c.words) {
				t.Errorf("%s: %q, want %s: %q", got.Code, got.Words, c.code, c.words)
			}
		})
	}
}
