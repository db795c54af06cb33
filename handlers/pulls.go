package handlers

import (
	"net/http"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/forge"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getPull shows a pull request of the built-in forge.
func (s *server) getPull(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Pull)
	if err != nil {
		return err
	}
	return s.pullPage(w, r, http.StatusOK, id, "")
}

func (s *server) pullPage(w http.ResponseWriter, r *http.Request, code int, id uuid.UUID, failed string) error {
	p := who(r)
	pull, err := s.store.Pull(r.Context(), p.tenant, id)
	if err != nil {
		return err
	}
	data := web.PullPageData{
		Shell: s.shell(r), ID: typeid.Format(typeid.Pull, pull.ID), Number: int(pull.Number), Title: pull.Title, Body: pull.Body, State: pull.State,
		Repository: pull.RepositoryName, Branch: pull.Head, Base: pull.Base, Head: pull.HeadSHA, MergedAs: pull.MergeSHA, Author: "Signalbox agent",
		Created: pull.CreatedAt, MergedBy: pull.MergedBy, RunID: typeid.Format(typeid.Run, pull.Run), TaskID: typeid.Format(typeid.Task, pull.Task),
		Error: failed, IdempotencyKey: db.NewSecret(),
	}
	data.MayClose = pull.State == "OPEN" && pull.ForgeKind == "local" && s.forge != nil && (p.has(policy.RoleRequester) || p.has(policy.RoleApprover) || p.has(policy.RoleAdmin))
	if pull.State == "MERGED" {
		data.MergedAt = pull.UpdatedAt
	}
	info, err := s.store.RunInfo(r.Context(), p.tenant, pull.Run)
	if err != nil {
		return err
	}
	if err := s.pullChecks(r, info, &data); err != nil {
		return err
	}
	if err := s.comparison(r, pull, info, &data); err != nil {
		return err
	}
	return s.render(w, r, code, web.PullPage(data))
}

// pullChecks are the verification commands of the run that published it.
func (s *server) pullChecks(r *http.Request, info db.RunInfo, data *web.PullPageData) error {
	ev, err := s.evidence(r, info)
	if err != nil {
		return err
	}
	for _, c := range ev.report.Commands {
		data.Checks = append(data.Checks, web.CheckView{Name: c.Name, Passed: c.passed(), Text: c.Sentence, Href: web.ArtifactURL(ev.reportID)})
	}
	return nil
}

// comparison reads the difference from git and says whether it can be merged.
func (s *server) comparison(r *http.Request, pull db.PullInfo, info db.RunInfo, data *web.PullPageData) error {
	if pull.ForgeKind != "local" || s.forge == nil {
		data.WhyNot = "This pull request lives on another forge. Merge it there."
		return nil
	}
	c, err := s.forge.Compare(r.Context(), pull.CloneURL, pull.Base, pull.HeadSHA, patch.MaxBytes)
	if err != nil {
		if k := fault.KindOf(err); k == fault.Internal || k == fault.Unavailable {
			return err
		}
		data.WhyNot = fault.Sentence(err)
		return nil
	}
	if shown, ok := pullPatch(c, info); ok {
		options := web.DiffOptions{Place: web.PullPlace(data.ID), View: web.DiffChoiceOf(r.URL.Query()), Around: s.around(r, shown, shown.allFiles()...)}
		data.Diff = web.NewDiffView(shown.parsed.Render(web.PullBounds()), options)
	}
	p := who(r)
	switch {
	case pull.State != "OPEN":
	case len(c.Conflicts) > 0:
		data.WhyNot = "It conflicts with its base branch. Run the task again on the new base."
	case c.Contained:
		data.WhyNot = "The base branch contains it already."
	case !p.has(policy.RoleApprover):
		data.WhyNot = "Merging needs the role approver."
	default:
		data.MayMerge = true
	}
	return nil
}

