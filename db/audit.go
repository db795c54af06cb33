package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/run"
)

// Audit is one action of a person or an admin. It is written in the transaction of the action itself and fails with it. It is
// the last thing that a transaction writes: the tenant's chain is locked from then on until the commit.
type Audit struct {
	Tenant     uuid.UUID
	By         run.Actor
	Channel    string // page or api
	RemoteAddr string
	RequestID  string
	Action     string // for example gate.approve
	ObjectType string // for example gate
	ObjectID   string
	Result     string // for example recorded
	Reason     string
	Detail     map[string]any
}

func (s *Store) audit(ctx context.Context, h sqlc.DBTX, a *Audit) error {
	if a == nil {
		return nil
	}
	detail := a.Detail
	if detail == nil {
		detail = map[string]any{}
	}
	raw, err := json.Marshal(detail)
	if err != nil {
		return fmt.Errorf("encode audit detail: %w", err)
	}
	err = s.q.InsertAudit(ctx, h, sqlc.InsertAuditParams{TenantID: a.Tenant, ActorKind: string(a.By.Kind), ActorID: a.By.ID,
		ActorName: a.By.Name, Channel: a.Channel, RemoteAddr: a.RemoteAddr, RequestID: a.RequestID, Action: a.Action,
		ObjectType: a.ObjectType, ObjectID: a.ObjectID, Result: a.Result, Reason: a.Reason, Detail: raw})
	if err != nil {
		return fmt.Errorf("write audit: %w", err)
	}
	return nil
}
