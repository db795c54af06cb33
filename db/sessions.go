package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/bytea"
	"signalbox/db/internal/sqlc"
	"signalbox/internal/coalesce"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/secret"
	"signalbox/internal/typeid"
)

// Session is a signed-in person.
type Session struct {
	User, Tenant, Provider uuid.UUID
	TenantName             string
	Subject                string
	Name, Email            string
	Roles                  []policy.Role
	// AuthTime is when the person last proved to the provider who they are; zero where it does not say.
	AuthTime, ExpiresAt time.Time
	// Browser says in words where the session is; only StartSession reads it.
	Browser string
	// ProviderSID is the provider's own name of its session, empty where it has none; IDToken is shown to it again at the
	// logout, and is not kept where there is no key to keep it under. Only StartSession reads them.
	ProviderSID string
	IDToken     secret.Value
}

// EndedSession is what is left to do about a session after it ended: to tell its provider.
type EndedSession struct {
	Provider uuid.UUID
	IDToken  secret.Value
}

// StartSession stores a session under hash and deletes the one under old in the same transaction.
func (s *Store) StartSession(ctx context.Context, session Session, hash, old []byte, idle, absolute time.Duration) error {
	token, err := s.keys.Seal(idTokenPlace(hash), session.IDToken)
	if err != nil && !errors.Is(err, secret.ErrNoKey) {
		return fmt.Errorf("start session: %w", err)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := s.q.DeleteSession(ctx, tx, old); err != nil {
			return err
		}
		return s.q.InsertSession(ctx, tx, sqlc.InsertSessionParams{
			IDHash: hash, ID: typeid.New(), UserID: session.User, TenantID: session.Tenant, ProviderID: pointer(session.Provider), Subject: session.Subject,
			AuthTime: session.AuthTime, Browser: session.Browser, ProviderSid: session.ProviderSID, IDTokenSealed: token, IdleSeconds: idle.Seconds(), AbsoluteSeconds: absolute.Seconds(),
		})
	})
	if err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	return nil
}

// Session reads the live session under hash, with the roles that the person has now; fault.NotFound where there is
// none. Its idle time begins again, written at most once a minute.
func (s *Store) Session(ctx context.Context, hash []byte, idle time.Duration) (Session, error) {
	r, err := s.q.GetSession(ctx, s.pool, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, fault.New(fault.NotFound, "There is no such session.")
	}
	if err != nil {
		return Session{}, fmt.Errorf("read session: %w", err)
	}
	if r.Stale {
		if err := s.q.TouchSession(ctx, s.pool, idle.Seconds(), hash); err != nil {
			return Session{}, fmt.Errorf("touch session: %w", err)
		}
	}
	out := Session{
		User: r.UserID, Tenant: r.TenantID, TenantName: r.TenantName, Subject: r.Subject, Name: r.Name, Email: r.Email,
		Roles: toRoles(r.Roles), AuthTime: r.AuthTime, ExpiresAt: r.ExpiresAt,
	}
	out.Provider = value(r.ProviderID)
	return out, nil
}

// SessionLives reports whether Session would find one under hash, by a look that begins after the call; streams that are woken
// together ask together. Its idle time goes on.
func (s *Store) SessionLives(ctx context.Context, hash []byte) (bool, error) {
	live, err := s.commits.lives.Do(ctx, hash)
	if err != nil {
		return false, fmt.Errorf("look at session: %w", err)
	}
	return live, nil
}

func (s *Store) sessionsLive(ctx context.Context, hashes [][]byte) []coalesce.Result[bool] {
	ask := make([]bytea.Bytes, len(hashes))
	for i, h := range hashes {
		ask[i] = h
	}
	rows, err := s.q.LiveSessions(ctx, s.pool, ask)
	out := make([]coalesce.Result[bool], len(hashes))
	for i, h := range hashes {
		out[i].Err = err
		out[i].Out = slices.ContainsFunc(rows, func(row bytea.Bytes) bool { return bytes.Equal(row, h) })
	}
	return out
}

// EndSession deletes the session under hash, with its line in the audit; deleting none is no error and no line.
func (s *Store) EndSession(ctx context.Context, hash []byte, a *Audit) (out EndedSession, err error) {
	var user uuid.UUID
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		row, err := s.q.TakeSession(ctx, tx, hash)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		user, out = row.UserID, EndedSession{Provider: value(row.ProviderID)}
		// A token that no longer opens costs the logout at the provider, and not the one here.
		if out.IDToken, err = s.keys.Open(idTokenPlace(hash), row.IDTokenSealed); err != nil {
			s.log.WarnContext(ctx, "the ID token of a session was not opened, so its logout does not reach the provider", "error", err)
		}
		return s.audit(ctx, tx, a)
	})
	if err != nil {
		return EndedSession{}, fmt.Errorf("end session: %w", err)
	}
	if user != uuid.Nil {
		s.ring(Change{Person: user})
	}
	return out, nil
}

