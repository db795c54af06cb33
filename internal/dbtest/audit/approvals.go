package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"signalbox/internal/evidence"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Said is what the audit log keeps of one decision at a gate.
type Said struct {
	Gate, Person   string
	Action, Result string
	Digest         string
	Roles          []string // that the person held then
	At             time.Time
}

// Policy is a version of a tenant's policy, with the time from which it was in force.
type Policy struct {
	Tenant            uuid.UUID
	Version, Document string
	At                time.Time
}

// settling is how long a decision and a change of the policy may pass each other unseen.
const settling = 5 * time.Second

// Published says how a run came to be published.
type Published struct {
	Run uuid.UUID
	Seq int64
	// By is approved, gate_bypassed, approval_carried or auto_pr_allowed.
	By run.Kind
}

// approvals asks of every run that reached PR_CREATING whether at that moment a quorum of the policy's size stood for exactly the patch
// that is pushed, by people who held the role, each once, with no contributor among them (S12, T5, T6).
func (a *audit) approvals(l Log, h *history) {
	var r run.Run
	clear, admitted := "", ""           // the patch that may go out; the policy of the admission
	quorums := map[uuid.UUID][]string{} // of satisfied gates, the patch id first
	for i, ev := range h.read {
		e := h.events[i]
		bad := func(why string, args ...any) { a.add(Unapproved, e.Run, e.Seq, why, args...) }
		switch p := ev.Payload.(type) {
		case run.EnqueuedEvent:
			admitted = p.PolicyVersion
		case run.AutoPRAllowedEvent:
			clear = r.Patch.Digest
			if rules, ok := l.rules(h.row.Tenant, p.Policy.Version, admitted); !ok || !rules.AutoPR.Allowed {
				bad("policy %s does not let anything out without a person", p.Policy.Version)
			}
		case run.ApprovalCarriedEvent:
			from := quorums[p.From]
			if clear = r.Patch.Digest; len(from) == 0 || from[0] != r.Patch.PatchID {
				bad("an approval of another change than %s was carried over", r.Patch.PatchID)
			}
			for _, d := range p.Deciders {
				if !slices.Contains(from[min(1, len(from)):], d.ID) {
					bad("%s is said to have approved before, and did not", d.ID)
				}
			}
		case run.ApprovedEvent:
			if r.Gate != nil && r.Gate.Kind == run.GatePatch {
				clear = r.Patch.Digest
				quorums[p.Gate.ID] = append([]string{r.Patch.PatchID}, a.quorum(l, h, r, p.Approval, admitted, e)...)
			}
		case run.GateBypassedEvent:
			if r.Gate != nil && r.Gate.Kind == run.GatePatch {
				clear = r.Patch.Digest
			}
		case run.ApprovalWithdrawnEvent:
			clear = ""
		}
		res, err := run.Reduce(r, ev)
		if err != nil {
			return // said already
		}
		if res.Run.State == run.PRCreating && r.State != run.PRCreating {
			a.published = append(a.published, Published{e.Run, e.Seq, ev.Kind()})
			if res.Run.Patch == nil || clear == "" || clear != res.Run.Patch.Digest {
				bad("%s publishes a patch that nothing let out", e.Kind)
			}
		}
		r = res.Run
	}
}

// quorum looks at one approval of a patch, and returns who made it.
func (a *audit) quorum(l Log, h *history, r run.Run, p run.Approval, admitted string, e Event) (people []string) {
	bad := func(why string, args ...any) { a.add(Unapproved, e.Run, e.Seq, why, args...) }
	// The digest is made here again from the log alone.
	digest := evidence.RevisionDigest(evidence.Revision{Kind: string(run.GatePatch), Repository: h.row.Repository, Base: r.Patch.Base, Content: []byte(r.Patch.Digest), ResultTree: r.Patch.Tree, VerificationDigest: r.Verification})
	if p.Gate.ID != r.Gate.ID || p.Gate.Revision != r.Gate.Revision || p.Gate.Digest != r.Gate.Digest || p.Gate.Digest != digest {
		bad("what was approved is %+v; the gate shows revision %d, %s, and the patch is %s", p.Gate, r.Gate.Revision, r.Gate.Digest, digest)
	}
	rules, ok := l.rules(h.row.Tenant, p.Policy.Version, admitted)
	if newer := l.newest(h.row.Tenant, e.At.Add(-settling)); !ok || newer.At.After(l.since(h.row.Tenant, p.Policy.Version)) {
		bad("it was decided under policy %q, and %q was in force for longer than %s", p.Policy.Version, newer.Version, settling)
	}
	gate := rules.Gates.For(policy.GatePatch)
	parts := contributors(h, e.Seq)
	for _, d := range p.Deciders {
		switch {
		case d.Kind != run.Human:
			bad("a %s is counted as an approval", d.Kind)
		case slices.Contains(people, d.ID):
			bad("%s is counted twice", d.ID)
		case slices.Contains(parts, d.ID):
			bad("%s had a part in the change and is counted as an approval", d.ID)
		}
		people = append(people, d.ID)
		a.said(l, typeid.Format(typeid.Gate, p.Gate.ID), d.ID, digest, string(gate.Role), e)
	}
	if need := max(gate.Quorum, 1); len(people) < need {
		bad("%d approved, policy %s held to %s asks for %d", len(people), p.Policy.Version, admitted, need)
	}
	return people
}

