package db_test

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// claim asks for work under a new claim id, and holds the answer against the model.
func (m *machine) claim(t *rapid.T) {
	boots := m.up()
	free := slices.DeleteFunc(slices.Clone(boots), func(b *modelBoot) bool { return b.state != "READY" || b.drained || m.room(b) == 0 })
	if len(free) > 0 && rapid.SampledFrom([]bool{true, true, false}).Draw(t, "one that has room") {
		boots = free
	}
	b := one(t, "boot", boots)
	m.claims++
	m.asks(t, b, fmt.Sprint("claim-", m.claims), rapid.SampledFrom([][]run.Phase{run.Phases(), run.Phases(), {run.PhaseExecute}, {run.PhaseVerify, run.PhasePublish}}).Draw(t, "phases"),
		rapid.SampledFrom([]int{2, 3, 1}).Draw(t, "most"))
}

// tries is a question of the boot for whatever there is, right after something that should have an effect on it.
func (m *machine) tries(t *rapid.T, b *modelBoot) {
	m.print = m.rows(t)
	m.claims++
	m.asks(t, b, fmt.Sprint("claim-", m.claims), run.Phases(), 3)
}

// claimAgain asks under a claim id that was used before, by whomever.
func (m *machine) claimAgain(t *rapid.T) {
	if m.claims == 0 {
		t.Skip("nobody has asked")
	}
	if held := m.which(func(r *modelRun) bool { return r.lease != nil }); len(held) > 0 && rapid.Bool().Draw(t, "of one that is held") {
		l := one(t, "held run", held).lease
		m.asks(t, l.boot, l.claim, run.Phases(), rapid.IntRange(1, 3).Draw(t, "most"))
		return
	}
	m.asks(t, one(t, "boot", m.boots), fmt.Sprint("claim-", rapid.IntRange(1, m.claims).Draw(t, "claim")), run.Phases(), rapid.IntRange(1, 3).Draw(t, "most"))
}

func (m *machine) asks(t *rapid.T, b *modelBoot, claim string, phases []run.Phase, most int) {
	given, again, err := m.store.Claim(m.ctx, db.ClaimRequest{ClaimID: claim, Worker: m.ids[b.worker], Boot: b.id, Phases: phases, Max: most})
	before := m.given(b, claim)
	if len(before) == 0 && b.state == "STOPPED" {
		m.refused(t, err)
		return
	}
	m.ok(t, err)
	if len(before) > 0 {
		if !again || len(given) != len(before) {
			m.wrong(t, "%s asked again gave %d leases (again: %t), want the %d that are left", claim, len(given), again, len(before))
		}
		for n, r := range before {
			if g := given[n]; g.Ref != r.ref || g.Lease.ID != r.lease.id || g.Lease.Token != r.lease.token || g.State != r.state {
				m.wrong(t, "%s asked again gave another lease as number %d (in state %s); %s", claim, n, g.State, r)
			}
		}
		m.unmoved(t)
		m.did["claims answered again"]++
		return
	}
	if again || len(given) > most {
		m.wrong(t, "%s gave %d leases of at most %d (again: %t)", claim, len(given), most, again)
	}
	for _, g := range given {
		m.granted(t, b, claim, phases, g)
	}
	m.did["leases given"] += len(given)
	if len(given) == most {
		return
	}
	for _, r := range m.runs {
		if m.may(b, phases, r) {
			m.wrong(t, "%s was given %d leases of %d; %s and was left", b, len(given), most, r)
		}
	}
	m.did["claims that left what may not be given"]++
}

// granted holds that one lease was allowed when it was given, and was the next in its line.
func (m *machine) granted(t *rapid.T, b *modelBoot, claim string, phases []run.Phase, g db.Claimed) {
	n := slices.IndexFunc(m.runs, func(r *modelRun) bool { return r.ref == g.Ref })
	if n < 0 {
		t.Fatal("a run was given that nobody asked for")
	}
	r := m.runs[n]
	if r.lease != nil {
		m.wrong(t, "%s and was given to %s", r, b)
	}
	if !m.may(b, phases, r) {
		m.wrong(t, "%s and may not be given to %s with room for %d; limits %+v, of all %d; paused %v", r, b, m.room(b), m.limits, m.all, m.paused)
	}
	for _, x := range m.runs {
		if m.before(x, r) && m.may(b, phases, x) {
			m.wrong(t, "%s and was given before: %s", r, x)
		}
	}
	l := g.Lease
	if l.Token <= r.token || m.tokens[l.Token] {
		m.wrong(t, "%s and was given a token that is not higher than its last (%t), or that was given before (%t)", r, l.Token <= r.token, m.tokens[l.Token])
	}
	if l.Phase != r.queued || l.Boot != b.id.String() {
		m.wrong(t, "%s and was given for %s to another boot", r, l.Phase)
	}
	m.tokens[l.Token] = true
	m.grant(r, modelLease{id: l.ID, token: l.Token, phase: l.Phase, boot: b, claim: claim})
	if g.State != r.state {
		m.wrong(t, "%s and was given as %s", r, g.State)
	}
}

