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
	tried := map[uuid.UUID]bool{}
	for id := range b.without {
		tried[id] = true
	}
	items, deeper, err := b.look(ctx, lanes, max(2, 2*b.free()/len(lanes)))
	if err != nil {
		return err
	}
	left, err := b.assign(ctx, items, tried)
	if err != nil {
		return err
	}
	if b.free() > 0 {
		b.s.seen.heldBack(b.state, left)
	}
	// Nothing more of what was seen can be given: look behind it, in the lanes that have more.
	if err := b.behind(ctx, schedule.OpenLanes(b.state, b.offers, deeper), tried); err != nil {
		return err
	}
	return b.flush(ctx)
}

// assign gives out items until none of them can be given any more, and returns those that were not. tried are the items that
// were given out once in this claim: one whose run is not to be had leaves its room to the next, and is asked for no more.
func (b *claimBatch) assign(ctx context.Context, items []schedule.Item, tried map[uuid.UUID]bool) ([]schedule.Item, error) {
	for {
		items = slices.DeleteFunc(items, func(i schedule.Item) bool { return tried[i.Run] })
		grants := schedule.Assign(b.state, b.offers, items)
		if len(grants) == 0 {
			return items, nil
		}
		if err := b.grant(ctx, grants, tried); err != nil {
			return nil, err
		}
	}
}

// behind goes on where the first items of the lanes gave nothing. Items that are alike to a decision are passed over together,
// however many they are; only who made what is to be verified is looked for one by one.
func (b *claimBatch) behind(ctx context.Context, lanes []schedule.Lane, tried map[uuid.UUID]bool) error {
	if len(lanes) == 0 {
		return nil
	}
	groups, err := b.groups(ctx, lanes)
	if err != nil {
		return err
	}
	for page := 0; ; {
		groups = schedule.OpenItems(b.state, b.offers, groups)
		if len(groups) == 0 {
			return nil
		}
		page = max(2, min(max(4*page, 2*b.free()), mostRead/len(groups)))
		items, deeper, err := b.headsOfGroups(ctx, groups, page)
		if err != nil {
			return err
		}
		if _, err := b.assign(ctx, items, tried); err != nil {
			return err
		}
		groups = deeper
	}
}

// mostRead bounds how many items are read at a time, unless there are more groups than half of it.
const mostRead = 1 << 12

func (b *claimBatch) free() (n int) {
	for _, o := range b.offers {
		n += o.Free
	}
	return n
}

// look holds off other claims until this one is written, reads what the limits are counted from, and returns the first items of
// the lanes, up to a page of each, and the lanes of which a full page was read.
func (b *claimBatch) look(ctx context.Context, lanes []schedule.Lane, page int) (items []schedule.Item, deeper []schedule.Lane, err error) {
	raw, err := encode(rowsOfLanes(lanes))
	if err != nil {
		return nil, nil, err
	}
	tenants := make([]uuid.UUID, len(lanes))
	for n, l := range lanes {
		tenants[n] = l.Tenant
	}
	var facts sqlc.ScheduleFactsRow
	var rows []sqlc.HeadsOfLanesRow
	err = together(ctx, b.tx,
		func(h sqlc.DBTX) error { return wrap("hold off other claims", b.s.q.HoldOffClaims(ctx, h)) },
		func(h sqlc.DBTX) (err error) {
			facts, err = b.s.scheduleFacts(ctx, h, tenants)
			return err
		},
		func(h sqlc.DBTX) (err error) {
			rows, err = b.s.q.HeadsOfLanes(ctx, h, raw, int32(page))
			return wrap("read the first items", err)
		})
	if err != nil {
		return nil, nil, err
	}
	if b.state, err = b.s.scheduleState(ctx, facts); err != nil {
		return nil, nil, err
	}
	asked := make(map[schedule.Lane]bool, len(lanes))
	for _, l := range lanes {
		asked[l] = true
	}
	for _, r := range rows {
		i := itemOf(r)
		if !asked[i.Lane()] {
			continue // of a lane that has the number of another
		}
		items = append(items, i)
		if r.More {
			deeper = append(deeper, i.Lane())
		}
	}
	return items, deeper, nil
}

func rowsOfLanes(lanes []schedule.Lane) []sqlc.RunQueue {
	rows := make([]sqlc.RunQueue, len(lanes))
	for i, l := range lanes {
		rows[i] = sqlc.RunQueue{Phase: l.Phase, Queue: l.Queue, TenantID: l.Tenant, UserID: l.User}
	}
	return rows
}

// groups are what the lanes hold, one item for all that are alike: as it stands before the first of them, without rank and run. Of
// lanes that hold too many to look at they are some that follow each other, from a place that is drawn.
func (b *claimBatch) groups(ctx context.Context, lanes []schedule.Lane) ([]schedule.Item, error) {
	raw, err := encode(rowsOfLanes(lanes))
	if err != nil {
		return nil, err
	}
	rows, err := b.s.q.GroupsOfLanes(ctx, b.tx, raw, b.start(), int32(max(fewestOfEach, mostGroups/len(lanes))))
	if err != nil {
		return nil, fmt.Errorf("look what the lanes hold: %w", err)
	}
	groups := make([]schedule.Item, len(rows))
	for n, r := range rows {
		groups[n] = schedule.Item{Tenant: r.TenantID, User: r.UserID, Repository: r.RepositoryID, Phase: r.Phase, Risk: policy.Risk(r.Risk),
			Route: policy.Route{Queue: r.Queue, Pool: r.Pool, Provider: r.Provider, Requires: r.Requires}}
	}
	return groups, nil
}

// headsOfGroups are the next items of the groups, up to a page of each, and the groups of which a full page was read: each as
// the last item that was read of it, whoever made that.
func (b *claimBatch) headsOfGroups(ctx context.Context, groups []schedule.Item, page int) (items, deeper []schedule.Item, err error) {
	after := make([]sqlc.RunQueue, len(groups))
	for n, g := range groups {
		after[n] = sqlc.RunQueue{Phase: g.Phase, Queue: g.Queue, TenantID: g.Tenant, UserID: g.User, RepositoryID: g.Repository,
			Risk: string(g.Risk), Provider: g.Provider, Pool: g.Pool, Requires: nonNil(g.Requires), Rank: g.Rank, RunID: g.Run}
	}
	raw, err := encode(after)
	if err != nil {
		return nil, nil, err
	}
	rows, err := b.s.q.HeadsOfGroups(ctx, b.tx, raw, int32(page))
	if err != nil {
		return nil, nil, fmt.Errorf("read the first items of groups: %w", err)
	}
	for _, r := range rows {
		i := itemOf(sqlc.HeadsOfLanesRow(r))
		items = append(items, i)
		if r.More {
			i.Maker = uuid.Nil
			deeper = append(deeper, i)
		}
	}
	return items, deeper, nil
}

func itemOf(r sqlc.HeadsOfLanesRow) schedule.Item {
	return schedule.Item{Run: r.RunID, Tenant: r.TenantID, User: r.UserID, Repository: r.RepositoryID, Phase: r.Phase, Risk: policy.Risk(r.Risk),
		Rank: r.Rank, Since: r.VisibleAt, Maker: r.Maker,
		Route: policy.Route{Queue: r.Queue, Pool: r.Pool, Provider: r.Provider, Priority: int(r.Priority), Requires: r.Requires}}
}
