package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"signalbox/internal/fault"
)

// Hint is a hint for newcomers that a person can put away.
type Hint string

// The hints: what does not exist yet in the tenant, and for HintGate what the person has not done yet.
const (
	HintRepository Hint = "repository"
	HintWorker     Hint = "worker"
	HintTask       Hint = "task"
	HintGate       Hint = "gate"
)

// Hints lists all hints in the order in which they are followed.
func Hints() []Hint { return []Hint{HintRepository, HintWorker, HintTask, HintGate} }

// FirstSteps are the hints that a person may still need: what each is about has not happened yet, in this tenant, and the person has
// not put it away. A task needs a repository, so that HintTask waits for one. Who may act on a hint is the caller's question.
func (s *Store) FirstSteps(ctx context.Context, tenant, user uuid.UUID) ([]Hint, error) {
	row, err := s.q.FirstSteps(ctx, s.reads(tenant), tenant, user)
	if err != nil {
		return nil, fmt.Errorf("read a newcomer's first steps: %w", err)
	}
	open := map[Hint]bool{HintRepository: !row.Repository, HintWorker: !row.Worker, HintTask: row.Repository && !row.Task, HintGate: !row.Decision}
	return slices.DeleteFunc(Hints(), func(h Hint) bool { return !open[h] || slices.Contains(row.Dismissed, string(h)) }), nil
}

// DismissHint puts a hint away for one person; again is no error.
func (s *Store) DismissHint(ctx context.Context, tenant, user uuid.UUID, h Hint) error {
	if !slices.Contains(Hints(), h) {
		return fault.New(fault.Invalid, "Nothing was put away: there is no such hint.").WithField("hint")
	}
	return wrap("put a hint away", s.q.DismissHint(ctx, s.writes(tenant), tenant, user, string(h)))
}
