package schedule

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"signalbox/internal/policy"
)

// key names one thing that leases are counted by.
type key struct {
	dimension    string
	tenant       uuid.UUID
	id           uuid.UUID
	name         string
	installation bool
}

func tenantKey(t uuid.UUID) key     { return key{dimension: "tenant", tenant: t} }
func userKey(t, user uuid.UUID) key { return key{dimension: "user", tenant: t, id: user} }
func named(dimension, name string, t uuid.UUID) key {
	return key{dimension: dimension, tenant: t, name: name}
}
func overall(dimension, name string) key {
	return key{dimension: dimension, name: name, installation: true}
}

// counts are leases by everything that a limit may speak of.
type counts map[key]int

func (c counts) add(h Held, n int) {
	c[overall("all", "")] += n
	c[tenantKey(h.Tenant)] += n
	c[userKey(h.Tenant, h.User)] += n
	c[key{dimension: "repository", tenant: h.Tenant, id: h.Repository}] += n
	for _, d := range []struct{ dimension, name string }{{"risk", string(h.Risk)}, {"provider", h.Provider}, {"pool", h.Pool}} {
		if d.dimension != "provider" || callsProvider(h.Phase) {
			c[named(d.dimension, d.name, h.Tenant)] += n
			c[overall(d.dimension, d.name)] += n
		}
	}
}

// callsProvider reports whether work of the phase calls its model provider, so that the provider's limits and pauses hold.
func callsProvider(phase string) bool { return phase == execute }

// execute is the phase in which an agent works: what makes the results that the other phases check and publish.
const execute = "execute"

// Codes of what holds an item back, stable words for machines.
const (
	CodeInstallationLimit = "INSTALLATION_LIMIT"
	CodeTenantLimit       = "TENANT_LIMIT"
	CodeRepositoryLimit   = "REPOSITORY_LIMIT"
	CodeUserLimit         = "USER_LIMIT"
	CodeRiskLimit         = "RISK_LIMIT"
	CodeProviderLimit     = "PROVIDER_LIMIT"
	CodePoolLimit         = "POOL_LIMIT"
	CodePolicyUnreadable  = "POLICY_UNREADABLE"
	CodeProviderParked    = "PROVIDER_PARKED"
	CodeProviderProbed    = "PROVIDER_PROBED"
	CodeNoWorker          = "NO_WORKER"
	CodeWorkersBusy       = "WORKERS_BUSY"
	CodeQueuePaused       = "QUEUE_PAUSED"
	CodeIncident          = policy.CodeIncident
	CodeNext              = "NEXT"
)

// limit is one bound that an item comes under.
type limit struct {
	code string
	at   key
	most int
	what string
}

// limited returns the first bound that the item has no room under, with words; ""
// where it has room everywhere.
func (a *assigner) limited(i Item) (code, words string) {
	if code, words := a.closed(i.Lane()); code != "" {
		return code, words
	}
	if p, ok := a.Parked[i.Provider]; ok && callsProvider(i.Phase) {
		switch {
		case p.Until.After(a.Now):
			return CodeProviderParked, fmt.Sprintf("provider %s asked to slow down; it is tried again at %s", i.Provider, p.Until.UTC().Format("15:04:05 MST"))
		case p.Probe != uuid.Nil:
			return CodeProviderProbed, fmt.Sprintf("provider %s asked to slow down until %s; one run tries it first and the others follow when it gets through", i.Provider, p.Until.UTC().Format("15:04:05 MST"))
		}
	}
	return a.reached(a.bounds(i))
}

// closed is the first bound that leaves no room for anything of the lane.
func (a *assigner) closed(l Lane) (code, words string) {
	for _, p := range a.Paused {
		if p.Queue == l.Queue && (p.Tenant == l.Tenant || p.Tenant == uuid.Nil) {
			return CodeQueuePaused, p.words()
		}
	}
	t, ok := a.Tenants[l.Tenant]
	if !ok {
		return CodePolicyUnreadable, "the policy of its tenant cannot be read"
	}
	if inc := t.Rules.Admission.Incident; inc.On && l.Phase == execute {
		return CodeIncident, incident(t.Name, inc.Message)
	}
	own, all := t.Rules.Concurrency, a.Installation
	return a.reached([]limit{
		{CodeInstallationLimit, overall("all", ""), all.Concurrency.Tenant, "running in the whole installation"},
		{CodeTenantLimit, tenantKey(l.Tenant), all.Tenants[t.Name].Max, "running for " + t.Name + ", which is its share of the installation"},
		{CodeTenantLimit, tenantKey(l.Tenant), own.Tenant, "running for " + t.Name},
		{CodeUserLimit, userKey(l.Tenant, l.User), own.User, "running for this requester"},
	})
}

