package policy

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"signalbox/internal/capability"
)

func nameShape() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`) }

func (c *checker) name(path, name string) {
	c.ok(nameShape().MatchString(name), path, fmt.Sprintf("%q is no name: use 1 to 64 letters, digits, dots, dashes or underscores", name))
}

func (c *checker) requires(path string, requires []string) {
	c.ok(len(requires) <= 50, path, "must hold at most 50 requirements")
	for _, r := range requires {
		if _, err := capability.ParseRequirement(r); err != nil {
			c.ok(false, path, err.Error())
		}
	}
}

func (c *checker) routing(r RoutingRules) {
	c.ok(len(r.Queues) <= 100, "routing.queues", "must hold at most 100 rules")
	for _, q := range r.Queues {
		c.name("routing.queues", q.Queue)
		c.ok(q.Pool == "" || nameShape().MatchString(q.Pool), "routing.queues", fmt.Sprintf("%q is no name of a pool", q.Pool))
		c.risks("routing.queues", q.Risks)
		for _, m := range q.Modes {
			c.ok(m.Valid(), "routing.queues", fmt.Sprintf("%q is not a completion mode", m))
		}
		c.globs("routing.queues", q.Repositories)
		c.requires("routing.queues", q.Requires)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Agents)) {
		a := r.Agents[name]
		path := "routing.agents." + name
		c.name(path, name)
		c.ok(a.Provider == "" || nameShape().MatchString(a.Provider), path, fmt.Sprintf("%q is no name of a provider", a.Provider))
		c.requires(path, a.Requires)
	}
	c.ok(r.MaxPriority >= LowestPriority && r.MaxPriority <= HighestPriority, "routing.max_priority",
		fmt.Sprintf("must be from %d to %d", LowestPriority, HighestPriority))
}

func (c *checker) concurrency(path string, r ConcurrencyRules) {
	bound := func(field string, n int) {
		c.ok(n >= 0 && n <= 1_000_000, path+"."+field, "must be from 0 (no bound) to 1000000")
	}
	bound("tenant", r.Tenant)
	bound("repository", r.Repository)
	bound("user", r.User)
	for _, k := range slices.Sorted(maps.Keys(r.Risks)) {
		c.ok(k.Valid(), path+".risks", riskWords(k))
		bound("risks", r.Risks[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Providers)) {
		c.name(path+".providers", k)
		bound("providers", r.Providers[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Pools)) {
		c.name(path+".pools", k)
		bound("pools", r.Pools[k])
	}
}

func (c *checker) installation(r InstallationRules) {
	c.concurrency("installation.concurrency", r.Concurrency)
	for _, name := range slices.Sorted(maps.Keys(r.Tenants)) {
		t := r.Tenants[name]
		path := "installation.tenants." + name
		c.ok(!math.IsNaN(t.Weight) && t.Weight >= 0 && t.Weight <= 1000, path, "weight must be from 0 (as if 1) to 1000")
		c.ok(t.Max >= 0 && t.Max <= 1_000_000, path, "max must be from 0 (no bound) to 1000000")
	}
}

// zoneShape is how a time zone is named; whether there is one of the name, Accept is told.
func zoneShape() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$`)
}

// admissionCounts checks what puts work off.
func (c *checker) admissionCounts(r Rules) {
	q, v := r.Admission.Quota, r.Admission.Reviewers
	for path, n := range map[string]int{"quota.max_queued": q.MaxQueued, "quota.max_active": q.MaxActive, "reviewers.open_gates": v.OpenGates,
		"reviewers.open_pulls": v.OpenPulls, "reviewers.open_gates_of_one": v.OpenGatesOfOne, "reviewers.open_pulls_of_one": v.OpenPullsOfOne} {
		c.ok(n >= 0 && n <= 1_000_000, "admission."+path, "must be from 0 (no bound) to 1000000")
	}
	c.rates(r.Admission.Rates)
	c.ok(r.Budget.DailyCents >= 0 && r.Budget.DailyCents <= 1_000_000_000_000, "budget.daily_cents", "must be from 0 (no bound) to 1000000000000")
	c.ok(r.Budget.TimeZone == "" || zoneShape().MatchString(r.Budget.TimeZone), "budget.time_zone", fmt.Sprintf("%q is no name of a time zone, such as Europe/Berlin", r.Budget.TimeZone))
}

func (c *checker) rates(x RateRules) {
	const most = 1_000_000_000_000
	for path, n := range map[string]int64{"forge_pulls": int64(x.ForgePulls), "repository_pulls": int64(x.RepositoryPulls), "artifact_bytes": x.ArtifactBytes, "writes_waiting": int64(x.WritesWaiting)} {
		c.ok(n >= 0 && n <= most, "admission.rates."+path, "must be from 0 (no bound) to 1000000000000")
	}
	for _, provider := range slices.Sorted(maps.Keys(x.ProviderTokens)) {
		n := x.ProviderTokens[provider]
		c.ok(n >= 0 && n <= most, "admission.rates.provider_tokens."+provider, "must be from 0 (no bound) to 1000000000000")
	}
}
