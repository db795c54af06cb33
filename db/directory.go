package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
)

// Person is somebody with rights in a tenant, and where these come from.
type Person struct {
	ID          uuid.UUID
	Name, Email string
	Roles       []policy.Role
	// Groups are those of the last sign-in that gave a role here, at the provider of that name.
	Groups       []string
	ProviderID   uuid.UUID
	Provider     string
	FirstSeen    time.Time
	LastSignedIn time.Time
	Disabled     bool
	// Appointed is why they are an administrator whatever their groups are: by link or configuration, or empty.
	Appointed string
}

// Cursor is the person's place in a list.
func (p Person) Cursor() Cursor { return Cursor{p.FirstSeen, p.ID} }

// People lists who has rights in a tenant, the newest first; query is a part of a name or address.
func (s *Store) People(ctx context.Context, tenant uuid.UUID, query string, before Cursor, limit int32) ([]Person, error) {
	at, id := before.down()
	rows, err := s.q.ListPeople(ctx, s.reads(tenant), sqlc.ListPeopleParams{TenantID: tenant, Query: query, BeforeAt: at, BeforeID: id, Count: limit})
	if err != nil {
		return nil, fmt.Errorf("list people: %w", err)
	}
	var all []Person
	for _, r := range rows {
		all = append(all, person(sqlc.GetPersonRow(r)))
	}
	return all, nil
}

// CountPeople counts what People would list on all its pages, up to CountMost.
func (s *Store) CountPeople(ctx context.Context, tenant uuid.UUID, query string) (int, error) {
	n, err := s.q.CountPeople(ctx, s.reads(tenant), tenant, query, CountMost+1)
	if err != nil {
		return 0, fmt.Errorf("count people: %w", err)
	}
	return int(n), nil
}

// Person reads one; fault.NotFound for somebody without rights in the tenant.
func (s *Store) Person(ctx context.Context, tenant, id uuid.UUID) (Person, error) {
	r, err := s.q.GetPerson(ctx, s.reads(tenant), tenant, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, fault.New(fault.NotFound, "There is no such person here. Who is in no group that gives a role is not listed.")
	}
	if err != nil {
		return Person{}, fmt.Errorf("read person: %w", err)
	}
	return person(r), nil
}

func person(r sqlc.GetPersonRow) Person {
	return Person{
		ID: r.ID, Name: r.Name, Email: r.Email, Roles: toRoles(r.Roles), Groups: r.Groups, ProviderID: value(r.ProviderID), Provider: r.Provider,
		FirstSeen: r.CreatedAt, LastSignedIn: r.UpdatedAt, Disabled: r.Disabled,
		Appointed: r.Appointed,
	}
}

// Mapping is a provider and what its groups give in one tenant.
type Mapping struct {
	Provider                  uuid.UUID
	Name, Issuer, GroupsClaim string
	Dev                       bool
	Groups                    []GroupRole
}

// GroupRole is one line of a mapping.
type GroupRole struct {
	Group string
	Role  policy.Role
}

// Gives lists the groups of the mapping that give a role.
func (m Mapping) Gives(role policy.Role) []string {
	var groups []string
	for _, g := range m.Groups {
		if g.Role == role {
			groups = append(groups, g.Group)
		}
	}
	return groups
}

// Mappings lists every provider by name, with what its groups give in the tenant. No secret is among it.
func (s *Store) Mappings(ctx context.Context, tenant uuid.UUID) ([]Mapping, error) {
	rows, err := s.q.ListGroupMappings(ctx, s.reads(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("list group mappings: %w", err)
	}
	var all []Mapping
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].Provider != r.ID {
			all = append(all, Mapping{Provider: r.ID, Name: r.Name, Issuer: r.Issuer, GroupsClaim: r.GroupsClaim, Dev: r.Dev})
		}
		if r.GroupName != "" {
			last := &all[len(all)-1]
			last.Groups = append(last.Groups, GroupRole{r.GroupName, policy.Role(r.Role)})
		}
	}
	return all, nil
}

// Cursor is the token's place in a list.
func (t Token) Cursor() Cursor { return Cursor{t.CreatedAt, t.ID} }

// AllTokens lists the tokens and logins of everybody in a tenant, newest first, also those that have ended.
func (s *Store) AllTokens(ctx context.Context, tenant uuid.UUID, before Cursor, limit int32) ([]Token, error) {
	at, id := before.down()
	rows, err := s.q.PageTokens(ctx, s.reads(tenant), &tenant, at, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	var all []Token
	for _, r := range rows {
		all = append(all, Token{
			ID: r.ID, Tenant: tenant, User: r.UserID, UserName: r.UserName, Login: r.Kind == "login", Name: r.Name, Scopes: r.Scopes,
			CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, LastUsedAt: r.LastUsedAt, RevokedAt: r.RevokedAt,
		})
	}
	return all, nil
}

// CountTokens counts the tokens and logins of a tenant, up to CountMost.
func (s *Store) CountTokens(ctx context.Context, tenant uuid.UUID) (int, error) {
	n, err := s.q.CountTokens(ctx, s.reads(tenant), &tenant, CountMost+1)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	return int(n), nil
}

// EndAnyToken revokes anybody's token or login in the tenant, as an administrator asked for it, audited; fault.NotFound where
// there is none such.
func (s *Store) EndAnyToken(ctx context.Context, in Request, id uuid.UUID) error {
	_, _, err := once(ctx, s, in, "token-end:"+id.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Token, id)
		n, err := s.q.RevokeAnyToken(ctx, tx, &in.Tenant, id)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "Nothing was revoked: there is no such token.")
		}
		return true, err
	})
	return err
}

// Cursor is the credential's place in a list.
func (c WorkerCredential) Cursor() Cursor { return Cursor{c.CreatedAt, c.ID} }

// PageOfWorkerCredentials is WorkerCredentials page by page.
func (s *Store) PageOfWorkerCredentials(ctx context.Context, tenant uuid.UUID, before Cursor, limit int32) ([]WorkerCredential, error) {
	at, id := before.down()
	rows, err := s.q.PageWorkerCredentials(ctx, s.reads(tenant), &tenant, at, id, limit)
	if err != nil {
		return nil, fmt.Errorf("list worker credentials: %w", err)
	}
	var all []WorkerCredential
	for _, r := range rows {
		all = append(all, WorkerCredential{
			ID: r.ID, Tenant: tenant, Name: r.Name, Phases: toPhases(r.Phases), CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, RevokedAt: r.RevokedAt,
		})
	}
	return all, nil
}

// CountWorkerCredentials counts a tenant's credentials, up to CountMost.
func (s *Store) CountWorkerCredentials(ctx context.Context, tenant uuid.UUID) (int, error) {
	n, err := s.q.CountWorkerCredentials(ctx, s.reads(tenant), &tenant, CountMost+1)
	if err != nil {
		return 0, fmt.Errorf("count worker credentials: %w", err)
	}
	return int(n), nil
}
