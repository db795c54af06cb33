package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/patch"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// CodeConfirmLogin is of an approval that needs its person to prove again who they are.
const CodeConfirmLogin = "confirm_login"

// lateVerdict answers a verdict on a gate that is decided already. An approval
// of a satisfied gate is no error: it is kept as extra.
func (s *Store) lateVerdict(ctx context.Context, tx pgx.Tx, v Verdict, h held, rules policy.Rules, f policy.Facts, ack *VerdictAck) (bool, error) {
	state := run.GateState(h.gate.State)
	switch state {
	case run.GateOpen, run.GateExpired:
		return false, nil
	case run.GateSatisfied, run.GateBypassed:
		if v.Verdict != policy.Approve || v.Digest != h.gate.Digest || v.Revision != int(h.gate.Revision) {
			break
		}
		if ok, why := policy.MayDecide(rules, f, policy.Actor{User: v.By.User.String(), Roles: v.By.Roles, LivePerson: v.By.Live}, v.Verdict); !ok && !already(f.Gate, v) {
			return true, fault.New(fault.Forbidden, why).WithCode("may_not_decide")
		}
		if err := v.quickly(policy.GateKind(h.gate.Kind), rules, f); err != nil {
			return true, err
		}
		who, at := s.lastDecider(ctx, tx, h)
		ack.Outcome = "extra"
		ack.Words = fmt.Sprintf("Already approved by %s %s ago. Yours is recorded too; it was not needed.", who, ago(h.now.Sub(at)))
		if v.noted() > 0 {
			ack.Words += " Your note stays on the record; the agent does not get it."
		}
		if err := s.storeVerdict(ctx, tx, v, h, rules.Version, true); err != nil {
			return true, err
		}
		v.audit(*ack)
		return true, nil
	}
	who, at := s.lastDecider(ctx, tx, h)
	what := map[run.GateState]string{run.GateSatisfied: "approved it", run.GateBypassed: "bypassed it",
		run.GateChangesRequested: "requested changes", run.GateRejected: "rejected it"}[state]
	switch {
	case state == run.GatePreparing:
		return true, fault.Newf(fault.Conflict, "Nothing was %s: the agent is preparing revision %d. Decisions open when it is ready.", past(v.Verdict), h.gate.Revision).WithCode("gate_closed")
	case state == run.GateCancelled && h.run.Cancel != nil:
		return true, fault.New(fault.Gone, "Nothing was "+past(v.Verdict)+": "+cancelledWords(*h.run.Cancel)).WithCode("gate_closed")
	}
	kind, code := fault.Conflict, "gate_closed"
	if state == run.GateChangesRequested {
		code = "changes_requested"
	}
	sentence := fmt.Sprintf("Nothing was %s: %s %s %s ago.", past(v.Verdict), who, what, ago(h.now.Sub(at)))
	if what == "" {
		kind = fault.Gone
		sentence = fmt.Sprintf("Nothing was %s: this request is %s, and the run is %s.", past(v.Verdict), state, h.run.State)
	}
	return true, fault.New(kind, sentence).WithCode(code)
}

// cancelledWords says who cancelled a run, when and why (A23).
func cancelledWords(c run.Cancel) string {
	words := "the run was cancelled"
	if c.By.Name != "" {
		words += " by " + c.By.Name
	}
	words += " at " + c.At.UTC().Format("15:04 UTC")
	if c.Reason != "" {
		words += ": “" + c.Reason + "”"
	}
	return words + "."
}

func (s *Store) lastDecider(ctx context.Context, tx pgx.Tx, h held) (string, time.Time) {
	at := h.now
	if h.gate.ClosedAt != nil {
		at = *h.gate.ClosedAt
	}
	ds, err := s.q.GateDecisions(ctx, tx, h.run.Tenant, h.gate.ID)
	if err != nil || len(ds) == 0 {
		return "somebody", at
	}
	for i := len(ds) - 1; i >= 0; i-- {
		if !ds[i].Decision.Extra {
			return ds[i].Name, ds[i].Decision.At
		}
	}
	return ds[0].Name, at
}

