// Package schedule decides who gets which waiting work: fair over tenants by how
// much each has under way, by priority with aging inside a tenant, within every
// limit, to workers that offer what the work needs.
//
// The package is pure: what waits, what is leased and who asks arrive as values,
// counted from lease rows by the caller, who holds off every other claim meanwhile.
// It refuses to keep a counter of its own between two decisions, because counters
// that are kept drift.
package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/capability"
	"signalbox/internal/policy"
)

// Item is one READY queue item with what the decision needs.
type Item struct {
	Run, Tenant, User, Repository uuid.UUID
	Phase                         string
	policy.Route
	Risk policy.Risk
	// Rank orders the items of one user; see Rank.
	Rank time.Time
	// Since is when the item got ready.
	Since time.Time
	// Maker is the worker that made the patch, for items of the phase verify.
	Maker uuid.UUID
}

// Rank is when an item got ready, moved back by one aging step for each priority. An
// item therefore goes before what waits less than that much longer: waiting work
// rises by itself, and the order is a fixed one that an index holds.
func Rank(since time.Time, priority int, aging time.Duration) time.Time {
	return since.Add(-time.Duration(priority) * aging)
}

// Offer is a worker that asks for work, with room for Free more leases.
type Offer struct {
	Worker uuid.UUID
	Tenant uuid.UUID // the only tenant it serves, or the zero id for all
	Phases []string
	// Queues, Pools and Capabilities are what the worker offers. Without queues it
	// serves the default one.
	Queues, Pools, Capabilities []string
	Isolation                   policy.Isolation
	Free                        int
}

// Held are leases that are alike to every limit, and how many of them there are.
type Held struct {
	Phase                    string
	Tenant, User, Repository uuid.UUID
	Risk                     policy.Risk
	Provider, Pool           string
	Count                    int
	// Newest is when the last of them was given.
	Newest time.Time
}

// State is what holds while one decision is made.
type State struct {
	Now  time.Time
	Held []Held
	// Installation is the part of the default tenant's policy that holds over all.
	Installation policy.InstallationRules
	// Tenants are the names and rules of all tenants that have items.
	Tenants map[uuid.UUID]Tenant
	// Aging is the time that counts as one priority; 0: waiting work does not age.
	Aging time.Duration
	// Parked are providers that asked to be left alone. When the time is over exactly one run tries first.
	Parked map[string]Parking
	// Paused are queues that give out nothing.
	Paused []Pause
}

// Pause is a queue that somebody stopped for one tenant, or for all where Tenant is the zero id.
type Pause struct {
	Tenant uuid.UUID
	Queue  string
	// By is a name for people, Reason what they wrote.
	By, Reason string
	At         time.Time
}

// Tenant is a tenant's name and the policy in force for it.
type Tenant struct {
	Name  string
	Rules policy.Rules
}

// Grant gives an item to the offer at the index.
type Grant struct {
	Offer int
	Item  Item
}

// Lane is the items of one user of one tenant in one queue and phase: who are
// served in turn.
type Lane struct {
	Phase, Queue string
	Tenant, User uuid.UUID
}

// Lane is the item's.
func (i Item) Lane() Lane { return Lane{i.Phase, i.Queue, i.Tenant, i.User} }

// Assign gives out items until no offer has room or nothing is left that may be
// given. Next is always the item of the tenant with the smallest share (leases
// divided by weight); among those, of the lane with the highest priority, which
// rises with the time since the lane was last served; then of the user with the
// fewest leases; then the one with the lowest rank. No limit is ever exceeded,
// whatever the order. Items of a lane must be sorted by rank.
func Assign(s State, offers []Offer, items []Item) []Grant {
	a := newAssigner(s, offers)
	lanes := a.lanes(items)
	var out []Grant
	for a.room() {
		best := -1
		for n := range lanes {
			if a.advance(&lanes[n]) && (best < 0 || a.before(lanes[n], lanes[best])) {
				best = n
			}
		}
		if best < 0 {
			break
		}
		l := &lanes[best]
		item := l.items[0]
		out = append(out, Grant{l.offer, item})
		a.take(l.offer, item)
		l.items = l.items[1:]
		l.served = s.Now
	}
	return out
}

// lane is a Lane on its way through one decision.
type lane struct {
	Lane
	items  []Item
	offer  int       // that would take the first item
	served time.Time // when the lane last got a lease; the zero time: it holds none
}

type assigner struct {
	State
	offers []Offer
	// plain are the indexes of the offers, those that offer least first.
	plain  []int
	counts counts
}

func newAssigner(s State, offers []Offer) *assigner {
	a := &assigner{State: s, offers: slices.Clone(offers), plain: make([]int, len(offers)), counts: counts{}}
	for n := range offers {
		a.plain[n] = n
	}
	slices.SortStableFunc(a.plain, func(x, y int) int { return cmp.Compare(offers[x].breadth(), offers[y].breadth()) })
	a.Parked = maps.Clone(s.Parked)
	for _, h := range s.Held {
		a.counts.add(h, h.Count)
	}
	return a
}

