package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// Verdict is one person's answer at a gate, bound to what they saw.
type Verdict struct {
	Tenant   uuid.UUID
	Gate     uuid.UUID
	Revision int
	// Digest is the revision digest that the person was shown.
	Digest  string
	Verdict policy.GateVerdict
	// Text is the instruction, the reason, or notes for the agent.
	Text string
	// Notes is how many notes for the agent an approval's text holds; at least one where there is a text.
	Notes int
	// Adopt takes over an existing pull request at a reconcile gate; nil retries.
	Adopt *run.PullRequest
	// Unread is the sentence about content that was neither shown nor declared as read elsewhere; an approval is refused
	// with it (A26). Elsewhere is what was declared, for the audit.
	Unread    string
	Elsewhere []string
	// Quick is what a list showed of the content above its button; nil where the gate's own page was decided on. Kind and
	// risk are looked up at the moment of the decision.
	Quick *policy.QuickContent
	// Draft is the key of the drafts that the text was written in; they end with the decision. Empty: none do.
	Draft string

	Key  string
	Hash []byte
	By   Decider
	// Audit is completed with what was decided.
	Audit *Audit
	// line is the completed one; it is written last, because it locks the tenant's audit log until the commit.
	line *Audit
}

// Decider is the person, as the one middleware made them.
type Decider struct {
	User     uuid.UUID
	Name     string
	Roles    []policy.Role
	Live     bool
	AuthTime time.Time
	Channel  string // page or api
}

func (d Decider) actor() run.Actor {
	return run.Actor{Kind: run.Human, ID: d.User.String(), Name: d.Name}
}

// VerdictAck is the answer to a verdict, stored with its key.
type VerdictAck struct {
	Gate     uuid.UUID     `json:"gate"`
	Run      uuid.UUID     `json:"run"`
	State    run.GateState `json:"state"`
	RunState run.State     `json:"run_state"`
	// Outcome is recorded (quorum open), satisfied, changes_requested, rejected,
	// blocked, or extra (given after the gate was satisfied, and kept).
	Outcome string `json:"outcome"`
	Words   string `json:"words"`
	// Notes is how many notes for the agent came with the approval, of everybody whose approval counted.
	Notes int `json:"notes,omitempty"`
	// Replayed says that this is a stored answer.
	Replayed bool `json:"-"`
}

// Decide records a person's verdict: one transaction that locks run and gate,
// checks state, digest and eligibility as they are now, stores the verdict,
// counts the quorum and, where it is complete, moves the run and inserts the one
// queue item (D-2). Whoever comes later is answered and kept, and starts nothing.
func (s *Store) Decide(ctx context.Context, v Verdict) (VerdictAck, error) {
	scope := "gate:" + v.Gate.String() + ":" + v.By.User.String()
	for range maxTries {
		var ack VerdictAck
		var w *write
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			w, v.line = nil, &Audit{}
			again, err := s.storedAnswer(ctx, tx, v.Tenant, scope, v.Key, v.Hash, &ack)
			if err != nil || again {
				ack.Replayed = again
				return err
			}
			if ack, w, err = s.decideGate(ctx, tx, v); err != nil {
				return err
			}
			if err := s.usedDrafts(ctx, tx, v); err != nil {
				return err
			}
			if err := s.storeAnswer(ctx, tx, v.Tenant, scope, v.Key, v.Hash, ack); err != nil || v.line.Action == "" {
				return err
			}
			return s.audit(ctx, tx, v.line)
		})
		if keyTaken(err) {
			continue
		}
		if err != nil && !ack.Replayed {
			// The same request may have been carried out since the look at its key.
			if ok, lookErr := s.storedAnswer(ctx, s.pool, v.Tenant, scope, v.Key, v.Hash, &ack); ok && lookErr == nil {
				ack.Replayed = true
				return ack, nil
			}
		}
		if err == nil && w != nil {
			s.ring(w.changes()...)
		}
		return ack, translate(err, "gate")
	}
	return VerdictAck{}, fault.New(fault.Conflict, "Nothing was decided: the same request is being carried out right now. Repeat it in a moment.")
}

// held is a gate with its run, both locked.
type held struct {
	gate sqlc.Gate
	row  sqlc.Run
	run  run.Run
	now  time.Time
}

