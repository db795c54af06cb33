package policy

import (
	"maps"
	"slices"
	"strings"
)

// DefaultQueue is where work waits that no rule sends elsewhere.
const DefaultQueue = "default"

// Priorities go from LowestPriority to HighestPriority; 0 is ordinary.
const (
	LowestPriority  = -5
	HighestPriority = 5
)

// RoutingRules say in which queue admitted work waits and what its worker must
// offer. They never decide whether work is allowed.
type RoutingRules struct {
	// Queues are tried in order; the first that matches takes the work.
	Queues []QueueRule `yaml:"queues" json:"queues"`
	// Agents say what is behind an agent profile, by its name.
	Agents map[string]AgentRule `yaml:"agents" json:"agents"`
	// MaxPriority caps what a requester may ask for.
	MaxPriority int `yaml:"max_priority" json:"max_priority"`
}

// QueueRule sends matching work to one named queue. A list that is empty matches
// everything.
type QueueRule struct {
	Queue        string   `yaml:"queue" json:"queue"`
	Risks        []Risk   `yaml:"risks" json:"risks"`
	Modes        []Mode   `yaml:"modes" json:"modes"`
	Repositories []string `yaml:"repositories" json:"repositories"` // globs
	// Pool is the sandbox pool that the worker must belong to; empty: any.
	Pool string `yaml:"pool" json:"pool"`
	// Requires are capabilities that the worker must offer, such as "jdk >= 21".
	Requires []string `yaml:"requires" json:"requires"`
}

// AgentRule names the provider behind an agent profile.
type AgentRule struct {
	// Provider is who serves the model; limits and pauses count by it. Empty: the
	// profile's own name.
	Provider string   `yaml:"provider" json:"provider"`
	Requires []string `yaml:"requires" json:"requires"`
}

// Route is where admitted work waits and what it needs. It is snapshotted with the
// limits.
type Route struct {
	Queue    string `json:"queue,omitempty"`
	Pool     string `json:"pool,omitempty"`
	Provider string `json:"provider,omitempty"`
	Priority int    `json:"priority,omitempty"`
	// Agent is the agent profile that executes; its worker offers "agent:" and its name.
	Agent    string   `json:"agent,omitempty"`
	Requires []string `json:"requires,omitempty"`
	// Isolation is the least that was asked of workers when the work was admitted; empty: nothing more than today's
	// policy asks. OtherWorker says that another worker than the maker had to verify.
	Isolation   Isolation `json:"isolation,omitempty"`
	OtherWorker bool      `json:"other_worker,omitempty"`
}

// What an item needs beside capabilities, as it stands among them. No worker declares these: the server answers them
// from what it knows of a worker, see Held and Declared.
const (
	needIsolation   = "isolation:"
	needOtherWorker = "other-worker"
)

// Declared are those of an item's needs that a worker declares.
func Declared(needs []string) []string {
	if !slices.ContainsFunc(needs, answered) {
		return needs
	}
	return slices.DeleteFunc(slices.Clone(needs), answered)
}

func answered(need string) bool {
	return need == needOtherWorker || strings.HasPrefix(need, needIsolation)
}

// Held returns the rules tightened to what an item's needs say of the policy under which its work was admitted.
func (e ExecutionRules) Held(needs []string) ExecutionRules {
	for _, n := range needs {
		tier, ok := strings.CutPrefix(n, needIsolation)
		switch {
		case ok && Isolation(tier).Rank() > e.MinIsolation.Rank():
			e.MinIsolation = Isolation(tier)
		case n == needOtherWorker:
			e.SameWorkerMayVerify = false
		}
	}
	return e
}