func (a *assigner) reached(bounds []limit) (code, words string) {
	for _, l := range bounds {
		if l.most > 0 && a.counts[l.at] >= l.most {
			return l.code, fmt.Sprintf("%d of %d %s", a.counts[l.at], l.most, l.what)
		}
	}
	return "", ""
}

// bounds are those that depend on the item.
func (a *assigner) bounds(i Item) []limit {
	own, all := a.Tenants[i.Tenant].Rules.Concurrency, a.Installation.Concurrency
	bounds := []limit{
		{CodeRepositoryLimit, key{dimension: "repository", tenant: i.Tenant, id: i.Repository}, own.Repository, "running on this repository"},
		{CodeRiskLimit, named("risk", string(i.Risk), i.Tenant), own.Risks[i.Risk], "running at risk " + string(i.Risk)},
		{CodeRiskLimit, overall("risk", string(i.Risk)), all.Risks[i.Risk], "running at risk " + string(i.Risk) + " in the whole installation"},
		{CodePoolLimit, named("pool", i.Pool, i.Tenant), own.Pools[i.Pool], "running in pool " + i.Pool},
		{CodePoolLimit, overall("pool", i.Pool), all.Pools[i.Pool], "running in pool " + i.Pool + " in the whole installation"},
	}
	if !callsProvider(i.Phase) {
		return bounds
	}
	return append(bounds,
		limit{CodeProviderLimit, named("provider", i.Provider, i.Tenant), own.Providers[i.Provider], "running with provider " + i.Provider},
		limit{CodeProviderLimit, overall("provider", i.Provider), all.Providers[i.Provider], "running with provider " + i.Provider + " in the whole installation"})
}

// OpenLanes returns the lanes of which something might be given now: no pause and no limit closes them whatever the item is,
// and somebody who has room serves them.
func OpenLanes(s State, offers []Offer, lanes []Lane) []Lane {
	a := newAssigner(s, offers)
	return slices.DeleteFunc(slices.Clone(lanes), func(l Lane) bool {
		code, _ := a.closed(l)
		return code != "" || !slices.ContainsFunc(offers, func(o Offer) bool {
			return o.Free > 0 && o.ServesLane(l) && a.allowed(o, Item{Tenant: l.Tenant, Phase: l.Phase})
		})
	})
}

// OpenItems returns the items that might be given now: no limit holds them back, and somebody who has room may take them.
func OpenItems(s State, offers []Offer, items []Item) []Item {
	a := newAssigner(s, offers)
	return slices.DeleteFunc(slices.Clone(items), func(i Item) bool {
		_, open := a.taker(i)
		return !open
	})
}

// Reason is why an item waits.
type Reason struct {
	Code  string
	Words string
}

// Why says truthfully why an item is not given out at this moment (R-Q-7, R-Q-9).
// workers are all that live, with what room each has; ahead is how many items of
// the same tenant go first.
func Why(s State, workers []Offer, i Item, ahead int) Reason {
	a := newAssigner(s, workers)
	if code, words := a.limited(i); code != "" {
		return Reason{code, sentence(words) + place(ahead, s.Tenants[i.Tenant].Name)}
	}
	able, free := 0, 0
	for _, o := range a.offers {
		if a.fits(o, i) {
			able++
			free += max(o.Free, 0)
		}
	}
	switch {
	case able == 0:
		return Reason{CodeNoWorker, a.nobody(i)}
	case free == 0:
		return Reason{CodeWorkersBusy, sentence(fmt.Sprintf("every worker that can take it is busy (%s)", plural(able, "worker", "workers"))) + place(ahead, s.Tenants[i.Tenant].Name)}
	}
	return Reason{CodeNext, "A worker is free and takes it with its next question." + place(ahead, s.Tenants[i.Tenant].Name)}
}

// HeldBack counts the items that a limit has no room for at this moment, by the code of the first such limit.
func HeldBack(s State, items []Item) map[string]int {
	a, out := newAssigner(s, nil), map[string]int{}
	for _, i := range items {
		if code, _ := a.limited(i); code != "" {
			out[code]++
		}
	}
	return out
}
