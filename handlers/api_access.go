package handlers

import (
	"net/http"
	"slices"
	"time"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

const (
	// cliCodeLife is how long a one-time code of the command line's login is worth something.
	cliCodeLife = 2 * time.Minute
	// cliLoginLife is how long a login of the command line lasts.
	cliLoginLife = 12 * time.Hour
	maxTokenLife = 365 * 24 * time.Hour
)

func (s *server) apiPrincipal(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	answer := wire.Principal{Kind: wire.PrincipalKind(p.kind.String()), Tenant: p.tenantName, Name: p.name, Scopes: p.scopes, AuthTime: p.authTime.UTC()}
	for _, role := range p.roles {
		answer.Roles = append(answer.Roles, string(role))
	}
	if p.authTime.IsZero() {
		answer.AuthTime = time.Time{}
	}
	if p.kind == worker {
		answer.CredentialId = typeid.Format(typeid.Worker, p.credential)
	} else {
		answer.UserId = typeid.Format(typeid.User, p.user)
	}
	return s.answer(w, r, http.StatusOK, answer)
}

func (s *server) apiExchangeLogin(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[wire.LoginExchange](s, r)
	if err != nil {
		return err
	}
	secret := db.Mint(db.PrefixLogin)
	name := text(body.Name, 100)
	if name == "" {
		name = "command line"
	}
	t, err := s.store.TakeCLILogin(r.Context(), body.Code, body.Verifier, name, secret, cliLoginLife)
	if err != nil {
		return err
	}
	return s.minted(w, r, wire.MintedToken{Id: typeid.Format(typeid.Token, t.ID), Name: t.Name, Secret: secret, ExpiresAt: t.ExpiresAt.UTC()})
}

func (s *server) minted(w http.ResponseWriter, r *http.Request, m wire.MintedToken) error {
	w.Header().Set("Cache-Control", "no-store")
	return s.answer(w, r, http.StatusCreated, m)
}

func (s *server) apiLogout(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	in := db.Request{Tenant: p.tenant, By: p.actor(), Audit: auditOf(r, act{action: "token.revoke", object: "token"})}
	if err := s.store.EndToken(r.Context(), in, p.user, p.credential); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiTokens(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	tokens, err := s.store.Tokens(r.Context(), p.tenant, p.user)
	if err != nil {
		return err
	}
	list := wire.TokenList{Items: []wire.Token{}}
	for _, t := range tokens {
		item := wire.Token{Id: typeid.Format(typeid.Token, t.ID), Kind: tokenKind(t), Name: t.Name, Scopes: t.Scopes, CreatedAt: t.CreatedAt.UTC(), ExpiresAt: t.ExpiresAt.UTC()}
		item.LastUsedAt, item.RevokedAt = instant(t.LastUsedAt), instant(t.RevokedAt)
		list.Items = append(list.Items, item)
	}
	return s.answer(w, r, http.StatusOK, list)
}

func tokenKind(t db.Token) string {
	if t.Login {
		return "login"
	}
	return "api"
}

func instant(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

func (s *server) apiCreateToken(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.TokenCreate](s, r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "token.create", object: "token", reason: body.Name})
	if err != nil {
		return err
	}
	var scopes []string
	for _, scope := range body.Scopes {
		scopes = append(scopes, string(scope))
	}
	t, secret, again, err := s.newToken(r, in, body.Name, scopes, time.Until(body.ExpiresAt))
	if err != nil {
		return err
	}
	replayed(w, again)
	return s.minted(w, r, wire.MintedToken{Id: typeid.Format(typeid.Token, t.ID), Name: t.Name, Secret: secret, ExpiresAt: t.ExpiresAt.UTC()})
}

// newToken makes an API token for the person behind the request. It is for persons only: a token makes no token (S10).
// A repeated request gets no secret: it was shown once.
func (s *server) newToken(r *http.Request, in db.Request, name string, scopes []string, life time.Duration) (db.Token, string, bool, error) {
	if life <= 0 || life > maxTokenLife {
		return db.Token{}, "", false, fault.New(fault.Invalid, "No token was made: its expiry must lie ahead, at most 365 days.").WithField("expires_at")
	}
	p := who(r)
	slices.Sort(scopes)
	secret := db.Mint(db.PrefixToken)
	t, again, err := s.store.IssueToken(r.Context(), in, db.Token{
		Tenant: p.tenant, User: p.user, Name: name, Scopes: slices.Compact(scopes), ExpiresAt: time.Now().Add(life),
	}, secret)
	if again {
		secret, t.Name, t.ExpiresAt = "", name, time.Time{}
	}
	return t, secret, again, err
}

func (s *server) apiRevokeToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "token_id", typeid.Token)
	if err != nil {
		return err
	}
	p := who(r)
	in := db.Request{Tenant: p.tenant, By: p.actor(), Audit: auditOf(r, act{action: "token.revoke", object: "token"})}
	if err := s.store.EndToken(r.Context(), in, p.user, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *server) apiWorkerCredentials(w http.ResponseWriter, r *http.Request) error {
	all, err := s.store.WorkerCredentials(r.Context(), who(r).tenant)
	if err != nil {
		return err
	}
	list := wire.WorkerCredentialList{Items: []wire.WorkerCredential{}}
	for _, c := range all {
		list.Items = append(list.Items, wire.WorkerCredential{
			Id: typeid.Format(typeid.Worker, c.ID), Name: c.Name, Phases: wirePhases(c.Phases), CreatedAt: c.CreatedAt.UTC(),
			LastUsedAt: instant(c.LastUsedAt), RevokedAt: instant(c.RevokedAt),
		})
	}
	return s.answer(w, r, http.StatusOK, list)
}

func (s *server) apiCreateWorkerCredential(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	body, err := decode[wire.WorkerCredentialCreate](s, r)
	if err != nil {
		return err
	}
	in, err := s.request(r, key, body, act{action: "worker_credential.create", object: "worker", reason: body.Name})
	if err != nil {
		return err
	}
	secret := db.Mint(db.PrefixWorker)
	c, again, err := s.store.IssueWorkerCredential(r.Context(), in, db.WorkerCredential{Tenant: who(r).tenant, Name: body.Name, Phases: runPhases(body.Phases)}, secret)
	if err != nil {
		return err
	}
	if replayed(w, again); again {
		secret = ""
	}
	return s.minted(w, r, wire.MintedToken{Id: typeid.Format(typeid.Worker, c.ID), Name: c.Name, Secret: secret})
}

func (s *server) apiRevokeWorkerCredential(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "credential_id", typeid.Worker)
	if err != nil {
		return err
	}
	p := who(r)
	in := db.Request{Tenant: p.tenant, By: p.actor(), Audit: auditOf(r, act{action: "worker_credential.revoke", object: "worker"})}
	if err := s.store.EndWorkerCredential(r.Context(), in, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
