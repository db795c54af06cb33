package handlers

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/web"
)

// morning is the hour, in UTC, at which what was put off until a day comes back.
const morning = 9

// snoozes are the times until which a gate can be put off; "revision" has none of its own.
func snoozes(now time.Time) []web.Option {
	return []web.Option{
		{Value: "1h", Label: "in an hour"}, {Value: "4h", Label: "in 4 hours"},
		{Value: "tomorrow", Label: "tomorrow, 09:00 UTC"}, {Value: "monday", Label: "Monday " + nextMonday(now).Format("2 January") + ", 09:00 UTC"},
		{Value: "revision", Label: "when a new revision comes"},
	}
}

func atMorning(now time.Time, days int) time.Time {
	y, m, d := now.UTC().Date()
	return time.Date(y, m, d+days, morning, 0, 0, 0, time.UTC)
}

func nextMonday(now time.Time) time.Time {
	return atMorning(now, 7-(int(now.UTC().Weekday())+6)%7)
}

// snoozeUntil reads one of the snoozes; zero is until a new revision.
func snoozeUntil(now time.Time, choice string) (time.Time, error) {
	switch choice {
	case "1h":
		return now.Add(time.Hour), nil
	case "4h":
		return now.Add(4 * time.Hour), nil
	case "tomorrow":
		return atMorning(now, 1), nil
	case "monday":
		return nextMonday(now), nil
	case "revision":
		return time.Time{}, nil
	}
	return time.Time{}, fault.New(fault.Invalid, "Nothing was put off: choose until when.").WithField("until")
}

// postTurn puts a gate off, claims it, or passes it on.
func (s *server) postTurn(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id", typeid.Gate)
	if err != nil {
		return err
	}
	values, err := form(r)
	if err != nil {
		return err
	}
	ask := turnAsk{do: values.Get("do"), to: values.Get("to")}
	if ask.do == "snooze" {
		if ask.until, err = snoozeUntil(time.Now(), values.Get("until")); err != nil {
			return err
		}
	}
	done, err := s.takeTurn(r, id, ask)
	if err != nil {
		return err
	}
	to := web.InboxURL
	if values.Get("back") == "gate" {
		to = web.GateURL(typeid.Format(typeid.Gate, id))
	}
	return see(w, r, to+"?done="+done)
}

// turnAsk is what a person does about whose turn it is: until goes with a snooze (zero: until a new revision), to with a pass.
type turnAsk struct {
	do, to string
	until  time.Time
}

// takeTurn carries it out; done is the word by which the page says that it was.
func (s *server) takeTurn(r *http.Request, id uuid.UUID, ask turnAsk) (done string, err error) {
	k := db.Take{Tenant: who(r).tenant, Gate: id, By: who(r).person(), Audit: auditOf(r, act{})}
	switch ask.do {
	case "snooze":
		return "snoozed", s.store.Snooze(r.Context(), k, ask.until)
	case "wake":
		return "back", s.store.Wake(r.Context(), k)
	case "claim":
		return "claimed", s.store.ClaimTurn(r.Context(), k, true)
	case "release":
		return "released", s.store.ClaimTurn(r.Context(), k, false)
	case "pass":
		to, err := typeid.Parse(typeid.User, ask.to)
		if err != nil {
			return "", fault.New(fault.Invalid, "Nothing was passed on: choose a person.").WithField("to")
		}
		return "passed", s.store.PassTurn(r.Context(), k, to)
	}
	return "", fault.New(fault.Invalid, "Nothing was changed: do must be snooze, wake, claim, release or pass.").WithField("do")
}

// turnTaker makes the views of turns for one person; it asks once per role who may decide.
type turnTaker struct {
	s      *server
	r      *http.Request
	people map[policy.Role][]db.Member
}

func (s *server) turnTaker(r *http.Request) *turnTaker {
	return &turnTaker{s, r, map[policy.Role][]db.Member{}}
}

func (k *turnTaker) view(g db.GateInfo, t db.Turn) (web.TurnView, error) {
	p := who(k.r)
	v := web.TurnView{
		MayTake: p.kind == person && p.mayDecide(g.Role) && g.RequestedBy != p.user, Snoozed: t.Snoozed, SnoozedUntil: t.SnoozedUntil, Mine: t.Mine,
		GivenBy: t.GivenBy, PassedTo: t.PassedTo, Until: snoozes(time.Now()),
	}
	v.MayPass = v.MayTake || p.kind == person && g.RequestedBy == p.user
	for _, o := range t.On {
		v.On = append(v.On, web.OnIt{Name: o.Name, Until: o.Until})
	}
	if !v.MayPass || g.State != run.GateOpen && g.State != run.GateExpired {
		return v, nil
	}
	may, ok := k.people[g.Role]
	if !ok {
		var err error
		if may, err = k.s.store.Deciders(k.r.Context(), p.tenant, g.Role); err != nil {
			return v, err
		}
		k.people[g.Role] = may
	}
	for _, m := range may {
		if m.ID != p.user && m.ID != g.RequestedBy {
			v.People = append(v.People, web.Option{Value: typeid.Format(typeid.User, m.ID), Label: m.Name})
		}
	}
	return v, nil
}
