package policy

// Foreseen are the decisions that lie ahead of work which was not asked for yet, under the rules of this moment.
type Foreseen struct {
	Admission AdmissionDecision
	Plan      GateDecision
	// Result is about a result without any fault: verified, clean, passed by a judge who is certain. What comes with it
	// comes with every other result as well.
	Result JudgedDecision
	// Protected is the same result that touches a protected path, which nobody can know before.
	Protected JudgedDecision
	// Attested says why somebody else must attest the result before the work is complete, or is empty.
	Attested string
}

// Foresee asks every decision that lies ahead of the task that f describes. It decides nothing itself: each answer is that of the
// function which decides later, over the same facts and the best result there can be.
func Foresee(r Rules, f Facts) Foreseen {
	out := Foreseen{Admission: Admission(r, f), Plan: Plan(r, f)}
	f.Result = ResultPatch
	if !f.Mode.HasPatch() {
		f.Result = ResultReport
	}
	f.VerificationPassed, f.Verdict, f.Confidence, f.SecretScan, f.BudgetLeft = true, VerdictPass, 1, ScanClean, true
	out.Result = Judged(r, f)
	if _, words := Attest(r, f); words != "" {
		out.Attested = words
	}
	if f.hasPatch() {
		f.ProtectedHits = []string{"a protected path"}
		out.Protected = Judged(r, f)
	}
	return out
}

// Approvers are those of the people who may approve a gate of the kind about the work that f describes, before anybody had another
// part in it.
func Approvers(r Rules, f Facts, kind GateKind, people []Actor) []Actor {
	f.Gate = GateFacts{Kind: kind}
	var out []Actor
	for _, p := range people {
		if may, _ := MayDecide(r, f, p, Approve); may {
			out = append(out, p)
		}
	}
	return out
}
