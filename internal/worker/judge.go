package worker

import (
	"encoding/json"
	"fmt"

	"signalbox/internal/agent"
	"signalbox/internal/judge"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/verify"
	"signalbox/internal/wire"
)

// judge gives the deterministic verdict and reports it. The server has parsed and scanned the stored patch itself and
// believes nothing of this but the verdict.
func (s *session) judge(report *verify.Report) error {
	in := judge.Input{Rules: s.judgeRules(), Contract: judge.Contract{Mode: policy.Mode(s.as.Contract.Mode), Scope: s.as.Contract.Scope, Forbidden: s.as.Contract.Forbidden}}
	if j := s.as.Judge; j != nil && len(j.Scope) > 0 {
		in.Contract.Scope = j.Scope
	}
	var verdict judge.Report
	if err := s.act("judge", "Judge the result", func() (string, error) {
		if err := s.judgeInput(&in, report); err != nil {
			return "", err
		}
		verdict = judge.Judge(in)
		return fmt.Sprintf("Verdict %s, confidence %.2f.", verdict.Verdict, verdict.Confidence), nil
	}); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(struct {
		Schema      string `json:"schema"`
		PatchDigest string `json:"patch_digest,omitempty"`
		judge.Report
	}{"signalbox.judgement/v1", s.patchDigest(), verdict}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode judgement: %w", err)
	}
	stored, err := s.store(wire.ArtifactKindJudgeReport, "judgement.json", raw, uploadOptions{})
	if err != nil {
		return refusedUpload(err, codeJudgeError, "The server refused the judge's report")
	}
	reasons := []string{}
	for _, r := range verdict.Reasons {
		if len(reasons) < 100 {
			reasons = append(reasons, clip(r.Words, 1000))
		}
	}
	s.keepLog()
	s.l.facts.drain()
	return s.l.step(wire.RunCommand{Command: wire.CmdJudgeReported, JudgeReported: &wire.JudgeReported{
		Verdict: wire.JudgeReportedVerdict(verdict.Verdict), Confidence: verdict.Confidence, Reasons: reasons, ArtifactId: stored.Id,
	}})
}

func (s *session) patchDigest() string {
	if s.as.Patch == nil {
		return ""
	}
	return s.as.Patch.Digest
}

// judgeRules are the policy's bounds as the assignment carries them.
func (s *session) judgeRules() policy.Rules {
	rules := policy.Default()
	j := s.as.Judge
	if j == nil {
		return rules
	}
	rules.Paths.Forbidden, rules.Paths.Protected, rules.Paths.Generated = j.Forbidden, j.Protected, j.Generated
	if j.MinConfidence > 0 {
		rules.Judge.MinConfidence = j.MinConfidence
	}
	if j.MaxChangedFiles > 0 {
		rules.Limits.ChangedFiles = j.MaxChangedFiles
	}
	if j.MaxDiffLines > 0 {
		rules.Limits.DiffLines = j.MaxDiffLines
	}
	return rules
}

func (s *session) judgeInput(in *judge.Input, report *verify.Report) error {
	if s.as.Patch == nil {
		// The contract of the API takes no such statement without an explanation; its length is not known here.
		in.Result, in.ReportBytes = policy.ResultNoChange, 1
		if s.as.ReportArtifactId != "" {
			in.Result = policy.ResultReport
			raw, err := s.l.fetch(s.as.ReportArtifactId, "", 64<<20)
			if err != nil {
				return failWith(codeJudgeError, err, "The report could not be read.")
			}
			in.ReportBytes = int64(len(raw))
		}
		return nil
	}
	in.Result = policy.ResultPatch
	raw, err := s.l.fetch(s.as.Patch.ArtifactId, s.as.Patch.Digest, 256<<20)
	if err != nil {
		return failWith(codeJudgeError, err, "The stored patch could not be read.")
	}
	parsed, err := patch.Parse(raw, 0)
	if err != nil {
		return failWith(codeJudgeError, err, "The stored patch could not be parsed.")
	}
	in.Patch, in.Hidden, in.Scan = parsed.Facts(), parsed.Hidden(), s.w.scanner.Scan(s.l.work, parsed)
	if report != nil {
		v := &judge.Verification{Passed: report.Verdict == verify.VerdictPassed}
		for _, c := range report.Commands {
			if c.Class != verify.ClassNotRun {
				v.Checks++
			}
			switch {
			case c.Preexisting:
				v.BaselineFailed = append(v.BaselineFailed, c.Name)
			case c.Class != verify.ClassPassed:
				v.Failed = append(v.Failed, c.Name)
			}
		}
		in.Verification = v
	}
	return s.plannedFiles(in)
}

// plannedFiles are compared only with a plan that names files of its own, not with one that covers everything.
func (s *session) plannedFiles(in *judge.Input) error {
	if s.as.Plan == nil {
		return nil
	}
	raw, err := s.l.fetch(s.as.Plan.ArtifactId, s.as.Plan.Digest, 4<<20)
	if err != nil {
		return failWith(codeJudgeError, err, "The plan could not be read.")
	}
	plan, err := agent.ParsePlan(raw)
	if err != nil {
		return nil //nolint:nilerr // an unreadable plan was refused when it was handed in; here it is simply not compared
	}
	for _, f := range plan.Files {
		if f == "**" || !patch.ValidGlob(f) {
			return nil
		}
	}
	in.PlannedFiles = plan.Files
	return nil
}