// pullPatch is what a pull request changes, of the run that made it; false where that cannot be read. Its worker stored what the
// files were before it beside the patch that it handed in, and git gives an equal text an equal name.
func pullPatch(c forge.Comparison, info db.RunInfo) (shownPatch, bool) {
	parsed, err := patch.Parse(c.Patch, patch.MaxBytes)
	if err != nil {
		return shownPatch{}, false
	}
	shown := shownPatch{parsed: parsed, run: info.ID}
	if info.Patch != nil {
		shown.digest = info.Patch.Digest
	}
	return shown, true
}

// getPullLines shows lines outside the hunks of a file, for the place on the page that offered them.
func (s *server) getPullLines(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Pull)
	if err != nil {
		return err
	}
	pull, err := s.store.Pull(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	if pull.ForgeKind != "local" || s.forge == nil {
		return noLines()
	}
	info, err := s.store.RunInfo(r.Context(), who(r).tenant, pull.Run)
	if err != nil {
		return err
	}
	c, err := s.forge.Compare(r.Context(), pull.CloneURL, pull.Base, pull.HeadSHA, patch.MaxBytes)
	if err != nil {
		return err
	}
	shown, ok := pullPatch(c, info)
	if !ok {
		return noLines()
	}
	return s.showLines(w, r, shown, web.PullPlace(typeid.Format(typeid.Pull, id)))
}

// postMerge merges exactly the commit that the person saw.
func (s *server) postMerge(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Pull)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{action: "pull.merge", object: "pull_request", id: typeid.Format(typeid.Pull, id)})
	if err != nil {
		return err
	}
	if _, err := s.merge(r, in, id, values.Get("head")); err != nil {
		if f, ok := fault.Find(err); ok && (f.Kind == fault.Conflict || f.Kind == fault.Invalid) {
			s.note(r, err)
			return s.pullPage(w, r, status(f.Kind), id, f.Sentence)
		}
		return err
	}
	return see(w, r, web.PullURL(typeid.Format(typeid.Pull, id))+"?done=merged")
}

// postPullClose closes a pull request without merging it and, where that was ticked, deletes its branch.
func (s *server) postPullClose(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Pull)
	if err != nil {
		return err
	}
	values, in, err := s.formRequest(r, act{action: "pull.close", object: "pull_request", id: typeid.Format(typeid.Pull, id)})
	if err != nil {
		return err
	}
	if err := s.closePull(r, in, id, values.Get("branch") == "delete"); err != nil {
		if f, ok := fault.Find(err); ok && (f.Kind == fault.Conflict || f.Kind == fault.Invalid) {
			s.note(r, err)
			return s.pullPage(w, r, status(f.Kind), id, f.Sentence)
		}
		return err
	}
	return see(w, r, web.PullURL(typeid.Format(typeid.Pull, id))+"?done=pull-closed")
}

// closePull closes a pull request of the built-in forge; one that is closed stays so. The branch is deleted only where it still is
// what the run published.
func (s *server) closePull(r *http.Request, in db.Request, id uuid.UUID, branch bool) error {
	p := who(r)
	pull, err := s.store.Pull(r.Context(), p.tenant, id)
	switch {
	case err != nil:
		return err
	case pull.State == "MERGED":
		return fault.New(fault.Conflict, "Nothing was closed: the pull request is merged already.").WithCode("pull_merged")
	case pull.ForgeKind != "local" || s.forge == nil:
		return fault.New(fault.Invalid, "Nothing was closed: this pull request lives on another forge. Close it there.")
	}
	if err := s.store.MovePull(r.Context(), in, id, "CLOSED", "", uuid.Nil); err != nil {
		return err
	}
	if !branch {
		return nil
	}
	if err := s.forge.DeleteBranch(r.Context(), pull.CloneURL, pull.Head, pull.HeadSHA); err != nil {
		if fault.KindOf(err) == fault.Conflict {
			return fault.Wrap(fault.Conflict, err, "The pull request is closed, but its branch was kept: somebody has written to it since.")
		}
		return err
	}
	return nil
}
