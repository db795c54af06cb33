package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync/atomic"
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
	// Old are the public keys that signed before the key was changed.
	Old []ed25519.PublicKey
	// Every is the least time between two checkpoints of a tenant, less a half, because the clocks of loops vary; 0 means 1 min.
	Every time.Duration

	faults atomic.Pointer[map[uuid.UUID]string]
}

// auditFault is a log that does not agree with what was signed. Its words are for an administrator, too.
type auditFault struct{ code, words string }

func (e *auditFault) Error() string { return e.code + ": " + e.words }

// Fault says in words what the last look found wrong with the tenant's audit log; empty where all is well. Who administers the
// installation is told of tenants, too, that the database does not know any more.
func (c *Checkpoints) Fault(tenant uuid.UUID) string {
	found := c.faults.Load()
	if found == nil {
		return ""
	}
	if words := (*found)[tenant]; words != "" || tenant != db.DefaultTenant {
		return words
	}
	return (*found)[uuid.Nil]
}

// RunOnce returns how many checkpoints were made.
func (c *Checkpoints) RunOnce(ctx context.Context) (n int, err error) {
	now, err := c.Store.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", err)
	}
	found, looked := map[uuid.UUID]string{}, map[uuid.UUID]bool{}
	note := func(tenant uuid.UUID, herr error) {
		// One tenant's log that was tampered with hides no other's.
		err = errors.Join(err, herr)
		if f, ok := errors.AsType[*auditFault](herr); ok {
			found[tenant] = f.words
		}
	}
	after := uuid.Nil
	for {
		heads, lerr := c.Store.AuditHeads(ctx, after, batch)
		if lerr != nil {
			return n, errors.Join(err, lerr)
		}
		for _, h := range heads {
			after, looked[h.Tenant] = h.Tenant, true
			made, herr := c.seal(ctx, h, now)
			if made {
				n++
			}
			note(h.Tenant, herr)
		}
		if len(heads) < batch {
			break
		}
	}
	signed, ferr := c.Folder.Tenants()
	if ferr != nil {
		return n, errors.Join(err, ferr)
	}
	for _, tenant := range signed {
		// Checkpoints speak of a log of which nothing is left.
		if !looked[tenant] {
			_, _, herr := c.last(ctx, tenant)
			note(tenant, herr)
			if words := found[tenant]; words != "" {
				found[uuid.Nil] = words
			}
		}
	}
	c.faults.Store(&found)
	return n, err
}

// last is the tenant's newest checkpoint, with which its log still agrees.
func (c *Checkpoints) last(ctx context.Context, tenant uuid.UUID) (evidence.Checkpoint, bool, error) {
	public, _ := c.Key.Public().(ed25519.PublicKey)
	last, ok, err := c.Folder.Last(tenant, append([]ed25519.PublicKey{public}, c.Old...))
	if foreign, is := errors.AsType[*checkpoint.ForeignError](err); is {
		return last, false, &auditFault{"AUDIT_KEY_UNKNOWN", foreign.Error() + "; if the key was changed, name the old public key in SIGNALBOX_AUDIT_OLD_KEYS, until then nothing more is signed for this tenant"}
	}
	if err != nil || !ok {
		return last, false, err
	}
	// Another server may have gone on behind the head that was read here; what it signed is in the database by now.
	stored, err := c.Store.AuditHash(ctx, tenant, last.Seq)
	if err != nil {
		return last, false, err
	}
	if !bytes.Equal(stored, last.Head) {
		return last, false, &auditFault{"AUDIT_TAMPERED", fmt.Sprintf("the audit log of tenant %s does not agree with the checkpoint over number %d of %s: it was changed or cut off; signalbox audit verify says where",
			tenant, last.Seq, last.At.Format(time.RFC3339))}
	}
	return last, true, nil
}

func (c *Checkpoints) seal(ctx context.Context, h db.AuditHead, now time.Time) (bool, error) {
	last, ok, err := c.last(ctx, h.Tenant)
	if err != nil {
		return false, err
	}
	if ok {
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