// said finds the person's approval in the audit log: it names the same content, the person held the role, and it is the last word.
func (a *audit) said(l Log, gate, person, digest, role string, e Event) {
	var last *Said
	for i, s := range l.Said {
		if s.Action != "gate.approve" && s.At.After(e.At) {
			continue // said when all was decided
		}
		if s.Gate == gate && s.Person == person && !s.At.After(e.At.Add(settling)) && s.Digest == digest && s.Result != "refused" {
			last = &l.Said[i]
		}
	}
	switch {
	case last == nil:
		a.add(Unapproved, e.Run, e.Seq, "the audit log knows of no approval of %s by %s", digest, person)
	case last.Action != "gate.approve":
		a.add(Unapproved, e.Run, e.Seq, "the last word of %s about %s was %s", person, digest, last.Action)
	case !slices.Contains(last.Roles, role):
		a.add(Unapproved, e.Run, e.Seq, "%s held %v when approving, and the role %s was asked for", person, last.Roles, role)
	}
}

// contributors are the requester and the people who made or restarted the run, up to an event.
func contributors(h *history, before int64) []string {
	all := []string{h.row.Person.String()}
	for i, ev := range h.read {
		if _, made := ev.Payload.(run.CreatedEvent); made && h.events[i].Seq < before && ev.By.Kind == run.Human {
			all = append(all, ev.By.ID)
		}
	}
	return all
}

// rules are those of a version, held to the version of the admission; false where a version is not known or cannot be read.
func (l Log) rules(tenant uuid.UUID, version, admitted string) (policy.Rules, bool) {
	read := func(version string) (policy.Rules, bool) {
		if version == policy.DefaultVersion {
			return policy.Default(), true
		}
		n := slices.IndexFunc(l.Policies, func(p Policy) bool { return p.Tenant == tenant && p.Version == version })
		if n < 0 {
			return policy.Rules{}, false
		}
		rules, err := policy.Parse([]byte(l.Policies[n].Document))
		return rules, err == nil
	}
	rules, ok := read(version)
	before, known := read(admitted)
	if !ok || !known {
		return rules, false
	}
	return rules.Within(before), true
}

// newest is what was in force at a time; the zero Policy for the defaults.
func (l Log) newest(tenant uuid.UUID, at time.Time) (newest Policy) {
	for _, p := range l.Policies {
		if p.Tenant == tenant && !p.At.After(at) && p.At.After(newest.At) {
			newest = p
		}
	}
	return newest
}

func (l Log) since(tenant uuid.UUID, version string) time.Time {
	for _, p := range l.Policies {
		if p.Tenant == tenant && p.Version == version {
			return p.At
		}
	}
	return time.Time{}
}

// Published lists how runs came to be published, after Findings.
func (l Log) Published() (all []Published) {
	a := &audit{ended: map[uuid.UUID]Ended{}, tokens: map[int64]uuid.UUID{}}
	events := map[uuid.UUID][]Event{}
	for _, e := range l.Events {
		events[e.Run] = append(events[e.Run], e)
	}
	for _, r := range l.Rows {
		h := &history{row: r, events: events[r.Run]}
		a.order(h)
		a.approvals(l, h)
	}
	return a.published
}

func (p Published) String() string { return fmt.Sprintf("%s by %s", p.Run, p.By) }
