package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/fault"
	"signalbox/internal/policy"
	"signalbox/internal/typeid"
)

// PolicyAck is the answer to a change of the policy, stored with its key.
type PolicyAck struct {
	Version string `json:"version"`
	// InForce says that the version holds now; otherwise it waits for another administrator.
	InForce bool `json:"in_force"`
}

// ChangePolicy puts a new version of the tenant's policy in force, or, where the policy in force asks for a second
// administrator, keeps it until one confirms it. Who may ask is the caller's question; an API token never may.
func (s *Store) ChangePolicy(ctx context.Context, in Request, document, reason string) (PolicyAck, error) {
	rules, err := policy.Accept([]byte(document), zoneKnown)
	if err != nil {
		return PolicyAck{}, err
	}
	if reason = strings.TrimSpace(reason); reason == "" || len([]rune(reason)) > 2000 {
		return PolicyAck{}, fault.New(fault.Invalid, "The policy was not stored: say why it changes, in 1 to 2,000 characters; everybody who asks later reads it.").WithField("reason")
	}
	by, err := uuid.Parse(in.By.ID)
	if err != nil {
		return PolicyAck{}, fault.New(fault.Forbidden, "The policy was not stored: only a person who is signed in may change it.")
	}
	ack, _, err := once(ctx, s, in, "policies:"+in.Tenant.String(), func(tx pgx.Tx) (PolicyAck, error) {
		current, err := s.lockPolicy(ctx, tx, in.Tenant)
		if err != nil {
			return PolicyAck{}, err
		}
		if err := s.versionFree(ctx, tx, in.Tenant, rules.Version); err != nil {
			return PolicyAck{}, err
		}
		ack := PolicyAck{Version: rules.Version, InForce: !current.Changes.SecondAdmin}
		describe(in.Audit, rules.Version, current.Version, reason)
		if ack.InForce {
			return ack, s.q.PutPolicy(ctx, tx, sqlc.PutPolicyParams{ID: typeid.New(), TenantID: in.Tenant, Version: rules.Version, Document: document, Reason: reason, CreatedBy: &by})
		}
		if p, err := s.q.PolicyProposal(ctx, tx, in.Tenant); err == nil {
			return PolicyAck{}, fault.Newf(fault.Conflict, "The policy was not stored: the change to version %s by %s still waits for another administrator. Confirm or withdraw it first.", p.Version, p.Proposer).
				WithCode("policy_waits")
		} else if !errors.Is(err, pgx.ErrNoRows) {
			return PolicyAck{}, fmt.Errorf("look for another change: %w", err)
		}
		if in.Audit != nil {
			in.Audit.Result = "proposed"
		}
		return ack, s.q.ProposePolicy(ctx, tx, sqlc.ProposePolicyParams{ID: typeid.New(), TenantID: in.Tenant, Version: rules.Version, Document: document,
			BasedOn: current.Version, Reason: reason, ProposedBy: by})
	})
	if err == nil && ack.InForce {
		s.wakeAll()
	}
	return ack, translate(err, "policy")
}

// lockPolicy keeps other changes of the tenant's policy away until the commit, and returns what is in force.
func (s *Store) lockPolicy(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) (policy.Rules, error) {
	if err := s.q.LockPolicies(ctx, tx, tenant); err != nil {
		return policy.Rules{}, fmt.Errorf("lock the policy: %w", err)
	}
	doc, err := s.q.PolicyInForce(ctx, tx, tenant)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return policy.Rules{}, fmt.Errorf("load the policy in force: %w", err)
	}
	rules, err := s.rulesIn(doc)
	if f, ok := fault.Find(err); ok && f.Code == "policy_unreadable" {
		// A document that cannot be read holds everything back, and a new one is the way out. One that asked for a second
		// administrator still does.
		return policy.Rules{Version: "unreadable", Changes: policy.ChangesOf([]byte(doc))}, nil
	}
	return rules, err
}

