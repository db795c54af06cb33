package policy

import (
	"slices"
	"strings"
)

// ChangeRules say how the policy itself may change.
type ChangeRules struct {
	// SecondAdmin asks that another administrator confirms a new version before it holds.
	SecondAdmin bool `yaml:"second_admin" json:"second_admin"`
}

// Within returns r held to the rules that work was admitted under: of each permission the stricter of the two, so that
// a policy that became looser loosens nothing that is under way. Limits, routing and what puts work off are not
// permissions.
func (r Rules) Within(admitted Rules) Rules {
	if r.Version == admitted.Version {
		return r
	}
	out, before := r, r.Gates
	for _, kind := range GateKinds() {
		*out.Gates.at(kind) = stricterGate(r.Gates.For(kind), admitted.Gates.For(kind))
	}
	out.Gates.LastInstructorMayNotApprove = stricterInstructor(r.Gates.LastInstructorMayNotApprove, admitted.Gates.LastInstructorMayNotApprove)
	out.Judge.MinConfidence = max(r.Judge.MinConfidence, admitted.Judge.MinConfidence)
	out.AutoPR.Allowed = r.AutoPR.Allowed && admitted.AutoPR.Allowed
	p, a := &out.Paths, admitted.Paths
	p.Forbidden, p.Protected = union(p.Forbidden, a.Forbidden), union(p.Protected, a.Protected)
	if a.ProtectedRisk.Rank() > p.ProtectedRisk.Rank() {
		p.ProtectedRisk = a.ProtectedRisk
	}
	p.generatedWithin(a)
	p.Symlinks, p.Binaries = p.Symlinks && a.Symlinks, p.Binaries && a.Binaries
	out.Gates.ConfirmLogin = union(r.Gates.ConfirmLogin, admitted.Gates.ConfirmLogin)
	out.Gates.AnyRejectBlocks = r.Gates.AnyRejectBlocks || admitted.Gates.AnyRejectBlocks
	if admitted.Execution.MinIsolation.Rank() > r.Execution.MinIsolation.Rank() {
		out.Execution.MinIsolation = admitted.Execution.MinIsolation
	}
	out.Execution.SameWorkerMayVerify = r.Execution.SameWorkerMayVerify && admitted.Execution.SameWorkerMayVerify
	out.Attestation.Required = r.Attestation.Required || admitted.Attestation.Required
	out.Rules = slices.Concat(r.Rules, slices.DeleteFunc(slices.Clone(admitted.Rules), func(x Rule) bool {
		return slices.ContainsFunc(r.Rules, func(y Rule) bool { return x.When == y.When && sameEffect(x.Then, y.Then) })
	}))
	if !sameGates(before, out.Gates) || out.AutoPR != r.AutoPR || out.Judge != r.Judge || len(out.Rules) > len(r.Rules) || out.Attestation != r.Attestation ||
		out.Execution != r.Execution || out.Gates.AnyRejectBlocks != before.AnyRejectBlocks {
		out.HeldTo = admitted.Version
	}
	return out
}

func sameEffect(a, b Tighten) bool { return a.words() == b.words() }

func sameGates(a, b GateRules) bool {
	for _, kind := range GateKinds() {
		x, y := a.For(kind), b.For(kind)
		if x.When != y.When || x.Quorum != y.Quorum || x.Role != y.Role || len(x.Risks) != len(y.Risks) {
			return false
		}
	}
	return true
}

func stricterGate(a, b GateRule) GateRule {
	out := a
	switch {
	case a.When == Always || b.When == Always:
		out.When = Always
	case a.When == ByRisk && b.When == ByRisk:
		out.Risks = union(a.Risks, b.Risks)
	case b.When == ByRisk:
		out.When, out.Risks = ByRisk, b.Risks
	}
	out.Quorum, out.Role = max(a.Quorum, b.Quorum), stricterRole(a.Role, b.Role)
	return out
}

// generatedWithin holds what is asked of generated files: more of them are forbidden, or fewer of them are enough.
func (p *PathRules) generatedWithin(a PathRules) {
	switch {
	case p.GeneratedRule == GeneratedForbid || a.GeneratedRule == GeneratedForbid:
		p.GeneratedRule, p.Generated = GeneratedForbid, union(p.Generated, a.Generated)
	case p.GeneratedRule == GeneratedRequire && a.GeneratedRule == GeneratedRequire:
		p.Generated, p.GeneratedSources = intersection(p.Generated, a.Generated), union(p.GeneratedSources, a.GeneratedSources)
	case a.GeneratedRule == GeneratedRequire:
		p.GeneratedRule, p.Generated, p.GeneratedSources = GeneratedRequire, a.Generated, a.GeneratedSources
	}
}

// stricterInstructor: barred where one of the two bars, by the quorum where one of the two leaves it to that.
func stricterInstructor(a, b *bool) *bool {
	for _, x := range []*bool{a, b} {
		if x != nil && *x {
			return x
		}
	}
	if a == nil {
		return a
	}
	return b
}

// Strictest stands for a version whose document cannot be read any more: a person is asked about everything, and nothing goes out
// by itself.
func Strictest(version string) Rules {
	r := Default()
	r.Version, r.AutoPR.Allowed, r.Attestation.Required, r.Execution.SameWorkerMayVerify = version, false, true, false
	for _, kind := range GateKinds() {
		r.Gates.at(kind).When = Always
	}
	return r
}

func intersection[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(x T) bool { return !slices.Contains(b, x) })
}

func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// held says in a sentence that the policy of the run's admission is the stricter one, or nothing.
func (r Rules) held() []string {
	if r.HeldTo == "" {
		return nil
	}
	return []string{strings.TrimSpace("The run was admitted under policy " + r.HeldTo + ", which asks for more in some points; what is stricter holds.")}
}