// beat is a heartbeat of a boot for all that it has.
func (m *machine) beat(t *rapid.T) {
	b := one(t, "boot", m.boots)
	draining := rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "draining")
	var beats []db.Beat
	mine := m.which(func(r *modelRun) bool { return r.lease != nil && r.lease.boot == b })
	for _, r := range mine {
		beats = append(beats, db.Beat{Run: r.ref.Run, Lease: m.held(r).Proof()})
	}
	pulses, drain, err := m.store.Extend(m.ctx, m.ids[b.worker], b.id, draining, beats)
	if b.state == "STOPPED" {
		m.refused(t, err)
		return
	}
	m.ok(t, err)
	if b.state = "READY"; draining {
		b.state = "DRAINING"
	}
	if drain != b.drained || len(pulses) != len(mine) {
		m.wrong(t, "%s: drain %t and %d answers, want %t and %d", b, drain, len(pulses), b.drained, len(mine))
	}
	for n, r := range mine {
		want := db.SignalAlive
		switch {
		case m.over(r.lease), m.graceOver(r):
			want = db.SignalLost
		case r.state == run.Cancelling:
			want = db.SignalCancel
		case b.drained:
			want = db.SignalDrain
		}
		if pulses[n].Signal != want {
			m.wrong(t, "%s; its heartbeat is answered %s, want %s", r, pulses[n].Signal, want)
		}
		m.did["heartbeats "+string(want)]++
		if want != db.SignalLost {
			r.lease.expires = m.now + modelTTL
		}
	}
}

// refused holds that nothing was done and that a row of any table is as it was.
func (m *machine) refused(t *rapid.T, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Conflict {
		m.wrong(t, "what came too late is answered with %v, want a conflict", err)
	}
	m.did["refusals"]++
	m.unmoved(t)
}

// unmoved holds that no row has changed since the last look.
func (m *machine) unmoved(t *rapid.T) {
	t.Helper()
	if now := m.rows(t); now != m.print {
		t.Fatal("rows were written")
	}
}

// stale is somebody who speaks without the right: with a lease that ended, that ran out, with another token, or with
// another's. Nothing of it changes a row.
func (m *machine) stale(t *rapid.T) {
	var kinds []string
	may := func(kind string, of []*modelRun) {
		if len(of) > 0 {
			kinds = append(kinds, kind)
		}
	}
	working := m.working()
	held := m.which(func(r *modelRun) bool { return r.lease != nil })
	stopping := m.which(func(r *modelRun) bool { return r.state == run.Cancelling && !m.over(r.lease) })
	may("ran out", held)
	may("other token", working)
	may("other worker", working)
	may("cancelling", stopping)
	if len(m.ended) > 0 {
		kinds = append(kinds, "ended")
	}
	var l drive.Lease
	switch kind := one(t, "kind", kinds); kind {
	case "ended":
		l = *one(t, "ended lease", m.ended)
	case "ran out":
		r := one(t, "held run", held)
		if l = *m.held(r); !m.over(r.lease) {
			m.passes(t, modelTTL+1)
		}
	case "other token":
		l = *m.held(one(t, "run", working))
		l.Lease.Token += rapid.SampledFrom([]int64{-1, 1}).Draw(t, "by")
	case "other worker":
		r := one(t, "run", working)
		b := one(t, "boot of another", slices.DeleteFunc(slices.Clone(m.boots), func(b *modelBoot) bool { return b.worker == r.lease.boot.worker }))
		l = *m.held(r)
		l.Worker = m.worker(b)
	default:
		m.progressWhileCancelling(t, m.held(one(t, "run to be cancelled", stopping)))
		return
	}
	m.did["stale writes"]++
	if rapid.Bool().Draw(t, "heartbeat") {
		m.staleBeat(t, &l)
		return
	}
	c := one(t, "command", []run.Command{run.AttemptHasFailed{Code: run.CodeDiskFull}, run.Release{Reason: "drain"}, run.Start{}, run.ConfirmCancel{}})
	_, err := l.Do(m.ctx, c)
	m.refused(t, err)
}

// progressWhileCancelling: the holder may end what is to be cancelled, and do nothing else.
func (m *machine) progressWhileCancelling(t *rapid.T, l *drive.Lease) {
	_, err := l.Do(m.ctx, map[run.Phase]run.Command{run.PhaseExecute: run.Start{}, run.PhaseVerify: run.VerifyStarted{Commands: []string{"true"}, Digest: "aa"},
		run.PhasePublish: run.BaseHasMoved{NewBase: drive.Tree}}[l.Lease.Phase])
	m.refused(t, err)
}

