package db

import (
	"context"
	"fmt"
	"slices"

	"signalbox/internal/schedule"
)

// What one claim looks at, however much waits. Up to these numbers it decides on all there is. Beyond them it looks at some that
// follow each other in the order of their hashes, from a place that is drawn anew each time: whatever waits is among them at one of
// the next claims, whoever asks, at whichever replica, and nobody can choose a place where it is not.
const (
	// mostLanes is how many lanes there may be, over all phases, queues, tenants and requesters, for all to be looked at.
	mostLanes = 512
	// mostPlaces is how many phases, queues and tenants are looked at where there are more lanes, so that a tenant with many
	// requesters hides no other.
	mostPlaces = 256
	// mostGroups is how many groups of items that are alike are looked at behind what stands first.
	mostGroups = 2048
	// fewestOfEach is how many lanes of a place, and groups of a lane, are looked at in any case. With one alone, what follows
	// closely on another's hash would hardly ever be it.
	fewestOfEach = 4
)

// lanes are those that somebody who has room serves at all.
func (b *claimBatch) lanes(ctx context.Context) (out []schedule.Lane, err error) {
	if b.free() == 0 {
		return nil, nil
	}
	if len(b.waiting) > mostLanes {
		return b.someLanes(ctx)
	}
	for _, r := range b.waiting {
		if l := (schedule.Lane{Phase: r.Phase, Queue: r.Queue, Tenant: r.TenantID, User: r.UserID}); !r.Paused && b.served(l) {
			out = append(out, l)
		}
	}
	return out, nil
}

// someLanes are lanes of each place that somebody serves, where there are too many to look at all.
func (b *claimBatch) someLanes(ctx context.Context) (out []schedule.Lane, err error) {
	spots, err := b.s.q.Places(ctx, b.tx, DefaultTenant, 2*mostPlaces, b.start())
	if err != nil {
		return nil, fmt.Errorf("look where something waits: %w", err)
	}
	var places []int64
	paused := map[schedule.Lane]bool{}
	for _, p := range spots {
		l := schedule.Lane{Phase: p.Phase, Queue: p.Queue, Tenant: p.TenantID}
		if paused[l] = p.Paused; !p.Paused && b.served(l) && len(places) < mostPlaces {
			places = append(places, p.Place)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	rows, err := b.s.q.LanesOfPlaces(ctx, b.tx, places, b.start(), int32(max(fewestOfEach, mostLanes/len(places))))
	if err != nil {
		return nil, fmt.Errorf("look who waits there: %w", err)
	}
	for _, r := range rows {
		l := schedule.Lane{Phase: r.Phase, Queue: r.Queue, Tenant: r.TenantID}
		// One that is not known has the number of another.
		if stopped, known := paused[l]; known && !stopped && b.served(l) {
			l.User = r.UserID
			out = append(out, l)
		}
	}
	return out, nil
}

func (b *claimBatch) served(l schedule.Lane) bool {
	return slices.ContainsFunc(b.offers, func(o schedule.Offer) bool { return o.Free > 0 && o.ServesLane(l) })
}

// start is a hash to begin at.
func (b *claimBatch) start() int64 {
	return int64((2*b.s.draw() - 1) * (1 << 63))
}
