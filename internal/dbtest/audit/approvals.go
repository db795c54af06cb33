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

// approvals asks of every run that reached PR_CREATING whether at that moment a quorum of the policy's size, as the policy's own rules
// raise it, stood for exactly the patch that is pushed, by people who held the role, each once, with no contributor and nobody who is
// barred among them (S12, T5, T6).
func (a *audit) approvals(l Log, h *history) {
	var r run.Run
	o := outgoing{log: l, h: h, quorums: map[uuid.UUID]quorum{}}
	for i, ev := range h.read {
		o.run, o.event = r, h.events[i]
		a.lets(&o, ev)
		res, err := run.Reduce(r, ev)
		if err != nil {
			return // said already
		}
		if res.Run.State == run.PRCreating && r.State != run.PRCreating {
			a.published = append(a.published, Published{o.event.Run, o.event.Seq, ev.Kind()})
			if res.Run.Patch == nil || o.clear == "" || o.clear != res.Run.Patch.Digest {
				a.add(Unapproved, o.event.Run, o.event.Seq, "%s publishes a patch that nothing let out", o.event.Kind)
			}
		}
		r = res.Run
	}
}

// outgoing is what is known of a run while its log is read.
type outgoing struct {
	log   Log
	h     *history
	run   run.Run // before the event
	event Event
	// clear is the digest of the patch that may go out; admitted the policy of the admission.
	clear, admitted string
	// judge is what was said when a gate was asked for last, instructor who sent the patch back last.
	judge      run.JudgeEvidence
	instructor string
	quorums    map[uuid.UUID]quorum // of satisfied gates
}

// quorum is who approved which change.
type quorum struct {
	patchID string
	people  []string
}

// lets looks at one event that lets a patch out, or may bear on it later.
func (a *audit) lets(o *outgoing, ev run.Event) {
	bad := func(why string, args ...any) { a.add(Unapproved, o.event.Run, o.event.Seq, why, args...) }
	atPatch := o.run.Gate != nil && o.run.Gate.Kind == run.GatePatch
	switch p := ev.Payload.(type) {
	case run.CreatedEvent:
		if len(o.h.row.Asked) == 0 || o.h.row.Asked[0] != o.h.row.Person.String() {
			bad("by its own log %v asked for the task, and %s is stored", o.h.row.Asked, o.h.row.Person)
		}
	case run.EnqueuedEvent:
		o.admitted = p.PolicyVersion
	case run.HumanApprovalRequiredEvent:
		o.judge = p.Judge
	case run.ChangesRequestedEvent:
		if atPatch {
			o.instructor = ev.By.ID
		}
	case run.AutoPRAllowedEvent:
		o.clear = o.run.Patch.Digest
		rules, ok := a.rules(o, p.Policy, p.Judge)
		if !ok || !rules.AutoPR.Allowed || rules.Gates.Patch.When == policy.Always || len(rules.Fired.Denied) > 0 {
			bad("policy %s does not let this out without a person", p.Policy.Version)
		}
	case run.ApprovalCarriedEvent:
		from := o.quorums[p.From]
		o.clear = o.run.Patch.Digest
		if from.patchID == "" || from.patchID != o.run.Patch.PatchID {
			bad("an approval of another change than %s was carried over", o.run.Patch.PatchID)
		}
		for _, d := range p.Deciders {
			if !slices.Contains(from.people, d.ID) {
				bad("%s is said to have approved before, and did not", d.ID)
			}
		}
		rules, _ := a.rules(o, p.Policy, p.Judge)
		a.counted(o, rules, p.Policy, p.Deciders)
	case run.ApprovedEvent:
		if atPatch {
			o.clear = o.run.Patch.Digest
			o.quorums[p.Gate.ID] = quorum{o.run.Patch.PatchID, a.quorum(o, p.Approval)}
		}
	case run.GateBypassedEvent:
		if atPatch {
			o.clear = o.run.Patch.Digest
			if rules, ok := a.rules(o, p.Policy, o.judge); !ok || len(rules.Fired.Denied) > 0 {
				bad("policy %s lets nobody bypass this gate", p.Policy.Version)
			}
		}
	case run.ApprovalWithdrawnEvent:
		o.clear = ""
	}
}

