package handlers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/capability"
	"signalbox/internal/egress"
	"signalbox/internal/fault"
	"signalbox/internal/forge"
	"signalbox/internal/patch"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

func (s *server) apiForges(w http.ResponseWriter, r *http.Request) error {
	forges, err := s.store.Forges(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	list := wire.ForgeList{Items: []wire.Forge{}}
	for _, f := range forges {
		list.Items = append(list.Items, wire.Forge{Id: typeid.Format(typeid.Forge, f.ID), Name: f.Name, Kind: f.Kind, BaseUrl: f.BaseURL})
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiRepositories(w http.ResponseWriter, r *http.Request) error {
	limit, err := queryLimit(r)
	if err != nil {
		return err
	}
	// The list is by name, so the cursor is one.
	repos, err := s.store.Repositories(r.Context(), who(r).tenant, r.URL.Query().Get("cursor"), limit+1)
	if err != nil {
		return err
	}
	list := wire.RepositoryList{Items: []wire.Repository{}}
	for i, repo := range repos {
		if int32(i) == limit {
			list.NextCursor = repos[i-1].Name
			break
		}
		list.Items = append(list.Items, wireRepository(repo))
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiRepository(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "repository_id", typeid.Repo)
	if err != nil {
		return err
	}
	repo, err := s.store.Repository(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wireRepository(repo))
}

func (s *server) apiCreateRepository(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.RepositoryCreate](s, r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "repository.add", object: "repository", reason: body.Name})
	if err != nil {
		return err
	}
	id, err := typeid.ParseField("forge_id", typeid.Forge, body.ForgeId)
	if err != nil {
		return err
	}
	repo, again, err := s.register(r, in, db.RepositoryInfo{
		Name: body.Name, Forge: id, CloneURL: body.CloneUrl, DefaultBranch: body.DefaultBranch, Verification: runChecks(body.Verification), Scope: body.Scope, Forbidden: body.Forbidden, Requires: body.Requires,
	})
	if err != nil {
		return err
	}
	replayed(w, again)
	return s.answer(w, r, http.StatusCreated, wireRepository(repo))
}

// register checks a repository and stores it; pages and API share it.
func (s *server) register(r *http.Request, in db.Request, repo db.RepositoryInfo) (db.RepositoryInfo, bool, error) {
	refuse := func(field, sentence string) error {
		return fault.New(fault.Invalid, "Nothing was registered: "+sentence).WithField(field)
	}
	if repo.Name = strings.TrimSpace(repo.Name); repo.Name == "" || len(repo.Name) > 200 || strings.ContainsFunc(repo.Name, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return repo, false, refuse("name", "a name has 1 to 200 visible characters, for example acme/api.")
	}
	if _, hidden := patch.Reveal(repo.Name); hidden {
		return repo, false, refuse("name", "a name has only visible characters: people choose by it.")
	}
	if !refName(repo.DefaultBranch) {
		return repo, false, refuse("default_branch", "this cannot be the name of a branch.")
	}
	for field, globs := range map[string][]string{"scope": repo.Scope, "forbidden": repo.Forbidden} {
		for _, g := range globs {
			if !patch.ValidGlob(g) {
				return repo, false, refuse(field, fmt.Sprintf("%q is not a pattern of paths.", g))
			}
		}
	}
	for _, text := range repo.Requires {
		if _, err := capability.ParseRequirement(text); err != nil {
			return repo, false, refuse("requires", err.Error())
		}
	}
	named := map[string]bool{}
	for _, c := range repo.Verification {
		if named[c.Name] {
			return repo, false, refuse("verification", fmt.Sprintf("two checks are named %q, and a report could not tell them apart.", c.Name))
		}
		named[c.Name] = true
	}
	forges, err := s.store.Forges(r.Context(), who(r).tenant)
	if err != nil {
		return repo, false, err
	}
	kind := ""
	for _, f := range forges {
		if f.ID == repo.Forge {
			kind = f.Kind
		}
	}
	switch kind {
	case "":
		return repo, false, refuse("forge_id", "there is no such forge here.")
	case "local":
		if s.forge == nil {
			return repo, false, refuse("forge_id", "this installation has no local forge; the operator has to name its folder.")
		}
		if _, err := s.forge.Check(r.Context(), repo.CloneURL, repo.DefaultBranch); err != nil {
			return repo, false, err
		}
	default:
		if err := remoteURL(repo.CloneURL); err != nil {
			return repo, false, err
		}
	}
	out, again, err := s.store.RegisterRepository(r.Context(), in, repo)
	if err == nil && !again {
		s.enrolled(r, in, out)
	}
	return out, again, err
}

// remoteURL accepts plain https addresses of git remotes, without a credential (W12, W14).
func remoteURL(raw string) error {
	u, err := egress.ParseURL(raw)
	if err != nil || u.Scheme != "https" || u.RawQuery != "" || strings.Contains(raw, "%") || len(u.Path) < 2 {
		return fault.New(fault.Invalid, "Nothing was registered: the clone address must be a plain https address without a credential.").WithField("clone_url")
	}
	return nil
}

// The local forge's pull requests.

func (s *server) apiLocalPulls(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "repository_id", typeid.Repo)
	if err != nil {
		return err
	}
	tenant, err := tenantOf(r, func() (uuid.UUID, error) { return s.store.TenantOfRepository(r.Context(), who(r).credential, id) })
	if err != nil {
		return err
	}
	pulls, err := s.store.Pulls(r.Context(), tenant, db.PullFilter{Repository: id, Branch: r.URL.Query().Get("branch")})
	if err != nil {
		return err
	}
	list := wire.LocalPullList{Items: []wire.LocalPull{}}
	for _, p := range pulls {
		list.Items = append(list.Items, wirePull(p))
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiLocalPull(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "pull_id", typeid.Pull)
	if err != nil {
		return err
	}
	tenant, err := tenantOf(r, func() (uuid.UUID, error) { return s.store.TenantOfPull(r.Context(), who(r).credential, id) })
	if err != nil {
		return err
	}
	p, err := s.store.Pull(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wirePull(p))
}

// apiEnsureLocalPull makes or finds the one pull request of the run's branch. Branch, base and repository are the run's
// own, and the commit must be on the branch already: the worker's word is not enough.
func (s *server) apiEnsureLocalPull(w http.ResponseWriter, r *http.Request) error {
	repoID, err := pathID(r, "repository_id", typeid.Repo)
	if err != nil {
		return err
	}
	body, err := decode[wire.LocalPullEnsure](s, r)
	if err != nil {
		return err
	}
	id, err := typeid.ParseField("run_id", typeid.Run, body.RunId)
	if err != nil {
		return err
	}
	h, err := s.holderOf(r, id, body.LeaseId, body.FencingToken)
	if err != nil {
		return err
	}
	info, repo, err := s.publishing(r, h.Ref, repoID, body)
	if err != nil {
		return err
	}
	// The lease comes first: its holder is told to stop before it is told anything else.
	if err := s.store.Publishable(r.Context(), h); err != nil {
		return err
	}
	at, err := s.forge.Branch(r.Context(), repo.CloneURL, info.Branch)
	if err != nil {
		return err
	}
	if at != body.HeadSha {
		return fault.New(fault.Conflict, "No pull request was made: the branch does not stand at the commit that was named.").WithField("head_sha").WithCode("head_moved")
	}
	if err := s.holdsPatch(r, info, repo, body); err != nil {
		return err
	}
	text, err := s.withBypasses(r, h.Ref.Tenant, h.Ref.Run, body.Body)
	if err != nil {
		return err
	}
	pull, created, err := s.store.EnsurePull(r.Context(), h, db.NewPull{
		Title: clipText(body.Title, 300), Body: text, HeadBranch: info.Branch, BaseBranch: body.BaseBranch, HeadSHA: body.HeadSha,
		URL: func(id string) string { return s.publicURL.String() + web.PullURL(id) },
	})
	if err != nil {
		return err
	}
	row, err := s.store.Pull(r.Context(), h.Ref.Tenant, pull)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	return s.answer(w, r, code, wirePull(row))
}

// holdsPatch compares the pushed commit with the patch that was verified and approved. The publisher compares too, but
// it is a worker, and the server is the forge here.
func (s *server) holdsPatch(r *http.Request, info db.RunInfo, repo db.RepositoryInfo, body wire.LocalPullEnsure) error {
	if info.Patch == nil {
		return fault.New(fault.Conflict, "No pull request was made: the run has no patch.").WithCode("no_patch")
	}
	stored, err := s.artifacts.Read(r.Context(), info.Tenant, info.Patch.Digest, patch.MaxBytes)
	if err != nil {
		return err
	}
	return s.forge.Holds(r.Context(), repo.CloneURL, forge.Publication{Head: body.HeadSha, Base: info.Patch.Base, BaseBranch: body.BaseBranch, Patch: stored})
}

// publishing checks that a request is about exactly what the run may publish.
func (s *server) publishing(r *http.Request, ref db.Ref, repoID uuid.UUID, body wire.LocalPullEnsure) (db.RunInfo, db.RepositoryInfo, error) {
	info, err := s.store.RunInfo(r.Context(), ref.Tenant, ref.Run)
	if err != nil {
		return info, db.RepositoryInfo{}, err
	}
	repo, err := s.store.Repository(r.Context(), ref.Tenant, info.Repository)
	if err != nil {
		return info, repo, err
	}
	base := info.BaseRef
	if base == "" {
		base = repo.DefaultBranch
	}
	switch {
	case info.Repository != repoID:
		return info, repo, fault.New(fault.Forbidden, "No pull request was made: the run is of another repository.").WithCode("foreign_repository").WithStop()
	case repo.ForgeKind != "local" || s.forge == nil:
		return info, repo, fault.New(fault.Invalid, "No pull request was made: the repository is not on the built-in forge.")
	case body.HeadBranch != info.Branch:
		return info, repo, fault.New(fault.Forbidden, "No pull request was made: the branch is not the run's own.").WithField("head_branch").WithCode("foreign_branch").WithStop()
	case body.BaseBranch != base:
		return info, repo, fault.New(fault.Invalid, "No pull request was made: the run goes to another base branch.").WithField("base_branch")
	}
	return info, repo, nil
}

func (s *server) apiMergeLocalPull(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "pull_id", typeid.Pull)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.LocalPullMerge](s, r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "pull.merge", object: "pull_request", id: typeid.Format(typeid.Pull, id)})
	if err != nil {
		return err
	}
	p, err := s.merge(r, in, id, body.HeadSha)
	if err != nil {
		return err
	}
	return s.answer(w, r, http.StatusOK, wirePull(p))
}

