package db

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

const (
	// BypassReview is how long somebody else has to review a bypass.
	BypassReview = 24 * time.Hour
	// MinBypassReason is how many characters the reason of a bypass has at least.
	MinBypassReason = 20
	maxTicket       = 100
	bypassed        = "bypass"
)

// BypassOrder is what somebody who holds the role breakglass says to bypass a gate, bound to what they saw (A27).
type BypassOrder struct {
	Tenant, Gate uuid.UUID
	Revision     int
	Digest       string
	// Repository is its name, typed by hand.
	Repository     string
	Reason, Ticket string
	// Draft is the key of the drafts in which they were kept; they end with the bypass. Empty: none do.
	Draft string
	Key   string
	Hash  []byte
	By    Decider
	Audit *Audit
}

// Bypass opens a gate in place of the people who would have to: one transaction that locks run and gate, checks state, digest,
// right, login and guards as they are now, records the decision, moves the run and opens the review. It stands in for approvals
// and for the separation of duties, and for nothing else: hard guards, rules that refuse, and gates about money or about effects
// that nobody knows stay as they are.
func (s *Store) Bypass(ctx context.Context, o BypassOrder) (VerdictAck, error) {
	o.Reason, o.Ticket = strings.TrimSpace(o.Reason), strings.TrimSpace(o.Ticket)
	var w *write
	in := Request{Tenant: o.Tenant, By: o.By.actor(), Roles: o.By.Roles, Key: o.Key, Hash: o.Hash, Audit: o.Audit}
	ack, again, err := once(ctx, s, in, "bypass:"+o.Gate.String()+":"+o.By.User.String(), func(tx pgx.Tx) (ack VerdictAck, err error) {
		ack, w, err = s.bypass(ctx, tx, o)
		return ack, err
	})
	ack.Replayed = again
	if err == nil && w != nil && !again {
		s.ring(w.changes()...)
	}
	return ack, translate(err, "gate")
}

func (s *Store) bypass(ctx context.Context, tx pgx.Tx, o BypassOrder) (VerdictAck, *write, error) {
	h, err := s.lockGate(ctx, tx, o.Tenant, o.Gate)
	if err != nil {
		return VerdictAck{}, nil, err
	}
	rules, f, err := s.gatePolicy(ctx, tx, h)
	if err != nil {
		return VerdictAck{}, nil, err
	}
	if err := o.allowed(h, rules, f); err != nil {
		return VerdictAck{}, nil, err
	}
	v := Verdict{Tenant: o.Tenant, Gate: o.Gate, Revision: o.Revision, Digest: o.Digest, Verdict: bypassed, Text: o.Reason + " (" + o.Ticket + ")", By: o.By}
	if err := s.storeVerdict(ctx, tx, v, h, rules.Version, false); err != nil {
		return VerdictAck{}, nil, err
	}
	attest, why := policy.Attest(rules, f)
	a := run.Approval{Gate: run.GateRef{ID: o.Gate, Revision: o.Revision, Digest: o.Digest}, Deciders: []run.Actor{o.By.actor()}, Attest: attest, Policy: run.PolicyWords{Version: rules.Version, Facts: rules.Asked(f)}}
	if attest {
		a.Policy.Reasons, a.AttestExpiresAt = []string{why}, h.now.Add(rules.Limits.AttestationTimeout.Std())
	}
	steps, err := reduceAll(h.run, run.Event{ID: "bypass/" + o.Gate.String() + "/" + o.Key, By: o.By.actor(), At: h.now, Payload: run.GateBypassedEvent{Approval: a, Reason: v.Text}})
	if err != nil {
		return VerdictAck{}, nil, refused(err, h.run)
	}
	w := &write{}
	if err := w.add(h.row, steps, s.timing, nil); err != nil {
		return VerdictAck{}, nil, err
	}
	if err := s.writeLocked(ctx, tx, Ref{o.Tenant, h.run.ID}, w, steps, nil); err != nil {
		return VerdictAck{}, nil, err
	}
	if o.Draft != "" {
		if err := s.q.DeleteDrafts(ctx, tx, o.Tenant, o.By.User, o.Draft); err != nil {
			return VerdictAck{}, nil, fmt.Errorf("delete the drafts of a bypass: %w", err)
		}
	}
	due := h.now.Add(BypassReview)
	err = s.q.InsertBypass(ctx, tx, sqlc.InsertBypassParams{GateID: o.Gate, TenantID: o.Tenant, RunID: h.run.ID, UserID: o.By.User, Reason: o.Reason, Ticket: o.Ticket, At: h.now, DueAt: due})
	if err != nil {
		return VerdictAck{}, nil, fmt.Errorf("open the review of a bypass: %w", err)
	}
	if o.Audit != nil {
		o.Audit.ObjectID, o.Audit.Result, o.Audit.Reason = typeid.Format(typeid.Gate, o.Gate), string(run.GateBypassed), o.Reason
		o.Audit.Detail = map[string]any{"digest": o.Digest, "revision": o.Revision, "run": typeid.Format(typeid.Run, h.run.ID), "ticket": o.Ticket, "review_due_at": due}
	}
	return VerdictAck{Gate: o.Gate, Run: h.run.ID, State: run.GateBypassed, RunState: steps[len(steps)-1].res.Run.State, Outcome: string(run.GateBypassed)}, w, nil
}

