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
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// Enrolment is a one-time token that a worker trades for a credential of its own, without its secret.
type Enrolment struct {
	ID, Tenant uuid.UUID
	Name       string
	Phases     []run.Phase
	// By is who made it: the id for IssueEnrolment, and the name that Enrolments answers.
	By                   uuid.UUID
	ByName               string
	CreatedAt, ExpiresAt time.Time
	UsedAt, RevokedAt    *time.Time
	// Worker is the credential that it made; uuid.Nil while it is unused.
	Worker uuid.UUID
}

// IssueEnrolment stores an enrolment token under the hash of secret for life, as an administrator asked for it: repeated safely by
// its key, and audited. A replayed request learns which token it made, and no more.
func (s *Store) IssueEnrolment(ctx context.Context, in Request, e Enrolment, secret string, life time.Duration) (_ Enrolment, replayed bool, err error) {
	type answer struct {
		ID uuid.UUID `json:"id"`
	}
	a, replayed, err := once(ctx, s, in, "enrolments:"+in.By.ID, func(tx pgx.Tx) (answer, error) {
		var phases []string
		for _, p := range e.Phases {
			phases = append(phases, string(p))
		}
		id := typeid.New()
		row, err := s.q.InsertEnrolment(ctx, tx, sqlc.InsertEnrolmentParams{
			ID: id, TenantID: in.Tenant, Name: e.Name, Phases: phases, Hash: HashToken(secret), CreatedBy: e.By, Seconds: life.Seconds(),
		})
		if err != nil {
			return answer{}, err
		}
		e.CreatedAt, e.ExpiresAt = row.CreatedAt, row.ExpiresAt
		object(in, typeid.Enrolment, id)
		return answer{id}, nil
	})
	if err != nil {
		return Enrolment{}, false, fmt.Errorf("issue enrolment: %w", err)
	}
	e.ID = a.ID
	return e, replayed, nil
}

// EnrolWorker trades an enrolment token for a credential under the hash of secret, once. A token that is unknown is
// fault.Unauthenticated, one that was used, withdrawn or is too old is fault.Forbidden; nothing is made then. The line in the audit
// is completed with tenant and worker.
func (s *Store) EnrolWorker(ctx context.Context, token, secret string, a *Audit) (WorkerCredential, error) {
	var made WorkerCredential
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		e, err := s.q.LockEnrolment(ctx, tx, HashToken(token))
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Unauthenticated, "No worker was enrolled: this enrolment token is unknown. An administrator makes one on the workers' page or with signalbox worker-credential enrol.").WithCode("bad_code")
		}
		if err != nil {
			return err
		}
		const another = " Ask an administrator for another one."
		switch {
		case e.UsedAt != nil:
			return fault.Newf(fault.Forbidden, "No worker was enrolled: this enrolment token was used at %s, and each makes one worker."+another+" If that worker is not yours, have its credential revoked.",
				e.UsedAt.UTC().Format("15:04 on 2 January 2006 UTC")).WithCode("enrolment_used")
		case e.RevokedAt != nil:
			return fault.New(fault.Forbidden, "No worker was enrolled: this enrolment token was withdrawn."+another).WithCode("enrolment_withdrawn")
		case e.Expired:
			return fault.New(fault.Forbidden, "No worker was enrolled: this enrolment token is too old."+another).WithCode("enrolment_expired")
		}
		made, err = s.createWorkerCredential(ctx, tx, WorkerCredential{Tenant: e.TenantID, Name: e.Name, Phases: toPhases(e.Phases)}, secret)
		if err != nil {
			return err
		}
		if n, err := s.q.UseEnrolment(ctx, tx, &made.ID, e.ID, e.TenantID); err != nil || n != 1 {
			return errors.Join(err, fmt.Errorf("%d enrolments used", n))
		}
		a.Tenant, a.By = e.TenantID, run.Actor{Kind: run.Worker, ID: made.ID.String(), Name: made.Name}
		a.ObjectID, a.Reason = typeid.Format(typeid.Worker, made.ID), "enrolment "+typeid.Format(typeid.Enrolment, e.ID)
		return s.audit(ctx, tx, a)
	})
	if err != nil {
		return WorkerCredential{}, fmt.Errorf("enrol worker: %w", err)
	}
	return made, nil
}

// Enrolments lists a tenant's enrolment tokens, newest first, also those that have ended.
func (s *Store) Enrolments(ctx context.Context, tenant uuid.UUID) ([]Enrolment, error) {
	rows, err := s.q.ListEnrolments(ctx, s.reads(tenant), tenant)
	if err != nil {
		return nil, fmt.Errorf("list enrolments: %w", err)
	}
	var all []Enrolment
	for _, r := range rows {
		all = append(all, Enrolment{
			ID: r.ID, Tenant: tenant, Name: r.Name, Phases: toPhases(r.Phases), ByName: r.CreatedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
			UsedAt: r.UsedAt, RevokedAt: r.RevokedAt, Worker: value(r.WorkerID),
		})
	}
	return all, nil
}

// EndEnrolment withdraws a token that nobody has used, audited; fault.NotFound where there is none such.
func (s *Store) EndEnrolment(ctx context.Context, in Request, id uuid.UUID) error {
	_, _, err := once(ctx, s, in, "enrolment-end:"+id.String(), func(tx pgx.Tx) (bool, error) {
		object(in, typeid.Enrolment, id)
		n, err := s.q.RevokeEnrolment(ctx, tx, in.Tenant, id)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "Nothing was withdrawn: there is no such enrolment token that is still unused. A worker that came by one is ended by revoking its credential.")
		}
		return true, err
	})
	return err
}
