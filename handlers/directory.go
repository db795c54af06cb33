package handlers

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// personGates bounds the open gates that a person's rights are explained with.
const personGates = 20

// getAdmin is the index of what an administrator looks after.
func (s *server) getAdmin(w http.ResponseWriter, r *http.Request) error {
	ctx, tenant := r.Context(), who(r).tenant
	people, err := s.store.CountPeople(ctx, tenant, "")
	if err != nil {
		return err
	}
	tokens, err := s.store.CountTokens(ctx, tenant)
	if err != nil {
		return err
	}
	credentials, err := s.store.CountWorkerCredentials(ctx, tenant)
	if err != nil {
		return err
	}
	mappings, err := s.store.Mappings(ctx, tenant)
	if err != nil {
		return err
	}
	data := web.AdminPageData{Shell: s.shell(r), Places: []web.AdminPlace{
		{Name: "People", URL: web.PeopleURL, Count: counted(people), Text: "See what each may do, by which group, and what they can decide now."},
		{Name: "Identity providers", URL: web.AdminProvidersURL, Count: strconv.Itoa(len(mappings)), Text: "See where people sign in and which groups give which roles."},
		{Name: "Everybody's tokens", URL: web.AdminTokensURL, Count: counted(tokens), Text: "See and revoke API tokens and logins of the command line."},
		{Name: "Workers' credentials", URL: web.CredentialsURL, Count: counted(credentials), Text: "Enrol workers and revoke their credentials."},
		{Name: "Workers and queues", URL: web.WorkersURL, Text: "Drain workers, pause queues, see how many fit."},
		{Name: "Repositories", URL: web.RepositoriesURL, Text: "Register repositories and their verification, and see whether they can be reached."},
		{Name: "Policy", URL: web.PoliciesURL, Text: "See what is in force and why, write a new version and try it on past runs."},
		{Name: "Budgets", URL: web.BudgetsURL, Text: "See what was used today of what the policy bounds, by person and repository."},
		{Name: "Retention", URL: web.RetentionURL, Text: "See what is kept for how long, and what is deleted next."},
		{Name: "Audit log", URL: web.AuditURL, Text: "Find out who did what, and export it."},
	}}
	return s.render(w, r, http.StatusOK, web.AdminPage(data))
}

// counted writes a count that stops after db.CountMost.
func counted(n int) string {
	if n > db.CountMost {
		return "more than " + strconv.Itoa(db.CountMost)
	}
	return strconv.Itoa(n)
}

func (s *server) getPeople(w http.ResponseWriter, r *http.Request) error {
	q, tenant := r.URL.Query(), who(r).tenant
	before, err := readCursor(q.Get("before"))
	if err != nil {
		return err
	}
	query := strings.TrimSpace(q.Get("q"))
	list, err := s.store.People(r.Context(), tenant, query, before, pageSize+1)
	if err != nil {
		return err
	}
	list, next := more(list, pageSize)
	data := web.PeoplePageData{Shell: s.shell(r), Query: query, Pager: pager(r, len(list), next)}
	for _, p := range list {
		data.Rows = append(data.Rows, personRow(p))
	}
	data.Pager.Tally, err = tally(query != "", func(all bool) (int, error) {
		if all {
			return s.store.CountPeople(r.Context(), tenant, "")
		}
		return s.store.CountPeople(r.Context(), tenant, query)
	})
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.PeoplePage(data))
}

func personRow(p db.Person) web.PersonRow {
	row := web.PersonRow{
		ID: typeid.Format(typeid.User, p.ID), Name: p.Name, Email: p.Email, Provider: p.Provider, Groups: p.Groups, SignedIn: p.LastSignedIn, Disabled: p.Disabled,
	}
	for _, role := range p.Roles {
		row.Roles = append(row.Roles, string(role))
	}
	return row
}

// getPerson explains what one person may do, and why not more.
func (s *server) getPerson(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.User)
	if err != nil {
		return err
	}
	tenant := who(r).tenant
	p, err := s.store.Person(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	mappings, err := s.store.Mappings(r.Context(), tenant)
	if err != nil {
		return err
	}
	data := web.PersonPageData{Shell: s.shell(r), Person: personRow(p), Rights: rights(p, mappings)}
	if p.Appointed == db.AppointedByLink {
		data.DismissKey = db.NewSecret()
	}
	gates, err := s.store.Gates(r.Context(), tenant, db.GateFilter{States: []run.GateState{run.GateOpen}, Limit: personGates + 1})
	if err != nil {
		return err
	}
	if data.More = len(gates) > personGates; data.More {
		gates = gates[:personGates]
	}
	for _, g := range gates {
		// As they stand before it when they are signed in.
		st, err := s.store.Standing(r.Context(), tenant, g.ID, db.Decider{User: p.ID, Name: p.Name, Roles: p.Roles, Live: !p.Disabled})
		if err != nil {
			return err
		}
		data.Gates = append(data.Gates, web.PersonGate{
			ID: typeid.Format(typeid.Gate, g.ID), Title: g.TaskTitle, Kind: string(g.Kind), Role: string(g.Role), MayApprove: st.MayApprove, MayReject: st.MayReject, Told: st.Why,
		})
	}
	return s.render(w, r, http.StatusOK, web.PersonPage(data))
}

