package handlers

import (
	"context"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/web"
)

// runLook is what one look at a run finds. It is read without a request, so that it holds nothing about the person who looks and
// may be shared between all who may see the run: what differs between them is an onlooker, and goes in where the page is made.
type runLook struct {
	info  db.RunInfo
	now   time.Time
	gates []db.GateInfo
	parts web.RunParts
	// ladder is a cancellation, nil where none was asked for; waste is what only some are told of it.
	ladder *web.Ladder
	waste  string
	// view and facts are there after lookAround.
	view  web.RunView
	facts web.RunFacts
}

// lookAt reads the run itself; fault.NotFound where the tenant has none of that id.
func (s *server) lookAt(ctx context.Context, tenant, id uuid.UUID, now time.Time) (k runLook, err error) {
	k.now = now
	k.info, err = s.store.RunInfo(ctx, tenant, id)
	return k, err
}

// lookCloser adds what changes without an event: gates, steps, attempts, artifacts and effects, and a cancellation.
func (s *server) lookCloser(ctx context.Context, k *runLook) (err error) {
	if k.gates, err = s.store.GatesOfRun(ctx, k.info.Tenant, k.info.ID, 100); err != nil {
		return err
	}
	if k.parts, err = s.runParts(ctx, k.info, k.gates); err != nil {
		return err
	}
	k.ladder, k.waste, err = s.ladder(ctx, k.info)
	return err
}

// lookAround adds what sentence, rail and side column are made of.
func (s *server) lookAround(ctx context.Context, k *runLook) (err error) {
	if k.view, err = s.runSentence(ctx, k.info, k.gates, k.now); err != nil {
		return err
	}
	k.facts, err = s.runFacts(ctx, k.info)
	return err
}

// onlooker is all in which two people's sight of one run differs. It is comparable: two with the same one are shown the same.
type onlooker struct {
	// mayCancel offers the question; who cancels without one is not offered it.
	mayCancel bool
	// myTurn says that the open gate waits for this person.
	myTurn bool
	// asked says that this person asked for the cancellation.
	asked bool
	// mayForce offers to end a cancellation without the worker.
	mayForce bool
	// told says that this person is told what the run took after the request to cancel it.
	told bool
}

// seenBy is what a person is to the run.
func (k *runLook) seenBy(p *principal) (o onlooker) {
	o.mayCancel = (p.has(policy.RoleRequester) || p.has(policy.RoleAdmin)) && !cancelNow(p, k.info)
	for _, g := range k.gates {
		if k.info.Gate != nil && g.ID == k.info.Gate.ID {
			o.myTurn = g.RequestedBy != p.user && p.mayDecide(g.Role)
		}
	}
	if k.ladder != nil {
		o.asked = k.info.Cancel.By.ID == p.user.String()
		o.mayForce = k.info.State == run.Cancelling && mayForce(p, *k.ladder, k.now)
		o.told = p.has(policy.RoleAdmin)
	}
	return o
}

// panel is the live region as an onlooker is shown it. The look itself stays as it is.
func (k *runLook) panel(o onlooker) web.RunPanelData {
	v := k.view
	v.MayCancel, v.MyTurn, v.Ladder = v.MayCancel && o.mayCancel, o.myTurn, k.ladderFor(o)
	v.CancelAcked = v.Ladder != nil && !v.Ladder.Told.IsZero()
	return web.RunPanelData{Run: v, Now: k.now}
}

// ladderFor is the cancellation as an onlooker is shown it.
func (k *runLook) ladderFor(o onlooker) *web.Ladder {
	if k.ladder == nil {
		return nil
	}
	l := *k.ladder
	l.Self, l.MayForce = o.asked, o.mayForce
	if o.told {
		l.Waste = k.waste
	}
	return &l
}
