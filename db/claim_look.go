package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/schedule"
)

// give decides until nobody has room or nothing is left, and writes what was given.
func (b *claimBatch) give(ctx context.Context) error {
	lanes, err := b.lanes(ctx)
	if err != nil || len(lanes) == 0 {
		return err
	}
	if err := b.s.q.HoldOffClaims(ctx, b.tx); err != nil {
		return fmt.Errorf("hold off other claims: %w", err)
	}
	if err := b.count(ctx, lanes); err != nil {
		return err
	}
	l := look{passed: map[uuid.UUID]bool{}, depth: max(2, 2*b.free()/len(lanes))}
	for first := true; ; first = false {
		items, read, err := b.heads(ctx, lanes, l)
		if err != nil {
			return err
		}
		got, err := b.assign(ctx, items, l)
		if err != nil {
			return err
		}
		if first && b.free() > 0 {
			b.s.seen.heldBack(b.state, slices.DeleteFunc(items, func(i schedule.Item) bool { return l.passed[i.Run] }))
		}
		lanes = schedule.OpenLanes(b.state, b.offers, lanes)
		if got > 0 && len(lanes) > 0 {
			continue
		}
		// Nothing of what was seen can be given: look behind it, in the lanes that have more.
		lanes = slices.DeleteFunc(lanes, func(l2 schedule.Lane) bool { return read[l2] < l.depth })
		if err := b.behind(ctx, lanes, l); err != nil {
			return err
		}
		return b.flush(ctx)
	}
}

// look is how far a claim looks into each lane or group, and the items that it passed over.
type look struct {
	passed map[uuid.UUID]bool
	depth  int
}

// assign decides over some items and gives them out; it returns how many.
func (b *claimBatch) assign(ctx context.Context, items []schedule.Item, l look) (int, error) {
	got := schedule.Assign(b.state, b.offers, items)
	return len(got), b.grant(ctx, got, l.passed)
}

// behind looks past everything that one limit holds back at once, however much it is. Deeper than a few items it looks only
// where the workers lack something that the first ones require.
func (b *claimBatch) behind(ctx context.Context, lanes []schedule.Lane, l look) error {
	if len(lanes) == 0 {
		return nil
	}
	groups, err := b.groups(ctx, lanes)
	if err != nil {
		return err
	}
	for l.depth = 2; l.depth <= maxDepth; {
		if groups = schedule.OpenGroups(b.state, groups); len(groups) == 0 || b.free() == 0 {
			return nil
		}
		items, read, err := b.headsOfGroups(ctx, groups, l)
		if err != nil {
			return err
		}
		got, err := b.assign(ctx, items, l)
		if err != nil {
			return err
		}
		if got == 0 {
			groups = slices.DeleteFunc(groups, func(g schedule.Group) bool { return read[g] < l.depth })
			l.depth *= 8
		}
	}
	return nil
}

// maxDepth bounds how far behind a group's first item one claim looks.
const maxDepth = 1 << 16

func (b *claimBatch) free() (n int) {
	for _, o := range b.offers {
		n += o.Free
	}
	return n
}

// lanes are those that somebody who has room serves at all.
func (b *claimBatch) lanes(ctx context.Context) ([]schedule.Lane, error) {
	if b.free() == 0 {
		return nil, nil
	}
	rows, err := b.s.q.Lanes(ctx, b.tx, DefaultTenant)
	if err != nil {
		return nil, fmt.Errorf("look who waits: %w", err)
	}
	var out []schedule.Lane
	for _, r := range rows {
		l := schedule.Lane{Phase: r.Phase, Queue: r.Queue, Tenant: r.TenantID, User: r.UserID}
		if slices.ContainsFunc(b.offers, func(o schedule.Offer) bool { return o.Free > 0 && o.ServesLane(l) }) {
			out = append(out, l)
		}
	}
	return out, nil
}

// count reads, while no other claim decides, what the limits are counted from.
func (b *claimBatch) count(ctx context.Context, lanes []schedule.Lane) error {
	var tenants []uuid.UUID
	for _, l := range lanes {
		tenants = append(tenants, l.Tenant)
	}
	var err error
	b.state, err = b.s.scheduleState(ctx, b.tx, tenants)
	return err
}

