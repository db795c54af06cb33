package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// My turn shows at most mineLimit gates that wait for the person, and othersLimit that wait for others.
const (
	mineLimit   = 200
	othersLimit = 50
)

// getInbox shows whose turn it is.
func (s *server) getInbox(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	filter := db.WaitingFilter{User: p.user, Roles: p.roles, List: db.WaitingMine, Limit: mineLimit}
	mine, err := s.store.WaitingGates(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	filter.List = db.WaitingSnoozed
	snoozed, err := s.store.WaitingGates(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	filter.List, filter.Limit = db.WaitingOthers, othersLimit+1
	others, err := s.store.WaitingGates(r.Context(), p.tenant, filter)
	if err != nil {
		return err
	}
	recent, err := s.store.RecentGates(r.Context(), p.tenant, 10)
	if err != nil {
		return err
	}
	data := web.InboxPageData{Shell: s.shell(r), Group: r.URL.Query().Get("group"), MoreOthers: len(others) > othersLimit}
	if data.Hints, err = s.hints(r, db.HintRepository, db.HintWorker, db.HintTask); err != nil {
		return err
	}
	if data.Bypasses, err = s.bypassTurns(r); err != nil {
		return err
	}
	turns := s.turnTaker(r)
	for _, list := range []struct {
		gates []db.WaitingGate
		into  *[]web.InboxItem
		why   func(db.WaitingGate) string
	}{
		{mine, &data.Mine, whyMine}, {snoozed, &data.Snoozed, whyMine},
		{others[:min(len(others), othersLimit)], &data.Others, func(g db.WaitingGate) string { return whyNotMine(g, p) }},
	} {
		for _, g := range list.gates {
			item := inboxItem(g, list.why(g))
			if item.Turn, err = turns.view(g.GateInfo, g.Turn); err != nil {
				return err
			}
			*list.into = append(*list.into, item)
		}
	}
	for _, g := range recent {
		data.Recent = append(data.Recent, web.InboxDecided{
			GateID: typeid.Format(typeid.Gate, g.ID), Kind: string(g.Kind), State: string(g.State), Title: g.TaskTitle, Repository: g.RepositoryName, By: g.By, At: g.At,
		})
	}
	return s.render(w, r, http.StatusOK, web.InboxPage(data))
}

func whyMine(g db.WaitingGate) string { return fmt.Sprintf("You hold the role %s.", g.Role) }

// whyNotMine says who is awaited, and why it is not this person.
func whyNotMine(g db.WaitingGate, p *principal) string {
	switch {
	case g.Turn.PassedTo != "":
		return fmt.Sprintf("You hold the role %s, and may still decide.", g.Role)
	case g.Approved:
		return fmt.Sprintf("You approved this; it waits for another person with the role %s.", g.Role)
	case g.RequestedBy == p.user:
		return fmt.Sprintf("You asked for this change, so another person with the role %s decides it.", g.Role)
	default:
		return fmt.Sprintf("It waits for somebody with the role %s.", g.Role)
	}
}

func inboxItem(g db.WaitingGate, why string) web.InboxItem {
	item := web.InboxItem{
		GateID: typeid.Format(typeid.Gate, g.ID), Kind: string(g.Kind), State: string(g.State), Revision: g.Revision, TaskID: typeid.Format(typeid.Task, g.Task),
		Title: g.TaskTitle, Repository: g.RepositoryName, RunID: typeid.Format(typeid.Run, g.Run), Requester: g.Requester, Risk: string(g.EffectiveRisk),
		RiskReason: strings.Join(g.RiskReasons, " "), QuorumHave: g.Approvals, QuorumNeed: g.Quorum, Why: why, WaitingSince: g.OpenedAt, ExpiresAt: g.ExpiresAt, Shape: g.Shape,
	}
	if item.RiskReason == "" {
		item.RiskReason = "As the task says."
	}
	if g.Patch != nil && g.Kind == run.GatePatch {
		item.Files, item.Added, item.Removed = g.Patch.Files, g.Patch.Added, g.Patch.Removed
	}
	return item
}

// states turns a list of states into the choices of a filter; the form itself offers "any".
func states[T run.State | run.TaskState](all []T, selected T) []web.Option {
	var options []web.Option
	for _, state := range all {
		options = append(options, web.Option{Value: string(state), Label: web.StateLabel(state), Selected: state == selected})
	}
	return options
}

// repositoryOptions are the choices of a form.
func (s *server) repositoryOptions(r *http.Request, selected string) ([]web.Option, error) {
	all, err := s.store.Repositories(r.Context(), who(r).tenant, "", 500)
	if err != nil {
		return nil, err
	}
	var options []web.Option
	for _, repo := range all {
		id := typeid.Format(typeid.Repo, repo.ID)
		options = append(options, web.Option{Value: id, Label: repo.Name, Selected: id == selected || repo.Name == selected})
	}
	return options, nil
}

// repositoryFilter are the choices of a list's filter, which knows a repository by id or by name, and the chosen one.
func (s *server) repositoryFilter(r *http.Request, selected string) ([]web.Option, uuid.UUID, error) {
	options, err := s.repositoryOptions(r, selected)
	if err != nil || selected == "" {
		return options, uuid.Nil, err
	}
	for _, o := range options {
		if o.Selected {
			id, err := typeid.Parse(typeid.Repo, o.Value)
			return options, id, err
		}
	}
	var names []string
	for _, o := range options {
		names = append(names, o.Label)
	}
	return nil, uuid.Nil, noSuchFilter("repository", selected, names)
}

// pager offers the next page, and the beginning again from any later one.
func pager(r *http.Request, shown int, next string) web.Pager {
	p := web.Pager{Shown: shown}
	q := r.URL.Query()
	q.Del("done") // said once
	if q.Get("before") != "" {
		first := r.URL.Query()
		first.Del("before")
		first.Del("done")
		p.Newer = path(r, first.Encode())
	}
	if next != "" {
		q.Set("before", next)
		p.Older = path(r, q.Encode())
	}
	return p
}

func path(r *http.Request, query string) string {
	if query == "" {
		return r.URL.Path
	}
	return r.URL.Path + "?" + query
}

func ended(at *time.Time) time.Time { return instant(at) }
