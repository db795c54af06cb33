package handlers

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// getSessions lists where the person is signed in; to administrators also who else is.
func (s *server) getSessions(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	current, _ := s.sessionHash(r)
	open, err := s.store.OpenSessions(r.Context(), p.user, current)
	if err != nil {
		return err
	}
	data := web.SessionsPageData{Shell: s.shell(r), OthersKey: db.NewSecret()}
	for _, o := range open {
		row := web.SessionRow{
			ID: typeid.Format(typeid.Session, o.ID), Name: o.Name, CommandLine: o.CommandLine, Current: o.Current,
			Since: o.CreatedAt, Seen: o.LastSeenAt, Ends: o.EndsAt, Key: db.NewSecret(),
		}
		data.Rows = append(data.Rows, row)
	}
	if p.has(policy.RoleAdmin) {
		people, err := s.store.SignedIn(r.Context(), p.tenant)
		if err != nil {
			return err
		}
		for _, x := range people {
			data.People = append(data.People, web.SignedInRow{
				ID: typeid.Format(typeid.User, x.User), Name: x.Name, Email: x.Email, Logins: x.Logins, Seen: x.LastSeenAt, Self: x.User == p.user, Key: db.NewSecret(),
			})
		}
	}
	return s.render(w, r, http.StatusOK, web.SessionsPage(data))
}

// postSessionEnd ends one of the person's own logins; ending the one that asks is signing out.
func (s *server) postSessionEnd(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Session)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "session.end", object: "session", id: chi.URLParam(r, "id")})
	if err != nil {
		return err
	}
	if err := s.store.EndOwnSession(r.Context(), in, who(r).user, id); err != nil {
		return err
	}
	return see(w, r, web.SessionsURL+"?done=session-ended")
}

// postSessionsEnd ends all logins of the person but this one.
func (s *server) postSessionsEnd(w http.ResponseWriter, r *http.Request) error {
	_, in, err := s.formRequest(r, act{action: "session.end_others", object: "user"})
	if err != nil {
		return err
	}
	current, _ := s.sessionHash(r)
	if _, err := s.store.EndSessions(r.Context(), in, nil, who(r).user, current); err != nil {
		return err
	}
	return see(w, r, web.SessionsURL+"?done=sessions-ended")
}

// postPersonEnd ends all logins of somebody in the administrator's tenant. What they may do is not changed: they may sign in
// again, and are then given the roles of that moment.
func (s *server) postPersonEnd(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.User)
	if err != nil {
		return err
	}
	_, in, err := s.formRequest(r, act{action: "session.end_all", object: "user"})
	if err != nil {
		return err
	}
	if _, err := s.store.EndSessions(r.Context(), in, &who(r).tenant, id, nil); err != nil {
		return err
	}
	if id == who(r).user {
		return see(w, r, web.LoginURL+"?why=signed-out")
	}
	return see(w, r, web.SessionsURL+"?done=person-ended")
}
