package run_test

import (
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"signalbox/internal/run"
)

// ledger is what a database would hold after carrying out every effect. It checks
// that effects are possible and that they say the same as the run itself.
type ledger struct {
	item     run.Phase
	lease    *run.Lease
	attempts map[uuid.UUID]run.AttemptState
	gates    map[uuid.UUID]run.GateState
	number   int
	asked    bool
}

func newLedger() *ledger {
	return &ledger{attempts: map[uuid.UUID]run.AttemptState{}, gates: map[uuid.UUID]run.GateState{}}
}

func (l *ledger) clone() *ledger {
	c := *l
	c.attempts, c.gates = maps.Clone(l.attempts), maps.Clone(l.gates)
	return &c
}

func lifecycle(name string) run.Small {
	for _, s := range run.Lifecycles() {
		if s.Name == name {
			return s
		}
	}
	panic("no lifecycle " + name)
}

// apply carries out one result and compares.
func (l *ledger) apply(before run.Run, res run.Result) error {
	for _, e := range res.Effects {
		if err := l.effect(e); err != nil {
			return fmt.Errorf("%T: %w", e, err)
		}
	}
	return l.agrees(before, res.Run)
}

func (l *ledger) effect(e run.Effect) error {
	switch e := e.(type) {
	case run.Enqueue:
		if l.item != "" {
			return errors.New("there is an item already")
		}
		l.item = e.Phase
	case run.Dequeue:
		if l.item == "" {
			return errors.New("there is no item")
		}
		l.item = ""
	case run.GrantLease:
		if l.lease != nil || l.item != e.Lease.Phase {
			return fmt.Errorf("lease %v, item %q", l.lease, l.item)
		}
		l.lease, l.item = new(e.Lease), ""
	case run.EndLease:
		if l.lease == nil || *l.lease != e.Lease || !lifecycle("lease").May("ACTIVE", string(e.As)) || e.Reason == "" {
			return fmt.Errorf("lease %v ended as %+v", l.lease, e)
		}
		l.lease = nil
	case run.StartAttempt:
		if l.number++; e.No != l.number || l.attempts[e.Attempt] != "" {
			return fmt.Errorf("attempt %d is not number %d, or its id is used", e.No, l.number)
		}
		l.attempts[e.Attempt] = run.AttemptStarted
	case run.EndAttempt:
		if !lifecycle("attempt").May(string(l.attempts[e.Attempt]), string(e.As)) {
			return fmt.Errorf("attempt goes from %q to %s", l.attempts[e.Attempt], e.As)
		}
		l.attempts[e.Attempt] = e.As
	case run.OpenGate:
		from := run.GatePreparing
		if was, ok := l.gates[e.Gate.ID]; ok {
			from = was
		}
		if e.Again != (from == run.GateExpired) || !lifecycle("gate").May(string(from), string(run.GateOpen)) {
			return fmt.Errorf("gate goes from %s to open (again %t)", from, e.Again)
		}
		l.gates[e.Gate.ID] = run.GateOpen
	case run.SetGate:
		if !lifecycle("gate").May(string(l.gates[e.Gate]), string(e.State)) {
			return fmt.Errorf("gate goes from %q to %s", l.gates[e.Gate], e.State)
		}
		l.gates[e.Gate] = e.State
	case run.RequestAttestation:
		if l.asked || e.ExpiresAt.IsZero() {
			return errors.New("asked twice, or for ever")
		}
		l.asked = true
	case run.WithdrawAttestation:
		if !l.asked {
			return errors.New("never asked")
		}
		l.asked = false
	case run.GiveFeedback:
		if e.Source == "" || e.Text == "" && e.Artifact == "" {
			return errors.New("empty feedback")
		}
	case run.FollowUp, run.CleanUp, run.Notify:
	default:
		return errors.New("an effect that nobody carries out")
	}
	return nil
}

// agrees compares what the effects made with what the run says.
func (l *ledger) agrees(before, r run.Run) error {
	started := 0
	for _, s := range l.attempts {
		if s == run.AttemptStarted {
			started++
		}
	}
	open := map[run.GateState]int{}
	for _, s := range l.gates {
		open[s]++
	}
	wantOpen, wantExpired := 0, 0
	if r.Gate != nil {
		wantOpen = 1
		if r.Gate.Expired {
			wantOpen, wantExpired = 0, 1
		}
	}
	running := r.AttemptNo > 0 && !r.State.Terminal() && r.State != run.Queued
	switch {
	case l.item != r.Queued:
		return fmt.Errorf("item %q, run says %q", l.item, r.Queued)
	case (l.lease == nil) != (r.Lease == nil) || l.lease != nil && *l.lease != *r.Lease:
		return fmt.Errorf("lease %v, run says %v", l.lease, r.Lease)
	case l.number != r.AttemptNo:
		return fmt.Errorf("%d attempts, run says %d", l.number, r.AttemptNo)
	case started != map[bool]int{true: 1}[running]:
		return fmt.Errorf("%d attempts are STARTED in %s (from %s)", started, r.State, before.State)
	case open[run.GateOpen] != wantOpen || open[run.GateExpired] != wantExpired && !r.State.Terminal():
		return fmt.Errorf("gates %v, run says %+v", open, r.Gate)
	case l.asked != (r.State == run.AwaitingVerification):
		return fmt.Errorf("attestation asked %t in %s", l.asked, r.State)
	}
	return nil
}
