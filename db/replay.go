package db

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/evidence"
	"signalbox/internal/run"
)

// Difference is one thing that a run's log and the database do not agree on.
type Difference struct {
	Run uuid.UUID
	// Seq is the event, or 0 for the stored row as a whole.
	Seq int64
	Why string
}

// Coverage counts what a replay has walked through.
type Coverage struct {
	Runs   int
	Events int
	States map[run.State]int
	// Edges counts transitions by "FROM event TO".
	Edges map[string]int
}

// Replay folds the log of every run from nothing and compares it with the stored
// row: the hash chain over the exact bytes, the derived copies beside them, and
// every column that the reducer owns (R-TRN-3). each is called per difference.
func (s *Store) Replay(ctx context.Context, each func(Difference)) (Coverage, error) {
	c := Coverage{States: map[run.State]int{}, Edges: map[string]int{}}
	after := uuid.Nil
	for {
		rows, err := s.q.ReplayRuns(ctx, s.pool, after, 200)
		if err != nil {
			return c, fmt.Errorf("list runs: %w", err)
		}
		for _, r := range rows {
			if err := s.replayRun(ctx, r.Run, &c, each); err != nil {
				return c, err
			}
			after = r.Run.ID
		}
		if len(rows) < 200 {
			return c, nil
		}
	}
}

func (s *Store) replayRun(ctx context.Context, row sqlc.Run, c *Coverage, each func(Difference)) error {
	events, err := s.q.ReplayEvents(ctx, s.pool, row.ID)
	if err != nil {
		return fmt.Errorf("load events of run %s: %w", row.ID, err)
	}
	c.Runs++
	differ := func(seq int64, why string, args ...any) { each(Difference{row.ID, seq, fmt.Sprintf(why, args...)}) }
	var r run.Run
	var prev []byte
	for i, e := range events {
		c.Events++
		seq := int64(i + 1)
		if e.Seq != seq {
			differ(seq, "the log jumps to seq %d", e.Seq)
			return nil
		}
		if !bytes.Equal(evidence.Hash(prev, e.Body), e.Hash) {
			differ(seq, "the hash does not fit the recorded bytes")
			return nil
		}
		prev = e.Hash
		ev, why := readEvent(row, e)
		if why != "" {
			differ(seq, "%s", why)
			return nil
		}
		before := r.State
		res, err := run.Reduce(r, ev)
		if err != nil {
			differ(seq, "the reducer refuses the recorded event: %v", err)
			return nil
		}
		r = res.Run
		if int(e.AttemptNo) != r.AttemptNo {
			differ(seq, "the log says attempt %d, replay gives %d", e.AttemptNo, r.AttemptNo)
			return nil
		}
		if string(before) != e.FromState || string(r.State) != e.ToState {
			differ(seq, "the log says %s to %s, replay gives %s to %s", e.FromState, e.ToState, before, r.State)
			return nil
		}
		c.States[r.State]++
		c.Edges[fmt.Sprintf("%s %s %s", before, ev.Kind(), r.State)]++
	}
	if !bytes.Equal(prev, row.HeadHash) {
		differ(0, "the run's head is not the hash of its last event")
	}
	stored, err := toRun(row)
	if err != nil {
		differ(0, "the stored row cannot be read: %v", err)
		return nil
	}
	for _, field := range unequal(stored, r) {
		differ(0, "column %s differs from the replay", field)
	}
	return nil
}

// readEvent reads the exact bytes and compares the copies beside them.
func readEvent(row sqlc.Run, e sqlc.ReplayEventsRow) (run.Event, string) {
	b, err := evidence.ParseBody(e.Body)
	if err != nil {
		return run.Event{}, "the recorded bytes cannot be read: " + err.Error()
	}
	if b.Tenant != row.TenantID || b.Run != row.ID || b.Seq != e.Seq || b.Kind != e.Kind {
		return run.Event{}, "the recorded bytes belong to another event"
	}
	var exact, copied any
	if json.Unmarshal(b.Payload, &exact) != nil || json.Unmarshal(e.Payload, &copied) != nil || !reflect.DeepEqual(exact, copied) {
		return run.Event{}, "the payload column differs from the recorded bytes"
	}
	ev, err := run.Decode(int(b.Schema), b.Payload)
	if err != nil {
		return run.Event{}, err.Error()
	}
	if c := column(b, ev, e); c != "" {
		return run.Event{}, "column " + c + " differs from the recorded bytes"
	}
	return ev, ""
}

// column names the first column beside the exact bytes that says something else.
func column(b evidence.Event, ev run.Event, e sqlc.ReplayEventsRow) string {
	for name, same := range map[string]bool{
		"tenant_id": e.TenantID == b.Tenant, "schema": e.Schema == b.Schema, "event_id": e.EventID == ev.ID,
		"kind": e.Kind == string(ev.Kind()), "actor_kind": e.ActorKind == string(ev.By.Kind) && e.ActorKind == b.Actor.Kind,
		"actor_id": e.ActorID == ev.By.ID && e.ActorID == b.Actor.ID, "actor_name": e.ActorName == ev.By.Name,
		"at": e.At.Equal(ev.At) && e.At.Equal(b.At),
	} {
		if !same {
			return name
		}
	}
	return ""
}

// unequal names the fields in which two runs differ, by their JSON form, in which
// both are stored.
func unequal(a, b run.Run) []string {
	x, y := fields(a), fields(b)
	var out []string
	for k := range x {
		if !bytes.Equal(x[k], y[k]) {
			out = append(out, k)
		}
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			out = append(out, k)
		}
	}
	return out
}

func fields(r run.Run) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	b, err := json.Marshal(r)
	if err != nil {
		// A run is made of values that encode.
		return m
	}
	_ = json.Unmarshal(b, &m)
	return m
}
