package db

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
)

// Provider is a configured OpenID provider. Its issuer is pinned to the row (D-24).
type Provider struct {
	ID           uuid.UUID
	Name, Issuer string
	ClientID     string
	ClientSecret secret.Value
	GroupsClaim  string
	// Dev allows the issuer to move, as the port of dev mode does.
	Dev bool
	// Groups maps a group's exact name to roles in the default tenant; only SaveProvider reads it.
	Groups map[string][]policy.Role
}

// Providers lists the configured providers by name, without their secrets: one that does not open keeps nobody from the others.
func (s *Store) Providers(ctx context.Context) ([]Provider, error) {
	rows, err := s.q.ListProviders(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("list providers: %w", err)
	}
	var all []Provider
	for _, r := range rows {
		all = append(all, Provider{ID: r.ID, Name: r.Name, Issuer: r.Issuer, ClientID: r.ClientID, GroupsClaim: r.GroupsClaim, Dev: r.Dev})
	}
	return all, nil
}

// Provider reads one provider; fault.NotFound where there is none.
func (s *Store) Provider(ctx context.Context, id uuid.UUID) (Provider, error) {
	r, err := s.q.GetProvider(ctx, s.pool, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Provider{}, fault.New(fault.NotFound, "There is no such login provider.")
	}
	if err != nil {
		return Provider{}, fmt.Errorf("read provider: %w", err)
	}
	key, err := s.clientSecret(r.ID, r.Issuer, r.ClientSecret, r.ClientSecretSealed)
	if err != nil {
		return Provider{}, err
	}
	return Provider{ID: r.ID, Name: r.Name, Issuer: r.Issuer, ClientID: r.ClientID, ClientSecret: key, GroupsClaim: r.GroupsClaim, Dev: r.Dev}, nil
}

// SaveProvider makes or updates the provider of that name with its group roles in the default tenant, and no others. A provider that exists keeps its
// issuer unless both are of dev mode; another issuer is fault.Conflict and changes nothing.
func (s *Store) SaveProvider(ctx context.Context, p Provider) (uuid.UUID, error) {
	var id uuid.UUID
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		row, err := s.q.InsertProvider(ctx, tx, sqlc.InsertProviderParams{
			ID: typeid.New(), Name: p.Name, Issuer: p.Issuer, ClientID: p.ClientID, GroupsClaim: p.GroupsClaim, Dev: p.Dev,
		})
		if err != nil {
			return err
		}
		sealed, err := s.keys.Seal(clientSecretPlace(row.ID, row.Issuer), p.ClientSecret)
		if errors.Is(err, secret.ErrNoKey) {
			return fault.Newf(fault.Conflict, "The provider %q was not saved: its client secret would be stored, and there is no key to store it under. Make one and name it in SIGNALBOX_SECRET_KEYS.", p.Name).WithCode("no_secret_key")
		}
		if err != nil {
			return err
		}
		if err := s.q.SetClientSecret(ctx, tx, sealed, row.ID); err != nil {
			return err
		}
		if row.Issuer != p.Issuer {
			return fault.Newf(fault.Conflict, "The provider %q was not changed: its issuer is %s and cannot become another, because the same person would be somebody else there. Use another name.", p.Name, row.Issuer)
		}
		id = row.ID
		groups, named := []string{}, []string{}
		for group, roles := range p.Groups {
			for _, role := range roles {
				groups, named = append(groups, group), append(named, string(role))
				if err := s.q.InsertGroupRole(ctx, tx, DefaultTenant, id, group, string(role)); err != nil {
					return err
				}
			}
		}
		return s.q.DeleteOtherGroupRoles(ctx, tx, DefaultTenant, id, groups, named)
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("save provider %s: %w", p.Name, err)
	}
	return id, nil
}

// LoginAttempt is what one login remembers between the redirect and the callback.
type LoginAttempt struct {
	Provider        uuid.UUID
	Nonce, Verifier string
	ReturnTo        string
	// Confirms is the person who proves again who they are; nil for a login of anybody.
	Confirms uuid.UUID
}

// BeginLogin stores an attempt under the hash of state and browser cookie together, for ttl. Old attempts are swept.
func (s *Store) BeginLogin(ctx context.Context, state, browser string, a LoginAttempt, ttl time.Duration) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := s.q.DeleteOldLoginStates(ctx, tx); err != nil {
			return err
		}
		nonce, err := sealAttempt(state, browser, "nonce", a.Nonce)
		if err != nil {
			return err
		}
		verifier, err := sealAttempt(state, browser, "verifier", a.Verifier)
		if err != nil {
			return err
		}
		return s.q.InsertLoginState(ctx, tx, sqlc.InsertLoginStateParams{
			StateHash: attemptHash(state, browser), ProviderID: a.Provider, Nonce: nonce, Verifier: verifier, ReturnTo: a.ReturnTo, Confirms: pointer(a.Confirms), Seconds: ttl.Seconds(),
		})
	})
	if err != nil {
		return fmt.Errorf("begin login: %w", err)
	}
	return nil
}

