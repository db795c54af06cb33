package run

import (
	"slices"
	"strings"
)

func (m *move) verificationStarted(p VerificationStartedEvent) error {
	if p.Digest == "" {
		return evidence("the fixed command set")
	}
	m.r.State = Verifying
	return nil
}

// reportFits holds that a report speaks of exactly the patch the run stands on.
func (m *move) reportFits(v VerificationEvidence) error {
	if v.Artifact == "" || v.Digest == "" {
		return evidence("the verification report")
	}
	if m.r.Patch == nil || v.Patch != m.r.Patch.Digest {
		return &GuardError{Guard: "verification", Sentence: "The report is about another patch than the stored one."}
	}
	return nil
}

func (m *move) verificationPassed(p VerificationPassedEvent) error {
	if err := m.reportFits(p.Report); err != nil {
		return err
	}
	m.r.Verification = p.Report.Digest
	m.r.State = Judging
	return nil
}

func (m *move) verificationFailed(p VerificationFailedEvent) error {
	if err := m.reportFits(p.Report); err != nil {
		return err
	}
	return m.repair("verifier", p.Report.Summary, p.Report.Artifact)
}

func (m *move) judgeRequiresFix(p JudgeRequiresFixEvent) error {
	if err := m.judgeable(); err != nil {
		return err
	}
	return m.repair("judge", strings.Join(slices.Concat(p.Judge.Reasons, p.Policy.Reasons), " "), p.Judge.Artifact)
}

// repair sends the work back to the agent with feedback, within its rounds.
func (m *move) repair(source, text, artifact string) error {
	if !m.r.RepairsLeft() {
		return &GuardError{Guard: "repairs", Sentence: "No repair round is left in this attempt."}
	}
	m.r.Repairs++
	m.r.Verification, m.r.Verdict = "", ""
	m.r.State = Executing
	m.do(GiveFeedback{Source: source, Text: text, Artifact: artifact})
	m.enqueue(PhaseExecute, 0)
	return nil
}

func (m *move) attemptExhausted(p AttemptExhaustedEvent) error {
	switch {
	case !m.r.AttemptsLeft():
		return &GuardError{Guard: "attempts", Sentence: "No attempt is left."}
	case m.r.RepairsLeft() && !p.Identical:
		return &GuardError{Guard: "repairs", Sentence: "A repair round is left in this attempt."}
	case p.Code == "":
		return evidence("a reason code")
	}
	source := "verifier"
	if m.r.State == Judging {
		source = "judge"
	}
	m.do(EndAttempt{Attempt: m.r.Attempt, As: AttemptFailed, Code: p.Code},
		GiveFeedback{Source: source, Text: p.Summary, Artifact: p.Evidence})
	m.again()
	m.enqueue(PhaseExecute, 0)
	return nil
}

// judgeable is the invariant of JUDGING: a patch with its verification report,
// an analysis report, or a no-change record. A verdict without one is refused.
func (m *move) judgeable() error {
	switch m.r.Outcome {
	case OutcomePatch:
		if m.r.Patch == nil || m.r.Verification == "" {
			return evidence("the verification report for the patch")
		}
	case OutcomeReport, OutcomeNoChange:
		if m.r.Report == "" {
			return evidence("the report")
		}
	default:
		return evidence("a patch, a report or a no-change record")
	}
	return nil
}

func (m *move) humanApprovalRequired(p HumanApprovalRequiredEvent) error {
	if err := m.judgeable(); err != nil {
		return err
	}
	if p.Judge.Verdict == "" {
		return evidence("the judge's verdict")
	}
	m.r.Verdict = p.Judge.Verdict
	if m.r.Outcome == OutcomePatch {
		return m.ask(GatePatch, p.Gate, m.r.Patch.Revision, "")
	}
	return m.ask(GateReport, p.Gate, 1, "")
}

func (m *move) publishable(j JudgeEvidence) error {
	if err := m.judgeable(); err != nil {
		return err
	}
	if m.r.Outcome != OutcomePatch || !m.r.Mode.WantsPR() {
		return &GuardError{Guard: "mode", Sentence: "The task does not ask for a pull request."}
	}
	if j.Verdict != VerdictPass {
		return &GuardError{Guard: "judge", Sentence: "The judge did not pass the change."}
	}
	return nil
}

// Verdicts of the judge.
const (
	VerdictPass = "pass"
	VerdictFix  = "fix"
	VerdictFail = "fail"
)

func (m *move) approvalCarried(p ApprovalCarriedEvent) error {
	if err := m.publishable(p.Judge); err != nil {
		return err
	}
	if !m.r.carries() {
		return &GuardError{Guard: "carry", Sentence: "The change differs from the approved one, so the approval does not carry over."}
	}
	return m.publish(p.Judge.Verdict)
}

func (m *move) autoPR(p AutoPRAllowedEvent) error {
	if err := m.publishable(p.Judge); err != nil {
		return err
	}
	if m.r.Risk == RiskHigh || m.r.Risk == RiskCritical {
		return &GuardError{Guard: "risk", Sentence: "A high or critical risk is never published without a person."}
	}
	return m.publish(p.Judge.Verdict)
}

// Risk classes that never pass without a person.
const (
	RiskHigh     = "HIGH"
	RiskCritical = "CRITICAL"
)

func (m *move) publish(verdict string) error {
	m.r.Verdict = verdict
	m.r.State = PRCreating
	m.r.PublishRedeliveries = 0
	m.enqueue(PhasePublish, 0)
	return nil
}

func (m *move) complete(p CompletionConditionMetEvent) error {
	if m.r.State == PRCreated {
		if m.r.PR == nil {
			return evidence("the pull request")
		}
		return m.succeed(VerdictPass)
	}
	if err := m.judgeable(); err != nil {
		return err
	}
	if m.r.Mode.WantsPR() && m.r.Outcome != OutcomeNoChange {
		return &GuardError{Guard: "mode", Sentence: "The task completes by a pull request, which does not exist yet."}
	}
	if p.Judge == nil || p.Judge.Verdict != VerdictPass {
		return &GuardError{Guard: "judge", Sentence: "The judge did not pass the result."}
	}
	return m.succeed(p.Judge.Verdict)
}

func (m *move) attestationRequired(p AttestationRequiredEvent) error {
	if p.ExpiresAt.IsZero() {
		return evidence("until when the attestation may come")
	}
	if m.r.State == Judging {
		if err := m.judgeable(); err != nil {
			return err
		}
		if m.r.Mode.WantsPR() && m.r.Outcome != OutcomeNoChange {
			return &GuardError{Guard: "mode", Sentence: "The pull request comes before the attestation."}
		}
		if p.Judge == nil || p.Judge.Verdict != VerdictPass {
			return &GuardError{Guard: "judge", Sentence: "The judge did not pass the result."}
		}
		m.r.Verdict = p.Judge.Verdict
	}
	m.r.State = AwaitingVerification
	m.do(RequestAttestation{ExpiresAt: p.ExpiresAt}, Notify{What: "attestation_required"})
	return nil
}

func (m *move) attestationExpired(p AttestationExpiredEvent) error {
	switch p.Outcome {
	case ExpiryEscalate:
		m.do(Notify{What: "escalated"})
		return nil
	case ExpiryFail:
		return m.fail(failure(CodeAttestationExpired, "", ""))
	case ExpiryExpire:
		m.r.State = Expired
		m.r.Reason = CodeAttestationExpired
		return nil
	}
	return evidence("what the expiry does")
}
