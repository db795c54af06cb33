package handlers

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// turnsMost bounds how many gates one request puts off or claims.
const turnsMost = mineLimit

// postTurns puts several gates off, or claims them, one by one, each as its own form would: one that cannot be had holds back no
// other. It decides nothing.
func (s *server) postTurns(w http.ResponseWriter, r *http.Request) error {
	values, err := form(r)
	if err != nil {
		return err
	}
	ask := turnAsk{do: values.Get("do")}
	if until, ok := strings.CutPrefix(ask.do, "snooze-"); ok {
		ask.do = "snooze"
		if ask.until, err = snoozeUntil(time.Now(), until); err != nil {
			return err
		}
	} else if ask.do != "claim" && ask.do != "release" {
		return fault.New(fault.Invalid, "Nothing was changed: choose what to do with the items.").WithField("do")
	}
	data := web.BulkTurnsPageData{Most: turnsMost}
	ids, err := gateIDs(values["gate"])
	if err == nil && values.Get("all") == "1" {
		ids, data.More, err = s.waitingForMe(r)
	}
	if err != nil {
		return err
	}
	gates, err := s.store.GatesByID(r.Context(), who(r).tenant, ids)
	if err != nil {
		return err
	}
	titles := map[uuid.UUID]string{}
	for _, g := range gates {
		titles[g.ID] = g.TaskTitle
	}
	for _, id := range ids {
		one := web.BulkTurn{GateID: typeid.Format(typeid.Gate, id), Title: titles[id]}
		if _, failed := s.takeTurn(r, id, ask); failed != nil {
			s.note(r, failed)
			one.Why = fault.Sentence(failed)
			data.Failed = append(data.Failed, one)
			continue
		}
		one.Why = web.TurnDone(ask.do)
		data.Done = append(data.Done, one)
	}
	data.Shell = s.shell(r)
	return s.render(w, r, http.StatusOK, web.BulkTurnsPage(data))
}

// gateIDs reads the selected gates, each once.
func gateIDs(values []string) (ids []uuid.UUID, err error) {
	for _, v := range values {
		id, err := typeid.ParseField("gate", typeid.Gate, v)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > turnsMost {
		return nil, fault.Newf(fault.Invalid, "Nothing was changed: one request takes at most %d items, and %d are selected.", turnsMost, len(ids)).WithField("gate")
	}
	return ids, nil
}

// waitingForMe are the gates of the person's list; more reports whether it goes on.
func (s *server) waitingForMe(r *http.Request) (ids []uuid.UUID, more bool, err error) {
	p := who(r)
	list, err := s.store.WaitingGates(r.Context(), p.tenant, db.WaitingFilter{User: p.user, Roles: p.roles, List: db.WaitingMine, Limit: turnsMost + 1})
	for _, g := range list[:min(len(list), turnsMost)] {
		ids = append(ids, g.ID)
	}
	return ids, len(list) > turnsMost, err
}
