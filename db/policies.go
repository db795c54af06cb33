package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"signalbox/internal/policy"
	"signalbox/internal/typeid"
)

// SavePolicy puts a policy document in force for a tenant from now on; runs keep the limits they were admitted with. A
// document that does not hold is refused with its own error, and a version that is there already is a conflict.
func (s *Store) SavePolicy(ctx context.Context, tenant uuid.UUID, document string) (policy.Rules, error) {
	rules, err := policy.Accept([]byte(document), zoneKnown)
	if err != nil {
		return policy.Rules{}, err
	}
	if err := s.q.InsertPolicy(ctx, s.pool, typeid.New(), tenant, rules.Version, document); err != nil {
		return policy.Rules{}, fmt.Errorf("save policy %s: %w", rules.Version, err)
	}
	// What an older policy held back may be given out now; whoever waits for it looks.
	s.wakeAll()
	return rules, nil
}
