package db

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"signalbox/internal/run"
)

// FeedCursor is a place in the feed of all events. The zero value is its
// beginning. It is about transactions and says nothing about time.
type FeedCursor struct {
	XID uint64
	ID  int64
}

// FeedEvent is one event in the feed: what to look at, not what it says.
type FeedEvent struct {
	Cursor FeedCursor
	Ref    Ref
	// Seq orders the events of a run; the feed itself orders transactions, which
	// is another order where two of them met at one run.
	Seq  int64
	Kind run.Kind
	To   run.State
	At   time.Time
}

// Feed returns at most limit events after the cursor, and the cursor after them.
// It gives only what can no longer be overtaken, so that no event is ever
// skipped: an open transaction anywhere in the cluster holds it back until it
// ends. It is the truth behind every bell.
func (s *Store) Feed(ctx context.Context, after FeedCursor, limit int) ([]FeedEvent, FeedCursor, error) {
	rows, err := s.q.FeedEvents(ctx, s.pool, strconv.FormatUint(after.XID, 10), after.ID, int32(limit))
	if err != nil {
		return nil, after, fmt.Errorf("read the feed: %w", err)
	}
	out := make([]FeedEvent, 0, len(rows))
	for _, r := range rows {
		xid, err := strconv.ParseUint(r.Xid, 10, 64)
		if err != nil {
			return nil, after, fmt.Errorf("read the feed's cursor: %w", err)
		}
		after = FeedCursor{xid, r.ID}
		out = append(out, FeedEvent{after, Ref{r.TenantID, r.RunID}, r.Seq, run.Kind(r.Kind), run.State(r.ToState), r.At.UTC()})
	}
	return out, after, nil
}

// FeedHorizon returns the cursor before which everything is settled now: where a
// reader begins that is not interested in the past.
func (s *Store) FeedHorizon(ctx context.Context) (FeedCursor, error) {
	x, err := s.q.FeedHorizon(ctx, s.pool)
	if err != nil {
		return FeedCursor{}, fmt.Errorf("read the feed's horizon: %w", err)
	}
	xid, err := strconv.ParseUint(x, 10, 64)
	if err != nil {
		return FeedCursor{}, fmt.Errorf("read the feed's horizon: %w", err)
	}
	// Event ids begin at 1, so this stands before the first event of that transaction.
	return FeedCursor{XID: xid}, nil
}