// quorum looks at one approval of a patch, and returns who made it.
func (a *audit) quorum(o *outgoing, p run.Approval) (people []string) {
	r, e, l, tenant := o.run, o.event, o.log, o.h.row.Tenant
	bad := func(why string, args ...any) { a.add(Unapproved, e.Run, e.Seq, why, args...) }
	// The digest is made here again from the log alone.
	digest := evidence.RevisionDigest(evidence.Revision{Kind: string(run.GatePatch), Repository: o.h.row.Repository, Base: r.Patch.Base, Content: []byte(r.Patch.Digest), ResultTree: r.Patch.Tree, VerificationDigest: r.Verification})
	if p.Gate.ID != r.Gate.ID || p.Gate.Revision != r.Gate.Revision || p.Gate.Digest != r.Gate.Digest || p.Gate.Digest != digest {
		bad("what was approved is %+v; the gate shows revision %d, %s, and the patch is %s", p.Gate, r.Gate.Revision, r.Gate.Digest, digest)
	}
	rules, ok := a.rules(o, p.Policy, o.judge)
	if newer := l.newest(tenant, e.At.Add(-settling)); !ok || newer.At.After(l.since(tenant, p.Policy.Version)) {
		bad("it was decided under policy %q, and %q was in force for longer than %s", p.Policy.Version, newer.Version, settling)
	}
	if len(rules.Fired.Denied) > 0 {
		bad("policy %s refuses this work, and it was approved", p.Policy.Version)
	}
	people = a.counted(o, rules, p.Policy, p.Deciders)
	for _, id := range people {
		a.said(l, typeid.Format(typeid.Gate, p.Gate.ID), id, digest, string(rules.Gates.Patch.Role), e)
	}
	return people
}

// counted asks of each person whose approval is said to count whether it may, and of all whether they are enough.
func (a *audit) counted(o *outgoing, rules policy.Rules, words run.PolicyWords, deciders []run.Actor) (people []string) {
	bad := func(why string, args ...any) { a.add(Unapproved, o.event.Run, o.event.Seq, why, args...) }
	need := max(rules.Gates.Patch.Quorum, 1)
	barred := need >= 2
	if b := rules.Gates.LastInstructorMayNotApprove; b != nil {
		barred = *b
	}
	for _, d := range deciders {
		switch {
		case d.Kind != run.Human:
			bad("a %s is counted as an approval", d.Kind)
		case slices.Contains(people, d.ID):
			bad("%s is counted twice", d.ID)
		case slices.Contains(o.contributors(), d.ID):
			bad("%s had a part in the change and is counted as an approval", d.ID)
		case barred && d.ID == o.instructor:
			bad("%s wrote the last change request, which policy %s bars, and is counted as an approval", d.ID, words.Version)
		}
		people = append(people, d.ID)
	}
	if len(people) < need {
		bad("%d approved, policy %s held to %s asks for %d", len(people), words.Version, o.admitted, need)
	}
	return people
}

// contributors are who asked for the task and the people who made or restarted the run, up to the event.
func (o *outgoing) contributors() []string {
	all := append([]string{o.h.row.Person.String()}, o.h.row.Asked...)
	for i, ev := range o.h.read {
		if _, made := ev.Payload.(run.CreatedEvent); made && o.h.events[i].Seq < o.event.Seq && ev.By.Kind == run.Human {
			all = append(all, ev.By.ID)
		}
	}
	return all
}

// rules are those of the version that decided, held to the version of the admission, with the effect of the policy's own rules. What
// these were asked with stands in the event; where the log itself knows better, it is compared: all but the names of paths, the requester's
// roles, and what the task asks for. False where a version is not known.
func (a *audit) rules(o *outgoing, words run.PolicyWords, judge run.JudgeEvidence) (policy.Rules, bool) {
	rules, ok := o.log.rules(o.h.row.Tenant, words.Version, o.admitted)
	if !ok || len(rules.Rules) == 0 {
		return rules, ok
	}
	f := words.Facts
	if f == nil {
		a.add(Unapproved, o.event.Run, o.event.Seq, "policy %s has rules of its own, and the event does not say what they were asked with", words.Version)
		return rules, false
	}
	r := o.run
	for what, same := range map[string]bool{
		"requester": f.Requester == o.h.row.Person.String(), "risk": string(f.Risk) == r.Risk, "mode": string(f.Mode) == string(r.Mode), "result": string(f.Result) == string(r.Outcome),
		"changed_files": f.ChangedFiles == r.Patch.Files, "added_lines": f.AddedLines == r.Patch.Added, "removed_lines": f.RemovedLines == r.Patch.Removed,
		"verdict": string(f.Verdict) == judge.Verdict, "confidence": f.Confidence == judge.Confidence,
	} {
		if !same {
			a.add(Unapproved, o.event.Run, o.event.Seq, "the rules of policy %s were asked with another %s than the log has", words.Version, what)
		}
	}
	return rules.Under(*f), true
}

// said finds the person's approval in the audit log: it names the same content, the person held the role, and it is the last word before
// all was decided. What was said beyond the quorum decided nothing.
func (a *audit) said(l Log, gate, person, digest, role string, e Event) {
	var last *Said
	for i, s := range l.Said {
		if s.Action != "gate.approve" && s.At.After(e.At) {
			continue // said when all was decided
		}
		if s.Gate == gate && s.Person == person && !s.At.After(e.At.Add(settling)) && s.Digest == digest && s.Result != "refused" && s.Result != "extra" {
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
