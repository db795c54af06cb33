package audit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/evidence"
	"signalbox/internal/run"
)

// Kind is what is wrong.
type Kind string

// The kinds of findings.
const (
	Lost      Kind = "lost"       // accepted and not there, or never finished
	Doubled   Kind = "doubled"    // ended twice, or one request recorded twice
	Illegal   Kind = "illegal"    // a move that the table does not know, or that the rules refuse
	Gap       Kind = "gap"        // versions that are not 1, 2, 3 …
	Tokens    Kind = "tokens"     // a fencing token that is not higher than the one before
	TwoLeases Kind = "two leases" // a lease given while another holds
	DeadLease Kind = "dead lease" // an event under a lease that was over, or never was
	OverLimit Kind = "over limit" // more leases at one moment than a limit allows
	// Unapproved is a patch on its way out that no quorum and no rule let out.
	Unapproved Kind = "unapproved"
	Differs    Kind = "differs" // the log does not end in the stored row
)

// Finding is one thing that must not be.
type Finding struct {
	Kind Kind
	Run  uuid.UUID
	Seq  int64
	Why  string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: run %s event %d: %s", f.Kind, f.Run, f.Seq, f.Why)
}

// Held is what limits count a lease by.
type Held struct {
	Tenant, Repository, Person uuid.UUID
	Phase, Risk                string
	// Provider is whom the lease's work calls: empty but for the phase execute.
	Provider, Pool string
}

// Limit is how many leases there may be at once among those that have the same key; those with the key "" are not counted.
type Limit struct {
	Name string
	Most int
	Key  func(Held) string
}

// Want is what the audit is told by whoever used the product.
type Want struct {
	// Runs were accepted: each must be there.
	Runs []uuid.UUID
	// Settled says that everything has come to its end, or waits for a person.
	Settled bool
	Limits  []Limit
}

// Findings looks at everything.
func (l Log) Findings(w Want) []Finding {
	a := &audit{ended: map[uuid.UUID]Ended{}, tokens: map[int64]uuid.UUID{}}
	for _, e := range l.Ended {
		a.ended[e.Lease] = e
	}
	there := map[uuid.UUID]bool{}
	events := map[uuid.UUID][]Event{}
	for _, e := range l.Events {
		events[e.Run] = append(events[e.Run], e)
	}
	for _, r := range l.Rows {
		h := &history{row: r, events: events[r.Run]}
		there[r.Run] = len(h.events) > 0
		if len(h.events) == 0 {
			a.add(Lost, r.Run, 0, "it has no events")
			continue
		}
		a.order(h)
		a.replay(h)
		a.leases(h)
		a.approvals(l, h)
		if s := run.State(r.State); w.Settled && !s.Terminal() && s != run.WaitingForApproval && s != run.AwaitingVerification {
			a.add(Lost, r.Run, r.Version, "it stays %s", r.State)
		}
	}
	for _, id := range w.Runs {
		if !there[id] {
			a.add(Lost, id, 0, "it was accepted and is not there")
		}
	}
	for _, limit := range w.Limits {
		a.limit(limit)
	}
	return a.found
}

type audit struct {
	ended  map[uuid.UUID]Ended
	tokens map[int64]uuid.UUID
	spans  []span
	found  []Finding
	// published are the moments at which a patch went out.
	published []Published
}

// span is how long a lease held.
type span struct {
	run      uuid.UUID
	from, to time.Time // to is zero while it holds
	held     Held
}

func (a *audit) add(k Kind, id uuid.UUID, seq int64, why string, args ...any) {
	a.found = append(a.found, Finding{k, id, seq, fmt.Sprintf(why, args...)})
}

// order looks at places, ends and names.
func (a *audit) order(h *history) {
	seen := map[string]bool{}
	ends, pulls := 0, map[string]bool{}
	for i, e := range h.events {
		if e.Seq != int64(i+1) {
			a.add(Gap, e.Run, e.Seq, "it has place %d of the log", i+1)
		}
		if seen[e.ID] {
			a.add(Doubled, e.Run, e.Seq, "%s was recorded before as %s", e.Kind, e.ID)
		}
		seen[e.ID] = true
		if ends > 0 {
			a.add(Doubled, e.Run, e.Seq, "%s follows the end", e.Kind)
		}
		if run.State(e.To).Terminal() {
			ends++
		}
		before := ""
		if i > 0 {
			before = h.events[i-1].To
		}
		switch {
		case e.From != before:
			a.add(Illegal, e.Run, e.Seq, "%s goes from %s and the run was %s", e.Kind, e.From, before)
		case !run.Legal(run.State(e.From), run.Kind(e.Kind)):
			a.add(Illegal, e.Run, e.Seq, "the table knows no %s in %s", e.Kind, e.From)
		}
		ev, err := run.Decode(int(e.Schema), e.Payload)
		if err != nil {
			a.add(Illegal, e.Run, e.Seq, "it cannot be read: %v", err)
			continue
		}
		switch p := ev.Payload.(type) {
		case run.EnqueuedEvent:
			h.route = p
		case run.PRCreatedEvent:
			if len(pulls) > 0 {
				a.add(Doubled, e.Run, e.Seq, "a second pull request, %s", p.PR.URL)
			}
			pulls[p.PR.URL] = true
		}
		h.read = append(h.read, ev)
	}
}

