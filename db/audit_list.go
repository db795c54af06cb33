package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/evidence"
	"signalbox/internal/fault"
	"signalbox/internal/run"
)

// AuditFilter chooses rows of a tenant's audit log; the zero value chooses all.
type AuditFilter struct {
	ActorID   string
	ActorName string   // part of a name, in any case
	Actions   []string // any of these
	Prefix    string   // of the action, for example "gate."
	ObjectID  string
	// ObjectType is a kind of object, for example run.
	ObjectType string
	Result     string
	// Since is the first instant, Until the first that is no longer chosen; nil for no bound.
	Since, Until *time.Time
	// Before is the number above those wanted; 0 for the newest.
	Before int64
	Limit  int32
}

// AuditLine is one row of the audit log as it is shown.
type AuditLine struct {
	Audit
	Seq  int64
	At   time.Time
	Hash []byte
	// Raw is Detail as it is stored.
	Raw json.RawMessage
}

// AuditLines lists what the filter chooses, the newest first.
func (s *Store) AuditLines(ctx context.Context, tenant uuid.UUID, f AuditFilter) ([]AuditLine, error) {
	if f.Before == 0 {
		f.Before = math.MaxInt64
	}
	rows, err := s.q.PageAudit(ctx, s.reads(tenant), sqlc.PageAuditParams{TenantID: tenant, Before: f.Before, ActorID: f.ActorID, ActorName: f.ActorName, Actions: some(f.Actions),
		Prefix: f.Prefix, ObjectID: f.ObjectID, ObjectType: f.ObjectType, Result: f.Result, Since: f.Since, Until: f.Until, Count: f.Limit})
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	all := make([]AuditLine, 0, len(rows))
	for _, r := range rows {
		all = append(all, AuditLine{Seq: r.Seq, At: r.At, Hash: r.Hash, Raw: r.Detail, Audit: Audit{Tenant: tenant,
			By: run.Actor{Kind: run.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName}, Channel: r.Channel, RemoteAddr: r.RemoteAddr,
			RequestID: r.RequestID, Action: r.Action, ObjectType: r.ObjectType, ObjectID: r.ObjectID, Result: r.Result, Reason: r.Reason}})
	}
	return all, nil
}

func some(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// CountAudit counts what the filter chooses, up to CountMost and one more.
func (s *Store) CountAudit(ctx context.Context, tenant uuid.UUID, f AuditFilter) (int, error) {
	n, err := s.q.CountAudit(ctx, s.reads(tenant), sqlc.CountAuditParams{TenantID: tenant, ActorID: f.ActorID, ActorName: f.ActorName, Actions: some(f.Actions),
		Prefix: f.Prefix, ObjectID: f.ObjectID, ObjectType: f.ObjectType, Result: f.Result, Since: f.Since, Until: f.Until, Most: CountMost + 1})
	if err != nil {
		return 0, fmt.Errorf("count audit: %w", err)
	}
	return int(n), nil
}

// AuditWords are the actions and the results that there are to choose from.
func (s *Store) AuditWords(ctx context.Context, tenant uuid.UUID) (actions, results []string, err error) {
	if actions, err = s.q.AuditActions(ctx, s.reads(tenant), tenant); err != nil {
		return nil, nil, fmt.Errorf("list actions: %w", err)
	}
	if results, err = s.q.AuditResults(ctx, s.reads(tenant), tenant); err != nil {
		return nil, nil, fmt.Errorf("list results: %w", err)
	}
	return actions, results, nil
}

// AuditAt returns one row and whether its hash fits it and the hash before it.
func (s *Store) AuditAt(ctx context.Context, tenant uuid.UUID, seq int64) (AuditLine, bool, error) {
	list, err := s.AuditLines(ctx, tenant, AuditFilter{Before: seq + 1, Limit: 1})
	if err != nil {
		return AuditLine{}, false, err
	}
	if len(list) == 0 || list[0].Seq != seq {
		return AuditLine{}, false, fault.Newf(fault.NotFound, "Nothing is shown: the audit log has no number %d.", seq)
	}
	rows, err := s.q.AuditRows(ctx, s.reads(tenant), tenant, seq-2, math.MaxInt64, 2)
	if err != nil {
		return AuditLine{}, false, fmt.Errorf("check number %d: %w", seq, err)
	}
	var before []byte
	fits := false
	for _, r := range rows {
		if r.Seq == seq {
			fits = evidence.Hex(evidence.Hash(before, evidence.AuditBody(auditRow(r)))) == evidence.Hex(r.Hash) && (seq == 1 || before != nil)
		}
		before = r.Hash
	}
	return list[0], fits, nil
}

// ExportAudit calls each for every row that the filter chooses, the newest first, after it has recorded the export itself in a. What is
// recorded says up to which number the log was read, so that the same export can be made again at any time.
func (s *Store) ExportAudit(ctx context.Context, f AuditFilter, a Audit, each func(AuditLine) error) error {
	var head sqlc.AuditHeadRow
	err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
		if head, err = s.q.AuditHead(ctx, tx, a.Tenant); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("look up the end of the audit log: %w", err)
		}
		detail := map[string]any{"up_to": head.Seq}
		for k, v := range a.Detail {
			detail[k] = v
		}
		line := a
		line.Detail = detail
		return s.audit(ctx, tx, &line)
	})
	if err != nil {
		return err
	}
	f.Before, f.Limit = head.Seq+1, auditPage
	for {
		list, err := s.AuditLines(ctx, a.Tenant, f)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := each(l); err != nil {
				return err
			}
			f.Before = l.Seq
		}
		if len(list) < auditPage {
			return nil
		}
	}
}