// checkVerdict holds that the verdict is about exactly what is open, that it has
// the text it needs, and that no guard that people may not override stands.
func (s *Store) checkVerdict(ctx context.Context, tx pgx.Tx, v Verdict, h held, rules policy.Rules, f policy.Facts) error {
	if v.Revision != int(h.gate.Revision) || v.Digest != h.gate.Digest {
		return refused(&run.GateError{Why: "stale", Gate: h.run.Gate}, h.run)
	}
	if v.Verdict == policy.RequestChanges && v.Text == "" {
		return fault.New(fault.Invalid, "Nothing was sent back: say what should change; the agent gets exactly this text.").WithField("text").WithCode("text_required")
	}
	if v.Verdict == policy.Reject && v.Text == "" {
		return fault.New(fault.Invalid, "Nothing was rejected: say why, so that the requester knows.").WithField("text").WithCode("text_required")
	}
	if err := v.quickly(policy.GateKind(h.gate.Kind), rules, f); err != nil {
		return err
	}
	if v.Verdict == policy.Approve && v.Unread != "" {
		return fault.New(fault.Invalid, v.Unread).WithField("reviewed_elsewhere").WithCode("not_shown")
	}
	if v.Verdict == policy.Approve && policy.ConfirmsLogin(rules, f, v.By.AuthTime, h.now) {
		return fault.Newf(fault.Forbidden, "Nothing was approved: a decision of this risk needs a login that is not older than %d minutes. Confirm on the gate's page that it is you, and approve there.",
			int(policy.ConfirmAge.Minutes())).WithCode(CodeConfirmLogin)
	}
	if v.Verdict == policy.Approve && h.gate.Kind == string(run.GatePatch) {
		if ok, why := policy.MayOverride(policy.Guards(rules, f)); !ok {
			return fault.New(fault.Forbidden, why).WithCode("guard")
		}
	}
	return nil
}

// quickly refuses an approval from a list of what is approved on its own page only, by the risk of this moment.
func (v Verdict) quickly(kind policy.GateKind, rules policy.Rules, f policy.Facts) error {
	if v.Quick == nil || v.Verdict != policy.Approve {
		return nil
	}
	risk, _ := policy.EffectiveRisk(rules, f)
	if why := policy.Quick(kind, risk, *v.Quick); len(why) > 0 {
		return fault.New(fault.Conflict, "Nothing was approved from the list. "+strings.Join(why, " ")+" Decide on the gate's own page.").WithCode("not_quick")
	}
	return nil
}

func (s *Store) storeVerdict(ctx context.Context, tx pgx.Tx, v Verdict, h held, version string, extra bool) error {
	raw, err := encode(sqlc.Decision{ID: typeid.New(), TenantID: v.Tenant, GateID: v.Gate, Revision: int32(v.Revision), DigestSeen: v.Digest,
		UserID: v.By.User, Verdict: string(v.Verdict), Text: v.Text, Channel: v.By.Channel, AuthTime: v.By.AuthTime, Extra: extra, PolicyVersion: version, Notes: int32(v.noted())})
	if err != nil {
		return err
	}
	if err := s.q.InsertDecision(ctx, tx, raw); err != nil {
		return fmt.Errorf("store decision: %w", err)
	}
	return nil
}

// verdictEvent says what the tally does to the run; nil where the gate stays open.
func (s *Store) verdictEvent(ctx context.Context, tx pgx.Tx, v Verdict, h held, rules policy.Rules, f policy.Facts, t policy.Tally) (run.Payload, error) {
	ref := run.GateRef{ID: v.Gate, Revision: v.Revision, Digest: v.Digest}
	switch {
	case t.Rejected:
		return run.RejectedEvent{Gate: ref, Reason: v.Text}, nil
	case t.ChangesRequested:
		return run.ChangesRequestedEvent{Gate: ref, Instruction: v.Text}, nil
	case !t.Satisfied:
		return nil, nil
	}
	attest, why := policy.Attest(rules, f)
	a := run.Approval{Gate: ref, Notes: v.Text, Attest: attest, Adopt: v.Adopt, Policy: run.PolicyWords{Version: rules.Version, Facts: rules.Asked(f)}}
	if err := s.approvals(ctx, tx, h, v, t.By, &a); err != nil {
		return nil, err
	}
	if attest {
		a.Policy.Reasons = []string{why}
		a.AttestExpiresAt = h.now.Add(rules.Limits.AttestationTimeout.Std())
	}
	if h.gate.Kind == string(run.GateBudget) {
		a.Limits = new(raised(h.run.Limits))
	}
	return run.ApprovedEvent{Approval: a}, nil
}

// raised doubles what a run may use up. A person who approves a budget gate
// grants as much again as was admitted; a second gate grants it once more.
func raised(l run.Limits) run.Limits {
	l.TokensIn *= 2
	l.TokensOut *= 2
	l.CostCents *= 2
	l.ToolCalls *= 2
	l.AgentIterations *= 2
	l.RunTimeout *= 2
	return l
}