// merge joins a pull request on the built-in forge and records it. A repeat finds it merged.
func (s *server) merge(r *http.Request, in db.Request, id uuid.UUID, head string) (db.PullInfo, error) {
	p := who(r)
	pull, err := s.store.Pull(r.Context(), p.tenant, id)
	if err != nil {
		return pull, err
	}
	switch {
	case pull.State == "MERGED":
		return pull, nil
	case pull.State == "CLOSED":
		return pull, fault.New(fault.Conflict, "Nothing was merged: the pull request is closed.").WithCode("pull_closed")
	case pull.ForgeKind != "local" || s.forge == nil:
		return pull, fault.New(fault.Invalid, "Nothing was merged: this pull request lives on another forge. Merge it there.")
	case head != pull.HeadSHA:
		return pull, fault.New(fault.Conflict, "Nothing was merged, because the pull request has another commit than the one you saw. Look again.").WithCode("head_moved")
	}
	now, err := s.store.Now(r.Context())
	if err != nil {
		return pull, err
	}
	email := p.email
	if email == "" {
		email = "person@" + s.mailHost()
	}
	sha, err := s.forge.Merge(r.Context(), pull.CloneURL, forge.MergeSpec{Base: pull.Base, Head: pull.Head, HeadSHA: head, Title: pull.Title, Name: p.name, Email: email, At: now})
	if err != nil {
		return pull, err
	}
	if err := s.store.MovePull(r.Context(), in, id, "MERGED", sha, p.user); err != nil {
		return pull, err
	}
	return s.store.Pull(r.Context(), p.tenant, id)
}
