package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/bytea"
	"signalbox/db/internal/sqlc"
	"signalbox/internal/coalesce"
	"signalbox/internal/fault"
)

// commits are the calls that concurrent requests share: one statement for all who ask at the same time, each answered
// after its commit (group commit). A request alone waits for nobody.
type commits struct {
	loads   *coalesce.Group[uuid.UUID, Ref, sqlc.LoadRunRow]
	facts   *coalesce.Group[uuid.UUID, Ref, ruledFacts]
	tasks   *coalesce.Group[uuid.UUID, uuid.UUID, sqlc.Task]
	rules   *coalesce.Group[uuid.UUID, uuid.UUID, string]
	writes  *coalesce.Group[uuid.UUID, *write, bool]
	workers *coalesce.Group[string, []byte, sqlc.GetWorkerCredentialsRow]
	lives   *coalesce.Group[string, []byte, bool]
	claims  *coalesce.Group[string, ClaimRequest, given]
	signs   *coalesce.Group[uuid.UUID, sign, vital]
}

// Two writes at once: one that waits for a run which somebody holds does not hold up all others. Look-ups wait for nobody, and
// one at a time makes larger batches (measured: a sixth more transitions with 64 clients).
const writesAtOnce = 2

func (s *Store) openCommits() {
	o := func(kind string) coalesce.Options { return coalesce.Options{Batch: s.seen.batch(kind)} }
	s.commits.loads = coalesce.New[uuid.UUID](o("load"), nil, s.loadRuns)
	s.commits.facts = coalesce.New[uuid.UUID](o("facts"), nil, s.factsOfRuns)
	s.commits.tasks = coalesce.New[uuid.UUID](o("task"), nil, s.tasksByID)
	s.commits.rules = coalesce.New[uuid.UUID](o("policy"), nil, s.policiesOf)
	s.commits.writes = coalesce.New(coalesce.Options{Workers: writesAtOnce, Batch: s.seen.batch("write")}, func(w *write) uuid.UUID { return w.runs[0].ID }, s.writeAll)
	// One at a time: claims hold each other off anyway.
	s.commits.claims = coalesce.New(coalesce.Options{Batch: s.seen.batch("claim")}, func(r ClaimRequest) string { return r.ClaimID }, s.claimAll)
	s.commits.signs = coalesce.New(coalesce.Options{Batch: s.seen.batch("heartbeat")}, func(g sign) uuid.UUID { return g.boot }, s.extendAll)
	s.commits.workers = coalesce.New[string](o("credential"), nil, s.workersByHash)
	s.commits.lives = coalesce.New[string](o("session"), nil, s.sessionsLive)
}

// close carries out what was accepted.
func (c *commits) close() {
	c.workers.Close()
	c.lives.Close()
	c.claims.Close()
	c.signs.Close()
	c.loads.Close()
	c.rules.Close()
	c.facts.Close()
	c.tasks.Close()
	c.writes.Close()
}

// loadRun is the run with the database's clock, as it was after the call began.
func (s *Store) loadRun(ctx context.Context, ref Ref) (sqlc.LoadRunRow, error) {
	row, err := s.commits.loads.Do(ctx, ref)
	return row, busy(err)
}

func (s *Store) loadRuns(ctx context.Context, refs []Ref) []coalesce.Result[sqlc.LoadRunRow] {
	ids := make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i] = r.Run
	}
	rows, err := s.q.LoadRuns(ctx, s.pool, ids)
	by := make(map[Ref]sqlc.LoadRunRow, len(rows))
	for _, r := range rows {
		by[Ref{r.Run.TenantID, r.Run.ID}] = sqlc.LoadRunRow(r)
	}
	return answers(refs, by, err)
}

// ruledFacts is what is known of a run, with the document of the policy in force for its tenant.
type ruledFacts struct {
	sqlc.FactsOfRunsRow
	document string
}