// Of returns what a worker must offer for one phase: the agent's profile to
// execute, the tools and the isolation to execute and to verify, and to be another
// to verify; publishing needs none of them.
func (r Route) Of(phase string) []string {
	if phase != "execute" && phase != "verify" {
		return nil
	}
	var needs []string
	if phase == "execute" && r.Agent != "" {
		needs = append(needs, "agent:"+r.Agent)
	}
	needs = append(needs, r.Requires...)
	if r.Isolation != "" {
		needs = append(needs, needIsolation+string(r.Isolation))
	}
	if phase == "verify" && r.OtherWorker {
		needs = append(needs, needOtherWorker)
	}
	return needs
}

// Route finds queue, pool, provider and requirements for the work (R-Q-7, R-Q-8,
// R-TEST-5). A priority above the cap is lowered to it: priority orders work and
// is no reason to refuse it.
func (r RoutingRules) Route(f Facts) Route {
	agent := r.Agents[f.AgentProfile]
	out := Route{Queue: DefaultQueue, Provider: agent.Provider, Priority: min(f.Priority, r.MaxPriority), Agent: f.AgentProfile}
	if out.Provider == "" {
		out.Provider = f.AgentProfile
	}
	requires := slices.Concat(f.Requires, agent.Requires)
	for _, q := range r.Queues {
		if q.matches(f) {
			out.Queue, out.Pool = q.Queue, q.Pool
			requires = append(requires, q.Requires...)
			break
		}
	}
	slices.Sort(requires)
	out.Requires = slices.Compact(requires)
	return out
}

func (q QueueRule) matches(f Facts) bool {
	return (len(q.Risks) == 0 || has(q.Risks, f.Risk)) && (len(q.Modes) == 0 || has(q.Modes, f.Mode)) &&
		(len(q.Repositories) == 0 || matchAny(q.Repositories, f.Repository))
}

// ConcurrencyRules bound how many leases there may be at once. 0, or a name that is
// not listed, means no bound of its own.
type ConcurrencyRules struct {
	Tenant     int            `yaml:"tenant" json:"tenant"`
	Repository int            `yaml:"repository" json:"repository"` // of each repository
	User       int            `yaml:"user" json:"user"`             // of each requester
	Risks      map[Risk]int   `yaml:"risks" json:"risks"`
	Providers  map[string]int `yaml:"providers" json:"providers"`
	Pools      map[string]int `yaml:"pools" json:"pools"`
}

// InstallationRules hold over all tenants. Only the default tenant's policy can set
// them.
type InstallationRules struct {
	// Concurrency bounds all tenants together; Tenant is the bound of the whole
	// installation, Repository and User have no meaning here.
	Concurrency ConcurrencyRules `yaml:"concurrency" json:"concurrency"`
	// Tenants are shares and bounds by the tenant's name.
	Tenants map[string]TenantShare `yaml:"tenants" json:"tenants"`
}

// TenantShare is how much of a busy installation a tenant gets.
type TenantShare struct {
	// Weight is relative to the others'; a tenant that is not listed, or has 0, has 1.
	Weight float64 `yaml:"weight" json:"weight"`
	// Max bounds the tenant's leases; 0: no bound here.
	Max int `yaml:"max" json:"max"`
}

func (r RoutingRules) clone() RoutingRules {
	r.Queues = slices.Clone(r.Queues)
	for i, q := range r.Queues {
		r.Queues[i].Risks, r.Queues[i].Modes = slices.Clone(q.Risks), slices.Clone(q.Modes)
		r.Queues[i].Repositories, r.Queues[i].Requires = slices.Clone(q.Repositories), slices.Clone(q.Requires)
	}
	r.Agents = maps.Clone(r.Agents)
	for name, a := range r.Agents {
		a.Requires = slices.Clone(a.Requires)
		r.Agents[name] = a
	}
	return r
}

func (c ConcurrencyRules) clone() ConcurrencyRules {
	c.Risks, c.Providers, c.Pools = maps.Clone(c.Risks), maps.Clone(c.Providers), maps.Clone(c.Pools)
	return c
}

func (i InstallationRules) clone() InstallationRules {
	i.Concurrency, i.Tenants = i.Concurrency.clone(), maps.Clone(i.Tenants)
	return i
}
