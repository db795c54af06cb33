package main

// mutant is one way to break the core.
type mutant struct {
	name, what     string
	file, old, new string
	// pkg and tests say who should notice.
	pkg, tests string
}

func mutants() []mutant {
	return []mutant{
		{"claims_meet", "two claims decide at the same time", "db/claim_look.go",
			`b.s.q.HoldOffClaims(ctx, h)`, `error(nil)`, "./db", "TestOrdersOfTheLastSlot"},
		{"limit_off_by_one", "each limit allows one more", "internal/schedule/limits.go",
			`a.counts[l.at] >= l.most`, `a.counts[l.at] > l.most`, "./internal/schedule", "TestAssign.*"},
		{"no_shares", "tenants have no shares", "internal/schedule/schedule.go",
			`return float64(a.counts[tenantKey(tenant)]) / weight`, `return 0 * weight`, "./db", "TestWhaleDelaysNobody"},
		{"any_holder", "whoever names a lease holds the run", "internal/run/run.go",
			`return r.Lease != nil && ref != nil && r.Lease.ID == ref.ID && r.Lease.Token == ref.Token`, `return r.Lease != nil && ref != nil`, "./db", "TestStaleWritesChangeNothing"},
		{"tokens_go_back", "a lower fencing token is taken", "internal/run/reduce_execute.go",
			`if p.Lease.Token <= m.r.Token {`, `if p.Lease.Token < 0 {`, "./internal/run", "Test.*"},
		{"dead_lease_writes", "a lease that ran out still writes", "db/apply.go",
			`if !r.Holds(in.Lease) || !live ||`, `if !r.Holds(in.Lease) || live && !live ||`, "./db", "TestStaleWritesChangeNothing|TestOrdersOfCompleteAndReap"},
		{"heartbeat_without_token", "a heartbeat extends without its token", "db/internal/sqlc/leases.sql.go",
			`l.lease_id = b.lease_id AND l.fencing_token = b.fencing_token AND l.worker_id`, `l.lease_id = b.lease_id AND l.worker_id`, "./db", "TestHeartbeats.*"},
		{"loser_is_acknowledged", "a transition that was not written is acknowledged", "db/commit.go",
			`out[i].Out, out[i].Err = done[w.runs[0].ID], err`, `out[i].Out, out[i].Err = done != nil, err`, "./db", "TestOrdersOfCompleteAndReap|TestOrdersOfCancelAndComplete"},
		{"keys_forget_content", "a key is answered whatever was asked", "db/apply.go",
			`if !bytes.Equal(stored, hash) {`, `if bytes.Equal(stored, nil) {`, "./db", "TestRepeatedCommandIsAnsweredAndNotDoneAgain"},
		{"claims_forget", "a repeated claim is a new one", "db/claim_batch.go",
			`l.ClaimID == r.ClaimID && l.BootID == r.Boot`, `l.ClaimID == r.ClaimID && l.BootID != r.Boot`, "./db", "TestRepeatedClaim"},
		{"room_without_end", "a worker's room does not shrink", "db/claim_batch.go",
			`b.offers[g.Offer].Free--`, `b.offers[g.Offer].Free -= 0`, "./db", "TestMaximumOfABoot"},
		{"stale_items_stay", "an item whose run moved on stays", "db/claim_batch.go",
			`return b.s.staleItem(ctx, b.tx, r, g.Item.Phase)`, `return nil`, "./db", "TestStaleItemDoesNothing"},
	}
}