// heads are the first items of the lanes without those that were passed over, and how many were read of each lane.
func (b *claimBatch) heads(ctx context.Context, lanes []schedule.Lane, l look) ([]schedule.Item, map[schedule.Lane]int, error) {
	raw, err := encode(rowsOfLanes(lanes))
	if err != nil {
		return nil, nil, err
	}
	rows, err := b.s.q.HeadsOfLanes(ctx, b.tx, raw, int32(l.depth))
	if err != nil {
		return nil, nil, fmt.Errorf("read the first items: %w", err)
	}
	items, read := sift(l, rows, itemOf, schedule.Item.Lane)
	return items, read, nil
}

func rowsOfLanes(lanes []schedule.Lane) []sqlc.RunQueue {
	rows := make([]sqlc.RunQueue, len(lanes))
	for i, l := range lanes {
		rows[i] = sqlc.RunQueue{Phase: l.Phase, Queue: l.Queue, TenantID: l.Tenant, UserID: l.User}
	}
	return rows
}

func (b *claimBatch) groups(ctx context.Context, lanes []schedule.Lane) ([]schedule.Group, error) {
	raw, err := encode(rowsOfLanes(lanes))
	if err != nil {
		return nil, err
	}
	rows, err := b.s.q.GroupsOfLanes(ctx, b.tx, raw)
	if err != nil {
		return nil, fmt.Errorf("look what the lanes hold: %w", err)
	}
	groups := make([]schedule.Group, len(rows))
	for i, r := range rows {
		groups[i] = schedule.Group{Lane: schedule.Lane{Phase: r.Phase, Queue: r.Queue, Tenant: r.TenantID, User: r.UserID},
			Repository: r.RepositoryID, Risk: policy.Risk(r.Risk), Provider: r.Provider, Pool: r.Pool}
	}
	return groups, nil
}

// headsOfGroups are the first items of the groups without those that were passed over, and how many were read of each.
func (b *claimBatch) headsOfGroups(ctx context.Context, groups []schedule.Group, l look) ([]schedule.Item, map[schedule.Group]int, error) {
	ask := make([]sqlc.RunQueue, len(groups))
	for i, g := range groups {
		ask[i] = sqlc.RunQueue{Phase: g.Phase, Queue: g.Queue, TenantID: g.Tenant, UserID: g.User, RepositoryID: g.Repository,
			Risk: string(g.Risk), Provider: g.Provider, Pool: g.Pool}
	}
	raw, err := encode(ask)
	if err != nil {
		return nil, nil, err
	}
	rows, err := b.s.q.HeadsOfGroups(ctx, b.tx, raw, int32(l.depth))
	if err != nil {
		return nil, nil, fmt.Errorf("read the first items of groups: %w", err)
	}
	items, read := sift(l, rows, func(r sqlc.HeadsOfGroupsRow) schedule.Item { return itemOf(sqlc.HeadsOfLanesRow(r)) }, func(i schedule.Item) schedule.Group {
		return schedule.Group{Lane: i.Lane(), Repository: i.Repository, Risk: i.Risk, Provider: i.Provider, Pool: i.Pool}
	})
	return items, read, nil
}

// sift returns the items of the rows that were not passed over, and how many rows there are of each key.
func sift[Row any, Key comparable](l look, rows []Row, item func(Row) schedule.Item, key func(schedule.Item) Key) ([]schedule.Item, map[Key]int) {
	items, read := make([]schedule.Item, 0, len(rows)), map[Key]int{}
	for _, r := range rows {
		i := item(r)
		if read[key(i)]++; !l.passed[i.Run] {
			items = append(items, i)
		}
	}
	return items, read
}

func itemOf(r sqlc.HeadsOfLanesRow) schedule.Item {
	return schedule.Item{Run: r.RunID, Tenant: r.TenantID, User: r.UserID, Repository: r.RepositoryID, Phase: r.Phase, Risk: policy.Risk(r.Risk),
		Rank: r.Rank, Since: r.VisibleAt, Maker: r.Maker,
		Route: policy.Route{Queue: r.Queue, Pool: r.Pool, Provider: r.Provider, Priority: int(r.Priority), Requires: r.Requires}}
}
