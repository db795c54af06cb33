package policy

import (
	"fmt"
	"strings"
)

// GuardName names one guard of an automatic pull request.
type GuardName string

// The guards of SM 10, in the order in which they are shown.
const (
	GuardVerifier   GuardName = "verifier_passed"
	GuardJudge      GuardName = "judge_passed"
	GuardSecrets    GuardName = "secret_scan_clean"
	GuardForbidden  GuardName = "no_forbidden_path"
	GuardGenerated  GuardName = "generated_file_policy"
	GuardAutoPR     GuardName = "automatic_pr_allowed"
	GuardBudget     GuardName = "budget_left"
	GuardRisk       GuardName = "risk_not_high"
	guardNameNumber           = 8
)

// GuardNames lists every guard.
func GuardNames() []GuardName {
	return []GuardName{
		GuardVerifier, GuardJudge, GuardSecrets, GuardForbidden,
		GuardGenerated, GuardAutoPR, GuardBudget, GuardRisk,
	}
}

// Overridable reports whether a person's approval may stand in for the guard:
// judge confidence, the automatic-PR switch and risk. Secret scan, forbidden
// paths and generated-file policy never; verification and budget are settled
// by their own transitions.
func (g GuardName) Overridable() bool {
	return g == GuardJudge || g == GuardAutoPR || g == GuardRisk
}

// Guard is one guard's answer, with its reason in words.
type Guard struct {
	Name   GuardName `json:"name"`
	Passed bool      `json:"passed"`
	Words  string    `json:"words"`
}

// JudgedOutcome is what becomes of a run whose judge has reported.
type JudgedOutcome string

// Outcomes of JUDGING.
const (
	OutcomeComplete  JudgedOutcome = "complete"  // completion_condition_met
	OutcomeGate      JudgedOutcome = "gate"      // human_approval_required
	OutcomeAutoPR    JudgedOutcome = "auto_pr"   // auto_pr_allowed
	OutcomeCarried   JudgedOutcome = "carried"   // approval_carried
	OutcomeAttest    JudgedOutcome = "attest"    // attestation_required
	OutcomeFix       JudgedOutcome = "fix"       // judge_requires_fix
	OutcomeExhausted JudgedOutcome = "exhausted" // attempt_exhausted
	OutcomeBudget    JudgedOutcome = "budget"    // budget_exceeded
	OutcomeFail      JudgedOutcome = "fail"      // non_retryable_failure
)

// JudgedDecision is what Judged answers. Gate is set with OutcomeGate.
type JudgedDecision struct {
	Outcome       JudgedOutcome `json:"outcome"`
	Guards        []Guard       `json:"guards"`
	Gate          GateDecision  `json:"gate"`
	Code          string        `json:"code"` // reason code of fix, exhausted and fail
	Reasons       []string      `json:"reasons"`
	EffectiveRisk Risk          `json:"effective_risk"`
	PolicyVersion string        `json:"policy_version"`
}

// Reason codes of failed judgements.
const (
	CodeJudgeRejected  = "JUDGE_REJECTED"
	CodeNotVerified    = "VERIFIER_FAILED"
	CodeSecretFound    = "SECRET_FOUND"
	CodeNotScanned     = "PATCH_NOT_SCANNED"
	CodeForbiddenPath  = "FORBIDDEN_PATH"
	CodeGeneratedFiles = "GENERATED_FILE_POLICY"
	CodeBudget         = "BUDGET_EXCEEDED"
)

// EffectiveRisk is the task's risk, raised by protected paths and by hidden
// text in the patch, with the reasons for raising it.
func EffectiveRisk(r Rules, f Facts) (Risk, []string) {
	r = r.Under(f)
	risk, why := f.Risk, []string{}
	if !risk.Valid() {
		risk = RiskCritical
		why = append(why, "The task's risk is not known, so it counts as CRITICAL.")
	}
	raise := func(to Risk, words string) {
		if to.Rank() > risk.Rank() {
			risk = to
		}
		why = append(why, words)
	}
	if len(f.ProtectedHits) > 0 {
		raise(r.Paths.ProtectedRisk, fmt.Sprintf("The patch touches protected paths: %s.", list(f.ProtectedHits)))
	}
	if len(f.HiddenText) > 0 {
		raise(RiskHigh, fmt.Sprintf("The patch holds invisible or reordering characters: %s.", list(f.HiddenText)))
	}
	for _, words := range r.Fired.Risen {
		raise(r.Fired.Floor, words)
	}
	return risk, why
}

