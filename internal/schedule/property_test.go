package schedule_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// id makes a short readable id.
func id(kind byte, n int) uuid.UUID {
	var u uuid.UUID
	u[0] = kind
	binary.BigEndian.PutUint32(u[12:], uint32(n))
	return u
}

func draw[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

func anyState(t *rapid.T) schedule.State {
	s := schedule.State{Now: noon, Tenants: map[uuid.UUID]schedule.Tenant{}, Parked: map[string]schedule.Parking{}, Aging: 10 * time.Minute, Installation: policy.Default().Installation}
	s.Installation.Concurrency.Tenant = draw(t, "global", 0, 3, 10)
	s.Installation.Concurrency.Providers = map[string]int{"anthropic": draw(t, "global provider", 0, 2)}
	s.Installation.Concurrency.Pools = map[string]int{"big": draw(t, "global pool", 0, 1)}
	s.Installation.Tenants = map[string]policy.TenantShare{}
	for n := range 3 {
		r := policy.Default()
		r.Concurrency.Tenant = draw(t, "tenant", 0, 0, 2, 5)
		r.Concurrency.Repository = draw(t, "repository", 0, 0, 1, 2)
		r.Concurrency.User = draw(t, "user", 0, 0, 2)
		r.Concurrency.Risks = map[policy.Risk]int{policy.RiskHigh: draw(t, "risk", 0, 1)}
		r.Execution.MinIsolation = draw(t, "least isolation", policy.IsolationBwrap, policy.IsolationBwrap, policy.IsolationProcess)
		r.Execution.SameWorkerMayVerify = rapid.Bool().Draw(t, "same")
		r.Admission.Incident.On = draw(t, "incident", false, false, false, true)
		name := fmt.Sprintf("t%d", n)
		s.Tenants[id('t', n)] = schedule.Tenant{Name: name, Rules: r}
		s.Installation.Tenants[name] = policy.TenantShare{Weight: draw(t, "weight", 0, 1, 2.5), Max: draw(t, "max", 0, 0, 4)}
	}
	switch draw(t, "parked", "", "asked", "over", "probed") {
	case "asked":
		s.Parked["anthropic"] = schedule.Parking{Until: noon.Add(time.Minute), Failures: 1}
	case "over":
		s.Parked["anthropic"] = schedule.Parking{Until: noon.Add(-time.Minute), Failures: 1}
	case "probed":
		s.Parked["anthropic"] = schedule.Parking{Until: noon.Add(-time.Minute), Failures: 2, Probe: id('r', 99)}
	}
	for range rapid.IntRange(0, 4).Draw(t, "held") {
		i := anyItem(t, 0)
		s.Held = append(s.Held, schedule.Held{Phase: i.Phase, Tenant: i.Tenant, User: i.User, Repository: i.Repository, Risk: i.Risk, Provider: i.Provider, Pool: i.Pool,
			Count: rapid.IntRange(1, 3).Draw(t, "count"), Newest: noon.Add(-time.Minute)})
	}
	return s
}

func anyItem(t *rapid.T, n int) schedule.Item {
	tenant := rapid.IntRange(0, 2).Draw(t, "tenant")
	i := schedule.Item{Run: id('r', n), Tenant: id('t', tenant), User: id('u', 10*tenant+rapid.IntRange(0, 2).Draw(t, "user")),
		Repository: id('p', 10*tenant+rapid.IntRange(0, 2).Draw(t, "repository")), Phase: draw(t, "phase", "execute", "execute", "verify"),
		Risk: draw(t, "risk", policy.RiskLow, policy.RiskHigh), Since: noon.Add(-time.Duration(rapid.IntRange(0, 3600).Draw(t, "age")) * time.Second),
		Route: policy.Route{Queue: draw(t, "queue", "default", "default", "slow"), Pool: draw(t, "pool", "", "", "big"), Provider: draw(t, "provider", "anthropic", "openai"),
			Priority: rapid.IntRange(-5, 5).Draw(t, "priority"), Requires: draw(t, "requires", nil, nil, []string{"jdk >= 21"}, []string{"jdk >= 21", "isolation:bwrap"}, []string{"isolation:process", "other-worker"})}}
	if i.Phase == "verify" {
		i.Maker = id('w', rapid.IntRange(0, 3).Draw(t, "maker"))
	}
	i.Rank = schedule.Rank(i.Since, i.Priority, 10*time.Minute)
	return i
}

func anyItems(t *rapid.T) []schedule.Item {
	var out []schedule.Item
	for n := range rapid.IntRange(0, 25).Draw(t, "items") {
		out = append(out, anyItem(t, n+1))
	}
	slices.SortFunc(out, func(a, b schedule.Item) int { return a.Rank.Compare(b.Rank) })
	return out
}

func anyOffers(t *rapid.T) []schedule.Offer {
	var out []schedule.Offer
	for n := range rapid.IntRange(0, 4).Draw(t, "offers") {
		o := schedule.Offer{Worker: id('w', n), Phases: draw(t, "phases", []string{"execute"}, []string{"execute", "verify"}), Queues: draw(t, "queues", nil, []string{"slow"}, []string{"default", "slow"}),
			Pools: draw(t, "pools", nil, []string{"big"}), Capabilities: draw(t, "capabilities", nil, []string{"jdk=21.0.2"}, []string{"jdk=17"}), Free: rapid.IntRange(0, 6).Draw(t, "free"),
			Isolation: draw(t, "isolation", policy.IsolationBwrap, policy.IsolationBwrap, policy.IsolationProcess)}
		if rapid.Bool().Draw(t, "one tenant") {
			o.Tenant = id('t', rapid.IntRange(0, 2).Draw(t, "whose"))
		}
		out = append(out, o)
	}
	return out
}

// mayTry: a provider that asked for a pause is left alone until it is over; then one run tries, and no second.
func mayTry(s schedule.State, given []schedule.Grant) bool {
	p, ok := s.Parked["anthropic"]
	tried := slices.ContainsFunc(given, func(g schedule.Grant) bool { return g.Item.Phase == "execute" && g.Item.Provider == "anthropic" })
	return !ok || p.Until.Before(s.Now) && p.Probe == uuid.Nil && !tried
}

// calls is the provider that work of the phase calls.
func calls(phase, provider string) string {
	if phase == "execute" {
		return provider
	}
	return "none"
}

// may says in the plainest way whether the item may go to the offer after the grants so far: an oracle beside the code.
func may(s schedule.State, o schedule.Offer, i schedule.Item, given []schedule.Grant) bool {
	count := func(same func(t, u, r uuid.UUID, risk policy.Risk, provider, pool string) bool) (n int) {
		for _, h := range s.Held {
			if same(h.Tenant, h.User, h.Repository, h.Risk, calls(h.Phase, h.Provider), h.Pool) {
				n += h.Count
			}
		}
		for _, g := range given {
			if x := g.Item; same(x.Tenant, x.User, x.Repository, x.Risk, calls(x.Phase, x.Provider), x.Pool) {
				n++
			}
		}
		return n
	}
	under := func(limit int, same func(t, u, r uuid.UUID, risk policy.Risk, provider, pool string) bool) bool {
		return limit == 0 || count(same) < limit
	}
	tenant := s.Tenants[i.Tenant]
	r := tenant.Rules
	jdk := !slices.Contains(i.Requires, "jdk >= 21") || slices.Contains(o.Capabilities, "jdk=21.0.2")
	queue := slices.Contains(o.Queues, i.Queue) || (len(o.Queues) == 0 && i.Queue == "default")
	return (o.Tenant == uuid.Nil || o.Tenant == i.Tenant) && slices.Contains(o.Phases, i.Phase) && queue && jdk && (i.Pool == "" || slices.Contains(o.Pools, i.Pool)) &&
		(o.Isolation == policy.IsolationBwrap || r.Execution.MinIsolation == policy.IsolationProcess && !slices.Contains(i.Requires, "isolation:bwrap")) &&
		(i.Phase != "verify" || i.Maker != o.Worker || r.Execution.SameWorkerMayVerify && !slices.Contains(i.Requires, "other-worker")) &&
		(i.Phase != "execute" || i.Provider != "anthropic" || mayTry(s, given)) && (i.Phase != "execute" || !r.Admission.Incident.On) &&
		under(s.Installation.Concurrency.Tenant, func(_, _, _ uuid.UUID, _ policy.Risk, _, _ string) bool { return true }) &&
		under(s.Installation.Concurrency.Providers[calls(i.Phase, i.Provider)], func(_, _, _ uuid.UUID, _ policy.Risk, p, _ string) bool { return p == i.Provider }) &&
		under(s.Installation.Concurrency.Pools[i.Pool], func(_, _, _ uuid.UUID, _ policy.Risk, _, p string) bool { return p == i.Pool }) &&
		under(s.Installation.Tenants[tenant.Name].Max, func(t, _, _ uuid.UUID, _ policy.Risk, _, _ string) bool { return t == i.Tenant }) &&
		under(r.Concurrency.Tenant, func(t, _, _ uuid.UUID, _ policy.Risk, _, _ string) bool { return t == i.Tenant }) &&
		under(r.Concurrency.Repository, func(_, _, p uuid.UUID, _ policy.Risk, _, _ string) bool { return p == i.Repository }) &&
		under(r.Concurrency.User, func(t, u, _ uuid.UUID, _ policy.Risk, _, _ string) bool { return t == i.Tenant && u == i.User }) &&
		under(r.Concurrency.Risks[i.Risk], func(t, _, _ uuid.UUID, k policy.Risk, _, _ string) bool { return t == i.Tenant && k == i.Risk })
}

// R-Q-6, R-Q-7, R-Q-8, R-WRK-3, R-ADM-2: every grant was allowed when it was made, nobody gets more than the room it has, nothing
// is given twice; and nothing that could be given is left while somebody has room for it.
func TestAssignKeepsEveryLimitAndLeavesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, offers, items := anyState(t), anyOffers(t), anyItems(t)
		got := schedule.Assign(s, offers, items)
		seen := map[uuid.UUID]bool{}
		free := make([]int, len(offers))
		for n, o := range offers {
			free[n] = o.Free
		}
		for n, g := range got {
			if seen[g.Item.Run] {
				t.Fatalf("run %s was given twice", g.Item.Run)
			}
			seen[g.Item.Run] = true
			if free[g.Offer]--; free[g.Offer] < 0 {
				t.Fatalf("offer %d got more than its room", g.Offer)
			}
			if !may(s, offers[g.Offer], g.Item, got[:n]) {
				t.Fatalf("grant %d was not allowed: %+v", n, g)
			}
		}
		for _, i := range items {
			for n, o := range offers {
				if !seen[i.Run] && free[n] > 0 && may(s, o, i, got) {
					t.Fatalf("run %s was left although offer %d has room", i.Run, n)
				}
			}
		}
	})
}

