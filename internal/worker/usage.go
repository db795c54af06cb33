package worker

import "signalbox/internal/wire"

// usages are reports that wait to be sent: one for each model whose calls have a cost, one for each whose calls have none, so
// that no sum mixes what is known with what is not.
type usages []wire.UsageReport

const (
	// maxUsages is how many reports wait at most.
	maxUsages = 16
	// maxAmount is the greatest amount that the server stores; one that is greater counts as this much.
	maxAmount = 1_000_000_000_000
)

// add counts what was used with what is like it, and reports whether there was room. What no model was called for goes
// with whatever waits.
func (s *usages) add(u wire.UsageReport) bool {
	free := u.ProviderCalls == 0 && u.InputTokens == 0 && u.OutputTokens == 0 && u.CostMicros == nil
	for i := range *s {
		at := &(*s)[i]
		if free || at.Provider == u.Provider && at.Model == u.Model && (at.CostMicros == nil) == (u.CostMicros == nil) {
			sumUp(at, u)
			return true
		}
	}
	if len(*s) >= maxUsages {
		return false
	}
	first := wire.UsageReport{Provider: u.Provider, Model: u.Model}
	if u.CostMicros != nil {
		first.CostMicros = new(int64) // the caller's stays as it is
	}
	sumUp(&first, u)
	*s = append(*s, first)
	return true
}

func sumUp(at *wire.UsageReport, u wire.UsageReport) {
	for _, n := range []struct {
		at *int64
		by int64
	}{
		{&at.InputTokens, u.InputTokens}, {&at.OutputTokens, u.OutputTokens}, {&at.ToolCalls, u.ToolCalls}, {&at.AgentIterations, u.AgentIterations},
		{&at.ToolMs, u.ToolMs}, {&at.SandboxMs, u.SandboxMs}, {&at.ProviderCalls, u.ProviderCalls},
	} {
		*n.at = min(*n.at+n.by, maxAmount)
	}
	if at.CostMicros != nil && u.CostMicros != nil {
		*at.CostMicros = min(*at.CostMicros+*u.CostMicros, maxAmount)
	}
}