// approvals fills in who made the quorum, with the notes that everybody who approved left (A16). What was given before a
// withdrawal does not count.
func (s *Store) approvals(ctx context.Context, tx pgx.Tx, h held, v Verdict, counted []string, a *run.Approval) error {
	ds, err := s.q.GateDecisions(ctx, tx, v.Tenant, v.Gate)
	if err != nil {
		return fmt.Errorf("load decisions: %w", err)
	}
	a.Deciders = make([]run.Actor, 0, len(ds))
	for _, d := range ds {
		if d.Decision.Verdict == withdrawn {
			a.Deciders, a.Earlier, a.NoteCount = a.Deciders[:0], nil, 0
			continue
		}
		if d.Decision.Verdict != string(policy.Approve) || d.Decision.Revision != h.gate.Revision || d.Decision.Extra {
			continue
		}
		by := run.Actor{Kind: run.Human, ID: d.Decision.UserID.String(), Name: d.Name}
		if slices.Contains(counted, by.ID) {
			a.Deciders = append(a.Deciders, by)
		}
		a.NoteCount += int(d.Decision.Notes)
		if d.Decision.Text != "" && d.Decision.UserID != v.By.User {
			a.Earlier = append(a.Earlier, run.Note{By: by, Text: d.Decision.Text})
		}
	}
	return nil
}

// noted is how many notes for the agent came with an approval.
func (v Verdict) noted() int {
	if v.Verdict != policy.Approve || v.Text == "" {
		return 0
	}
	return max(v.Notes, 1)
}

// audit completes the line that the verdict leaves in the audit.
func (v Verdict) audit(ack VerdictAck) {
	if v.Audit == nil {
		return
	}
	a := *v.Audit
	a.Tenant, a.By, a.Action = v.Tenant, v.By.actor(), "gate."+string(v.Verdict)
	a.ObjectType, a.ObjectID, a.Result, a.Reason = "gate", typeid.Format(typeid.Gate, v.Gate), ack.Outcome, v.Text
	a.Detail = map[string]any{"digest": v.Digest, "revision": v.Revision, "run": typeid.Format(typeid.Run, ack.Run), "roles": v.By.Roles}
	if v.Verdict == policy.Approve && len(v.Elsewhere) > 0 {
		a.Detail["reviewed_elsewhere"] = v.Elsewhere
	}
	if v.Verdict == policy.Approve && v.Quick != nil {
		a.Detail["from_list"] = true
	}
	*v.line = a
}

func already(g policy.GateFacts, v Verdict) bool {
	for _, d := range g.Decisions {
		if d.User == v.By.User.String() && d.Verdict == policy.Approve && v.Verdict == policy.Approve {
			return true
		}
	}
	return false
}

func outcomeOf(p run.Payload) (run.GateState, string) {
	switch p.(type) {
	case run.RejectedEvent:
		return run.GateRejected, "rejected"
	case run.ChangesRequestedEvent:
		return run.GateChangesRequested, "changes_requested"
	}
	return run.GateSatisfied, "satisfied"
}

func past(v policy.GateVerdict) string {
	switch v {
	case policy.Reject:
		return "rejected"
	case policy.RequestChanges:
		return "sent back"
	}
	return "approved"
}

// ago rounds a duration for a sentence.
func ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

var errNoPatch = errors.New("the run has no patch")

// Screen compares the run's stored patch with policy and contract, for pages.
func (s *Store) Screen(ctx context.Context, ref Ref) (policy.Facts, patch.Hits, error) {
	row, err := s.q.LoadRun(ctx, s.pool, ref.Tenant, ref.Run)
	if err != nil {
		return policy.Facts{}, patch.Hits{}, translate(err, "run")
	}
	r, err := toRun(row.Run)
	if err != nil {
		return policy.Facts{}, patch.Hits{}, err
	}
	if r.Patch == nil {
		return policy.Facts{}, patch.Hits{}, errNoPatch
	}
	rules, err := s.Rules(ctx, ref.Tenant)
	if err != nil {
		return policy.Facts{}, patch.Hits{}, err
	}
	f := run.Facts{Rules: rules}
	sc, err := s.contractFacts(ctx, s.pool, r, &f)
	if err != nil {
		return policy.Facts{}, patch.Hits{}, err
	}
	if err := s.judgeFacts(ctx, s.pool, r, sc, &f); err != nil {
		return policy.Facts{}, patch.Hits{}, err
	}
	stored, err := s.storedPatch(ctx, s.pool, ref.Tenant, r.Patch.Artifact)
	if err != nil {
		return policy.Facts{}, patch.Hits{}, err
	}
	f.Policy.VerificationPassed = r.Verification != ""
	return f.Policy, patch.Screen(stored.Facts, sc.rules), nil
}
