package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/google/uuid"
)

// Revision is what a decision at a gate is bound to (D-15).
type Revision struct {
	Kind       string    // plan, patch, report, budget, reconcile
	Repository uuid.UUID // of the task
	Base       string    // base commit
	// Content are the exact plan bytes or patch bytes, or for other kinds of
	// gate the exact bytes that are shown and decided about.
	Content []byte
	// ResultTree is the tree that the patch gives on the base; patch only.
	ResultTree string
	// VerificationDigest is that of the verification report; patch only.
	VerificationDigest string
}

// RevisionDigest is the lower-case hex SHA-256 over the length-prefixed fields
// of a revision. Any difference in what a person decides about gives another
// digest; the policy version is stored beside it and is not part of it.
func RevisionDigest(r Revision) string {
	b := []byte("signalbox revision v1\n")
	for _, f := range [][]byte{
		[]byte(r.Kind), r.Repository[:], []byte(r.Base), r.Content, []byte(r.ResultTree), []byte(r.VerificationDigest),
	} {
		b = appendField(b, f)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Digest is the lower-case hex SHA-256 of content, for reports and plans.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Instant cuts t to what a body and the database keep: microseconds, UTC.
func Instant(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }
