package db_test

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"signalbox/db"
	"signalbox/internal/run"
)

// stored is what is kept about one run, as a look past the product finds it.
type stored struct {
	Run            uuid.UUID
	State, Queued  string
	Token          int64 // the run's own
	Ready, Delayed string
	Lease, Boot    uuid.UUID // zero without a lease
	Held           int64     // the lease's token
	Phase, Claim   string
	Minutes        float64 // that the lease has left
}

const lookAtRuns = `SELECT r.id, r.state, coalesce(r.queued, ''), r.fencing_token, coalesce(q.phase, ''), coalesce(d.phase, ''),
		coalesce(l.lease_id, @none), coalesce(l.boot_id, @none), coalesce(l.fencing_token, 0), coalesce(l.phase, ''), coalesce(l.claim_id, ''), coalesce(extract(epoch FROM l.expires_at - clock_timestamp()) / 60, 0)::float8
	FROM runs r LEFT JOIN run_queue q ON q.run_id = r.id LEFT JOIN run_delayed d ON d.run_id = r.id LEFT JOIN run_leases l ON l.run_id = r.id`

// same holds that what is stored is what the model says: of every run, and of no other.
func (m *machine) same(t *rapid.T) {
	rows, err := m.super.Query(m.ctx, lookAtRuns, pgx.NamedArgs{"none": uuid.Nil})
	m.ok(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	m.ok(t, err)
	byRun := map[uuid.UUID]stored{}
	for _, s := range all {
		byRun[s.Run] = s
	}
	if len(all) != len(m.runs) {
		m.wrong(t, "%d runs are stored, want %d", len(all), len(m.runs))
	}
	for _, r := range m.runs {
		got, want := byRun[r.ref.Run], m.expected(r)
		switch l := r.lease; {
		case l == nil && got.Lease != uuid.Nil:
			m.wrong(t, "%s, and somebody has a lease for it", r)
		case got.Lease != want.Lease || got.Boot != want.Boot || got.Held != want.Held:
			m.wrong(t, "%s, and it is another lease that is stored", r)
		case got.Token != want.Token:
			m.wrong(t, "%s, and its token is another one", r)
		case l != nil:
			// What passes by itself during a case is far less than a minute.
			if left := float64(l.expires - m.now); got.Minutes > left || got.Minutes < left-0.9 {
				m.wrong(t, "%s, and it has %.0f minutes left, want %.0f", r, got.Minutes, left)
			}
		}
		if got, want := got.words(), want.words(); got != want {
			m.wrong(t, "%s, and it is stored as %s, want %s", r, got, want)
		}
	}
	m.print = m.rows(t)
}

// words are what is the same in every run of the same draws.
func (s stored) words() string {
	return fmt.Sprintf("%s queued %q ready %q delayed %q leased %q by %q", s.State, s.Queued, s.Ready, s.Delayed, s.Phase, s.Claim)
}

func (m *machine) expected(r *modelRun) stored {
	s := stored{Run: r.ref.Run, State: string(r.state), Token: r.token}
	if l := r.lease; l != nil {
		s.Lease, s.Held, s.Phase, s.Claim, s.Boot = l.id, l.token, string(l.phase), l.claim, l.boot.id
		return s
	}
	switch s.Queued = string(r.queued); {
	case r.delayed:
		s.Delayed = s.Queued
	default:
		s.Ready = s.Queued
	}
	return s
}

// rows is one word for every row that a worker can write, whatever is in it. Boots are none of them: that somebody was heard of
// is kept also where nothing else comes of it.
func (m *machine) rows(t *rapid.T) (print string) {
	m.ok(t, m.super.QueryRow(m.ctx, `SELECT md5(coalesce(string_agg(x, '|' ORDER BY x), '')) FROM (
		SELECT x::text FROM runs x UNION ALL SELECT id::text || kind FROM run_events UNION ALL SELECT x::text FROM run_leases x
		UNION ALL SELECT x::text FROM run_queue x UNION ALL SELECT x::text FROM run_delayed x UNION ALL SELECT x::text FROM ended_leases x
		UNION ALL SELECT x::text FROM attempts x UNION ALL SELECT x::text FROM sandboxes x UNION ALL SELECT x::text FROM operations x
		UNION ALL SELECT x::text FROM gates x UNION ALL SELECT x::text FROM tasks x UNION ALL SELECT id::text FROM outbox
		UNION ALL SELECT scope || key FROM idempotency_keys) y(x)`).Scan(&print))
	return print
}

// replays holds, at the end, that the log of every run gives the stored row, and that tokens rise in it. Minutes that were
// made to pass moved the instant of a stop, which the log knows as it was.
func (m *machine) replays(t *rapid.T) {
	_, err := m.super.Exec(m.ctx, `UPDATE runs r SET cancel_at = cancel_at + round(extract(epoch FROM e.at - cancel_at) / 60) * interval '1 minute'
		FROM run_events e WHERE e.run_id = r.id AND e.kind = 'cancel_requested' AND e.from_state <> 'CANCELLING' AND r.cancel_at IS NOT NULL`)
	m.ok(t, err)
	c, err := m.store.Replay(m.ctx, func(d db.Difference) {
		t.Errorf("replay: seq %d: %s", d.Seq, d.Why)
	})
	m.ok(t, err)
	if c.Runs != len(m.runs) {
		t.Errorf("%d runs replay, want %d", c.Runs, len(m.runs))
	}
	for _, r := range m.runs {
		m.did["runs "+string(endOf(r))]++
	}
	m.did["events"] += c.Events
}

// endOf is the state in which a case left the run, or QUEUED wherever it waits for a worker.
func endOf(r *modelRun) run.State {
	if r.queued != "" {
		return run.Queued
	}
	return r.state
}
