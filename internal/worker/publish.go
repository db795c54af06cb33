package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"signalbox/internal/forge"
	"signalbox/internal/git"
	"signalbox/internal/wire"
)

// publish puts the stored patch on the run's branch and sees to it that one pull request exists. Each effect outside
// has a recorded intent before and an observation after, and the target is asked before anything is done (R-RCV-3),
// so that a second worker after a crash finds what the first one made.
func (s *session) publish() error {
	plan, patch := s.as.Publish, s.as.Patch
	if plan == nil || patch == nil {
		return fail(codePRFailed, "The assignment says nothing to publish.")
	}
	if err := s.fetchBase(patch.BaseCommit); err != nil {
		return err
	}
	commit, err := s.commit(plan, patch)
	if err != nil {
		return err
	}
	raw, err := s.remoteURL()
	if err != nil {
		return err
	}
	remote, err := s.w.git.ParseRemote(raw)
	if err != nil {
		return gitFailure(err, "Publishing")
	}
	if err := s.pushOnce(remote, plan, commit); err != nil {
		return err
	}
	s.w.cfg.Hook(PointAfterPush)
	pull, err := s.pullOnce(plan, commit)
	if err != nil {
		return err
	}
	s.w.cfg.Hook(PointAfterPR)
	s.keepLog()
	s.l.facts.drain()
	err = s.l.step(wire.RunCommand{Command: wire.CmdPrReported, PrReported: &wire.PrReported{Url: pull.URL, Number: pull.Number, Branch: plan.Branch, Sha: commit}})
	if err == nil || errors.Is(err, errHandover) {
		s.w.cfg.Hook(PointAfterReport)
	}
	return err
}

// commit makes the one commit of the run: its name follows from patch, base, texts and time of the assignment. A tree
// other than the approved one is never pushed (G9).
func (s *session) commit(plan *wire.PublishPlan, patch *wire.AssignedPatch) (string, error) {
	var commit string
	err := s.act("commit", "Make the commit", func() (string, error) {
		tree, err := s.applyStored(patch.BaseCommit)
		if err != nil {
			return "", err
		}
		name, email := plan.AuthorName, plan.AuthorEmail
		if name == "" || email == "" {
			name, email = "Signalbox", "signalbox@localhost"
		}
		commit, err = s.repo.Commit(s.l.work, git.CommitSpec{
			Tree: tree, Parents: []string{patch.BaseCommit}, Message: plan.CommitMessage, By: git.Signature{Name: name, Email: email, At: plan.CommitTime},
		})
		if err != nil {
			return "", gitFailure(err, "Making the commit")
		}
		return "Commit " + commit[:12] + ".", nil
	})
	return commit, err
}

// pushOnce makes sure that the branch stands at commit.
func (s *session) pushOnce(remote git.Remote, plan *wire.PublishPlan, commit string) error {
	at, err := s.branchAt(remote, plan.Branch)
	if err != nil {
		return err
	}
	identity := "push_branch:" + s.as.Repository.Id + ":" + plan.Branch + ":" + commit
	params := map[string]string{"branch": plan.Branch, "sha": commit, "base": s.as.Patch.BaseCommit, "patch": s.as.Patch.Digest}
	if at == commit {
		return s.observeEarlier(wire.OpPushBranch, identity, params, map[string]string{"sha": commit, "found": "already there"})
	}
	if at != "" {
		return s.touched(at)
	}
	if err := s.baseMoved(remote, plan); err != nil {
		return err
	}
	return s.operate(wire.OpPushBranch, identity, params, "Push the branch", func() (map[string]string, error) {
		err := s.repo.Push(s.l.work, remote, commit, plan.Branch, "")
		return map[string]string{"sha": commit}, err
	}, func() (map[string]string, bool, error) {
		at, err := s.branchAt(remote, plan.Branch)
		return map[string]string{"sha": at}, at == commit, err
	})
}

// branchAt asks the remote where the branch stands; "" means that there is none.
func (s *session) branchAt(remote git.Remote, branch string) (string, error) {
	at, err := s.w.git.LsRemote(s.l.work, remote, branch)
	if git.CodeOf(err) == git.CodeRefNotFound {
		return "", nil
	}
	return at, gitFailure(err, "Asking for the branch")
}

// touched keeps hands off a branch that somebody else wrote to.
func (s *session) touched(at string) error {
	s.keepLog()
	s.l.facts.drain()
	return s.l.step(wire.RunCommand{Command: wire.CmdBranchTouched, BranchTouched: &wire.BranchTouched{Sha: at}})
}