// Guards evaluates the eight guards of SM 10 over the facts. For a result
// without a patch, those about the patch pass and say why. R-TRN-8.
func Guards(r Rules, f Facts) []Guard {
	r = r.Under(f)
	patch := f.hasPatch()
	risk, riskWhy := EffectiveRisk(r, f)
	out := make([]Guard, 0, guardNameNumber)
	add := func(n GuardName, passed bool, good, bad string) {
		words := good
		if !passed {
			words = bad
		}
		out = append(out, Guard{Name: n, Passed: passed, Words: words})
	}
	none := "There is no patch, so there is nothing to check."
	if !patch {
		add(GuardVerifier, true, none, "")
	} else {
		add(GuardVerifier, f.VerificationPassed, "Verification passed for exactly this patch.", "Verification did not pass for this patch.")
	}
	confident := f.Confidence >= r.Judge.MinConfidence // false for NaN
	add(GuardJudge, f.Verdict == VerdictPass && confident,
		fmt.Sprintf("The judge passed it with confidence %.2f (at least %.2f is asked).", f.Confidence, r.Judge.MinConfidence),
		judgeWords(r, f))
	if !patch {
		add(GuardSecrets, true, none, "")
		add(GuardForbidden, true, none, "")
		add(GuardGenerated, true, none, "")
	} else {
		add(GuardSecrets, f.SecretScan == ScanClean && len(f.SecretFindings) == 0, "The secret scan of the patch is clean.", secretWords(f))
		add(GuardForbidden, len(f.ForbiddenHits) == 0, "No forbidden path is touched.",
			fmt.Sprintf("Forbidden content: %s.", list(f.ForbiddenHits)))
		add(GuardGenerated, len(f.GeneratedViolations) == 0, "The policy for generated files is kept.",
			fmt.Sprintf("The policy for generated files is broken: %s.", list(f.GeneratedViolations)))
	}
	add(GuardAutoPR, f.AutoPRAsked && r.AutoPR.Allowed, "Task and policy both allow a pull request without a person.", autoWords(r, f))
	add(GuardBudget, f.BudgetLeft, "Budget is left.", "The budget is spent."+spaced(f.BudgetWords))
	add(GuardRisk, risk.Rank() < RiskHigh.Rank(), fmt.Sprintf("Risk is %s.", risk),
		fmt.Sprintf("Risk is %s: a person has to look.%s", risk, spaced(strings.Join(riskWhy, " "))))
	return out
}

// Judged decides what becomes of a run whose judge reported, from rules and
// facts alone. Hard failures come first, then what people must see, then the
// automatic ways on. R-TRN-8, R-TRN-12, R-TRN-13, R-TRN-14.
func Judged(r Rules, f Facts) JudgedDecision {
	if f.Result == "" {
		f.Result = ResultPatch
	}
	r = r.Under(f)
	d := JudgedDecision{Guards: Guards(r, f), Reasons: []string{}, PolicyVersion: r.Version}
	d.EffectiveRisk, _ = EffectiveRisk(r, f)
	failed := map[GuardName]Guard{}
	for _, g := range d.Guards {
		if !g.Passed {
			failed[g.Name] = g
		}
	}
	if f.Verdict == VerdictFail || (f.Verdict != VerdictPass && f.Verdict != VerdictFix) {
		return d.end(OutcomeFail, CodeJudgeRejected, failed[GuardJudge].Words)
	}
	if denied := r.Fired.Denied; len(denied) > 0 {
		return d.end(OutcomeFail, CodeRule, strings.Join(denied, " "))
	}
	for _, hard := range []struct {
		name GuardName
		code string
	}{
		{GuardVerifier, CodeNotVerified}, {GuardSecrets, CodeSecretFound},
		{GuardForbidden, CodeForbiddenPath}, {GuardGenerated, CodeGeneratedFiles},
	} {
		g, bad := failed[hard.name]
		switch {
		case !bad:
		case hard.name == GuardSecrets && len(f.SecretFindings) == 0:
			// Nobody can repair what nobody could read: a patch that was
			// not scanned is not a patch that an agent can be asked to fix.
			return d.end(OutcomeFail, CodeNotScanned, g.Words)
		default:
			return d.again(f, hard.code, g.Words)
		}
	}
	if f.Verdict == VerdictFix {
		return d.again(f, CodeJudgeRejected, failed[GuardJudge].Words)
	}
	if g, bad := failed[GuardBudget]; bad {
		return d.end(OutcomeBudget, CodeBudget, g.Words)
	}
	return d.passed(r, f, failed)
}

