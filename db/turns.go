package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// ClaimTime is how long "I am on it" holds. It tells others, and keeps nobody from deciding.
const ClaimTime = 30 * time.Minute

// Turn is what people say about whose turn it is at a gate, as one of them sees it.
type Turn struct {
	// Snoozed: this person put it off; SnoozedUntil is zero where that is until a new revision.
	Snoozed      bool
	SnoozedUntil time.Time
	// On are those who said that they are on it, each until when; Mine whether this person is among them.
	On   []Claimant
	Mine bool
	// PassedTo is whom this person passed the present revision to, GivenBy who passed it to this person.
	PassedTo, GivenBy string
}

// Claimant is a person who is on it.
type Claimant struct {
	Name  string
	Until time.Time
}

// Member is a person by id and name.
type Member struct {
	ID   uuid.UUID
	Name string
}

// turns reads what is said about some gates, as the person sees it.
func (s *Store) turns(ctx context.Context, tenant uuid.UUID, gates []uuid.UUID, user uuid.UUID) (map[uuid.UUID]Turn, error) {
	rows, err := s.q.TurnsOf(ctx, s.reads(tenant), tenant, gates)
	if err != nil {
		return nil, fmt.Errorf("read whose turn it is: %w", err)
	}
	all := map[uuid.UUID]Turn{}
	for _, r := range rows {
		t := all[r.GateID]
		if r.Claimed && r.ClaimedUntil != nil {
			t.On = append(t.On, Claimant{r.UserName, r.ClaimedUntil.UTC()})
			t.Mine = t.Mine || r.UserID == user
		}
		if r.UserID == user {
			t.Snoozed, t.PassedTo, t.GivenBy = r.Snoozed, r.PassedTo, r.GivenBy
			if r.Snoozed && r.SnoozeUntil != nil {
				t.SnoozedUntil = r.SnoozeUntil.UTC()
			}
		}
		all[r.GateID] = t
	}
	return all, nil
}

// Turn reads what is said about one gate, as the person sees it.
func (s *Store) Turn(ctx context.Context, tenant, gate, user uuid.UUID) (Turn, error) {
	all, err := s.turns(ctx, tenant, []uuid.UUID{gate}, user)
	return all[gate], err
}

// Deciders lists who holds the role, by name, at most 200.
func (s *Store) Deciders(ctx context.Context, tenant uuid.UUID, role policy.Role) ([]Member, error) {
	rows, err := s.q.Deciders(ctx, s.reads(tenant), tenant, string(role))
	if err != nil {
		return nil, fmt.Errorf("list who may decide: %w", err)
	}
	all := make([]Member, 0, len(rows))
	for _, r := range rows {
		all = append(all, Member{r.ID, r.Name})
	}
	return all, nil
}

// Take says who does something about whose turn it is.
type Take struct {
	Tenant, Gate uuid.UUID
	By           Decider
	Audit        *Audit
}

// Snooze puts the gate off for the person, until a time or, where that is zero, until a new revision. A new revision and an
// expiry end it in any case.
func (s *Store) Snooze(ctx context.Context, k Take, until time.Time) error {
	return s.take(ctx, k, "snooze", false, func(tx pgx.Tx, g sqlc.Gate, now time.Time) error {
		p := sqlc.SnoozeParams{TenantID: k.Tenant, GateID: k.Gate, UserID: k.By.User, Revision: g.Revision}
		if !until.IsZero() {
			if !until.After(now) {
				return fault.New(fault.Invalid, "Nothing was put off: that time is over.").WithField("until")
			}
			p.Until = &until
		}
		return s.q.Snooze(ctx, tx, p)
	})
}

// Wake takes the gate back into the person's list.
func (s *Store) Wake(ctx context.Context, k Take) error {
	return s.take(ctx, k, "wake", false, func(tx pgx.Tx, _ sqlc.Gate, _ time.Time) error {
		return s.q.Wake(ctx, tx, k.Tenant, k.Gate, k.By.User)
	})
}

// ClaimTurn tells everybody for ClaimTime that the person is on it, or no longer. It never keeps anybody from deciding.
func (s *Store) ClaimTurn(ctx context.Context, k Take, on bool) error {
	what := "release"
	if on {
		what = "claim"
	}
	return s.take(ctx, k, what, false, func(tx pgx.Tx, _ sqlc.Gate, now time.Time) error {
		var until *time.Time
		if on {
			until = new(now.Add(ClaimTime))
		}
		return s.q.ClaimTurn(ctx, tx, k.Tenant, k.Gate, k.By.User, until)
	})
}

// PassTurn gives the turn to another person who may decide there. Whoever asked for the change may ask for a look that way, too.
func (s *Store) PassTurn(ctx context.Context, k Take, to uuid.UUID) error {
	return s.take(ctx, k, "pass", true, func(tx pgx.Tx, g sqlc.Gate, _ time.Time) error {
		may, err := s.q.Deciders(ctx, tx, k.Tenant, g.Role)
		if err != nil {
			return fmt.Errorf("list who may decide: %w", err)
		}
		asked, err := s.q.RequesterOf(ctx, tx, k.Tenant, g.TaskID)
		switch {
		case err != nil:
			return fmt.Errorf("read who asked: %w", err)
		case to == k.By.User:
			return fault.New(fault.Invalid, "Nothing was passed on: it is your turn already.").WithField("to")
		case to == asked || !slices.ContainsFunc(may, func(m sqlc.DecidersRow) bool { return m.ID == to }):
			return fault.New(fault.Invalid, "Nothing was passed on: that person may not decide here.").WithField("to")
		}
		if err := s.q.PassTurn(ctx, tx, sqlc.PassTurnParams{TenantID: k.Tenant, GateID: k.Gate, UserID: k.By.User, PassedTo: to, Revision: g.Revision}); err != nil {
			return err
		}
		return s.q.GiveTurn(ctx, tx, k.Tenant, k.Gate, to, k.By.User)
	})
}

// take carries out one of these under the gate's lock, while it waits for a decision, for those who may decide; requester says
// that whoever asked for the change may, too.
func (s *Store) take(ctx context.Context, k Take, what string, requester bool, do func(pgx.Tx, sqlc.Gate, time.Time) error) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		h, err := s.lockGate(ctx, tx, k.Tenant, k.Gate)
		if err != nil {
			return err
		}
		asked, err := s.q.RequesterOf(ctx, tx, k.Tenant, h.gate.TaskID)
		if err != nil {
			return fmt.Errorf("read who asked: %w", err)
		}
		state := run.GateState(h.gate.State)
		switch {
		case state != run.GateOpen && state != run.GateExpired:
			return fault.Newf(fault.Gone, "Nothing was changed: nobody is asked here any more, the gate is %s.", state).WithCode("gate_closed")
		case !k.By.Live:
			return fault.New(fault.Forbidden, "Nothing was changed: only a person with a live login does this.")
		case k.By.User == asked && requester:
		case k.By.User == asked || !slices.Contains(k.By.Roles, policy.Role(h.gate.Role)):
			return fault.New(fault.Forbidden, "Nothing was changed: it is not your turn at this gate.").WithCode("may_not_decide")
		}
		if err := do(tx, h.gate, h.now); err != nil {
			return err
		}
		if k.Audit == nil {
			return nil
		}
		a := *k.Audit
		a.Tenant, a.By, a.Action, a.Result = k.Tenant, k.By.actor(), "gate."+what, "recorded"
		a.ObjectType, a.ObjectID = "gate", typeid.Format(typeid.Gate, k.Gate)
		return s.audit(ctx, tx, &a)
	})
	return translate(err, "gate")
}