func (s *Store) lockGate(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (held, error) {
	seen, err := s.q.Gate(ctx, tx, tenant, id)
	if err != nil {
		return held{}, translate(err, "gate")
	}
	row, err := s.q.LockRun(ctx, tx, tenant, seen.RunID)
	if err != nil {
		return held{}, fmt.Errorf("lock run: %w", err)
	}
	g, err := s.q.LockGate(ctx, tx, tenant, id)
	if err != nil {
		return held{}, fmt.Errorf("lock gate: %w", err)
	}
	r, err := toRun(row.Run)
	return held{g, row.Run, r, micro(row.Now)}, err
}

func (s *Store) decideGate(ctx context.Context, tx pgx.Tx, v Verdict) (VerdictAck, *write, error) {
	h, err := s.lockGate(ctx, tx, v.Tenant, v.Gate)
	if err != nil {
		return VerdictAck{}, nil, err
	}
	rules, f, err := s.gatePolicy(ctx, tx, h)
	if err != nil {
		return VerdictAck{}, nil, err
	}
	ack := VerdictAck{Gate: h.gate.ID, Run: h.run.ID, State: run.GateState(h.gate.State), RunState: h.run.State}
	if late, err := s.lateVerdict(ctx, tx, v, h, rules, f, &ack); late || err != nil {
		return ack, nil, err
	}
	if h.gate.State == string(run.GateExpired) && v.Verdict != policy.Reject {
		return ack, nil, fault.Newf(fault.Gone, "Nothing was %s: this request expired at %s. Ask again first.", past(v.Verdict), h.gate.ExpiresAt.UTC().Format("15:04 UTC on 2 January")).
			WithCode("gate_expired").WithState(string(h.run.State))
	}
	if ok, why := policy.MayDecide(rules, f, policy.Actor{User: v.By.User.String(), Roles: v.By.Roles, LivePerson: v.By.Live}, v.Verdict); !ok {
		if already(f.Gate, v) {
			ack.Outcome, ack.Words = "recorded", policy.Count(rules, f).Words
			return ack, nil, nil
		}
		return ack, nil, fault.New(fault.Forbidden, why).WithCode("may_not_decide")
	}
	if err := s.checkVerdict(ctx, tx, v, h, rules, f); err != nil {
		return ack, nil, err
	}
	if err := s.storeVerdict(ctx, tx, v, h, rules.Version, false); err != nil {
		return ack, nil, err
	}
	f.Gate.Decisions = append(f.Gate.Decisions, policy.Decided{User: v.By.User.String(), Verdict: v.Verdict})
	t := policy.Count(rules, f)
	ack.Outcome, ack.Words, ack.Notes = "recorded", t.Words, v.noted()
	if t.Blocked {
		ack.Outcome = "blocked"
		if ack.Words, err = s.blockedWords(ctx, tx, h, rules, f, t); err != nil {
			return ack, nil, err
		}
	}
	if moved := policy.Moved(rules, f, asked(h.gate)); moved != "" {
		ack.Words = moved + " Your decision is recorded: " + ack.Words
	}
	payload, err := s.verdictEvent(ctx, tx, v, h, rules, f, t)
	if err != nil || payload == nil {
		if err == nil {
			v.audit(ack)
		}
		return ack, nil, err
	}
	steps, err := reduceAll(h.run, run.Event{ID: "decision/" + v.Gate.String() + "/" + v.By.User.String() + "/" + v.Key, By: v.By.actor(), At: h.now, Payload: payload})
	if err != nil {
		return ack, nil, refused(err, h.run)
	}
	after := steps[len(steps)-1].res.Run
	ack.RunState = after.State
	ack.State, ack.Outcome = outcomeOf(payload)
	if p, ok := payload.(run.ApprovedEvent); ok {
		ack.Notes = p.NoteCount
	}
	w := &write{}
	if err := w.add(h.row, steps, s.timing, nil); err != nil {
		return ack, nil, err
	}
	if err := s.writeLocked(ctx, tx, Ref{v.Tenant, h.run.ID}, w, steps, nil); err != nil {
		return ack, nil, err
	}
	v.audit(ack)
	return ack, w, nil
}

// gatePolicy loads the rules and facts that a decision is measured by, as they
// are now and not as they were when the gate opened.
func (s *Store) gatePolicy(ctx context.Context, tx pgx.Tx, h held) (policy.Rules, policy.Facts, error) {
	rules, err := s.rulesFor(ctx, tx, h.run)
	if err != nil {
		return rules, policy.Facts{}, err
	}
	f := run.Facts{Rules: rules}
	sc, err := s.contractFacts(ctx, tx, h.run, &f)
	if err != nil {
		return rules, policy.Facts{}, err
	}
	if h.gate.Kind == string(run.GatePatch) && h.run.Patch != nil {
		if err := s.judgeFacts(ctx, tx, h.run, sc, &f); err != nil {
			return rules, policy.Facts{}, err
		}
	}
	if err := s.judgeAtGate(ctx, tx, h.run, &f); err != nil {
		return rules, policy.Facts{}, err
	}
	f.Policy.VerificationPassed = h.run.Verification != ""
	// The budget stops a run by a transition and a gate of its own; a person's decision about a result is not measured by it.
	f.Policy.BudgetLeft = true
	f.Policy.Result = policy.Result(h.run.Outcome)
	if f.Policy.Gate, err = s.gateFacts(ctx, tx, h.run, h.gate); err != nil {
		return rules, policy.Facts{}, err
	}
	return rules.Under(f.Policy), f.Policy, nil
}

// judgeAtGate fills in what the judge said when the gate was asked for: the log
// holds it, and the guards of a person's decision read it again.
func (s *Store) judgeAtGate(ctx context.Context, tx sqlc.DBTX, r run.Run, f *run.Facts) error {
	raw, err := s.q.JudgeAtGate(ctx, tx, r.Tenant, r.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the judge's report: %w", err)
	}
	var j run.JudgeEvidence
	if err := decode(raw, &j, "judge"); err != nil {
		return err
	}
	f.Policy.Verdict, f.Policy.Confidence, f.Policy.JudgeReasons = policy.Verdict(j.Verdict), j.Confidence, j.Reasons
	return nil
}