// replay folds the log from nothing and compares the end with the row.
func (a *audit) replay(h *history) {
	var r run.Run
	var head []byte
	for i, e := range h.events {
		if head = evidence.Hash(head, e.Body); !bytes.Equal(head, e.Hash) {
			a.add(Differs, e.Run, e.Seq, "the hash does not fit the recorded bytes")
			return
		}
		if i >= len(h.read) {
			return // said already
		}
		res, err := run.Reduce(r, h.read[i])
		if err != nil {
			a.add(Illegal, e.Run, e.Seq, "the rules refuse it: %v", err)
			return
		}
		if r = res.Run; string(r.State) != e.To {
			a.add(Differs, e.Run, e.Seq, "the log goes to %s, replay to %s", e.To, r.State)
			return
		}
	}
	if string(r.State) != h.row.State || r.Version != h.row.Version || r.AttemptNo != h.row.Attempt || !bytes.Equal(head, h.row.Head) {
		a.add(Differs, h.row.Run, 0, "stored is %s version %d attempt %d, replay gives %s version %d attempt %d", h.row.State, h.row.Version, h.row.Attempt, r.State, r.Version, r.AttemptNo)
	}
}

// leases follows who held the run.
func (a *audit) leases(h *history) {
	given := map[uuid.UUID]bool{}
	var last *run.Lease
	var token int64
	for i, ev := range h.read {
		e := h.events[i]
		if p, ok := ev.Payload.(run.LeaseAcquiredEvent); ok {
			if p.Lease.Token <= token {
				a.add(Tokens, e.Run, e.Seq, "token %d after %d", p.Lease.Token, token)
			}
			if other, taken := a.tokens[p.Lease.Token]; taken {
				a.add(Tokens, e.Run, e.Seq, "token %d was given for run %s, too", p.Lease.Token, other)
			}
			if end, over := a.ended[leaseID(last)]; last != nil && (!over || end.At.After(e.At)) {
				a.add(TwoLeases, e.Run, e.Seq, "lease %s was given while %s held", p.Lease.ID, last.ID)
			}
			a.tokens[p.Lease.Token], token = e.Run, p.Lease.Token
			given[p.Lease.ID], last = true, new(p.Lease)
			s := span{run: e.Run, from: e.At, held: Held{Tenant: h.row.Tenant, Repository: h.row.Repository, Person: h.row.Person, Phase: string(p.Lease.Phase), Risk: h.row.Risk, Pool: h.route.Pool}}
			if p.Lease.Phase == run.PhaseExecute {
				s.held.Provider = h.route.Provider
			}
			if end, over := a.ended[p.Lease.ID]; over {
				s.to = end.At
			}
			a.spans = append(a.spans, s)
			continue
		}
		if ev.Cause == nil || ev.Cause.Lease == nil {
			continue
		}
		under := *ev.Cause.Lease
		end, over := a.ended[under]
		switch {
		case !given[under]:
			a.add(DeadLease, e.Run, e.Seq, "%s under lease %s, which was never given", e.Kind, under)
		case last.ID != under, over && e.At.After(end.At):
			a.add(DeadLease, e.Run, e.Seq, "%s under lease %s, which was over", e.Kind, under)
		}
	}
	if _, over := a.ended[leaseID(last)]; last != nil && !over && run.State(h.row.State).Terminal() {
		a.add(TwoLeases, h.row.Run, h.row.Version, "the run ended and lease %s did not", last.ID)
	}
}

func leaseID(l *run.Lease) uuid.UUID {
	if l == nil {
		return uuid.Nil
	}
	return l.ID
}

// limit walks through time: who was held at every moment at which that changed.
func (a *audit) limit(limit Limit) {
	type change struct {
		at   time.Time
		by   int
		key  string
		span span
	}
	var all []change
	for _, s := range a.spans {
		key := limit.Key(s.held)
		if key == "" {
			continue
		}
		all = append(all, change{s.from, 1, key, s})
		if !s.to.IsZero() {
			all = append(all, change{s.to, -1, key, s})
		}
	}
	// Where one ends and another begins in the same microsecond, the end was first.
	slices.SortStableFunc(all, func(x, y change) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.by, y.by)) })
	held := map[string]int{}
	for _, c := range all {
		if held[c.key] += c.by; c.by > 0 && held[c.key] > limit.Most {
			a.add(OverLimit, c.span.run, 0, "%d leases of %s %s at %s, the limit is %d", held[c.key], limit.Name, c.key, c.at.Format(time.RFC3339Nano), limit.Most)
		}
	}
}
