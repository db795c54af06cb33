package handlers

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/web"
	"signalbox/web/ui"
)

// usedShown bounds the people and the repositories that the page about budgets lists.
const usedShown = 50

// getAdminBudgets says what was used of what policy bounds.
func (s *server) getAdminBudgets(w http.ResponseWriter, r *http.Request) error {
	b, err := s.store.BudgetUse(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	data := web.BudgetsPageData{
		Shell: s.shell(r), Version: b.Version, Zone: b.Zone, Ends: b.Ends, Spent: s.currency.Of(b.Spent.Reported + b.Spent.Estimated),
		Estimated: s.currency.Of(b.Spent.Estimated), UnknownCalls: b.Spent.UnknownCalls, Daily: s.currency.Of(b.DailyMicros), RunLimits: s.runLimits(b.Limits), GatesOfOne: b.Reviewers.OpenGatesOfOne, PullsOfOne: b.Reviewers.OpenPullsOfOne,
		People: s.usedRows(b.People), Repositories: s.usedRows(b.Repositories), Shown: usedShown,
	}
	for _, x := range b.Bounds {
		data.Bounds = append(data.Bounds, web.BoundRow{Words: x.Words, Path: x.Path, Have: x.Have, Most: x.Most})
	}
	return s.render(w, r, http.StatusOK, web.BudgetsPage(data))
}

func (s *server) usedRows(all []db.UsedBy) []web.UsedRow {
	var out []web.UsedRow
	for _, u := range all {
		out = append(out, web.UsedRow{Name: u.Name, Spent: s.currency.Of(u.Micros), Gates: u.Gates, Pulls: u.Pulls})
	}
	return out
}

// runLimits are the limits on spending that a run starts with.
func (s *server) runLimits(l policy.Limits) []web.LimitRow {
	var out []web.LimitRow
	count := func(words, path string, n int64, written string) {
		if n == 0 {
			written = "no bound"
		}
		out = append(out, web.LimitRow{Words: words, Path: "limits." + path, Value: written})
	}
	whole := func(words, path string, n int64) { count(words, path, n, strconv.FormatInt(n, 10)) }
	span := func(words, path string, d policy.Duration) { count(words, path, int64(d), ui.Dur(d.Std())) }
	count("Cost", "cost_cents", l.CostCents, s.currency.OfCents(l.CostCents).String())
	whole("Tokens in", "tokens_in", l.TokensIn)
	whole("Tokens out", "tokens_out", l.TokensOut)
	whole("Calls of the model's provider", "provider_calls", l.ProviderCalls)
	span("The agent's commands", "shell_time", l.ShellTime)
	span("Verification", "verifier_time", l.VerifierTime)
	span("Sandboxes", "sandbox_time", l.SandboxTime)
	span("The run's active time", "run_timeout", l.RunTimeout)
	return out
}

// getAdminRetention says what is kept, for how long, and what is deleted next.
func (s *server) getAdminRetention(w http.ResponseWriter, r *http.Request) error {
	k, err := s.store.Retention(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	days := func(d time.Duration) string { return fmt.Sprintf("%d days", int(d.Hours()/24)) }
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	const program, forever, nothing = "this version of the program", "without end", "nothing"
	data := web.RetentionPageData{Shell: s.shell(r), Rows: []web.RetentionRow{
		{What: "Runs, their events and decisions", Stored: n(k.Runs) + " runs", Kept: forever, Due: nothing, Source: program},
		{What: "Audit log", Stored: n(k.Audited) + " rows", Kept: forever, Due: nothing, Source: "the schema: no role of the server may delete a row"},
		{What: "Artifacts and logs", Stored: n(k.Artifacts) + " artifacts, " + ui.Bytes(k.Bytes), Kept: forever, Due: nothing, Source: program},
		{What: "Answers to requests, for repeats", Stored: n(k.Keys), Kept: days(k.KeyMemory), Due: n(k.KeysDue), Source: program},
		{What: "Drafts of texts that were not sent", Stored: n(k.Drafts), Kept: "30 days after the last change", Due: n(k.DraftsDue), Source: program},
		{What: "Logins in browsers", Stored: n(k.Sessions), Kept: "until their owner's next sign-in after they ended", Due: n(k.SessionsDue), Source: program},
		{What: "Starts of workers", Stored: "of the whole installation, not counted here", Kept: days(k.BootMemory) + " after they stopped, and always each worker's last", Due: "by the sweeper, in every server", Source: program},
	}}
	return s.render(w, r, http.StatusOK, web.RetentionPage(data))
}

// preflight looks whether a repository can be worked on. The server does what it can do itself, and says what it did not.
func (s *server) preflight(ctx context.Context, repo db.RepositoryInfo) ([]db.Found, error) {
	if repo.ForgeKind != "local" || s.forge == nil {
		words := "The server holds no credential of this forge, so it looked at nothing."
		if repo.ForgeKind == "local" {
			words = "This installation has no local forge any more, so nothing was looked at."
		}
		return []db.Found{{Name: "reachable", State: "unchecked", Words: words}, {Name: "push", State: "unchecked", Words: "A worker with the forge's credential finds out at the first run."}}, nil
	}
	list, err := s.forge.Preflight(ctx, repo.CloneURL, repo.DefaultBranch)
	if err != nil {
		return nil, err
	}
	var found []db.Found
	for _, f := range list {
		found = append(found, db.Found{Name: f.Name, State: string(f.State), Words: f.Words})
	}
	return append(found, db.Found{Name: "worker", State: "unchecked", Words: "Whether a worker reaches the forge's folder shows at its first run."}), nil
}

// postRepositoryCheck looks again whether a repository can be worked on, and keeps what was found.
func (s *server) postRepositoryCheck(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Repo)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "repository.check", object: "repository"})
	if err != nil {
		return err
	}
	repo, err := s.store.Repository(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	found, err := s.preflight(r.Context(), repo)
	if err != nil {
		return err
	}
	if err := s.store.KeepPreflight(r.Context(), in, id, found); err != nil {
		return err
	}
	return see(w, r, web.RepositoriesURL+"?done=repository-checked#repo-"+typeid.Format(typeid.Repo, id))
}

// enrolled makes the first preflight of a repository that was registered a moment ago; that it failed is no matter of that.
func (s *server) enrolled(r *http.Request, in db.Request, repo db.RepositoryInfo) {
	found, err := s.preflight(r.Context(), repo)
	if err == nil {
		err = s.store.KeepPreflight(r.Context(), db.Request{Tenant: in.Tenant, By: in.By}, repo.ID, found)
	}
	if err != nil {
		s.log.WarnContext(r.Context(), "a new repository was not checked", "request_id", requestID(r), "error", err.Error())
	}
}
