package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Aside is why a run was set aside: a loop could not handle it again and again, so that this one leaves it alone until a
// person releases it. The other loops go on with it: a run whose clocks cannot be read still loses its lease in time.
type Aside struct {
	By       string
	Reason   string
	Failures int
	Since    time.Time
}

const maxReason = 2000

// SetAside puts a run into quarantine; one that is there already stays as it is. It reports whether it was put there now.
func (s *Store) SetAside(ctx context.Context, id uuid.UUID, by string, failures int, why error) (bool, error) {
	n, err := s.q.SetAside(ctx, s.pool, by, reasonOf(why), int32(failures), id)
	return n == 1, wrap("set a run aside", err)
}

func reasonOf(why error) string {
	reason := strings.ToValidUTF8(strings.ReplaceAll(why.Error(), "\x00", ""), "�")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

// poisoned takes a run that cannot be read out of the queue, at once: the claim that met it serves many, and would fail
// for all of them each time. An error of the database itself is handed back.
func (s *Store) poisoned(ctx context.Context, tx pgx.Tx, id uuid.UUID, why error) error {
	if _, ours := errors.AsType[*pgconn.PgError](why); ours || Passing(why) {
		return why
	}
	return s.aside(ctx, tx, id, why)
}

// aside takes a run out of the queue and leaves it to a person.
func (s *Store) aside(ctx context.Context, tx pgx.Tx, id uuid.UUID, why error) error {
	if _, err := s.q.SetAside(ctx, tx, "claim", reasonOf(why), 1, id); err != nil {
		return fmt.Errorf("set a run aside: %w", err)
	}
	s.log.ErrorContext(ctx, "a run was set aside; others go on", "code", "RUN_SET_ASIDE", "run_id", id, "loop", "claim", "error", why)
	return wrap("drop the item of a run that was set aside", s.q.DropItem(ctx, tx, id))
}

// AsideRuns are the runs that the loop set aside. There are never many: each was one that it could not handle.
func (s *Store) AsideRuns(ctx context.Context, by string) (map[uuid.UUID]bool, error) {
	ids, err := s.q.SetAsideRuns(ctx, s.pool, by)
	if err != nil {
		return nil, fmt.Errorf("list what was set aside: %w", err)
	}
	out := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, nil
}

// AsideOf says why a run was set aside; nil where it was not.
func (s *Store) AsideOf(ctx context.Context, ref Ref) (*Aside, error) {
	r, err := s.q.SetAsideOf(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look whether a run was set aside: %w", err)
	}
	return &Aside{r.ByLoop, r.Reason, int(r.Failures), r.Since.UTC()}, nil
}

// Words says in one sentence what happened and what helps.
func (a Aside) Words() string {
	return fmt.Sprintf("Set aside since %s: the %s could not handle it (tried %d times) and leaves it alone until a person resumes it.", a.Since.Format("2006-01-02 15:04 UTC"), a.By, a.Failures)
}

// Passing reports an error that says nothing about the thing that was handled: the database was busy or away, or the
// caller went.
func Passing(err error) bool {
	return transient(err) || disconnected(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
