package handlers

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// streamInbox tells a reader of My turn what came since the page was made, and which of its rows wait for them no more. The address
// names the rows. It looks at every streamPoll: work of others would wake every reader of a tenant at each of its steps.
func (s *server) streamInbox(w http.ResponseWriter, r *http.Request) error {
	rows, err := inboxRows(r.URL.Query().Get("rows"))
	if err != nil {
		return err
	}
	p, told := who(r), web.InboxLiveData{Rows: map[string]string{}}
	for _, id := range rows {
		told.Rows[typeid.Format(typeid.Gate, id)] = ""
	}
	first := true
	return s.stream(w, r, p.user, func(after int64, _ time.Time) (message, bool, error) {
		now, err := s.inboxNews(r.Context(), p, rows, told.Rows)
		if err != nil {
			return message{}, false, err
		}
		// Whoever comes back may have been told something that is not so any more.
		again := first && after > 0
		first = false
		if !again && now.New == told.New && maps.Equal(now.Rows, told.Rows) {
			return message{seq: after}, false, nil
		}
		say := web.InboxLiveData{Now: time.Now(), New: now.New, Rows: maps.Clone(now.Rows)}
		maps.DeleteFunc(say.Rows, func(row, words string) bool { return !again && words == told.Rows[row] })
		told = now
		return message{seq: after + 1, body: web.InboxLive(say)}, true, nil
	})
}

// inboxRows are the gates that a page of My turn shows, as its stream's address names them.
func inboxRows(list string) ([]uuid.UUID, error) {
	var rows []uuid.UUID
	for name := range strings.SplitSeq(list, ".") {
		if name == "" {
			continue
		}
		id, err := typeid.Parse(typeid.Gate, name)
		if err != nil || len(rows) == mineLimit {
			return nil, fault.New(fault.Invalid, "This page is not live: its address names rows that are none. Reload it.").WithField("rows")
		}
		rows = append(rows, id)
	}
	return rows, nil
}

// inboxNews compares what waits for a person with the rows that they see. A row that was told to have moved on is looked at again
// only when it waits again.
func (s *server) inboxNews(ctx context.Context, p *principal, rows []uuid.UUID, told map[string]string) (news web.InboxLiveData, err error) {
	waiting, err := s.store.WaitingIDs(ctx, p.tenant, db.WaitingFilter{User: p.user, Roles: p.roles, List: db.WaitingMine, Limit: mineLimit})
	if err != nil {
		return news, err
	}
	unseen := map[uuid.UUID]bool{}
	for _, id := range waiting {
		unseen[id] = true
	}
	news.Rows = map[string]string{}
	for _, id := range rows {
		name := typeid.Format(typeid.Gate, id)
		news.Rows[name] = ""
		if unseen[id] {
			delete(unseen, id)
			continue
		}
		if news.Rows[name] = told[name]; told[name] != "" {
			continue
		}
		g, err := s.store.Gate(ctx, p.tenant, id)
		if err != nil {
			return news, err
		}
		// Of a full list, what is still open may have been pushed out of it.
		if g.State != run.GateOpen || len(waiting) < mineLimit {
			news.Rows[name] = web.MovedOn(string(g.State), g.LastDecider, ended(g.ClosedAt))
		}
	}
	news.New = len(unseen)
	return news, nil
}
