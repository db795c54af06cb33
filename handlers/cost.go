package handlers

import (
	"fmt"
	"net/http"
	"strings"

	"signalbox/db"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// apiRunCost sums up what a run cost so far.
func (s *server) apiRunCost(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "run_id", typeid.Run)
	if err != nil {
		return err
	}
	c, err := s.store.RunCost(r.Context(), db.Ref{Tenant: who(r).tenant, Run: id})
	if err != nil {
		return err
	}
	amount := func(a db.Amount) wire.CostAmount {
		return wire.CostAmount{Actual: a.Actual, Estimated: a.Estimated, Maximum: a.Maximum}
	}
	answer := wire.RunCost{
		TokensIn: amount(c.TokensIn), TokensOut: amount(c.TokensOut), ToolMs: amount(c.ToolMs), SandboxMs: amount(c.SandboxMs), CiMs: amount(c.CIMs),
		ReviewMs: amount(c.ReviewMs), StorageBytes: amount(c.StorageBytes), ProviderCalls: amount(c.ProviderCalls),
		ReportedMicros: c.Money.Reported, EstimatedMicros: c.Money.Estimated, UnpricedCalls: c.Money.UnknownCalls, MaxMicros: c.MaxMicros,
	}
	if c.ExceededAt != nil {
		answer.ExceededAt = c.ExceededAt.UTC()
	}
	return s.answer(w, r, http.StatusOK, answer)
}

// unknownCost says of how many calls nobody knows the cost: it is not 0.
func unknownCost(calls int64) string {
	if calls == 1 {
		return "cost unknown for 1 call"
	}
	return fmt.Sprintf("cost unknown for %d calls", calls)
}

// costWords says what a run cost in money, each kind of number for itself; empty where there is nothing to say.
func costWords(c db.RunCost) string {
	money := func(micros int64) string { return fmt.Sprintf("%.4f", float64(micros)/1e6) }
	var parts []string
	if c.Money.Reported > 0 {
		parts = append(parts, money(c.Money.Reported)+" reported")
	}
	if c.Money.Estimated > 0 {
		parts = append(parts, money(c.Money.Estimated)+" estimated")
	}
	if c.Money.UnknownCalls > 0 {
		parts = append(parts, unknownCost(c.Money.UnknownCalls))
	}
	if len(parts) > 0 && c.MaxMicros > 0 {
		parts = append(parts, "limit "+money(c.MaxMicros))
	}
	if c.ExceededAt != nil {
		parts = append(parts, "reached at "+c.ExceededAt.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	return strings.Join(parts, ", ")
}
