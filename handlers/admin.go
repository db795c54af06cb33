package handlers

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/internal/argv"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
)

// getRepositories lists repositories, with the form to add one.
func (s *server) getRepositories(w http.ResponseWriter, r *http.Request) error {
	return s.repositoriesPage(w, r, http.StatusOK, web.RepositoryForm{DefaultBranch: "main"}, "", nil)
}

func (s *server) repositoriesPage(w http.ResponseWriter, r *http.Request, code int, form web.RepositoryForm, chosen string, errs map[string]string) error {
	p := who(r)
	data := web.RepositoriesPageData{Shell: s.shell(r), Form: form, Errors: errs, IdempotencyKey: db.NewSecret(), MayAdd: p.has(policy.RoleAdmin)}
	if !data.MayAdd {
		data.WhyNot = "Registering repositories needs the role admin."
	}
	repos, err := s.store.Repositories(r.Context(), p.tenant, "", 500)
	if err != nil {
		return err
	}
	for _, repo := range repos {
		row := web.RepositoryRow{ID: typeid.Format(typeid.Repo, repo.ID), Name: repo.Name, Forge: repo.ForgeName, Remote: repo.CloneURL, DefaultBranch: repo.DefaultBranch, Tasks: int(repo.Tasks), Added: repo.CreatedAt}
		for _, c := range repo.Verification {
			row.Verify = append(row.Verify, argv.Format(c.Argv))
		}
		row.Checked = repo.CheckedAt
		for _, f := range repo.Preflight {
			row.Findings = append(row.Findings, web.FindingRow{Name: f.Name, State: f.State, Words: f.Words})
		}
		if data.MayAdd {
			row.CheckKey = db.NewSecret()
		}
		last, err := s.store.Runs(r.Context(), p.tenant, db.RunFilter{Repository: repo.ID, Limit: 1})
		if err != nil {
			return err
		}
		if len(last) > 0 {
			row.LastRunID, row.LastRunState, row.LastRunAt = typeid.Format(typeid.Run, last[0].ID), string(last[0].State), last[0].UpdatedAt
		}
		data.Rows = append(data.Rows, row)
	}
	forges, err := s.store.Forges(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	for _, f := range forges {
		id := typeid.Format(typeid.Forge, f.ID)
		data.Forges = append(data.Forges, web.Option{Value: id, Label: f.Name, Selected: id == chosen})
	}
	return s.render(w, r, code, web.RepositoriesPage(data))
}

// postRepository registers a repository.
func (s *server) postRepository(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "repository.add", object: "repository"})
	if err != nil {
		return err
	}
	typed := web.RepositoryForm{Name: values.Get("name"), Remote: values.Get("remote"), DefaultBranch: values.Get("default_branch"), Verify: values.Get("verify")}
	refuse := func(err error) error {
		f, ok := fault.Find(err)
		if !ok || f.Kind == fault.Internal || f.Kind == fault.Unavailable {
			return err
		}
		field := f.Field
		if renamed, ok := map[string]string{"forge_id": "forge", "clone_url": "remote", "verification": "verify"}[field]; ok {
			field = renamed
		}
		s.note(r, err)
		return s.repositoriesPage(w, r, status(f.Kind), typed, values.Get("forge"), map[string]string{field: f.Sentence})
	}
	forge, err := typeid.ParseField("forge_id", typeid.Forge, values.Get("forge"))
	if err != nil {
		return refuse(err)
	}
	repo := db.RepositoryInfo{Name: typed.Name, Forge: forge, CloneURL: strings.TrimSpace(typed.Remote), DefaultBranch: strings.TrimSpace(typed.DefaultBranch)}
	for i, line := range lines(typed.Verify) {
		words, err := argv.Parse(line)
		if err != nil {
			return refuse(fault.Newf(fault.Invalid, "Nothing was registered: command %d, %s: %s.", i+1, clipText(line, 90), err).WithField("verify"))
		}
		repo.Verification = append(repo.Verification, run.Check{Name: clipText(line, 90), Kind: string(wire.CheckTest), Argv: words})
	}
	if _, _, err := s.register(r, in, repo); err != nil {
		return refuse(err)
	}
	return see(w, r, web.RepositoriesURL+"?done=repository-added")
}

