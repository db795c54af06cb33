package db

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
)

// Viewer is a person who looks at the patches of a run. What they have viewed is nobody else's, in no other tenant.
type Viewer struct{ Tenant, User, Run uuid.UUID }

// Viewed is what a person has viewed of a run: files by path, with the digest of what each changed then.
type Viewed map[[sha256.Size]byte]string

// Of is the digest that a file had when it was viewed; false where it was not.
func (v Viewed) Of(path string) (digest string, ok bool) {
	digest, ok = v[sha256.Sum256([]byte(path))]
	return digest, ok
}

// MarkViewed keeps that a person has viewed a file as it is: digest is the SHA-256 of what it changes, in hexadecimal. It is
// kept for 90 days.
func (s *Store) MarkViewed(ctx context.Context, v Viewer, path, digest string) error {
	content, err := hex.DecodeString(digest)
	if err != nil {
		return fmt.Errorf("mark a file as viewed: %w", err)
	}
	key := sha256.Sum256([]byte(path))
	return wrap("mark a file as viewed", s.q.MarkViewed(ctx, s.writes(v.Tenant), sqlc.MarkViewedParams{TenantID: v.Tenant, UserID: v.User, RunID: v.Run, PathKey: key[:], Digest: content}))
}

// UnmarkViewed takes the mark back; taking back none is no error.
func (s *Store) UnmarkViewed(ctx context.Context, v Viewer, path string) error {
	key := sha256.Sum256([]byte(path))
	return wrap("take back that a file was viewed", s.q.UnmarkViewed(ctx, s.writes(v.Tenant), v.Tenant, v.User, v.Run, key[:]))
}

// Viewed reads what a person has viewed of a run, of all its patches.
func (s *Store) Viewed(ctx context.Context, v Viewer) (Viewed, error) {
	rows, err := s.q.ViewedFiles(ctx, s.reads(v.Tenant), v.Tenant, v.User, v.Run)
	if err != nil {
		return nil, fmt.Errorf("read what was viewed: %w", err)
	}
	all := make(Viewed, len(rows))
	for _, r := range rows {
		all[[sha256.Size]byte(r.PathKey)] = hex.EncodeToString(r.Digest)
	}
	return all, nil
}