// factsOfRuns asks for facts and policies in one round trip: whoever decides needs both.
func (s *Store) factsOfRuns(ctx context.Context, refs []Ref) []coalesce.Result[ruledFacts] {
	ids, tenants := make([]uuid.UUID, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		ids[i], tenants[i] = r.Run, r.Tenant
	}
	slices.SortFunc(tenants, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	tenants = slices.Compact(tenants)
	by, documents := make(map[Ref]ruledFacts, len(refs)), make(map[uuid.UUID]string, len(tenants))
	err := together(ctx, s.pool, func(h sqlc.DBTX) error {
		rows, err := s.q.PoliciesOf(ctx, h, tenants)
		for _, r := range rows {
			documents[r.TenantID] = r.Document
		}
		return err
	}, func(h sqlc.DBTX) error {
		rows, err := s.q.FactsOfRuns(ctx, h, ids)
		for _, r := range rows {
			if document, ok := documents[r.TenantID]; ok {
				by[Ref{r.TenantID, r.RunID}] = ruledFacts{r, document}
			}
		}
		return err
	})
	return answers(refs, by, err)
}

func (s *Store) tasksByID(ctx context.Context, ids []uuid.UUID) []coalesce.Result[sqlc.Task] {
	rows, err := s.q.TasksByID(ctx, s.pool, ids)
	by := make(map[uuid.UUID]sqlc.Task, len(rows))
	for _, r := range rows {
		by[r.ID] = r
	}
	return answers(ids, by, err)
}

func (s *Store) policiesOf(ctx context.Context, tenants []uuid.UUID) []coalesce.Result[string] {
	rows, err := s.q.PoliciesOf(ctx, s.pool, tenants)
	by := make(map[uuid.UUID]string, len(rows))
	for _, r := range rows {
		by[r.TenantID] = r.Document
	}
	return answers(tenants, by, err)
}

// answers gives everybody the own row, or pgx.ErrNoRows where there is none. Where the look-up failed, its error is everybody's.
func answers[K comparable, V any](keys []K, rows map[K]V, err error) []coalesce.Result[V] {
	out := make([]coalesce.Result[V], len(keys))
	for i, k := range keys {
		row, ok := rows[k]
		switch {
		case err != nil:
			out[i].Err = err
		case !ok:
			out[i].Err = pgx.ErrNoRows
		default:
			out[i].Out = row
		}
	}
	return out
}

// commit writes the transition together with those that come at the same time and reports whether its run was still as
// it was read.
func (s *Store) commit(ctx context.Context, w *write) (bool, error) {
	done, err := s.commits.writes.Do(ctx, w)
	return done, busy(err)
}

// writeAll writes several transitions as one. Where the whole is refused, because of one of them, each is written for
// itself: nobody fails by another's fault.
func (s *Store) writeAll(ctx context.Context, ws []*write) []coalesce.Result[bool] {
	out := make([]coalesce.Result[bool], len(ws))
	if len(ws) > 1 {
		// Rows are locked in the order of their ids, here as everywhere.
		sorted := slices.SortedFunc(slices.Values(ws), func(a, b *write) int { return slices.Compare(a.runs[0].ID[:], b.runs[0].ID[:]) })
		all := &write{}
		for _, w := range sorted {
			all.join(w)
		}
		if done, err := s.flush(ctx, s.pool, all); err == nil {
			for i, w := range ws {
				out[i].Out = done[w.runs[0].ID]
			}
			return out
		}
	}
	for i, w := range ws {
		done, err := s.flush(ctx, s.pool, w)
		out[i].Out, out[i].Err = done[w.runs[0].ID], err
	}
	return out
}

func (s *Store) workersByHash(ctx context.Context, hashes [][]byte) []coalesce.Result[sqlc.GetWorkerCredentialsRow] {
	ask := make([]bytea.Bytes, len(hashes))
	keys := make([]string, len(hashes))
	for i, h := range hashes {
		ask[i], keys[i] = h, string(h)
	}
	rows, err := s.q.GetWorkerCredentials(ctx, s.pool, ask)
	by := make(map[string]sqlc.GetWorkerCredentialsRow, len(rows))
	for _, r := range rows {
		by[string(r.Hash)] = r
	}
	return answers(keys, by, err)
}

// CodeStopping is the code of the fault that a call gets while the Store is being closed. It is no failure of anything.
const CodeStopping = "stopping"

// busy says in words that a call was not taken.
func busy(err error) error {
	switch {
	case errors.Is(err, coalesce.ErrFull):
		return fault.Wrap(fault.Unavailable, err, "Nothing was changed: too many requests are waiting. Repeat it in a moment.")
	case errors.Is(err, coalesce.ErrClosed):
		return fault.Wrap(fault.Unavailable, err, "Nothing was changed: the server is stopping. Repeat it in a moment.").WithCode(CodeStopping)
	case err != nil:
		return fmt.Errorf("together with others: %w", err)
	}
	return nil
}
