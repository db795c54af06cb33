package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GateDecision says whether a person is asked, how many, and who.
type GateDecision struct {
	Gate          bool     `json:"gate"`
	Kind          GateKind `json:"kind,omitempty"`
	Quorum        int      `json:"quorum,omitempty"`
	Role          Role     `json:"role,omitempty"`
	Reasons       []string `json:"reasons"`
	PolicyVersion string   `json:"policy_version"`
}

// Plan decides whether a person is asked about the plan. A plan with the
// digest that was approved passes again; another digest asks again.
func Plan(r Rules, f Facts) GateDecision {
	r = r.Under(f)
	d := GateDecision{Kind: GatePlan, Reasons: []string{}, PolicyVersion: r.Version}
	risk := f.Risk
	if !risk.Valid() {
		risk = RiskCritical
	}
	rule, known, risk := r.Gates.Plan, risk, r.risk(risk)
	asked := ""
	switch {
	case rule.When == Always:
		asked = fmt.Sprintf("Policy %s always asks a person about the plan.", r.Version)
	case rule.When == ByRisk && anyFrom(rule.Risks, known, risk):
		asked = fmt.Sprintf("Policy %s asks a person about a plan of risk %s.", r.Version, risk)
	case f.PlanGateAsked:
		asked = "The task asks for a person to approve the plan."
	}
	switch {
	case asked == "":
		d.Reasons = append(d.Reasons, fmt.Sprintf("Policy %s asks nobody about a plan of risk %s.", r.Version, risk))
	case f.PlanDigest != "" && f.PlanDigest == f.ApprovedPlanDigest:
		d.Reasons = append(d.Reasons, "Exactly this plan was approved before.")
	default:
		d.Gate, d.Quorum, d.Role = true, max(rule.Quorum, 1), rule.Role
		d.Reasons = append(d.Reasons, asked)
		d.Reasons = append(append(d.Reasons, r.Fired.Words...), r.held()...)
		if f.ApprovedPlanDigest != "" {
			d.Reasons = append(d.Reasons, "An earlier plan was approved, but this one is different.")
		}
	}
	return d
}

// lastInstructorBarred resolves the rule's default for one gate kind.
func (g GateRules) lastInstructorBarred(kind GateKind) bool {
	if g.LastInstructorMayNotApprove != nil {
		return *g.LastInstructorMayNotApprove
	}
	return g.For(kind).Quorum >= 2
}

// MayDecide reports whether the actor may give this verdict on f.Gate, with a
// sentence that says why not. Contributors never approve, admins are not
// exempt, and only a person with a live login decides. R-DOM-11, D-16, D-17.
func MayDecide(r Rules, f Facts, by Actor, verdict GateVerdict) (bool, string) {
	r = r.Under(f)
	g := f.Gate
	role := r.Gates.For(g.Kind).Role
	switch {
	case !by.LivePerson || by.User == "":
		return false, "Nothing was decided: only a person with a live login decides at a gate, never an API or worker token. Sign in and try again."
	case !has(by.Roles, role):
		return false, fmt.Sprintf("Nothing was decided: this gate asks for the role %s, which you do not hold.", role)
	case verdict != Approve && verdict != RequestChanges && verdict != Reject:
		return false, "Nothing was decided: the decision must be approve, request changes or reject."
	case verdict == RequestChanges && (g.Kind == GateBudget || g.Kind == GateReconcile):
		return false, fmt.Sprintf("Nothing was decided: a %s gate is approved or rejected; there is no change to ask for.", g.Kind)
	}
	if verdict != Approve {
		return true, ""
	}
	switch {
	case g.Expired:
		return false, "Nothing was approved: this gate has expired. Ask again first, then approve the new revision."
	case len(r.Fired.Denied) > 0:
		return false, "Nothing was approved: " + lowerFirst(strings.Join(r.Fired.Denied, " "))
	case by.User == f.Requester:
		return false, "Nothing was approved: you asked for this change, so another person must approve it."
	case has(g.Contributors, by.User):
		return false, "Nothing was approved: you had a part in this change, and another person must approve it."
	case by.User == g.LastInstructor && r.Gates.lastInstructorBarred(g.Kind):
		return false, "Nothing was approved: you wrote the last change request, and policy asks that another person approves the result."
	}
	for _, d := range g.Decisions {
		if d.User == by.User && d.Verdict == Approve {
			return false, "You approved this revision already; another person is needed."
		}
	}
	return true, ""
}

