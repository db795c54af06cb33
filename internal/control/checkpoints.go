package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/checkpoint"
	"signalbox/internal/evidence"
)

// Checkpoints signs where the tenants' audit logs end and keeps that outside the database, where something is new and the last
// time is long enough ago. It signs nothing that contradicts what it signed before, and fails instead: that is an alarm.
type Checkpoints struct {
	Store  *db.Store
	Folder checkpoint.Folder
	Key    ed25519.PrivateKey
	// Every is the least time between two checkpoints of a tenant, less a half, because the clocks of loops vary; 0 means 1 min.
	Every time.Duration
}

// RunOnce returns how many checkpoints were made.
func (c *Checkpoints) RunOnce(ctx context.Context) (n int, err error) {
	now, err := c.Store.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", err)
	}
	after := uuid.Nil
	for {
		heads, lerr := c.Store.AuditHeads(ctx, after, batch)
		if lerr != nil {
			return n, errors.Join(err, lerr)
		}
		for _, h := range heads {
			after = h.Tenant
			made, herr := c.seal(ctx, h, now)
			if made {
				n++
			}
			// One tenant's log that was tampered with hides no other's.
			err = errors.Join(err, herr)
		}
		if len(heads) < batch {
			return n, err
		}
	}
}

func (c *Checkpoints) seal(ctx context.Context, h db.AuditHead, now time.Time) (bool, error) {
	public, _ := c.Key.Public().(ed25519.PublicKey)
	last, ok, err := c.Folder.Last(h.Tenant, []ed25519.PublicKey{public})
	if err != nil {
		return false, err
	}
	if ok {
		// Another server may have gone on behind the head that was read here; what it signed is in the database by now.
		stored, err := c.Store.AuditHash(ctx, h.Tenant, last.Seq)
		if err != nil {
			return false, err
		}
		if !bytes.Equal(stored, last.Head) {
			return false, fmt.Errorf("AUDIT_TAMPERED: the audit log of tenant %s does not agree with the checkpoint over number %d of %s: it was changed or cut off; signalbox audit verify says where",
				h.Tenant, last.Seq, last.At.Format(time.RFC3339))
		}
		every := c.Every
		if every == 0 {
			every = time.Minute
		}
		if last.Seq >= h.Seq || now.Sub(last.At) < every/2 {
			return false, nil
		}
	}
	return true, c.Folder.Append(evidence.Sign(c.Key, h.Tenant, h.Seq, h.Hash, now))
}