// passed goes on where the judge passed and no hard guard failed.
func (d JudgedDecision) passed(r Rules, f Facts, failed map[GuardName]Guard) JudgedDecision {
	kind := GateReport
	if f.hasPatch() {
		kind = GatePatch
	}
	opensPR := f.Mode.OpensPR() && f.hasPatch()
	rule := r.Gates.For(kind)
	why := []string{}
	switch {
	case rule.When == Always:
		why = append(why, fmt.Sprintf("Policy %s always asks a person about a %s.", r.Version, kind))
	case rule.When == ByRisk && anyFrom(rule.Risks, f.Risk, d.EffectiveRisk):
		why = append(why, fmt.Sprintf("Policy %s asks a person about a %s of risk %s.", r.Version, kind, d.EffectiveRisk))
	}
	for _, n := range []GuardName{GuardJudge, GuardRisk, GuardAutoPR} {
		g, bad := failed[n]
		// The switch is about pull requests; risk of a report is a matter of
		// the gate's own rule, since nothing changes by it.
		skip := n == GuardAutoPR && !opensPR || n == GuardRisk && !f.hasPatch()
		if bad && !skip {
			why = append(why, g.Words)
		}
	}
	if len(why) > 0 {
		if opensPR && f.CarriedApprovals >= max(rule.Quorum, 1) {
			return d.end(OutcomeCarried, "", fmt.Sprintf(
				"%d people approved an equal patch on the earlier base, which policy %s still accepts.", f.CarriedApprovals, r.Version))
		}
		why = append(append(why, r.Fired.Words...), r.held()...)
		d.Gate = GateDecision{Gate: true, Kind: kind, Quorum: max(rule.Quorum, 1), Role: rule.Role, Reasons: why, PolicyVersion: r.Version}
		d.Outcome, d.Reasons = OutcomeGate, why
		return d
	}
	if opensPR {
		return d.end(OutcomeAutoPR, "", fmt.Sprintf("Every guard passed and policy %s allows a pull request without a person.", r.Version))
	}
	if ask, words := Attest(r, f); ask {
		return d.end(OutcomeAttest, "", words)
	}
	return d.end(OutcomeComplete, "", "The judge passed it and no person is asked.")
}

// again sends the run back for a repair, or says that the attempt is spent.
func (d JudgedDecision) again(f Facts, code, words string) JudgedDecision {
	switch {
	case !f.BudgetLeft:
		// A repair costs money: the budget's own transition decides first.
		return d.end(OutcomeBudget, CodeBudget, words+" The budget is spent, so no repair can begin."+spaced(f.BudgetWords))
	case f.RepairRoundsLeft > 0 && !f.SameFailureAgain:
		return d.end(OutcomeFix, code, words)
	case f.AttemptsLeft > 0:
		return d.end(OutcomeExhausted, code, words+" No repair round is left in this attempt.")
	default:
		return d.end(OutcomeFail, code, words+" No attempt is left.")
	}
}

func (d JudgedDecision) end(o JudgedOutcome, code, words string) JudgedDecision {
	d.Outcome, d.Code, d.Reasons = o, code, []string{words}
	return d
}

// Attest reports whether contract or policy asks for an attestation.
func Attest(r Rules, f Facts) (bool, string) {
	r = r.Under(f)
	switch {
	case r.Attestation.Required:
		return true, fmt.Sprintf("Policy %s asks for an attestation by an identity that did not do the work.", r.Version)
	case f.AttestationAsked:
		return true, "The task's contract asks for an attestation by an identity that did not do the work."
	default:
		return false, ""
	}
}

// MayOverride reports whether a person's approval may go ahead over the
// guards that did not pass, and names the one that forbids it.
func MayOverride(guards []Guard) (bool, string) {
	for _, g := range guards {
		if !g.Passed && !g.Name.Overridable() {
			return false, "Nothing was approved: " + lowerFirst(g.Words) + " No person can override this; ask for changes instead."
		}
	}
	return true, ""
}

func (f Facts) hasPatch() bool { return f.Result != ResultReport && f.Result != ResultNoChange }

func judgeWords(r Rules, f Facts) string {
	why := ""
	if len(f.JudgeReasons) > 0 {
		why = " " + strings.Join(f.JudgeReasons, " ")
	}
	switch f.Verdict {
	case VerdictPass:
		return fmt.Sprintf("The judge's confidence is %.2f; at least %.2f is asked.%s", f.Confidence, r.Judge.MinConfidence, why)
	case VerdictFix:
		return "The judge asks for a fix." + why
	case VerdictFail:
		return "The judge refused it." + why
	default:
		return "The judge has not reported."
	}
}

func secretWords(f Facts) string {
	if len(f.SecretFindings) > 0 {
		return fmt.Sprintf("The secret scan found something that looks like a secret: %s.", list(f.SecretFindings))
	}
	return "The patch was not scanned for secrets, which does not count as clean."
}

func autoWords(r Rules, f Facts) string {
	switch {
	case !f.AutoPRAsked && !r.AutoPR.Allowed:
		return "Neither task nor policy allows a pull request without a person."
	case !f.AutoPRAsked:
		return "The task does not ask for a pull request without a person."
	default:
		return fmt.Sprintf("Policy %s does not allow a pull request without a person.", r.Version)
	}
}

// list joins untrusted words for a sentence: quoted, at most five.
func list(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i == 5 {
			fmt.Fprintf(&b, " and %d more", len(words)-5)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		if len(w) > 200 {
			w = w[:200]
		}
		b.WriteString(quote(w))
	}
	return b.String()
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