func (s *Store) versionFree(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, version string) error {
	_, err := s.q.PolicyVersion(ctx, tx, tenant, version)
	taken := err == nil || version == policy.DefaultVersion
	if !taken && errors.Is(err, pgx.ErrNoRows) {
		// Who confirms names the version that they read: no other text may ever go by that name.
		if taken, err = s.q.PolicyProposed(ctx, tx, tenant, version); err == nil {
			err = pgx.ErrNoRows
		}
	}
	switch {
	case taken:
		return fault.Newf(fault.Conflict, "The policy was not stored: a version %s was stored or proposed before, and a version never changes. Name another in its field version.", version).
			WithField("document").WithCode("policy_version_taken")
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	}
	return fmt.Errorf("look for the version: %w", err)
}

func describe(a *Audit, version, before, reason string) {
	if a != nil {
		a.ObjectID, a.Reason, a.Detail = version, reason, map[string]any{"version": version, "before": before}
	}
}

// ConfirmPolicy puts the change that waits in force. It must be another administrator than the one who proposed it, and
// the policy must still be the one that it was written for.
func (s *Store) ConfirmPolicy(ctx context.Context, in Request, version string) (PolicyAck, error) {
	by, err := uuid.Parse(in.By.ID)
	if err != nil {
		return PolicyAck{}, fault.New(fault.Forbidden, "Nothing was confirmed: only a person who is signed in may confirm a policy.")
	}
	ack, _, err := once(ctx, s, in, "policy-confirm:"+version, func(tx pgx.Tx) (PolicyAck, error) {
		current, err := s.lockPolicy(ctx, tx, in.Tenant)
		if err != nil {
			return PolicyAck{}, err
		}
		p, err := s.openProposal(ctx, tx, in.Tenant, version)
		switch {
		case err != nil:
			return PolicyAck{}, err
		case p.ProposedBy == by:
			return PolicyAck{}, fault.New(fault.Forbidden, "Nothing was confirmed: you proposed this change, so another administrator must confirm it.").WithCode("second_admin")
		case p.BasedOn != current.Version:
			return PolicyAck{}, fault.Newf(fault.Conflict, "Nothing was confirmed: policy %s has come into force since this change was proposed for %s. Withdraw it and propose it anew.", current.Version, p.BasedOn).
				WithCode("policy_moved")
		}
		if err := s.decideProposal(ctx, tx, p, by, true); err != nil {
			return PolicyAck{}, err
		}
		describe(in.Audit, version, current.Version, p.Reason)
		return PolicyAck{version, true}, s.q.PutPolicy(ctx, tx, sqlc.PutPolicyParams{ID: typeid.New(), TenantID: in.Tenant, Version: version, Document: p.Document, Reason: p.Reason,
			CreatedBy: &p.ProposedBy, ConfirmedBy: &by})
	})
	if err == nil {
		s.wakeAll()
	}
	return ack, translate(err, "policy")
}

// WithdrawPolicy ends the change that waits without effect; every administrator may.
func (s *Store) WithdrawPolicy(ctx context.Context, in Request, version string) error {
	by, err := uuid.Parse(in.By.ID)
	if err != nil {
		return fault.New(fault.Forbidden, "Nothing was withdrawn: only a person who is signed in may withdraw a policy.")
	}
	_, _, err = once(ctx, s, in, "policy-withdraw:"+version, func(tx pgx.Tx) (bool, error) {
		if _, err := s.lockPolicy(ctx, tx, in.Tenant); err != nil {
			return false, err
		}
		p, err := s.openProposal(ctx, tx, in.Tenant, version)
		if err != nil {
			return false, err
		}
		describe(in.Audit, version, p.BasedOn, p.Reason)
		return true, s.decideProposal(ctx, tx, p, by, false)
	})
	return translate(err, "policy")
}

// decideProposal ends the change that waits; the policy is locked, so that nobody else has ended it meanwhile.
func (s *Store) decideProposal(ctx context.Context, tx pgx.Tx, p sqlc.PolicyProposalRow, by uuid.UUID, confirmed bool) error {
	n, err := s.q.DecideProposal(ctx, tx, &by, confirmed, p.TenantID, p.ID)
	if err != nil {
		return fmt.Errorf("decide the proposed policy: %w", err)
	}
	if n != 1 {
		return fault.Newf(fault.Conflict, "Nothing was changed: the change of the policy to version %s was decided a moment ago.", p.Version)
	}
	return nil
}