// rights explains each role: held by which of today's mappings, ending or coming with the next sign-in, or given by which groups.
func rights(p db.Person, mappings []db.Mapping) []web.Right {
	var all []web.Right
	for _, role := range policy.Roles() {
		right := web.Right{Role: string(role), Held: slices.Contains(p.Roles, role), Lets: web.RoleLets(string(role))}
		var by, elsewhere []string
		for _, m := range mappings {
			for _, group := range m.Gives(role) {
				if m.Provider == p.ProviderID && slices.Contains(p.Groups, group) {
					by = append(by, group+" at "+m.Name)
				} else {
					elsewhere = append(elsewhere, group+" at "+m.Name)
				}
			}
		}
		switch {
		case right.Held && role == policy.RoleAdmin && p.Appointed == db.AppointedByLink:
			right.From = "A one-time link of the server's command line, whatever their groups are"
		case right.Held && role == policy.RoleAdmin && p.Appointed != "":
			right.From = "The server's configuration, at each sign-in"
		case right.Held && len(by) > 0:
			right.From = "Group " + strings.Join(by, ", ")
		case right.Held && len(p.Groups) == 0:
			right.From = "The last sign-in, which was before groups were noted"
		case right.Held:
			right.From = "The last sign-in; none of its groups gives this role any longer, so it ends with the next one"
		case len(by) > 0:
			right.From = "Comes with the next sign-in: group " + strings.Join(by, ", ")
		case len(elsewhere) > 0:
			right.From = "Would come from group " + strings.Join(elsewhere, " or ")
		default:
			right.From = "No group gives it"
		}
		all = append(all, right)
	}
	return all
}

func (s *server) getAdminProviders(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	mappings, err := s.store.Mappings(r.Context(), p.tenant)
	if err != nil {
		return err
	}
	data := web.ProvidersPageData{Shell: s.shell(r), Tenant: p.tenantName}
	for _, m := range mappings {
		row := web.ProviderMapping{Name: m.Name, Issuer: m.Issuer, GroupsClaim: m.GroupsClaim, Dev: m.Dev}
		for _, g := range m.Groups {
			if n := len(row.Groups); n == 0 || row.Groups[n-1].Group != g.Group {
				row.Groups = append(row.Groups, web.GroupRoles{Group: g.Group})
			}
			last := &row.Groups[len(row.Groups)-1]
			last.Roles = append(last.Roles, string(g.Role))
		}
		data.Rows = append(data.Rows, row)
	}
	return s.render(w, r, http.StatusOK, web.ProvidersPage(data))
}

func (s *server) getAdminTokens(w http.ResponseWriter, r *http.Request) error {
	tenant := who(r).tenant
	before, err := readCursor(r.URL.Query().Get("before"))
	if err != nil {
		return err
	}
	list, err := s.store.AllTokens(r.Context(), tenant, before, pageSize+1)
	if err != nil {
		return err
	}
	list, next := more(list, pageSize)
	data := web.AllTokensPageData{Shell: s.shell(r), Pager: pager(r, len(list), next)}
	for _, t := range list {
		data.Rows = append(data.Rows, tokenRow(t, t.UserName))
	}
	if data.Pager.Tally, err = tally(false, func(bool) (int, error) { return s.store.CountTokens(r.Context(), tenant) }); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, web.AllTokensPage(data))
}

func (s *server) postAdminTokenRevoke(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Token)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "token.revoke", object: "token", reason: "by an administrator"})
	if err != nil {
		return err
	}
	if err := s.store.EndAnyToken(r.Context(), in, id); err != nil {
		return err
	}
	return see(w, r, web.AdminTokensURL+"?done=token-revoked")
}

// getCredentials looks after workers' identities.
func (s *server) getCredentials(w http.ResponseWriter, r *http.Request) error {
	return s.credentialsPage(w, r, http.StatusOK, web.CredentialsPageData{}, []string{string(run.PhaseExecute), string(run.PhaseVerify), string(run.PhasePublish)})
}

