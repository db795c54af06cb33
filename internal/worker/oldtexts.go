package worker

import (
	"cmp"
	"context"
	"time"

	"signalbox/internal/git"
	"signalbox/internal/patch"
	"signalbox/internal/wire"
)

// oldTextsTime is how long taking and storing the old texts may hold up the hand-in of a patch.
const oldTextsTime = 30 * time.Second

// storeOldTexts keeps what the changed files were at the base, for people who read the patch and ask for the lines around it.
// They come from our own objects and never from the agent's tree. Nothing stands on them, so that they cannot be stored (as by
// a server that does not know the kind, or is too busy) fails nothing and holds up little; a lease that is gone is noticed by what comes next.
func (s *session) storeOldTexts(taken git.Patch, digest string) {
	ctx, cancel := context.WithTimeout(s.l.work, cmp.Or(s.w.cfg.OldTextsTime, oldTextsTime))
	defer cancel()
	texts, err := s.repo.OldTexts(ctx, s.base, taken.Tree, git.OldLimits{Files: patch.MaxBaseFiles, FileBytes: patch.MaxBaseFile, TotalBytes: patch.MaxBaseTexts})
	if err == nil && len(texts) > 0 {
		_, err = s.l.upload(ctx, wire.ArtifactKindBaseTexts, patch.BaseName(digest), texts, uploadOptions{})
	}
	if err != nil && s.l.work.Err() == nil {
		s.w.log.Warn("old texts not stored", "lease_id", s.as.LeaseId, "error", err)
	}
}
