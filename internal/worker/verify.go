package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"signalbox/internal/argv"
	"signalbox/internal/sandbox"
	"signalbox/internal/verify"
	"signalbox/internal/wire"
)

// verify is the phase that checks what another lease made: a fresh checkout, the stored patch applied by our own git,
// a sandbox of its own, commands that were fixed before. Then the judge. A report or the statement that nothing needs
// to change has no patch to run, so it is only judged.
func (s *session) verify() error {
	if s.as.State == wire.RunStateJUDGING {
		return s.judgeStored()
	}
	if s.as.Patch == nil {
		return fail(codeVerifierError, "The assignment names no patch to verify.")
	}
	if err := s.isolation(); err != nil {
		return err
	}
	set, err := s.commandSet()
	if err != nil {
		return err
	}
	base := s.as.BaseCommit
	if base == "" {
		base = s.as.Patch.BaseCommit
	}
	if err := s.fetchBase(base); err != nil {
		return err
	}
	var tree string
	if err := s.act("checkout", "Apply the stored patch to a fresh checkout", func() (string, error) {
		var err error
		tree, err = s.applyStored(base)
		return "The tree is " + tree + ".", err
	}); err != nil {
		return err
	}
	p, err := s.open("verify", s.slotFor(false), tree, true, nil)
	if err != nil {
		return err
	}
	if s.as.State == wire.RunStatePATCHREADY {
		started := &wire.VerificationStarted{CommandSetDigest: s.as.CommandSetDigest, Isolation: wire.IsolationTier(p.box.Tier())}
		if err := s.l.step(wire.RunCommand{Command: wire.CmdVerificationStarted, VerificationStarted: started}); err != nil {
			if p, ok := errors.AsType[*problemError](err); ok && p.problem.Code == "command_set_changed" {
				return &releaseError{reason: "The repository's checks changed since the work was given out."}
			}
			return err
		}
	}
	s.w.cfg.Hook(PointInVerification)
	report, err := s.check(p, set, base)
	if err != nil {
		return err
	}
	raw, err := report.Encode()
	if err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	stored, err := s.store(wire.ArtifactKindVerificationReport, "verification.json", raw, uploadOptions{patchDigest: s.as.Patch.Digest})
	if err != nil {
		return refusedUpload(err, codeVerifierError, "The server refused the verification report")
	}
	if report.Verdict == verify.VerdictError {
		return brokenMachine(report)
	}
	s.keepLog()
	s.l.facts.drain()
	reported := &wire.VerificationReported{
		ArtifactId: stored.Id, PatchDigest: s.as.Patch.Digest, Passed: report.Verdict == verify.VerdictPassed, Repairable: report.Repairable,
		Signature: report.Signature(), Checks: checks(report), ResultTree: tree,
	}
	if err := s.l.step(wire.RunCommand{Command: wire.CmdVerificationReported, VerificationReported: reported}); err != nil {
		return err
	}
	// The lease goes on only after a pass: the same holder judges.
	return s.judge(&report)
}

// commandSet is the assignment's set in the verifier's form.
func (s *session) commandSet() ([]verify.Command, error) {
	var set []verify.Command
	longest := time.Duration(s.as.Limits.CommandSeconds) * time.Second
	for _, c := range s.as.Verification {
		kind := verify.Kind(c.Kind)
		switch c.Kind {
		case "":
			kind = verify.Test
		case wire.CheckStaticAnalysis:
			kind = verify.Static
		}
		timeout := time.Duration(c.TimeoutSeconds) * time.Second
		if longest > 0 && (timeout == 0 || timeout > longest) {
			timeout = longest
		}
		set = append(set, verify.Command{Name: c.Name, Kind: kind, Argv: c.Argv, Dir: c.Dir, Timeout: timeout})
	}
	if err := verify.ValidateSet(set); err != nil {
		return nil, failWith(codeContractInvalid, err, "The verification commands cannot be run: %s.", err)
	}
	return set, nil
}