// baseMoved looks whether the base branch changed files that the patch touches. Then the server has the same patch
// verified on the new base; a base that moved elsewhere changes nothing.
func (s *session) baseMoved(remote git.Remote, plan *wire.PublishPlan) error {
	head, err := s.branchAt(remote, plan.BaseBranch)
	if err != nil || head == s.as.Patch.BaseCommit {
		return err
	}
	if head == "" {
		return fail(codeRefNotFound, "The base branch %s no longer exists.", plan.BaseBranch)
	}
	mirror, err := s.w.git.Mirror(s.l.work, s.mirrors(), remote)
	if err != nil {
		return gitFailure(err, "Looking at the base branch")
	}
	if err := mirror.Commit(s.l.work, head, plan.BaseBranch); err != nil {
		return gitFailure(err, "Looking at the base branch")
	}
	moved, err := s.repo.ChangedFiles(s.l.work, s.as.Patch.BaseCommit, head)
	if err != nil {
		return gitFailure(err, "Looking at the base branch")
	}
	ours, err := s.repo.ChangedFiles(s.l.work, s.as.Patch.BaseCommit, s.as.Patch.ResultTree)
	if err != nil {
		return gitFailure(err, "Looking at the base branch")
	}
	var both []string
	for _, f := range ours {
		if slices.Contains(moved, f) && len(both) < 1000 {
			both = append(both, clip(f, 1000))
		}
	}
	if len(both) == 0 {
		return nil
	}
	by, err := s.repo.CommitsSince(s.l.work, s.as.Patch.BaseCommit, head)
	if err != nil {
		by = 0 // a number for people; not to know it holds up nothing
	}
	s.keepLog()
	s.l.facts.drain()
	if err := s.l.step(wire.RunCommand{Command: wire.CmdBaseMoved, BaseMoved: &wire.BaseMoved{NewBase: head, Overlapping: both, Commits: by}}); err != nil {
		return err
	}
	// A server that takes the command ends the lease with it.
	return errHandover
}

// pullOnce makes sure that the pull request exists.
func (s *session) pullOnce(plan *wire.PublishPlan, commit string) (forge.Pull, error) {
	if s.as.Repository.ForgeKind != "local" {
		return forge.Pull{}, fail(codePRFailed, "This worker cannot open pull requests on forge kind %q.", s.as.Repository.ForgeKind)
	}
	f := &localForge{l: s.l}
	repo := forge.Repository{ID: s.as.Repository.Id, Name: s.as.Repository.Name}
	draft := forge.Draft{Head: plan.Branch, HeadSHA: commit, Base: plan.BaseBranch, Title: clip(plan.Title, 300), Body: plan.Body}
	identity := "open_pull_request:" + s.as.Repository.Id + ":" + plan.Branch + ":" + plan.BaseBranch
	params := map[string]string{"head": draft.Head, "base": draft.Base, "sha": commit, "title": draft.Title}
	var pull forge.Pull
	look := func() (map[string]string, bool, error) {
		found, ok, err := forge.Existing(s.l.work, f, repo, draft)
		if err != nil || !ok {
			return nil, false, forgeFailure(err)
		}
		pull = found
		return pullFacts(found), true, nil
	}
	result, ok, err := look()
	switch {
	case err != nil:
		return pull, err
	case ok:
		err = s.observeEarlier(wire.OpOpenPullRequest, identity, params, result)
	default:
		err = s.operate(wire.OpOpenPullRequest, identity, params, "Open the pull request", func() (map[string]string, error) {
			made, err := f.Create(s.l.work, repo, draft)
			if err != nil {
				return nil, forgeFailure(err)
			}
			pull = made
			return pullFacts(made), nil
		}, look)
	}
	if err != nil {
		return pull, err
	}
	if pull.HeadSHA != "" && pull.HeadSHA != commit {
		return pull, s.touched(pull.HeadSHA)
	}
	return pull, nil
}

func pullFacts(p forge.Pull) map[string]string {
	return map[string]string{"id": p.ID, "number": fmt.Sprint(p.Number), "url": p.URL, "sha": p.HeadSHA}
}

func forgeFailure(err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*problemError](err); ok && p.final() && !p.problem.Stop {
		return failWith(codePRFailed, err, "The forge refused the pull request: %s", clip(p.problem.Detail, 500))
	}
	return err
}

