package policy

import (
	"fmt"
	"slices"
)

// ChangeKind is what a draft would have done to one run.
type ChangeKind string

// Kinds of changes, in the order in which they are counted and shown.
const (
	ChangeRefused   ChangeKind = "refused"        // it would not have begun, or would have ended
	ChangeAdmitted  ChangeKind = "admitted"       // the policy in force refuses it, the draft does not
	ChangeAsked     ChangeKind = "asked"          // a person would have been asked, or another kind of person
	ChangeMore      ChangeKind = "more_approvals" // more people would have had to approve
	ChangeFewer     ChangeKind = "fewer_approvals"
	ChangeNotAsked  ChangeKind = "not_asked"
	ChangeAttested  ChangeKind = "attested" // somebody else would have had to attest
	ChangeUntouched ChangeKind = "not_attested"
)

// ChangeKinds lists every kind.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{ChangeRefused, ChangeAdmitted, ChangeAsked, ChangeMore, ChangeFewer, ChangeNotAsked, ChangeAttested, ChangeUntouched}
}

// Words say the kind of a number of runs: "would have been refused".
func (k ChangeKind) Words() string {
	return map[ChangeKind]string{ChangeRefused: "would have been refused", ChangeAdmitted: "would not have been refused any more",
		ChangeAsked: "would have asked a person where nobody was asked, or another role", ChangeMore: "would have needed more approvals",
		ChangeFewer: "would have needed fewer approvals", ChangeNotAsked: "would have asked a person less",
		ChangeAttested: "would have needed an attestation", ChangeUntouched: "would have needed no attestation any more"}[k]
}

// Change is one difference that a draft makes to a run, with the reason in words.
type Change struct {
	Kind  ChangeKind
	Words string
}

// Compare says what draft decides differently from now about one run whose facts are known: whether it may begin, what
// people are asked, and how many of them. What puts work off for a while is not compared. The facts differ in what each
// policy finds in the patch.
func Compare(now, draft Rules, f, ofDraft Facts) []Change {
	now, draft = now.Under(f), draft.Under(ofDraft)
	was, is := allowed(now, f), allowed(draft, ofDraft)
	switch {
	case len(was) == 0 && len(is) > 0:
		return []Change{{ChangeRefused, is[0]}}
	case len(was) > 0 && len(is) == 0:
		return []Change{{ChangeAdmitted, fmt.Sprintf("Policy %s refuses it: %s", now.Version, was[0])}}
	case len(was) > 0:
		return nil
	}
	changes := compareGates(GatePlan, Plan(now, f), Plan(draft, ofDraft))
	if f.Result != "" {
		a, b := Judged(now, f), Judged(draft, ofDraft)
		kind := GateReport
		if f.hasPatch() {
			kind = GatePatch
		}
		if hard(a) != hard(b) {
			k := ChangeRefused
			if hard(a) {
				k = ChangeAdmitted
			}
			return append(changes, Change{k, b.Reasons[0]})
		}
		if !hard(a) {
			changes = append(changes, compareGates(kind, a.Gate, b.Gate)...)
		}
	}
	x, _ := Attest(now, f)
	y, words := Attest(draft, ofDraft)
	switch {
	case y && !x:
		changes = append(changes, Change{ChangeAttested, words})
	case x && !y:
		changes = append(changes, Change{ChangeUntouched, fmt.Sprintf("Policy %s asks for no attestation.", draft.Version)})
	}
	return changes
}

// allowed are the reasons why work is refused by the rules themselves; none where it may begin.
func allowed(r Rules, f Facts) []string {
	if d := Admission(r, f); d.Verdict == Deny {
		return d.Reasons
	}
	return nil
}

// hard reports whether a result does not come to a person at all.
func hard(d JudgedDecision) bool {
	return slices.Contains([]JudgedOutcome{OutcomeFix, OutcomeExhausted, OutcomeFail, OutcomeBudget}, d.Outcome)
}

func compareGates(kind GateKind, a, b GateDecision) []Change {
	first := func(d GateDecision) string {
		if len(d.Reasons) == 0 {
			return fmt.Sprintf("Nobody is asked about the %s.", kind)
		}
		return d.Reasons[len(d.Reasons)-1]
	}
	switch {
	case !a.Gate && b.Gate:
		return []Change{{ChangeAsked, fmt.Sprintf("A person decides about the %s: %s", kind, first(b))}}
	case a.Gate && !b.Gate:
		return []Change{{ChangeNotAsked, fmt.Sprintf("Nobody decides about the %s any more.", kind)}}
	case !a.Gate:
		return nil
	}
	var out []Change
	switch {
	case b.Quorum > a.Quorum:
		out = append(out, Change{ChangeMore, fmt.Sprintf("The %s needs %d approvals instead of %d. %s", kind, b.Quorum, a.Quorum, first(b))})
	case b.Quorum < a.Quorum:
		out = append(out, Change{ChangeFewer, fmt.Sprintf("The %s needs %d approvals instead of %d.", kind, b.Quorum, a.Quorum)})
	}
	if a.Role != b.Role {
		k := ChangeAsked
		if a.Role == RoleAdmin {
			k = ChangeNotAsked
		}
		out = append(out, Change{k, fmt.Sprintf("The role %s decides about the %s instead of %s.", b.Role, kind, a.Role)})
	}
	return out
}
