package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/evidence"
)

// AuditReport is what a look at one tenant's audit log found.
type AuditReport struct {
	Tenant uuid.UUID
	Name   string // "" for a tenant that the database does not know any more
	// Rows were found to be right, from number 1 on; Vouched of them by a checkpoint, too.
	Rows, Vouched int64
	// Fault is the first thing wrong; nil where everything holds.
	Fault *evidence.BrokenAuditError
}

// auditPage is how many rows are read at a time.
const auditPage = 1000

// AuditTenants are all whose audit log there is, or should be because a checkpoint speaks of it.
func (s *Store) AuditTenants(ctx context.Context, checkpoints []evidence.Checkpoint) ([]AuditReport, error) {
	rows, err := s.q.AuditTenants(ctx, s.pool)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	var all []AuditReport
	known := map[uuid.UUID]bool{}
	for _, r := range rows {
		known[r.ID] = true
		all = append(all, AuditReport{Tenant: r.ID, Name: r.Name})
	}
	for _, c := range checkpoints {
		if !known[c.Tenant] {
			known[c.Tenant] = true
			all = append(all, AuditReport{Tenant: c.Tenant})
		}
	}
	return all, nil
}

// VerifyAudit reads a tenant's audit log as it was at one moment and checks numbers, hashes, head and checkpoints (R-ATT-4). It
// holds nobody up. The checkpoints' signatures are the caller's to check.
func (s *Store) VerifyAudit(ctx context.Context, tenant uuid.UUID, checkpoints []evidence.Checkpoint) (AuditReport, error) {
	report := AuditReport{Tenant: tenant}
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return report, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	chain := evidence.NewAuditChain(tenant, checkpoints)
	err = s.followChain(ctx, tx, tenant, chain)
	report.Rows, report.Vouched = chain.Checked(), chain.Vouched()
	if broken, ok := errors.AsType[*evidence.BrokenAuditError](err); ok {
		report.Fault = broken
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("read the audit log behind number %d: %w", report.Rows, err)
	}
	return report, nil
}

func (s *Store) followChain(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, chain *evidence.AuditChain) error {
	// A head that is missing is one of number 0, with which rows disagree.
	head, err := s.q.AuditHead(ctx, tx, tenant)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	seq, id := int64(math.MinInt64), int64(math.MinInt64)
	for {
		rows, err := s.q.AuditRows(ctx, tx, tenant, seq, id, auditPage)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := chain.Next(auditRow(r), r.Hash); err != nil {
				return err
			}
			seq, id = r.Seq, r.ID
		}
		if len(rows) < auditPage {
			return chain.End(head.Seq, head.Hash)
		}
	}
}

func auditRow(r sqlc.AuditRowsRow) evidence.AuditRow {
	row := evidence.AuditRow{Tenant: r.TenantID, Seq: r.Seq, ID: r.ID, Xid: r.Transaction, ActorKind: r.ActorKind, ActorID: r.ActorID,
		ActorName: r.ActorName, Channel: r.Channel, RemoteAddr: r.RemoteAddr, RequestID: r.RequestID, Action: r.Action, ObjectType: r.ObjectType,
		ObjectID: r.ObjectID, Result: r.Result, Reason: r.Reason, Detail: r.Detail}
	if len(r.Instant) == 8 {
		row.At = int64(binary.BigEndian.Uint64(r.Instant))
	}
	return row
}

// AuditHead is where a tenant's audit log ends.
type AuditHead struct {
	Tenant uuid.UUID
	Seq    int64
	Hash   []byte
}

// AuditHeads returns the ends of at most count audit logs that are not empty, of the tenants behind after.
func (s *Store) AuditHeads(ctx context.Context, after uuid.UUID, count int) ([]AuditHead, error) {
	rows, err := s.q.AuditHeads(ctx, s.pool, after, int32(count))
	if err != nil {
		return nil, fmt.Errorf("list ends of audit logs: %w", err)
	}
	all := make([]AuditHead, 0, len(rows))
	for _, r := range rows {
		all = append(all, AuditHead{r.TenantID, r.Seq, r.Hash})
	}
	return all, nil
}

// AuditHash returns the hash that is stored with a number of a tenant's audit log; nil where there is no such row.
func (s *Store) AuditHash(ctx context.Context, tenant uuid.UUID, seq int64) ([]byte, error) {
	hash, err := s.q.AuditHashAt(ctx, s.pool, tenant, seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up number %d of the audit log: %w", seq, err)
	}
	return hash, nil
}