// operate writes the intent, marks it as sent, does it, and writes what was seen. When the doing fails the target is
// asked; when it cannot be asked, the operation is recorded as ambiguous and a person will look.
func (s *session) operate(kind wire.OperationKind, identity string, params map[string]string, name string, do func() (map[string]string, error), look func() (map[string]string, bool, error)) error {
	intended := wire.RunCommand{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: kind, Identity: identity, Parameters: params}}
	if err := s.l.step(intended); err != nil {
		return err
	}
	if err := s.l.step(wire.RunCommand{Command: wire.CmdOperationDispatched, OperationDispatched: &wire.OperationDispatched{Identity: identity}}); err != nil {
		return err
	}
	var result map[string]string
	err := s.act(string(kind), name, func() (string, error) {
		// The last look at the clock before the effect: a lease that ran out meanwhile touches nothing.
		if err := s.l.check(); err != nil {
			return "", err
		}
		var err error
		result, err = do()
		return "", err
	})
	if s.l.ctx.Err() != nil {
		return context.Cause(s.l.ctx)
	}
	if err == nil {
		return s.observe(identity, wire.OutcomeSucceeded, result)
	}
	seen, there, lookErr := look()
	switch {
	case lookErr == nil && there:
		return s.observe(identity, wire.OutcomeSucceeded, seen)
	case lookErr == nil:
		if obsErr := s.observe(identity, wire.OutcomeFailed, map[string]string{"error": clip(err.Error(), 1000)}); obsErr != nil {
			return obsErr
		}
		if git.CodeOf(err) == git.CodeBranchTouched && seen["sha"] != "" {
			return s.touched(seen["sha"])
		}
	case s.l.work.Err() == nil:
		if obsErr := s.observe(identity, wire.OutcomeAmbiguous, map[string]string{"error": clip(err.Error(), 1000)}); obsErr != nil {
			return obsErr
		}
	}
	if _, ok := errors.AsType[*git.Error](err); ok {
		return gitFailure(err, name)
	}
	return err
}

// observe writes what was seen; it is said even after a signal, because it is already true.
func (s *session) observe(identity string, outcome wire.OperationObservedOutcome, result map[string]string) error {
	ack, err := s.l.command(wire.RunCommand{Command: wire.CmdOperationObserved, OperationObserved: &wire.OperationObserved{Identity: identity, Outcome: outcome, Result: result}})
	if err != nil {
		return err
	}
	return s.l.after(ack)
}

// observeEarlier closes an operation of an earlier lease whose effect is found to be there. The intent is taken over
// by this lease first, because an observation belongs to whoever holds the operation.
func (s *session) observeEarlier(kind wire.OperationKind, identity string, params, result map[string]string) error {
	for _, op := range s.as.Operations {
		if op.Identity != identity || (op.State != "intended" && op.State != "dispatched" && op.State != "ambiguous") {
			continue
		}
		intended := wire.RunCommand{Command: wire.CmdOperationIntended, OperationIntended: &wire.OperationIntended{Kind: kind, Identity: identity, Parameters: params}}
		if err := s.l.step(intended); err != nil {
			return err
		}
		return s.observe(identity, wire.OutcomeSucceeded, result)
	}
	return nil
}

// localForge is the publisher's view of the built-in forge: the server itself (D-28).
type localForge struct{ l *lease }

var _ forge.Forge = (*localForge)(nil)

func (f *localForge) Find(ctx context.Context, repo forge.Repository, head string) ([]forge.Pull, error) {
	var list wire.LocalPullList
	err := f.l.api.until(ctx, "find pull request", requestTime, func(ctx context.Context) (*http.Response, error) {
		return f.l.api.client.ListLocalPulls(ctx, repo.ID, &wire.ListLocalPullsParams{Branch: &head})
	}, &list)
	if err != nil {
		return nil, err
	}
	pulls := make([]forge.Pull, 0, len(list.Items))
	for _, p := range list.Items {
		pulls = append(pulls, pullOf(p))
	}
	slices.SortFunc(pulls, func(a, b forge.Pull) int { return int(b.Number - a.Number) })
	return pulls, nil
}

func (f *localForge) Create(ctx context.Context, repo forge.Repository, d forge.Draft) (forge.Pull, error) {
	b := wire.LocalPullEnsure{
		RunId: f.l.as.RunId, LeaseId: f.l.as.LeaseId, FencingToken: f.l.as.FencingToken, HeadBranch: d.Head, BaseBranch: d.Base, HeadSha: d.HeadSHA, Title: d.Title, Body: d.Body,
	}
	var p wire.LocalPull
	err := f.l.api.until(ctx, "open pull request", requestTime, func(ctx context.Context) (*http.Response, error) {
		return f.l.api.client.EnsureLocalPull(ctx, repo.ID, b)
	}, &p)
	return pullOf(p), err
}

func (f *localForge) Get(ctx context.Context, _ forge.Repository, id string) (forge.Pull, error) {
	var p wire.LocalPull
	err := f.l.api.until(ctx, "read pull request", requestTime, func(ctx context.Context) (*http.Response, error) {
		return f.l.api.client.GetLocalPull(ctx, id)
	}, &p)
	return pullOf(p), err
}

func pullOf(p wire.LocalPull) forge.Pull {
	return forge.Pull{
		ID: p.Id, Number: p.Number, URL: p.Url, State: forge.State(p.State), Head: p.HeadBranch, HeadSHA: p.HeadSha, Base: p.BaseBranch, Title: p.Title, Body: p.Body, Created: p.CreatedAt,
	}
}
