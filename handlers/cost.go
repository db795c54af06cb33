package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"signalbox/db"
	"signalbox/internal/money"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
	"signalbox/web"
	"signalbox/web/ui"
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
		Currency: string(s.currency),
		TokensIn: amount(c.TokensIn), TokensOut: amount(c.TokensOut), ToolMs: amount(c.ToolMs), SandboxMs: amount(c.SandboxMs), CiMs: amount(c.CIMs),
		ReviewMs: amount(c.ReviewMs), StorageBytes: amount(c.StorageBytes), ProviderCalls: amount(c.ProviderCalls),
		ReportedMicros: c.Money.Reported, EstimatedMicros: c.Money.Estimated, UnpricedCalls: c.Money.UnknownCalls, MaxMicros: c.MaxMicros,
	}
	if c.ExceededAt != nil {
		answer.ExceededAt = c.ExceededAt.UTC()
	}
	return s.answer(w, r, http.StatusOK, answer)
}

// uses says what a run used up, in the order of its work; what it used none of is left out.
func uses(c db.RunCost) []web.Use {
	count := func(n int64) string { return fmt.Sprint(n) }
	span := func(ms int64) string { return ui.Dur(time.Duration(ms) * time.Millisecond) }
	var out []web.Use
	for _, d := range []struct {
		name string
		of   db.Amount
		as   func(int64) string
	}{
		{"Tokens in", c.TokensIn, count}, {"Tokens out", c.TokensOut, count}, {"Model calls", c.ProviderCalls, count}, {"Agent's tools", c.ToolMs, span},
		{"Sandboxes", c.SandboxMs, span}, {"Checks", c.CIMs, span}, {"People's review", c.ReviewMs, span}, {"Stored", c.StorageBytes, ui.Bytes},
	} {
		switch {
		case d.of.Actual == 0:
		case d.of.Maximum > 0:
			out = append(out, web.Use{Name: d.name, Amount: d.as(d.of.Actual) + ", at most " + d.as(d.of.Maximum)})
		default:
			out = append(out, web.Use{Name: d.name, Amount: d.as(d.of.Actual)})
		}
	}
	return out
}

// costDays is over how many days the tenant's cost is told, today among them.
const costDays = 31

// apiTenantCost sums up what the tenant's work cost, day by day.
func (s *server) apiTenantCost(w http.ResponseWriter, r *http.Request) error {
	c, err := s.store.TenantDays(r.Context(), who(r).tenant, costDays)
	if err != nil {
		return err
	}
	answer := wire.TenantCost{Currency: string(s.currency), TimeZone: c.Zone, DailyMicros: c.DailyMicros, DayEndsAt: c.Ends.UTC(), Days: []wire.DayCost{}}
	for _, d := range c.Days {
		answer.Days = append(answer.Days, wire.DayCost{Day: d.Day, TokensIn: d.TokensIn, TokensOut: d.TokensOut, ToolMs: d.ToolMs, ProviderCalls: d.ProviderCalls,
			ReportedMicros: d.Reported, EstimatedMicros: d.Estimated, UnpricedCalls: d.UnknownCalls})
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
func costWords(c db.RunCost, in money.Currency) string {
	var parts []string
	if c.Money.Reported > 0 {
		parts = append(parts, in.Of(c.Money.Reported).String()+" reported")
	}
	if c.Money.Estimated > 0 {
		parts = append(parts, in.Of(c.Money.Estimated).String()+" estimated")
	}
	if c.Money.UnknownCalls > 0 {
		parts = append(parts, unknownCost(c.Money.UnknownCalls))
	}
	if len(parts) > 0 && c.MaxMicros > 0 {
		parts = append(parts, "limit "+in.Of(c.MaxMicros).String())
	}
	if c.ExceededAt != nil {
		parts = append(parts, "reached at "+c.ExceededAt.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	return strings.Join(parts, ", ")
}
