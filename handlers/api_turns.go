package handlers

import (
	"net/http"

	"github.com/google/uuid"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

func (s *server) apiGateTurn(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "gate_id", typeid.Gate)
	if err != nil {
		return err
	}
	return s.answerTurn(w, r, id)
}

func (s *server) apiTakeGateTurn(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "gate_id", typeid.Gate)
	if err != nil {
		return err
	}
	body, err := decode[wire.TurnTake](s, r)
	if err != nil {
		return err
	}
	switch {
	case !body.Until.IsZero() && body.Do != wire.TakeSnooze:
		return fault.New(fault.Invalid, "Nothing was changed: until goes with snooze.").WithField("until")
	case body.To != "" && body.Do != wire.TakePass:
		return fault.New(fault.Invalid, "Nothing was changed: to goes with pass.").WithField("to")
	}
	if _, err := s.takeTurn(r, id, turnAsk{do: string(body.Do), until: body.Until, to: body.To}); err != nil {
		return err
	}
	return s.answerTurn(w, r, id)
}

// answerTurn answers with whose turn it is now, as the caller sees it.
func (s *server) answerTurn(w http.ResponseWriter, r *http.Request, id uuid.UUID) error {
	g, err := s.store.Gate(r.Context(), who(r).tenant, id)
	if err != nil {
		return err
	}
	turn, err := s.store.Turn(r.Context(), who(r).tenant, id, who(r).user)
	if err != nil {
		return err
	}
	v, err := s.turnTaker(r).view(g, turn)
	if err != nil {
		return err
	}
	shown := wire.GateTurn{
		GateId: typeid.Format(typeid.Gate, id), Snoozed: v.Snoozed, SnoozedUntil: v.SnoozedUntil, Mine: v.Mine, PassedTo: v.PassedTo, GivenBy: v.GivenBy,
		Claims: []wire.TurnClaim{}, People: []wire.Person{},
	}
	for _, on := range v.On {
		shown.Claims = append(shown.Claims, wire.TurnClaim{Name: on.Name, Until: on.Until})
	}
	for _, p := range v.People {
		shown.People = append(shown.People, wire.Person{Id: p.Value, Name: p.Label})
	}
	return s.answer(w, r, http.StatusOK, shown)
}
