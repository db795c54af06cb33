package evidence_test

import (
	"testing"

	"github.com/google/uuid"

	"signalbox/internal/evidence"
)

// FuzzRevisionDigest: two revisions that differ in anything, also in where one field ends and the next begins, have two digests.
func FuzzRevisionDigest(f *testing.F) {
	f.Add("patch", "base", "content", "tree", "verified", "patch", "bas", "econtent", "tree", "verified")
	f.Add("a", "", "b", "", "c", "a", "b", "", "", "c")
	f.Fuzz(func(t *testing.T, k1, b1, c1, t1, v1, k2, b2, c2, t2, v2 string) {
		repo := uuid.UUID{1}
		x := evidence.RevisionDigest(evidence.Revision{Kind: k1, Repository: repo, Base: b1, Content: []byte(c1), ResultTree: t1, VerificationDigest: v1})
		y := evidence.RevisionDigest(evidence.Revision{Kind: k2, Repository: repo, Base: b2, Content: []byte(c2), ResultTree: t2, VerificationDigest: v2})
		if same := k1 == k2 && b1 == b2 && c1 == c2 && t1 == t2 && v1 == v2; same != (x == y) {
			t.Errorf("%q and %q: %s and %s", []string{k1, b1, c1, t1, v1}, []string{k2, b2, c2, t2, v2}, x, y)
		}
		if evidence.RevisionDigest(evidence.Revision{Kind: k1, Repository: uuid.UUID{2}, Base: b1, Content: []byte(c1), ResultTree: t1, VerificationDigest: v1}) == x {
			t.Error("another repository has the same digest")
		}
	})
}