// TakeLogin returns an attempt once: the row is gone afterwards. fault.NotFound for an unknown, used, foreign or
// expired one.
func (s *Store) TakeLogin(ctx context.Context, state, browser string) (LoginAttempt, error) {
	r, err := s.q.TakeLoginState(ctx, s.pool, attemptHash(state, browser))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !r.Live {
		return LoginAttempt{}, fault.New(fault.NotFound, "This login attempt is not known.")
	}
	if err != nil {
		return LoginAttempt{}, fmt.Errorf("take login: %w", err)
	}
	nonce, err := openAttempt(state, browser, "nonce", r.Nonce)
	if err != nil {
		return LoginAttempt{}, err
	}
	verifier, err := openAttempt(state, browser, "verifier", r.Verifier)
	if err != nil {
		return LoginAttempt{}, err
	}
	return LoginAttempt{Provider: r.ProviderID, Nonce: nonce, Verifier: verifier, ReturnTo: r.ReturnTo, Confirms: value(r.Confirms)}, nil
}

// attemptHash binds a state to the browser that began it: neither half alone finds the row.
func attemptHash(state, browser string) []byte {
	sum := sha256.Sum256([]byte(state + "\n" + browser))
	return sum[:]
}

// SignIn is what a provider said about a person. Provider and Subject identify, the rest are labels (O7).
type SignIn struct {
	Provider    uuid.UUID
	Subject     string
	Name, Email string
	Groups      []string
	AuthTime    time.Time
	// Appointed says that the configuration names this person as an administrator of the installation.
	Appointed bool
	// Audit is completed with tenant and person and written with the sign-in; nil writes none.
	Audit *Audit
}

// SignIn finds or makes the person behind a subject and gives exactly the roles of today's groups. It makes no
// session. A disabled person is fault.Forbidden.
func (s *Store) SignIn(ctx context.Context, in SignIn) (Session, error) {
	out := Session{Provider: in.Provider, Subject: in.Subject, Name: in.Name, Email: in.Email, AuthTime: in.AuthTime}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		user, err := s.person(ctx, tx, in)
		if err != nil {
			return err
		}
		out.User = user
		why, fresh, err := s.appointment(ctx, tx, user, in.Appointed)
		if err != nil {
			return err
		}
		out.Tenant, out.TenantName, out.Roles, err = s.memberships(ctx, tx, user, in, why)
		if err != nil {
			return err
		}
		if err := s.q.DeleteOldSessions(ctx, tx, user); err != nil {
			return err
		}
		if err := s.q.DeleteOldDrafts(ctx, tx); err != nil {
			return err
		}
		if err := s.q.DeleteOldViews(ctx, tx, user); err != nil {
			return err
		}
		if in.Audit == nil {
			return nil
		}
		a := *in.Audit
		a.Tenant, a.By = out.Tenant, run.Actor{Kind: run.Human, ID: user.String(), Name: in.Name}
		a.ObjectID = typeid.Format(typeid.User, user)
		if err := s.audit(ctx, tx, &a); err != nil || !fresh {
			return err
		}
		a.Action, a.Detail = "admin.appoint", map[string]any{"by": why}
		return s.audit(ctx, tx, &a)
	})
	if err != nil {
		return Session{}, fmt.Errorf("sign in: %w", err)
	}
	return out, nil
}

func (s *Store) person(ctx context.Context, tx pgx.Tx, in SignIn) (uuid.UUID, error) {
	known, err := s.q.GetIdentity(ctx, tx, in.Provider, in.Subject)
	if errors.Is(err, pgx.ErrNoRows) {
		id := typeid.New()
		if err := s.q.InsertUser(ctx, tx, id, in.Name, in.Email); err != nil {
			return uuid.Nil, err
		}
		n, err := s.q.InsertIdentity(ctx, tx, in.Provider, in.Subject, id)
		if err == nil && n == 0 {
			return uuid.Nil, fault.New(fault.Conflict, "Nobody was signed in: two first logins of one person met. Sign in again.")
		}
		return id, err
	}
	if err != nil {
		return uuid.Nil, err
	}
	if known.Disabled {
		return uuid.Nil, fault.New(fault.Forbidden, "Nobody was signed in: this person's access was ended by an administrator.")
	}
	return known.UserID, s.q.UpdateUser(ctx, tx, known.UserID, in.Name, in.Email)
}

// memberships replaces the person's roles in every tenant by those of today's groups (O10), and by what the person was appointed to.
func (s *Store) memberships(ctx context.Context, tx pgx.Tx, user uuid.UUID, in SignIn, appointed string) (uuid.UUID, string, []policy.Role, error) {
	rows, err := s.q.ListGroupRoles(ctx, tx, in.Provider, in.Groups)
	if err != nil {
		return uuid.Nil, "", nil, err
	}
	roles, groups := map[uuid.UUID][]string{}, map[uuid.UUID][]string{}
	tenants := []uuid.UUID{}
	if appointed != "" { // first, so that it is the tenant that the person comes into
		tenants = append(tenants, DefaultTenant)
		roles[DefaultTenant] = []string{string(policy.RoleAdmin)}
	}
	for _, r := range rows {
		if !slices.Contains(tenants, r.TenantID) {
			tenants = append(tenants, r.TenantID)
		}
		if !slices.Contains(roles[r.TenantID], r.Role) {
			roles[r.TenantID] = append(roles[r.TenantID], r.Role)
		}
		groups[r.TenantID] = append(groups[r.TenantID], r.Groups...)
	}
	if err := s.q.DeleteOtherMemberships(ctx, tx, user, tenants); err != nil {
		return uuid.Nil, "", nil, err
	}
	for _, tenant := range tenants {
		slices.Sort(groups[tenant])
		why := ""
		if tenant == DefaultTenant {
			why = appointed
		}
		err := s.q.UpsertMembership(ctx, tx, sqlc.UpsertMembershipParams{
			TenantID: tenant, UserID: user, Roles: roles[tenant], ProviderID: pointer(in.Provider), Groups: filled(slices.Compact(groups[tenant])), Appointed: why,
		})
		if err != nil {
			return uuid.Nil, "", nil, err
		}
	}
	current := DefaultTenant
	if len(tenants) > 0 {
		current = tenants[0]
	}
	t, err := s.q.GetTenant(ctx, tx, current)
	return t.ID, t.Name, toRoles(roles[current]), err
}

func toRoles(names []string) []policy.Role {
	var roles []policy.Role
	for _, n := range names {
		roles = append(roles, policy.Role(n))
	}
	return roles
}

// BeginCLILogin stores a one-time code that a signed-in person gave to a command line, for ttl. challenge is the
// unpadded base64url SHA-256 of a secret that only the command line knows.
func (s *Store) BeginCLILogin(ctx context.Context, code, challenge string, user, tenant uuid.UUID, authTime time.Time, ttl time.Duration, a *Audit) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := s.q.DeleteOldLoginCodes(ctx, tx); err != nil {
			return err
		}
		err := s.q.InsertLoginCode(ctx, tx, sqlc.InsertLoginCodeParams{
			CodeHash: HashToken(code), UserID: user, TenantID: tenant, Challenge: challenge, AuthTime: authTime, Seconds: ttl.Seconds(),
		})
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("begin command line login: %w", err)
	}
	return nil
}

// TakeCLILogin exchanges a code for a login, once. A code that is unknown, used, expired or given with another
// verifier is fault.Unauthenticated, and it is gone afterwards.
func (s *Store) TakeCLILogin(ctx context.Context, code, verifier, name, secret string, life time.Duration) (Token, error) {
	refused := fault.New(fault.Unauthenticated, "You are not signed in: the code is unknown, was used, or is older than two minutes. Run signalbox login again.").WithCode("bad_code")
	r, err := s.q.TakeLoginCode(ctx, s.pool, HashToken(code))
	if errors.Is(err, pgx.ErrNoRows) {
		return Token{}, refused
	}
	if err != nil {
		return Token{}, fmt.Errorf("take command line login: %w", err)
	}
	sum := sha256.Sum256([]byte(verifier))
	given := base64.RawURLEncoding.EncodeToString(sum[:])
	if !r.Live || subtle.ConstantTimeCompare([]byte(given), []byte(r.Challenge)) != 1 {
		return Token{}, refused
	}
	return s.CreateToken(ctx, Token{
		Tenant: r.TenantID, User: r.UserID, Login: true, Name: name, AuthTime: r.AuthTime, ExpiresAt: time.Now().Add(life),
	}, secret)
}
