package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DraftKey names what a person is writing: a form of theirs, or a part of it after a colon. Nobody else sees it, in no
// other tenant.
type DraftKey struct {
	Tenant, User uuid.UUID
	Key          string
}

// Draft is a text that was not sent yet.
type Draft struct {
	Key  string
	Text string
	// At is when it was last saved, by the database's clock.
	At time.Time
}

// SaveDraft keeps a text in place of the one before; an empty one is none, and leaves the
// parts of its form alone.
func (s *Store) SaveDraft(ctx context.Context, k DraftKey, text string) error {
	if text == "" {
		return wrap("delete a draft", s.q.DeleteDraft(ctx, s.writes(k.Tenant), k.Tenant, k.User, k.Key))
	}
	return wrap("save a draft", s.q.SaveDraft(ctx, s.writes(k.Tenant), k.Tenant, k.User, k.Key, text))
}

// Drafts reads the texts of a form and of its parts, ordered by key. What is older than 30 days is not among them.
func (s *Store) Drafts(ctx context.Context, form DraftKey) ([]Draft, error) {
	rows, err := s.q.DraftsOf(ctx, s.reads(form.Tenant), form.Tenant, form.User, form.Key)
	if err != nil {
		return nil, fmt.Errorf("read drafts: %w", err)
	}
	all := make([]Draft, 0, len(rows))
	for _, r := range rows {
		all = append(all, Draft{r.Key, r.Body, r.UpdatedAt})
	}
	return all, nil
}

// DropDrafts deletes the texts of a form and of its parts; deleting none is no error.
func (s *Store) DropDrafts(ctx context.Context, form DraftKey) error {
	return wrap("delete drafts", s.q.DeleteDrafts(ctx, s.writes(form.Tenant), form.Tenant, form.User, form.Key))
}

// usedDrafts deletes what a decision was made from, with the decision.
func (s *Store) usedDrafts(ctx context.Context, tx pgx.Tx, v Verdict) error {
	if v.Draft == "" {
		return nil
	}
	return wrap("delete the decision's drafts", s.q.DeleteDrafts(ctx, tx, v.Tenant, v.By.User, v.Draft))
}