func (m *machine) staleBeat(t *rapid.T, l *drive.Lease) {
	b := m.boots[slices.IndexFunc(m.boots, func(b *modelBoot) bool { return b.id == l.Worker.Boot })]
	pulses, _, err := m.store.Extend(m.ctx, l.Worker.WorkerID, b.id, b.state == "DRAINING", []db.Beat{{Run: l.Ref.Run, Lease: l.Proof()}})
	if b.state == "STOPPED" {
		m.refused(t, err)
		return
	}
	m.ok(t, err)
	if pulses[0].Signal != db.SignalLost {
		m.wrong(t, "a heartbeat without the lease is answered %s", pulses[0].Signal)
	}
	m.unmoved(t)
}

func (m *machine) cancelRun(t *rapid.T) {
	m.cancels(t, one(t, "run", m.which(func(r *modelRun) bool { return !r.state.Terminal() })))
}

func (m *machine) cancelHeld(t *rapid.T) {
	m.cancels(t, one(t, "held run", m.which(func(r *modelRun) bool { return r.lease != nil })))
}

func (m *machine) cancels(t *rapid.T, r *modelRun) {
	_, err := m.worlds[r.tenant].Cancel(m.ctx, r.ref)
	m.ok(t, err)
	m.cancel(r)
}

func (m *machine) approve(t *rapid.T) {
	r := one(t, "run at its gate", m.which(func(r *modelRun) bool { return r.state == run.WaitingForApproval }))
	m.ok(t, m.worlds[r.tenant].Approve(m.ctx, r.ref))
	r.state, r.publishAgain = run.PRCreating, 0
	m.enqueue(r, run.PhasePublish, false)
}

// drain asks all boots of a worker to end.
func (m *machine) drain(t *rapid.T) {
	b := one(t, "boot", m.up())
	w := m.worlds[max(m.workers[b.worker].tenant, 0)]
	m.ok(t, m.store.DrainWorker(m.ctx, w.Request(w.Admin, "drain"), m.ids[b.worker].ID))
	for _, x := range m.boots {
		if x.worker == b.worker && x.state != "STOPPED" {
			x.drained = true
		}
	}
	m.tries(t, b)
}

func (m *machine) stop(t *rapid.T) {
	b := one(t, "boot", m.up())
	m.ok(t, m.store.StopBoot(m.ctx, m.ids[b.worker], b.id))
	b.state = "STOPPED"
	m.tries(t, b)
}

// pass makes minutes pass for queue, leases, boots and stops that were asked for.
func (m *machine) pass(t *rapid.T) {
	m.passes(t, rapid.SampledFrom([]int{20, 39, 61, 9, 1}).Draw(t, "minutes"))
}

func (m *machine) passes(t *rapid.T, minutes int) {
	for _, statement := range []string{
		`UPDATE run_leases SET acquired_at = acquired_at - make_interval(mins => $1), heartbeat_at = heartbeat_at - make_interval(mins => $1), expires_at = expires_at - make_interval(mins => $1)`,
		`UPDATE run_queue SET visible_at = visible_at - make_interval(mins => $1), rank = rank - make_interval(mins => $1)`,
		`UPDATE worker_boots SET heartbeat_at = heartbeat_at - make_interval(mins => $1)`,
		`UPDATE runs SET cancel_at = cancel_at - make_interval(mins => $1) WHERE state = 'CANCELLING'`,
	} {
		_, err := m.super.Exec(m.ctx, statement, minutes)
		m.ok(t, err)
	}
	m.now += minutes
	m.print = m.rows(t)
}

// reap is one round of the loop that takes leases back.
func (m *machine) reap(t *rapid.T) {
	expired, err := m.store.ExpiredLeases(m.ctx, uuid.Nil, 1000)
	m.ok(t, err)
	m.reaps(t, expired, m.which(func(r *modelRun) bool { return r.lease != nil && m.over(r.lease) }))
	late, err := m.store.DisobedientLeases(m.ctx, uuid.Nil, 1000, 0)
	m.ok(t, err)
	m.reaps(t, late, m.which(m.graceOver))
}

func (m *machine) reaps(t *rapid.T, found []db.ExpiredLease, want []*modelRun) {
	if len(found) != len(want) {
		m.wrong(t, "%d leases are to be taken back, want %d", len(found), len(want))
	}
	for _, r := range want {
		n := slices.IndexFunc(found, func(l db.ExpiredLease) bool { return l.Ref == r.ref && l.Lease == m.held(r).Proof() })
		if n < 0 {
			m.wrong(t, "%s; its lease is over and is not to be taken back", r)
		}
		m.gone(r)
		_, err := m.store.Reap(m.ctx, found[n])
		m.ok(t, err)
		m.reaped(r)
		m.did["leases taken back"]++
	}
}

// deliver lets one retry become due, and one round of the loop move it.
func (m *machine) deliver(t *rapid.T) {
	r := one(t, "delayed run", m.which(func(r *modelRun) bool { return r.delayed }))
	m.ok(t, m.worlds[r.tenant].Due(m.ctx, r.ref))
	m.enqueue(r, r.queued, false)
}