func (s *Store) openProposal(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, version string) (sqlc.PolicyProposalRow, error) {
	p, err := s.q.PolicyProposal(ctx, h, tenant)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && p.Version != version {
		return p, fault.Newf(fault.NotFound, "Nothing was changed: no change of the policy to version %s waits for an administrator.", version)
	}
	return p, wrap("read the proposed policy", err)
}

// PolicyInfo is one version of a policy: who made it, who confirmed it, when and why.
type PolicyInfo struct {
	Version             string
	At                  time.Time
	By, ConfirmedBy     string
	Reason              string
	Bytes               int
	InForce, IsProposal bool
	// Document and ByID are given of a proposal.
	Document string
	ByID     uuid.UUID
	BasedOn  string
}

// Policies lists the tenant's versions, the newest and what is in force first, and the change that waits, if one does.
func (s *Store) Policies(ctx context.Context, tenant uuid.UUID, most int) (all []PolicyInfo, waits *PolicyInfo, err error) {
	rows, err := s.q.PolicyVersions(ctx, s.reads(tenant), tenant, int32(most))
	if err != nil {
		return nil, nil, fmt.Errorf("list policies: %w", err)
	}
	for i, r := range rows {
		all = append(all, PolicyInfo{Version: r.Version, At: r.CreatedAt.UTC(), By: r.CreatedBy, ConfirmedBy: r.ConfirmedBy, Reason: r.Reason, Bytes: int(r.Bytes), InForce: i == 0})
	}
	p, err := s.q.PolicyProposal(ctx, s.reads(tenant), tenant)
	if errors.Is(err, pgx.ErrNoRows) {
		return all, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the proposed policy: %w", err)
	}
	return all, &PolicyInfo{Version: p.Version, At: p.ProposedAt.UTC(), By: p.Proposer, ByID: p.ProposedBy, Reason: p.Reason, Bytes: len(p.Document), IsProposal: true, Document: p.Document, BasedOn: p.BasedOn}, nil
}

// PolicyDocument is the text of a version; of the one that waits, too. The defaults are a version without a text.
func (s *Store) PolicyDocument(ctx context.Context, tenant uuid.UUID, version string) (string, error) {
	doc, err := s.q.PolicyVersion(ctx, s.reads(tenant), tenant, version)
	if !errors.Is(err, pgx.ErrNoRows) {
		return doc, translate(err, "version of the policy")
	}
	if version == policy.DefaultVersion {
		return "", nil
	}
	p, err := s.q.PolicyProposal(ctx, s.reads(tenant), tenant)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && p.Version != version {
		return "", notFound("version of the policy")
	}
	return p.Document, wrap("read the proposed policy", err)
}

// CheckPolicy reads a document as ChangePolicy would, and stores nothing.
func (s *Store) CheckPolicy(document string) (policy.Rules, error) {
	return policy.Accept([]byte(document), zoneKnown)
}

// heldTo tightens today's rules to what the run was admitted under: a policy that became looser since does not loosen it.
func (s *Store) heldTo(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, admitted string, rules policy.Rules) (policy.Rules, error) {
	if admitted == "" || admitted == rules.Version {
		return rules, nil
	}
	if admitted == policy.DefaultVersion {
		return rules.Within(policy.Default()), nil
	}
	doc, err := s.q.PolicyVersion(ctx, h, tenant, admitted)
	if errors.Is(err, pgx.ErrNoRows) {
		return rules, nil // versions are never deleted, so this run was admitted under none
	}
	if err != nil {
		return rules, fmt.Errorf("read the policy of the run's admission: %w", err)
	}
	before, err := s.rulesIn(doc)
	if err != nil {
		// Nobody knows any more what was asked for, so everything is. The run goes on and can be decided.
		before = policy.Strictest(admitted)
	}
	return rules.Within(before), nil
}
