package db

import (
	"context"
	"fmt"
)

// Where the number of a report's cost comes from. A sum never mixes them.
const (
	costReported  = "reported"  // the agent named it, or there was nothing to pay for
	costEstimated = "estimated" // by the policy's prices
	costUnknown   = "unknown"   // nobody put a price on it
)

// bill is what a report of usage costs.
type bill struct {
	provider, source string
	micros           int64
}

// bill finds out what a report costs: what the agent says, else what the price list in force says, else nobody knows.
func (s *Store) bill(ctx context.Context, ref Ref, u Used) (bill, error) {
	b := bill{provider: u.Provider, source: costReported}
	if u.CostMicros != nil {
		b.micros = *u.CostMicros
	}
	if u.ProviderCalls == 0 && u.InputTokens == 0 && u.OutputTokens == 0 {
		return b, nil
	}
	if b.provider == "" {
		route, err := s.q.ProviderOfRun(ctx, s.pool, ref.Tenant, ref.Run)
		if err != nil {
			return b, translate(err, "run")
		}
		b.provider = route
	}
	if u.CostMicros != nil {
		return b, nil
	}
	rules, err := s.Rules(ctx, ref.Tenant)
	if err != nil {
		return b, fmt.Errorf("read the prices: %w", err)
	}
	b.source = costUnknown
	if u.InputTokens+u.OutputTokens == 0 {
		return b, nil // a call of which nobody knows the tokens
	}
	if micros, known := rules.Prices.Cost(b.provider, u.Model, u.InputTokens, u.OutputTokens); known {
		b.source, b.micros = costEstimated, micros
	}
	return b, nil
}