func (s *server) credentialsPage(w http.ResponseWriter, r *http.Request, code int, data web.CredentialsPageData, phases []string) error {
	tenant := who(r).tenant
	data.Shell, data.IdempotencyKey, data.Server = s.shell(r), db.NewSecret(), s.publicURL.String()
	for _, p := range run.Phases() {
		data.Phases = append(data.Phases, web.Option{Value: string(p), Label: string(p), Selected: slices.Contains(phases, string(p))})
	}
	enrolments, err := s.store.Enrolments(r.Context(), tenant)
	if err != nil {
		return err
	}
	for _, e := range enrolments[:min(len(enrolments), pageSize)] {
		row := web.EnrolmentRow{ID: typeid.Format(typeid.Enrolment, e.ID), Name: e.Name, By: e.ByName, Phases: phaseWords(e.Phases), Created: e.CreatedAt, Expires: e.ExpiresAt,
			Used: instant(e.UsedAt), Revoked: instant(e.RevokedAt), Worker: typeid.Format(typeid.Worker, e.Worker)}
		if e.UsedAt == nil && e.RevokedAt == nil && e.ExpiresAt.After(data.Now) {
			row.RevokeKey = db.NewSecret()
		}
		data.Enrolments = append(data.Enrolments, row)
	}
	before, err := readCursor(r.URL.Query().Get("before"))
	if err != nil {
		return err
	}
	list, err := s.store.PageOfWorkerCredentials(r.Context(), tenant, before, pageSize+1)
	if err != nil {
		return err
	}
	list, next := more(list, pageSize)
	data.Pager = pager(r, len(list), next)
	for _, c := range list {
		data.Rows = append(data.Rows, web.CredentialRow{ID: typeid.Format(typeid.Worker, c.ID), Name: c.Name, Phases: phaseWords(c.Phases), Created: c.CreatedAt,
			LastUsed: instant(c.LastUsedAt), Revoked: instant(c.RevokedAt), RevokeKey: db.NewSecret()})
	}
	if data.Pager.Tally, err = tally(false, func(bool) (int, error) { return s.store.CountWorkerCredentials(r.Context(), tenant) }); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, code, web.CredentialsPage(data))
}

func phaseWords(phases []run.Phase) []string {
	var words []string
	for _, p := range phases {
		words = append(words, string(p))
	}
	return words
}

// postEnrolment makes an enrolment token and shows its secret once, in this answer and never again.
func (s *server) postEnrolment(w http.ResponseWriter, r *http.Request) error {
	values, in, err := s.formRequest(r, act{action: "worker_enrolment.create", object: "worker_enrolment"})
	if err != nil {
		return err
	}
	data := web.CredentialsPageData{Name: strings.TrimSpace(values.Get("name")), Errors: map[string]string{}}
	if n := len([]rune(data.Name)); n == 0 || n > 100 {
		data.Errors["name"] = "A name has 1 to 100 characters."
	}
	var phases []run.Phase
	for _, p := range run.Phases() {
		if slices.Contains(values["phases"], string(p)) {
			phases = append(phases, p)
		}
	}
	if len(phases) == 0 {
		data.Errors["phases"] = "Choose at least one thing that the worker may claim."
	}
	if len(data.Errors) > 0 {
		return s.credentialsPage(w, r, http.StatusUnprocessableEntity, data, phaseWords(phases))
	}
	in.Audit.Reason = data.Name
	secret := db.Mint(db.PrefixEnrolment)
	e, again, err := s.store.IssueEnrolment(r.Context(), in, db.Enrolment{Name: data.Name, Phases: phases, By: who(r).user}, secret, enrolmentLife)
	if err != nil {
		return err
	}
	if again {
		// The form was sent twice: its secret was shown once, and this is not the answer that showed it.
		return see(w, r, web.CredentialsURL)
	}
	created := web.CredentialsPageData{Created: &web.CreatedToken{Name: e.Name, Secret: secret, Expires: e.ExpiresAt.UTC()}}
	return s.credentialsPage(w, r, http.StatusOK, created, phaseWords(run.Phases()))
}

func (s *server) postEnrolmentRevoke(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Enrolment)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "worker_enrolment.revoke", object: "worker_enrolment"})
	if err != nil {
		return err
	}
	if err := s.store.EndEnrolment(r.Context(), in, id); err != nil {
		return err
	}
	return see(w, r, web.CredentialsURL+"?done=enrolment-withdrawn")
}

func (s *server) postCredentialRevoke(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Worker)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "worker_credential.revoke", object: "worker"})
	if err != nil {
		return err
	}
	if err := s.store.EndWorkerCredential(r.Context(), in, id); err != nil {
		return err
	}
	return see(w, r, web.CredentialsURL+"?done=credential-revoked")
}