// MayBypass reports whether the actor may break the glass. Step-up login,
// reason and banner are the caller's to enforce; the right is its own role.
func MayBypass(f Facts, by Actor) (bool, string) {
	switch {
	case !by.LivePerson || by.User == "":
		return false, "Nothing was bypassed: only a person with a live login may do that."
	case !has(by.Roles, RoleBreakglass):
		return false, "Nothing was bypassed: this asks for the role breakglass, which you do not hold."
	case f.Gate.Expired:
		return false, "Nothing was bypassed: this gate has expired. Ask again first."
	default:
		return true, ""
	}
}

// Bypassable reports whether breaking the glass may open f.Gate at all: in place of approvals, never of what no person's approval
// opens either.
func Bypassable(r Rules, f Facts) (bool, string) {
	r = r.Under(f)
	if k := f.Gate.Kind; k == GateBudget || k == GateReconcile {
		return false, fmt.Sprintf("Nothing was bypassed: a %s gate is decided by a person with its role.", k)
	}
	if len(r.Fired.Denied) > 0 {
		return false, "Nothing was bypassed: " + lowerFirst(strings.Join(r.Fired.Denied, " "))
	}
	if len(Rejecters(r, f)) > 0 {
		return false, "Nothing was bypassed: somebody was asked and rejected this, and by policy a rejection stands until whoever gave it approves."
	}
	if f.Gate.Kind == GatePatch {
		if ok, why := MayOverride(Guards(r, f)); !ok {
			return false, why
		}
	}
	return true, ""
}

// Tally is what the decisions on one gate revision amount to.
type Tally struct {
	Approvals int `json:"approvals"`
	Needed    int `json:"needed"` // quorum
	// By are the ids of those whose approvals count.
	By []string `json:"-"`
	// At most one of these holds; none means the gate stays open.
	Satisfied        bool   `json:"satisfied"`
	ChangesRequested bool   `json:"changes_requested"`
	Rejected         bool   `json:"rejected"`
	Blocked          bool   `json:"blocked"` // a reject stands (any_reject_blocks)
	Words            string `json:"words"`
}

// Count tallies f.Gate.Decisions under the quorum of r. An approval by a
// contributor counts for nothing, whenever it was let in; each person counts
// once, by their last word.
func Count(r Rules, f Facts) Tally {
	r = r.Under(f)
	g := f.Gate
	t := Tally{Needed: max(r.Gates.For(g.Kind).Quorum, 1)}
	last := map[string]GateVerdict{}
	for _, d := range g.Decisions {
		last[d.User] = d.Verdict
		switch {
		case d.Verdict == RequestChanges:
			t.ChangesRequested, t.Words = true, "A person asked for changes."
			return t
		case d.Verdict == Reject && !r.Gates.AnyRejectBlocks:
			t.Rejected, t.Words = true, "A person rejected it."
			return t
		}
	}
	rejects := 0
	for user, v := range last {
		barred := user == f.Requester || has(g.Contributors, user) ||
			user == g.LastInstructor && r.Gates.lastInstructorBarred(g.Kind)
		switch {
		case v == Approve && !barred && user != "":
			t.Approvals++
			t.By = append(t.By, user)
		case v == Reject:
			rejects++
		}
	}
	switch {
	case rejects > 0:
		t.Blocked, t.Words = true, fmt.Sprintf("%d of %d approvals, but a reject stands and blocks.", t.Approvals, t.Needed)
	case t.Approvals >= t.Needed:
		t.Satisfied, t.Words = true, fmt.Sprintf("%d of %d approvals.", t.Approvals, t.Needed)
	default:
		t.Words = fmt.Sprintf("%d of %d approvals; %d more needed.", t.Approvals, t.Needed, t.Needed-t.Approvals)
	}
	return t
}

// ConfirmAge is how long ago a person may have proven who they are, where a gate's risk asks for it.
const ConfirmAge = 15 * time.Minute

// ConfirmsLogin reports whether an approval of this moment needs a person who proves again who they are: the risk asks for it,
// and proven, the time when they did so last, is too long ago or not known (zero).
func ConfirmsLogin(r Rules, f Facts, proven, now time.Time) bool {
	risk, _ := EffectiveRisk(r, f)
	return slices.Contains(r.Gates.ConfirmLogin, risk) && (proven.IsZero() || now.Sub(proven) > ConfirmAge)
}