// allowed holds that the gate may be bypassed by this person, now, as they saw it and with these words.
func (o BypassOrder) allowed(h held, rules policy.Rules, f policy.Facts) error {
	invalid := func(field, sentence string) error {
		return fault.New(fault.Invalid, "Nothing was bypassed: "+sentence).WithField(field)
	}
	if ok, why := policy.MayBypass(f, policy.Actor{User: o.By.User.String(), Roles: o.By.Roles, LivePerson: o.By.Live}); !ok {
		return fault.New(fault.Forbidden, why).WithCode("may_not_bypass")
	}
	switch {
	case h.gate.State != string(run.GateOpen):
		return fault.Newf(fault.Conflict, "Nothing was bypassed: this gate is not open any more, it is %s, and the run is %s.", h.gate.State, h.run.State).WithCode("gate_closed")
	case o.Revision != int(h.gate.Revision) || o.Digest != h.gate.Digest:
		return refused(&run.GateError{Why: "stale", Gate: h.run.Gate}, h.run)
	case o.By.AuthTime.IsZero() || h.now.Sub(o.By.AuthTime) > policy.ConfirmAge:
		return fault.Newf(fault.Forbidden, "Nothing was bypassed: this needs a login that is not older than %d minutes. Confirm that it is you, and come back.", int(policy.ConfirmAge.Minutes())).WithCode(CodeConfirmLogin)
	case seen(o.Reason) < MinBypassReason:
		return invalid("reason", fmt.Sprintf("say in at least %d characters why nobody could be asked; whoever reviews it reads it.", MinBypassReason))
	case utf8.RuneCountInString(o.Reason) > 2000:
		return invalid("reason", "the reason has more than 2,000 characters.")
	case seen(o.Ticket) == 0 || utf8.RuneCountInString(o.Ticket) > maxTicket:
		return invalid("ticket", fmt.Sprintf("name the ticket of the incident, in at most %d characters.", maxTicket))
	case o.Repository != f.Repository:
		return invalid("repository", "the name of the repository is not the one that you typed. Look which it is.")
	}
	if ok, why := policy.Bypassable(rules, f); !ok {
		return fault.New(fault.Forbidden, why).WithCode("guard")
	}
	return nil
}

// seen counts the characters of a text that a reader sees: none of no width, and blanks between words once.
func seen(text string) int {
	visible := strings.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) && !unicode.IsSpace(c) {
			return -1
		}
		return c
	}, text)
	return utf8.RuneCountInString(strings.Join(strings.Fields(visible), " "))
}

// Bypass is a gate that somebody opened alone, with its review.
type Bypass struct {
	Gate, Run uuid.UUID
	// User is who bypassed it, Requester who asked for the work: neither reviews it.
	User, Requester    uuid.UUID
	Kind               run.GateKind
	By, Reason, Ticket string
	Title, Repository  string
	At, Due            time.Time
	Reviewer, Note     string
	ReviewedAt         time.Time // zero: nobody has reviewed it
}

// BypassFilter narrows a list of bypasses; zero members do not.
type BypassFilter struct {
	Run, Gate uuid.UUID
	// Waiting are those that nobody has reviewed.
	Waiting bool
}

// Bypasses lists at most 100 bypasses, the most urgent review first.
func (s *Store) Bypasses(ctx context.Context, tenant uuid.UUID, f BypassFilter) ([]Bypass, error) {
	rows, err := s.q.Bypasses(ctx, s.reads(tenant), tenant, pointer(f.Run), pointer(f.Gate), f.Waiting)
	if err != nil {
		return nil, fmt.Errorf("list bypasses: %w", err)
	}
	var all []Bypass
	for _, r := range rows {
		b := Bypass{Gate: r.GateID, Run: r.RunID, User: r.UserID, Requester: r.RequestedBy, Kind: run.GateKind(r.Kind), By: r.ByName, Reason: r.Reason, Ticket: r.Ticket, Title: r.Title,
			Repository: r.Repository, At: r.At.UTC(), Due: r.DueAt.UTC(), Reviewer: r.Reviewer, Note: r.Note}
		if r.ReviewedAt != nil {
			b.ReviewedAt = r.ReviewedAt.UTC()
		}
		all = append(all, b)
	}
	return all, nil
}

// ReviewBypass closes the review of a bypass with what somebody else found. fault.Forbidden for whoever bypassed it or
// asked for the work, fault.Conflict where it was reviewed before.
func (s *Store) ReviewBypass(ctx context.Context, in Request, gate, by uuid.UUID, note string) error {
	if note = strings.TrimSpace(note); seen(note) == 0 || utf8.RuneCountInString(note) > 2000 {
		return fault.New(fault.Invalid, "Nothing was reviewed: say what you found, in 1 to 2,000 characters.").WithField("note")
	}
	_, _, err := once(ctx, s, in, "bypass-review:"+gate.String()+":"+by.String(), func(tx pgx.Tx) (bool, error) {
		rows, err := s.q.Bypasses(ctx, tx, in.Tenant, nil, &gate, false)
		if err != nil {
			return false, err
		}
		switch {
		case len(rows) == 0:
			return false, fault.New(fault.NotFound, "There is no bypass of such a gate here.")
		case rows[0].UserID == by:
			return false, fault.New(fault.Forbidden, "Nothing was reviewed: you bypassed this gate, so somebody else reviews it.").WithCode("own_bypass")
		case rows[0].RequestedBy == by:
			return false, fault.New(fault.Forbidden, "Nothing was reviewed: you asked for this work, so somebody else reviews how it got through.").WithCode("own_work")
		}
		n, err := s.q.ReviewBypass(ctx, tx, &by, note, in.Tenant, gate)
		if err == nil && n == 0 {
			err = fault.New(fault.Conflict, "Nothing was reviewed: somebody else has reviewed this bypass meanwhile.").WithCode("reviewed")
		}
		if in.Audit != nil {
			in.Audit.ObjectID, in.Audit.Reason = typeid.Format(typeid.Gate, gate), note
		}
		return true, err
	})
	return translate(err, "gate")
}