// getTokens lists the person's own tokens.
func (s *server) getTokens(w http.ResponseWriter, r *http.Request) error {
	return s.tokensPage(w, r, http.StatusOK, web.TokensPageData{Days: 30}, nil)
}

func (s *server) tokensPage(w http.ResponseWriter, r *http.Request, code int, data web.TokensPageData, scopes []string) error {
	p := who(r)
	data.Shell, data.MaxDays, data.IdempotencyKey = s.shell(r), 365, db.NewSecret()
	tokens, err := s.store.Tokens(r.Context(), p.tenant, p.user)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		data.Rows = append(data.Rows, tokenRow(t, p.name))
	}
	for _, scope := range scopeWords() {
		scope.Selected = slices.Contains(scopes, scope.Value)
		data.Scopes = append(data.Scopes, scope)
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, code, web.TokensPage(data))
}

func tokenRow(t db.Token, owner string) web.TokenRow {
	prefix := db.PrefixToken
	if t.Login {
		prefix = db.PrefixLogin
	}
	return web.TokenRow{
		ID: typeid.Format(typeid.Token, t.ID), Name: t.Name, Owner: owner, Prefix: prefix, Scopes: t.Scopes, Created: t.CreatedAt, Expires: t.ExpiresAt,
		LastUsed: instant(t.LastUsedAt), Revoked: instant(t.RevokedAt), RevokeKey: db.NewSecret(),
	}
}

func scopeWords() []web.Option {
	return []web.Option{
		{Value: string(wire.ScopeRead), Label: "read: look at tasks, runs, gates and repositories"},
		{Value: string(wire.ScopeTasks), Label: "tasks: submit, cancel and close tasks, cancel runs"},
		{Value: string(wire.ScopeRepositories), Label: "repositories: register repositories, if you may"},
	}
}

// postToken makes a token and shows its secret once, in this answer and never again.
func (s *server) postToken(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "token.create", object: "token"})
	if err != nil {
		return err
	}
	data := web.TokensPageData{Name: strings.TrimSpace(values.Get("name")), Errors: map[string]string{}}
	data.Days, err = strconv.Atoi(values.Get("days"))
	if err != nil || data.Days < 1 || data.Days > 365 {
		data.Errors["days"], data.Days = "An expiry is required: 1 to 365 days.", 30
	}
	if n := len([]rune(data.Name)); n == 0 || n > 100 {
		data.Errors["name"] = "A name has 1 to 100 characters."
	}
	scopes := chosenScopes(values)
	if len(scopes) == 0 {
		data.Errors["scopes"] = "Choose at least one thing that the token may do."
	}
	if len(data.Errors) > 0 {
		return s.tokensPage(w, r, http.StatusUnprocessableEntity, data, scopes)
	}
	t, secret, again, err := s.newToken(r, in, data.Name, scopes, time.Duration(data.Days)*24*time.Hour)
	if err != nil {
		return err
	}
	if again {
		// The form was sent twice: its secret was shown once, and this is not the answer that showed it.
		return see(w, r, web.TokensURL)
	}
	return s.tokensPage(w, r, http.StatusOK, web.TokensPageData{Days: 30, Created: &web.CreatedToken{Name: t.Name, Secret: secret, Expires: t.ExpiresAt.UTC()}}, nil)
}

func chosenScopes(v url.Values) []string {
	var scopes []string
	for _, scope := range v["scopes"] {
		if wire.Scope(scope).Valid() {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

func (s *server) postTokenRevoke(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Token)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "token.revoke", object: "token"})
	if err != nil {
		return err
	}
	if err := s.store.EndToken(r.Context(), in, who(r).user, id); err != nil {
		return err
	}
	return see(w, r, web.TokensURL+"?done=token-revoked")
}