// check runs the commands; each is a step of the timeline.
func (s *session) check(p *place, set []verify.Command, base string) (verify.Report, error) {
	started := time.Now()
	calls := map[string]string{}
	call := func(c verify.Command, baseline bool) (string, string) {
		name := c.Name
		if baseline {
			name += " on the base, for comparison"
		}
		id, ok := calls[name]
		if !ok {
			s.calls++
			id = fmt.Sprintf("check-%d", s.calls)
			calls[name] = id
		}
		return id, name
	}
	report, err := verify.Run(s.l.work, verify.Options{
		Box: p.box, Commands: set, BaseCommit: base, PatchDigest: s.as.Patch.Digest,
		Baseline: func(context.Context) (sandbox.Box, error) {
			b, err := s.open("base", s.slotFor(true), s.base, true, nil)
			if err != nil {
				return nil, err
			}
			return b.box, nil
		},
		Output: func(c verify.Command, baseline bool) io.Writer {
			id, name := call(c, baseline)
			s.flushOutput()
			out := s.output("verify", id)
			_, _ = fmt.Fprintf(out, "$ %s  (%s)\n", argv.Format(c.Argv), name)
			return out
		},
		Progress: func(pr verify.Progress) {
			id, name := call(pr.Command, pr.Baseline)
			r := wire.StepReport{CallId: id, Kind: "check", Name: name, State: wire.StepRunning}
			if d := pr.Done; d != nil {
				r.State, r.Summary, r.ExitCode, r.DurationMs = wire.StepSucceeded, d.Sentence, new(d.ExitCode), max(0, d.DurationMS)
				switch d.Class {
				case verify.ClassFailed, verify.ClassError:
					r.State = wire.StepFailed
				case verify.ClassTimedOut:
					r.State = wire.StepTimedOut
				case verify.ClassNotRun:
					r.State = wire.StepCancelled
				case verify.ClassPassed:
				}
			}
			s.l.facts.step(r)
		},
	})
	s.flushOutput()
	s.l.facts.use(wire.UsageReport{SandboxMs: time.Since(started).Milliseconds()})
	if err != nil && s.l.work.Err() != nil {
		s.keepReport(report)
		return report, context.Cause(s.l.work)
	}
	return report, err
}

// keepReport stores what there is of a verification that was stopped, as evidence and not as a report.
func (s *session) keepReport(report verify.Report) {
	if s.l.ctx.Err() != nil || len(report.Commands) == 0 {
		return
	}
	report.Summary = "The verification was stopped before its end."
	if raw, err := report.Encode(); err == nil {
		if _, err := s.l.upload(s.l.ctx, wire.ArtifactKindEvidence, "verification-partial.json", raw, uploadOptions{}); err != nil {
			s.w.log.Warn("partial report not stored", "lease_id", s.as.LeaseId, "error", err)
		}
	}
}

// brokenMachine is a verification that says nothing about the change.
func brokenMachine(r verify.Report) error {
	for _, c := range r.Commands {
		if c.Class == verify.ClassError && (c.ExitCode == 127 || c.ExitCode == 126) {
			return fail(codeToolMissing, "%s", clip(c.Sentence, 1000))
		}
	}
	return fail(codeVerifierError, "%s", clip(r.Summary, 1000))
}

func checks(r verify.Report) []wire.CheckResult {
	var out []wire.CheckResult
	for _, c := range r.Commands {
		kind := string(c.Kind)
		if c.Kind == verify.Static {
			kind = string(wire.CheckStaticAnalysis)
		}
		summary := c.Sentence
		if c.Class != verify.ClassPassed {
			end := c.Output.Tail
			if end == "" {
				end = c.Output.Head
			}
			if len(end) > 6000 {
				end = end[len(end)-6000:]
			}
			summary = strings.TrimSpace(summary + "\n" + end)
		}
		out = append(out, wire.CheckResult{
			Name: clip(c.Name, 100), Kind: kind, Passed: c.Class == verify.ClassPassed, ExitCode: new(c.ExitCode), DurationMs: max(0, c.DurationMS),
			FailedBefore: c.Preexisting, Repairable: c.Repairable, Summary: clip(summary, 8000),
		})
	}
	return out
}

// judgeStored judges what an earlier lease verified, or a report, or that nothing needs to change.
func (s *session) judgeStored() error {
	if s.as.VerificationReportId == "" {
		return s.judge(nil)
	}
	raw, err := s.l.fetch(s.as.VerificationReportId, "", 64<<20)
	if err != nil {
		return failWith(codeJudgeError, err, "The verification report could not be read.")
	}
	var report verify.Report
	if err := json.Unmarshal(raw, &report); err != nil {
		return failWith(codeJudgeError, err, "The verification report could not be read.")
	}
	if s.as.Patch != nil && report.PatchDigest != s.as.Patch.Digest {
		return failWith(codeJudgeError, errors.New("report is for another patch"), "The verification report is not for this patch.")
	}
	return s.judge(&report)
}
