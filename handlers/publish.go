package handlers

import (
	"net/http"
	"time"

	"signalbox/db"
	"signalbox/internal/forge"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

// publishPlan says exactly what is to be published. The texts are made here, from facts of ours; the worker adds no
// word, and the agent's words are fenced (R-PR-1, R-PR-2).
func (s *server) publishPlan(r *http.Request, a db.Assignment) (*wire.PublishPlan, error) {
	info, t := a.Run, a.Task
	e := forge.Evidence{
		RunID: typeid.Format(typeid.Run, info.ID), TaskID: typeid.Format(typeid.Task, t.ID), Title: t.Title, Goal: t.Goal, Policy: info.PolicyVersion,
		Isolation: info.Isolation, AgentProfile: t.AgentProfile, Verdict: info.Verdict,
	}
	// Who verified is asked of the log: the worker that publishes may be a third one.
	var err error
	if e.SameWorker, _, err = s.verifier(r.Context(), info); err != nil {
		return nil, err
	}
	e.RunURL = s.publicURL.String() + web.RunURL(e.RunID)
	commitTime := info.CreatedAt
	if p := info.Patch; p != nil {
		e.BaseCommit, e.ResultTree, e.PatchDigest, e.Revision, e.Files, e.Additions, e.Deletions = p.Base, p.Tree, p.Digest, p.Revision, p.Files, p.Added, p.Removed
		for _, d := range a.Approvals {
			e.Approvals = append(e.Approvals, forge.Approval{Name: d.UserName, At: d.At})
		}
	}
	ev, err := s.evidence(r, info)
	if err != nil {
		return nil, err
	}
	said, err := s.agentWords(r, info)
	if err != nil {
		return nil, err
	}
	e.AgentSummary = said.Text
	for _, c := range ev.report.Commands {
		e.Checks = append(e.Checks, forge.Check{Name: c.Name, Passed: c.passed(), FailedBefore: c.Preexisting, Duration: time.Duration(c.DurationMS) * time.Millisecond})
	}
	if ev.judged {
		e.Verdict, e.Confidence = ev.judge.Verdict, ev.judge.Confidence
		for _, reason := range ev.judge.Reasons {
			e.Reasons = append(e.Reasons, reason.Words)
		}
		commitTime = ev.judgedAt
	}
	base := t.BaseRef
	if base == "" {
		base = a.Repository.DefaultBranch
	}
	return &wire.PublishPlan{
		Branch: info.Branch, BaseBranch: base, CommitMessage: forge.CommitMessage(e), AuthorName: "Signalbox agent", AuthorEmail: "agent@" + s.mailHost(),
		// A second try makes the very same commit.
		CommitTime: commitTime.UTC().Truncate(time.Second), Title: forge.Title(t.Title), Body: forge.Body(e),
	}, nil
}

func (s *server) mailHost() string {
	host := s.publicURL.Hostname()
	if loopback(host) {
		return "signalbox.invalid"
	}
	return host
}
