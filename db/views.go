package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
)

// List is a list whose filters can be saved.
type List string

// The lists.
const (
	ListRuns  List = "runs"
	ListTasks List = "tasks"
)

// mostViews is how many views of a list a person may save.
const mostViews = 30

// SavedView is a set of filters that a person gave a name: the query of the list's address.
type SavedView struct{ Name, Query string }

// ViewKey names a view of one person; nobody else sees it, in no other tenant.
type ViewKey struct {
	Tenant, User uuid.UUID
	List         List
	Name         string
}

// SavedViews lists a person's views of a list by name.
func (s *Store) SavedViews(ctx context.Context, tenant, user uuid.UUID, l List) ([]SavedView, error) {
	rows, err := s.q.SavedViews(ctx, s.reads(tenant), tenant, user, string(l))
	if err != nil {
		return nil, fmt.Errorf("list saved views: %w", err)
	}
	var out []SavedView
	for _, r := range rows {
		out = append(out, SavedView{r.Name, r.Query})
	}
	return out, nil
}

// SaveView keeps the filters, in place of those that had the name before. The caller has checked that the list knows them.
func (s *Store) SaveView(ctx context.Context, k ViewKey, query string) error {
	switch n := len([]rune(k.Name)); {
	case n == 0 || n > 60:
		return fault.New(fault.Invalid, "Nothing was saved: a view's name has 1 to 60 characters.").WithField("name")
	case query == "":
		return fault.New(fault.Invalid, "Nothing was saved: the list shows everything. Set a filter first.").WithField("query")
	case len(query) > 2000:
		return fault.New(fault.Invalid, "Nothing was saved: the filters are longer than 2,000 characters.").WithField("query")
	}
	n, err := s.q.SaveView(ctx, s.writes(k.Tenant), sqlc.SaveViewParams{TenantID: k.Tenant, UserID: k.User, List: string(k.List), Name: k.Name, Query: query, Most: mostViews})
	if err != nil {
		return translate(fmt.Errorf("save a view: %w", err), "view")
	}
	if n == 0 {
		return fault.Newf(fault.Conflict, "Nothing was saved: you have %d views of this list already. Delete one first.", mostViews).WithCode("too_many_views")
	}
	return nil
}

// DeleteView forgets a view; deleting none is no error.
func (s *Store) DeleteView(ctx context.Context, k ViewKey) error {
	return wrap("delete a view", s.q.DeleteView(ctx, s.writes(k.Tenant), k.Tenant, k.User, string(k.List), k.Name))
}
