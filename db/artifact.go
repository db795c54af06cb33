package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/typeid"
)

// NewArtifact is stored bytes that a worker uploaded. What the server found in
// them itself travels along and is what guards read.
type NewArtifact struct {
	Kind    string
	Name    string
	SHA256  string
	Size    int64
	BlobKey string

	Patch        *PatchFacts
	Verification *VerificationRecord
}

// VerificationRecord is what the server read in a verification report.
type VerificationRecord struct {
	PatchDigest    string
	Passed         bool
	Infrastructure bool
	Fingerprint    string
	Summary        string
}

// StoredArtifact is the artifact's row.
type StoredArtifact struct {
	ID        uuid.UUID
	Run       uuid.UUID
	AttemptNo int
	Kind      string
	Name      string
	SHA256    string
	Size      int64
	BlobKey   string
	// Late says that the lease had ended: the bytes are kept as evidence and no
	// transition may stand on them.
	Late      bool
	CreatedAt time.Time
}

// MayStore says, before a byte is read, whether the holder may store anything: its lease lives or ended a moment ago.
// PutArtifact asks again.
func (s *Store) MayStore(ctx context.Context, h Holder) error {
	_, err := s.mayBeLate(ctx, s.pool, h)
	return translate(err, "artifact")
}

// PutArtifact records uploaded bytes under a lease. For some minutes after a
// lease ended they are kept as late evidence (R-LEASE-2); afterwards, and for
// anybody who never held the lease, they are refused.
func (s *Store) PutArtifact(ctx context.Context, h Holder, a NewArtifact) (StoredArtifact, error) {
	var out StoredArtifact
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		row := sqlc.Artifact{ID: typeid.New(), TenantID: h.Ref.Tenant, RunID: h.Ref.Run, Kind: a.Kind, Name: a.Name, Sha256: a.SHA256,
			Size: a.Size, BlobKey: a.BlobKey, LeaseID: &h.Lease.ID}
		l, err := underLease(ctx, s, tx, func() (sqlc.LiveLeaseRow, error) {
			return s.q.LiveLease(ctx, tx, sqlc.LiveLeaseParams{TenantID: h.Ref.Tenant, RunID: h.Ref.Run, LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker})
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			row.Late = true
			if row.AttemptNo, err = s.mayBeLate(ctx, tx, h); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("check lease: %w", err)
		default:
			row.AttemptNo = l.AttemptNo
		}
		raw, err := encode(row)
		if err != nil {
			return err
		}
		stored, err := s.q.InsertArtifact(ctx, tx, raw)
		if err != nil {
			return fmt.Errorf("store artifact: %w", err)
		}
		out = storedArtifact(stored)
		return s.putFindings(ctx, tx, stored, a)
	})
	return out, translate(err, "artifact")
}

func (s *Store) putFindings(ctx context.Context, tx pgx.Tx, row sqlc.Artifact, a NewArtifact) error {
	if p := a.Patch; p != nil {
		facts, err := encode(p)
		if err != nil {
			return err
		}
		raw, err := encode(sqlc.Patch{ArtifactID: row.ID, TenantID: row.TenantID, RunID: row.RunID, Digest: row.Sha256, PatchID: p.Facts.PatchID,
			Files: int32(len(p.Facts.Files)), Added: int32(p.Facts.Added), Removed: int32(p.Facts.Removed), Scan: string(p.Scan.State),
			Fault: string(p.Fault), Facts: facts})
		if err != nil {
			return err
		}
		if err := s.q.InsertPatch(ctx, tx, raw); err != nil {
			return fmt.Errorf("store the parsed patch: %w", err)
		}
	}
	if v := a.Verification; v != nil {
		raw, err := encode(sqlc.Verification{ArtifactID: row.ID, TenantID: row.TenantID, RunID: row.RunID, AttemptNo: row.AttemptNo, Digest: row.Sha256,
			PatchDigest: v.PatchDigest, Passed: v.Passed, Infrastructure: v.Infrastructure, Fingerprint: v.Fingerprint, Summary: v.Summary})
		if err != nil {
			return err
		}
		if err := s.q.InsertVerification(ctx, tx, raw); err != nil {
			return fmt.Errorf("store the verification: %w", err)
		}
	}
	return nil
}

// mayBeLate holds that the lease was this worker's and ended a moment ago, and
// returns the attempt that it was given for.
func (s *Store) mayBeLate(ctx context.Context, d sqlc.DBTX, h Holder) (int32, error) {
	l, err := s.q.EndedLease(ctx, d, sqlc.EndedLeaseParams{TenantID: h.Ref.Tenant, RunID: h.Ref.Run, LeaseID: h.Lease.ID, Token: h.Lease.Token, WorkerID: h.Worker})
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && !l.Recent) {
		return 0, s.staleHolder(ctx, d, h)
	}
	if err != nil {
		return 0, fmt.Errorf("look for the ended lease: %w", err)
	}
	return l.AttemptNo, nil
}

func storedArtifact(a sqlc.Artifact) StoredArtifact {
	return StoredArtifact{ID: a.ID, Run: a.RunID, AttemptNo: int(a.AttemptNo), Kind: a.Kind, Name: a.Name, SHA256: a.Sha256, Size: a.Size,
		BlobKey: a.BlobKey, Late: a.Late, CreatedAt: a.CreatedAt}
}

// ArtifactOf returns an artifact by its TypeID within the tenant.
func (s *Store) ArtifactOf(ctx context.Context, tenant uuid.UUID, ref string) (StoredArtifact, error) {
	id, err := typeid.Parse(typeid.Artifact, ref)
	if err != nil {
		return StoredArtifact{}, err
	}
	a, err := s.q.Artifact(ctx, s.reads(tenant), tenant, id)
	if err != nil {
		return StoredArtifact{}, translate(err, "artifact")
	}
	return storedArtifact(a), nil
}

// LatestArtifact returns the newest artifact of a kind, or a NotFound fault.
func (s *Store) LatestArtifact(ctx context.Context, ref Ref, kind string) (StoredArtifact, error) {
	a, err := s.q.LatestArtifact(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run, kind)
	if err != nil {
		return StoredArtifact{}, translate(err, kind)
	}
	return storedArtifact(a), nil
}
