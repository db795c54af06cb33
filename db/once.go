package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
)

// once carries out a request that makes one object: the stored answer of its key first, then the work, the key and the
// line in the audit, in one transaction. What do returns is stored as the answer and must be JSON.
func once[T any](ctx context.Context, s *Store, in Request, scope string, do func(tx pgx.Tx) (T, error)) (out T, replayed bool, err error) {
	for range maxTries {
		err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
			replayed = false
			if in.Hash != nil {
				again, err := s.storedAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, &out)
				if err != nil || again {
					replayed = again
					return err
				}
			}
			if out, err = do(tx); err != nil {
				return err
			}
			if err := s.storeAnswer(ctx, tx, in.Tenant, scope, in.Key, in.Hash, out); err != nil {
				return err
			}
			return s.audit(ctx, tx, in.Audit)
		})
		if keyTaken(err) {
			continue
		}
		return out, replayed, err
	}
	return out, false, fault.New(fault.Conflict, "Nothing was changed: the same request is being carried out right now. Repeat it in a moment.")
}

// object completes a request's audit line with what it made.
func object(in Request, prefix typeid.Prefix, id uuid.UUID) {
	if in.Audit != nil {
		in.Audit.ObjectID = typeid.Format(prefix, id)
	}
}

// IssueToken is CreateToken as somebody asked for it: repeated safely by its key, and audited. The secret is no part
// of the stored answer: a replayed request learns which token it made, and no more.
func (s *Store) IssueToken(ctx context.Context, in Request, t Token, secret string) (_ Token, replayed bool, err error) {
	type answer struct {
		ID uuid.UUID `json:"id"`
	}
	var made Token
	a, replayed, err := once(ctx, s, in, "tokens:"+t.User.String(), func(tx pgx.Tx) (answer, error) {
		var err error
		if made, err = s.createToken(ctx, tx, t, secret); err != nil {
			return answer{}, err
		}
		object(in, typeid.Token, made.ID)
		return answer{made.ID}, nil
	})
	if err != nil {
		return Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	made.ID = a.ID
	return made, replayed, nil
}

// EndToken is RevokeToken as somebody asked for it, audited.
func (s *Store) EndToken(ctx context.Context, in Request, user, id uuid.UUID) error {
	_, _, err := once(ctx, s, in, "token-end:"+id.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Token, id)
		return true, s.revokeToken(ctx, tx, in.Tenant, user, id)
	})
	return err
}

// IssueWorkerCredential is CreateWorkerCredential as an administrator asked for it; see IssueToken.
func (s *Store) IssueWorkerCredential(ctx context.Context, in Request, c WorkerCredential, secret string) (_ WorkerCredential, replayed bool, err error) {
	type answer struct {
		ID uuid.UUID `json:"id"`
	}
	made := c
	a, replayed, err := once(ctx, s, in, "worker-credentials:"+in.By.ID, func(tx pgx.Tx) (answer, error) {
		var err error
		if made, err = s.createWorkerCredential(ctx, tx, c, secret); err != nil {
			return answer{}, err
		}
		object(in, typeid.Worker, made.ID)
		return answer{made.ID}, nil
	})
	if err != nil {
		return WorkerCredential{}, false, fmt.Errorf("issue worker credential: %w", err)
	}
	made.ID = a.ID
	return made, replayed, nil
}

// EndWorkerCredential is RevokeWorkerCredential as an administrator asked for it, audited.
func (s *Store) EndWorkerCredential(ctx context.Context, in Request, id uuid.UUID) error {
	_, _, err := once(ctx, s, in, "worker-credential-end:"+id.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Worker, id)
		return true, s.revokeWorkerCredential(ctx, tx, in.Tenant, id)
	})
	return err
}

// RegisterRepository is CreateRepository as an administrator asked for it: repeated safely by its key, and audited.
func (s *Store) RegisterRepository(ctx context.Context, in Request, r RepositoryInfo) (_ RepositoryInfo, replayed bool, err error) {
	by, err := uuid.Parse(in.By.ID)
	if err != nil {
		return RepositoryInfo{}, false, fault.New(fault.Forbidden, "Nothing was registered: only a person registers repositories.")
	}
	type answer struct {
		ID uuid.UUID `json:"id"`
	}
	a, replayed, err := once(ctx, s, in, "repositories:"+in.By.ID, func(tx pgx.Tx) (answer, error) {
		id, err := s.insertRepository(ctx, tx, in.Tenant, by, r)
		object(in, typeid.Repo, id)
		return answer{id}, err
	})
	if err != nil {
		return RepositoryInfo{}, false, err
	}
	out, err := s.Repository(ctx, in.Tenant, a.ID)
	return out, replayed, err
}

// Answered reports whether this very intent was carried out before, so that whoever repeats it is not told that it came too late.
func (s *Store) Answered(ctx context.Context, ref Ref, in Intent) (bool, error) {
	_, ok, err := s.replayed(ctx, s.pool, ref, in)
	return ok, err
}