// R-Q-5: max-min over what is under way. Whoever got a grant had no larger share before it than anybody who still waits
// and is under no limit, whatever the backlogs.
func TestAssignIsFairOverTenants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyState(t)
		s.Installation.Concurrency, s.Parked = policy.ConcurrencyRules{}, nil
		for k, v := range s.Tenants {
			v.Rules.Concurrency, v.Rules.Admission.Incident.On = policy.ConcurrencyRules{}, false
			s.Tenants[k] = v
			share := s.Installation.Tenants[v.Name]
			share.Max = 0
			s.Installation.Tenants[v.Name] = share
		}
		var items []schedule.Item
		for n, i := range anyItems(t) {
			i.Phase, i.Queue, i.Pool, i.Requires, i.Maker = "execute", "default", "", nil, uuid.Nil
			i.Run = id('r', n)
			items = append(items, i)
		}
		offer := schedule.Offer{Phases: []string{"execute"}, Isolation: policy.IsolationBwrap, Free: rapid.IntRange(0, 20).Draw(t, "room")}
		got := schedule.Assign(s, []schedule.Offer{offer}, items)
		share := map[uuid.UUID]float64{}
		weight := func(tenant uuid.UUID) float64 { return max(s.Installation.Tenants[s.Tenants[tenant].Name].Weight, 0) }
		add := func(tenant uuid.UUID, n int) {
			w := weight(tenant)
			if w == 0 {
				w = 1
			}
			share[tenant] += float64(n) / w
		}
		for _, h := range s.Held {
			add(h.Tenant, h.Count)
		}
		left := map[uuid.UUID]int{}
		for _, i := range items {
			left[i.Tenant]++
		}
		for n, g := range got {
			for tenant, waiting := range left {
				if waiting > 0 && share[tenant] < share[g.Item.Tenant]-1e-9 {
					t.Fatalf("grant %d went to a tenant with share %.2f while one with %.2f waited", n, share[g.Item.Tenant], share[tenant])
				}
			}
			left[g.Item.Tenant]--
			add(g.Item.Tenant, 1)
		}
	})
}