func (a *assigner) lanes(items []Item) []lane {
	index := map[Lane]int{}
	var out []lane
	for _, i := range items {
		n, ok := index[i.Lane()]
		if !ok {
			n = len(out)
			index[i.Lane()] = n
			out = append(out, lane{Lane: i.Lane(), served: a.served(i.Tenant, i.User)})
		}
		out[n].items = append(out[n].items, i)
	}
	return out
}

// served is when a user's newest lease was given.
func (a *assigner) served(tenant, user uuid.UUID) (at time.Time) {
	for _, h := range a.Held {
		if h.Tenant == tenant && h.User == user && h.Newest.After(at) {
			at = h.Newest
		}
	}
	return at
}

func (a *assigner) room() bool {
	return slices.ContainsFunc(a.offers, func(o Offer) bool { return o.Free > 0 })
}

// advance passes over items that cannot be given now. Counts only rise and room
// only shrinks during a decision, so that what was passed over stays so.
func (a *assigner) advance(l *lane) bool {
	for len(l.items) > 0 {
		if offer, ok := a.taker(l.items[0]); ok {
			l.offer = offer
			return true
		}
		l.items = l.items[1:]
	}
	return false
}

// taker is the offer that has room for the item and may take it, where no limit holds the item back: of several the one that offers
// least, so that the abler ones are left to what needs them.
func (a *assigner) taker(i Item) (offer int, ok bool) {
	if code, _ := a.limited(i); code != "" {
		return 0, false
	}
	for _, n := range a.plain {
		if a.offers[n].Free > 0 && a.fits(a.offers[n], i) {
			return n, true
		}
	}
	return 0, false
}

// breadth grows with everything that a worker may be chosen for: who offers all that another does, and more, has the larger one.
func (o Offer) breadth() int {
	n := len(o.Phases) + max(len(o.Queues), 1) + len(o.Pools) + len(o.Capabilities) + o.Isolation.Rank()
	if o.Tenant == uuid.Nil {
		n++
	}
	return n
}

func (a *assigner) before(x, y lane) bool {
	return cmp.Or(
		cmp.Compare(a.share(x.Tenant), a.share(y.Tenant)),
		-cmp.Compare(a.band(x), a.band(y)),
		cmp.Compare(a.counts[userKey(x.Tenant, x.User)], a.counts[userKey(y.Tenant, y.User)]),
		x.items[0].Rank.Compare(y.items[0].Rank),
		slices.Compare(x.items[0].Run[:], y.items[0].Run[:]),
	) < 0
}

// share is max-min fairness over what is under way, not over starts: agent runs
// differ a hundredfold in length.
func (a *assigner) share(tenant uuid.UUID) float64 {
	weight := a.Installation.Tenants[a.Tenants[tenant].Name].Weight
	if weight <= 0 {
		weight = 1
	}
	return float64(a.counts[tenantKey(tenant)]) / weight
}

// band is the priority of a lane's first item, one higher for each aging step that
// the lane has waited since it was last served. A lane that is served does not age:
// somebody's old heap of work does not hold up another's new run.
func (a *assigner) band(l lane) int {
	since := l.items[0].Since
	if l.served.After(since) {
		since = l.served
	}
	steps := 0
	if a.Aging > 0 {
		steps = int(max(a.Now.Sub(since), 0) / a.Aging)
	}
	return min(l.items[0].Priority+steps, policy.HighestPriority)
}

func (a *assigner) take(offer int, i Item) {
	a.offers[offer].Free--
	if p, ok := a.Parked[i.Provider]; ok && callsProvider(i.Phase) {
		p.Probe = i.Run
		a.Parked[i.Provider] = p
	}
	a.counts.add(Held{Phase: i.Phase, Tenant: i.Tenant, User: i.User, Repository: i.Repository, Risk: i.Risk, Provider: i.Provider, Pool: i.Pool}, 1)
}

// ServesLane reports whether the worker may take anything of the lane at all.
func (o Offer) ServesLane(l Lane) bool {
	return (o.Tenant == uuid.Nil || o.Tenant == l.Tenant) && slices.Contains(o.Phases, l.Phase) && o.servesQueue(l.Queue)
}

// fits reports whether the worker may take the item, whatever room it has.
func (a *assigner) fits(o Offer, i Item) bool {
	return o.serves(i) && a.allowed(o, i)
}

func (o Offer) serves(i Item) bool {
	return o.ServesLane(i.Lane()) && (i.Pool == "" || slices.Contains(o.Pools, i.Pool)) && len(capability.Missing(policy.Declared(i.Requires), o.Capabilities)) == 0
}

// rules are today's, held to what was asked of workers when the item's work was admitted.
func (a *assigner) rules(i Item) policy.Rules {
	r := a.Tenants[i.Tenant].Rules
	r.Execution = r.Execution.Held(i.Requires)
	return r
}

func (a *assigner) allowed(o Offer, i Item) bool {
	return policy.Claim(a.rules(i), policy.Facts{Phase: i.Phase, Isolation: o.Isolation, SameWorker: i.Maker != uuid.Nil && i.Maker == o.Worker}).Allowed
}
