package handlers

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/trail"
)

// kind says what stands behind a request (D-21).
type kind int

const (
	// nobody is signed in.
	nobody kind = iota
	// person is a browser session or a login of the command line: only persons decide gates (D-17).
	person
	// token is an API token; a person is behind it, but it never decides.
	token
	// worker is a worker's credential.
	worker
)

func (k kind) String() string {
	return [...]string{"nobody", "person", "token", "worker"}[k]
}

// principal is who a request comes from. The tenant is taken from here and from nowhere else (T2); see tenantOf for the
// one principal without.
type principal struct {
	kind kind
	// tenant is uuid.Nil for a worker that serves every tenant, and for nobody.
	tenant     uuid.UUID
	tenantName string
	// user is the person, also behind a token; nil for workers.
	user uuid.UUID
	// credential is the token's or the worker credential's id.
	credential uuid.UUID
	name       string
	email      string
	roles      []policy.Role
	scopes     []string
	phases     []run.Phase
	authTime   time.Time
	// expires is when the session or token ends.
	expires time.Time
	// browser says that a cookie, not a bearer token, was presented.
	browser bool
}

func (p *principal) has(role policy.Role) bool { return slices.Contains(p.roles, role) }

// tenantOf is the tenant that a request is about. Whoever belongs to one reaches no other (T2). The workers that serve all
// of them work for that of the lease they hold: held finds it in the database, because a request could name any.
func tenantOf(r *http.Request, held func() (uuid.UUID, error)) (uuid.UUID, error) {
	p := who(r)
	if p.kind != worker || p.tenant != uuid.Nil {
		return p.tenant, nil
	}
	tenant, err := held()
	if err == nil {
		trail.Add(r.Context(), trail.Chain{Tenant: tenant.String()})
	}
	return tenant, err
}

// actorID is how events, audit and policy know the principal.
func (p *principal) actorID() string {
	if p.kind == worker {
		return p.credential.String()
	}
	return p.user.String()
}

// actor is the person as the author of an event.
func (p *principal) actor() run.Actor {
	return run.Actor{Kind: run.Human, ID: p.actorID(), Name: p.name}
}

// who returns the request's principal; a nobody where the route lets anyone in.
func who(r *http.Request) *principal {
	if p, ok := r.Context().Value(keyPrincipal).(*principal); ok {
		return p
	}
	return &principal{}
}

// missingRole is a Forbidden that names the right and who grants it.
type missingRole struct {
	role  string
	roles []policy.Role
	cause *fault.Error
}

func (e *missingRole) Error() string { return e.cause.Error() }
func (e *missingRole) Unwrap() error { return e.cause }

func lacks(roles []policy.Role) error {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	name := strings.Join(names, " or ")
	return &missingRole{name, roles, fault.Newf(fault.Forbidden, "Nothing was done: this needs the role %s, which comes from a group at your identity provider.", name).WithCode("missing_role")}
}

// authenticate finds out who is calling. Pages know only the cookie, the API only the bearer token (D-21).
func (s *server) authenticate(r *http.Request, rt route) (*principal, error) {
	if rt.operation != "" {
		return s.bearer(r)
	}
	row, ok, err := s.current(r)
	if err != nil || !ok {
		return &principal{}, err
	}
	return &principal{
		kind: person, tenant: row.Tenant, tenantName: row.TenantName, user: row.User, name: row.Name, email: row.Email,
		roles: row.Roles, authTime: row.AuthTime, expires: row.ExpiresAt, browser: true,
	}, nil
}

func (s *server) bearer(r *http.Request) (*principal, error) {
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return &principal{}, nil
	}
	refused := fault.New(fault.Unauthenticated, "Nothing was done: the token is unknown, expired or revoked. Sign in again with signalbox login, or make a new token.").WithCode("bad_token")
	if !db.WellFormed(secret) {
		return nil, refused
	}
	if strings.HasPrefix(secret, db.PrefixWorker) {
		c, err := s.store.WorkerByHash(r.Context(), db.HashToken(secret))
		if fault.KindOf(err) == fault.NotFound {
			return nil, fault.New(fault.Unauthenticated, "Nothing was done: the worker's credential is unknown or revoked. Enrol the worker anew, with a token that an administrator makes (signalbox worker-credential enrol).").WithCode("bad_token")
		}
		if err != nil {
			return nil, err
		}
		return &principal{kind: worker, tenant: c.Tenant, tenantName: c.TenantName, credential: c.ID, name: c.Name, phases: c.Phases}, nil
	}
	t, err := s.store.TokenByHash(r.Context(), db.HashToken(secret))
	if fault.KindOf(err) == fault.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	p := &principal{
		kind: token, tenant: t.Tenant, tenantName: t.TenantName, user: t.User, credential: t.ID, name: t.UserName, email: t.Email,
		roles: t.Roles, scopes: t.Scopes, authTime: t.AuthTime, expires: t.ExpiresAt,
	}
	if t.Login {
		p.kind = person
	}
	return p, nil
}

// authorise compares the principal with what the route declares.
func authorise(p *principal, rt route) error {
	a := rt.access
	switch {
	case a.anyone:
		return nil
	case p.kind == nobody:
		return fault.New(fault.Unauthenticated, "Nothing was done: this needs a login.").WithCode("login_needed")
	case !slices.Contains(a.kinds, p.kind):
		return fault.Newf(fault.Forbidden, "Nothing was done: this is not for %s. It is for %s.", kindWords(p.kind), kindList(a.kinds)).WithCode("wrong_principal")
	case p.kind == token && (a.scope == "" || !slices.Contains(p.scopes, string(a.scope))):
		return fault.Newf(fault.Forbidden, "Nothing was done: the token does not have the scope %q.", a.scope).WithCode("missing_scope")
	case p.kind != worker && len(a.roles) > 0 && !slices.ContainsFunc(a.roles, p.has):
		return lacks(a.roles)
	case p.kind != worker && len(p.roles) == 0:
		return lacks([]policy.Role{policy.RoleViewer})
	}
	return nil
}

func kindWords(k kind) string {
	switch k {
	case person:
		return "a person's own login"
	case token:
		return "an API token"
	case worker:
		return "a worker's credential"
	}
	return "a visitor"
}

func kindList(kinds []kind) string {
	var words []string
	for _, k := range kinds {
		words = append(words, kindWords(k))
	}
	return strings.Join(words, " or ")
}