// OpenSession is a login of a person as they see it: of a browser, or of the command line.
type OpenSession struct {
	ID uuid.UUID
	// Name is the browser in words, or what the person called the command line's login.
	Name        string
	CommandLine bool
	// Current marks the session that asks.
	Current   bool
	CreatedAt time.Time
	// LastSeenAt is exact to a minute.
	LastSeenAt time.Time
	// EndsAt is when it ends by itself, if it is not used meanwhile.
	EndsAt time.Time
}

// OpenSessions lists the live logins of a person, the newest first; current is the hash of the session that asks.
func (s *Store) OpenSessions(ctx context.Context, user uuid.UUID, current []byte) ([]OpenSession, error) {
	rows, err := s.q.ListSessions(ctx, s.pool, current, user)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var all []OpenSession
	for _, r := range rows {
		all = append(all, OpenSession{
			ID: r.ID, Name: r.Name, CommandLine: r.CommandLine, Current: r.Current, CreatedAt: r.CreatedAt, LastSeenAt: r.LastSeenAt, EndsAt: r.EndsAt,
		})
	}
	return all, nil
}

// SignedIn is a person of a tenant who has live logins there.
type SignedIn struct {
	User        uuid.UUID
	Name, Email string
	Logins      int
	LastSeenAt  time.Time
}

// SignedIn lists who is signed in to a tenant, by name; at most 500 people.
func (s *Store) SignedIn(ctx context.Context, tenant uuid.UUID) ([]SignedIn, error) {
	rows, err := s.q.ListSignedIn(ctx, s.pool, tenant)
	if err != nil {
		return nil, fmt.Errorf("list who is signed in: %w", err)
	}
	var all []SignedIn
	for _, r := range rows {
		all = append(all, SignedIn{User: r.ID, Name: r.Name, Email: r.Email, Logins: int(r.Logins), LastSeenAt: r.LastSeenAt})
	}
	return all, nil
}

// EndOwnSession ends one login of a person, of a browser or of the command line; fault.NotFound for one that is not theirs or
// has ended. What it was watching ends with it.
func (s *Store) EndOwnSession(ctx context.Context, in Request, user, id uuid.UUID) error {
	_, _, err := once(ctx, s, in, "session-end:"+id.String(), func(tx pgx.Tx) (bool, error) {
		n, err := s.q.EndSession(ctx, tx, user, id)
		if err != nil {
			return false, err
		}
		m, err := s.q.EndLogin(ctx, tx, user, id)
		if err == nil {
			err = s.q.DropLoginCodes(ctx, tx, []uuid.UUID{user}, nil)
		}
		if err == nil && n+m == 0 {
			err = fault.New(fault.NotFound, "Nothing was ended: you have no such login, or it has ended already.")
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("end own session: %w", err)
	}
	s.ring(Change{Person: user})
	return nil
}

// EndSessions ends the logins of a person, all but the session under the hash except. With a tenant only those of it; an
// administrator's word holds no further. It returns how many ended.
func (s *Store) EndSessions(ctx context.Context, in Request, tenant *uuid.UUID, user uuid.UUID, except []byte) (int, error) {
	object(in, typeid.User, user)
	n, _, err := once(ctx, s, in, "sessions-end:"+user.String(), func(tx pgx.Tx) (int, error) {
		n, err := s.endSessions(ctx, tx, tenant, user, except)
		if in.Audit != nil {
			in.Audit.Detail = map[string]any{"ended": n}
		}
		return n, err
	})
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	s.ring(Change{Person: user})
	return n, nil
}

func (s *Store) endSessions(ctx context.Context, tx pgx.Tx, tenant *uuid.UUID, user uuid.UUID, except []byte) (int, error) {
	n, err := s.q.EndSessions(ctx, tx, user, tenant, except)
	if err != nil {
		return 0, err
	}
	m, err := s.q.EndLogins(ctx, tx, user, tenant)
	if err != nil {
		return 0, err
	}
	return int(n + m), s.q.DropLoginCodes(ctx, tx, []uuid.UUID{user}, tenant)
}
