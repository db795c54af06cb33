package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // the tenants' days end in their own zones, also on machines that know none

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db/internal/sqlc"
	"signalbox/internal/policy"
	"signalbox/internal/run"
)

// Money is cost by where its number comes from, in millionths of the installation's currency. The three are never added
// up as one: UnknownCalls are calls of a model that nobody put a price on, whose cost is not 0 but not known.
type Money struct {
	Reported, Estimated int64
	UnknownCalls        int64
}

// Amount is one dimension of a run's cost. Maximum is 0 where the run has no limit of it.
type Amount struct {
	Actual, Estimated, Maximum int64
}

// RunCost is what a run cost and may cost, in eight dimensions and in money.
type RunCost struct {
	TokensIn, TokensOut Amount
	// ToolMs is the agent's commands, SandboxMs the time that sandboxes stood, CIMs the verifier's part of it,
	// ReviewMs the time that decisions waited for people.
	ToolMs, SandboxMs, CIMs, ReviewMs Amount
	StorageBytes                      Amount
	ProviderCalls                     Amount
	Money                             Money
	MaxMicros                         int64
	// MaxAttempt is how long one attempt may take.
	MaxAttempt time.Duration
	// ExceededAt is when the limit of cost was first seen to be reached; nil: it was not.
	ExceededAt *time.Time
}

// usedRow is the sum of one source of the query RunCost.
type usedRow struct {
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
	ToolMs        int64 `json:"tool_ms"`
	ProviderCalls int64 `json:"provider_calls"`
	CostMicros    int64 `json:"cost_micros"`
	UnknownCalls  int64 `json:"unknown_calls"` // those of which nobody said how many they were count as one a report
}

// RunCost sums up one run.
func (s *Store) RunCost(ctx context.Context, ref Ref) (RunCost, error) {
	row, err := s.q.RunCost(ctx, s.reads(ref.Tenant), ref.Tenant, ref.Run)
	if err != nil {
		return RunCost{}, translate(err, "run")
	}
	var l run.Limits
	if err := decode(row.Limits, &l, "limits"); err != nil {
		return RunCost{}, err
	}
	used := map[string]usedRow{}
	if err := decode(row.Used, &used, "used"); err != nil {
		return RunCost{}, err
	}
	// Tokens, time and calls are what was counted, whatever is known of their price.
	var all usedRow
	for _, u := range used {
		all.InputTokens += u.InputTokens
		all.OutputTokens += u.OutputTokens
		all.ToolMs += u.ToolMs
		all.ProviderCalls += u.ProviderCalls
	}
	of := func(d time.Duration, most policy.Duration) Amount {
		return Amount{Actual: d.Milliseconds(), Maximum: most.Std().Milliseconds()}
	}
	return RunCost{
		TokensIn:      Amount{Actual: all.InputTokens, Maximum: l.TokensIn},
		TokensOut:     Amount{Actual: all.OutputTokens, Maximum: l.TokensOut},
		ToolMs:        Amount{Actual: all.ToolMs, Maximum: l.ShellTime.Std().Milliseconds()},
		SandboxMs:     of(seconds(row.SandboxSeconds), l.SandboxTime),
		CIMs:          of(seconds(row.CiSeconds), l.VerifierTime),
		ReviewMs:      of(seconds(row.ReviewSeconds), l.ApprovalTimeout),
		StorageBytes:  Amount{Actual: row.StoredBytes},
		ProviderCalls: Amount{Actual: all.ProviderCalls, Maximum: l.ProviderCalls},
		Money:         Money{Reported: used[costReported].CostMicros, Estimated: used[costEstimated].CostMicros, UnknownCalls: used[costUnknown].UnknownCalls},
		MaxMicros:     l.CostCents * 10_000,
		MaxAttempt:    l.AttemptTimeout.Std(),
		ExceededAt:    row.CostExceededAt,
	}, nil
}

// TenantCost sums up a tenant's work between two instants.
func (s *Store) TenantCost(ctx context.Context, tenant uuid.UUID, since, until time.Time) (Money, error) {
	row, err := s.q.TenantCost(ctx, s.reads(tenant), tenant, since, until)
	if err != nil {
		return Money{}, fmt.Errorf("sum up the tenant's cost: %w", err)
	}
	return Money{row.Reported, row.Estimated, row.UnknownCalls}, nil
}

// DayCost is a day with what it cost.
type DayCost struct {
	Day string // 2006-01-02
	Money
	TokensIn, TokensOut, ToolMs, ProviderCalls int64
}

// TenantDays is what a tenant's work cost by day, and what a day may cost.
type TenantDays struct {
	Zone        string
	DailyMicros int64     // 0: no bound
	Ends        time.Time // of today
	Days        []DayCost // only those on which something was used
}

// TenantDays sums up the last days of the tenant, today among them, in the time zone of its policy.
func (s *Store) TenantDays(ctx context.Context, tenant uuid.UUID, days int) (TenantDays, error) {
	rules, err := s.Rules(ctx, tenant)
	if err != nil {
		return TenantDays{}, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return TenantDays{}, fmt.Errorf("look at the clock: %w", err)
	}
	zone, _ := zoneOf(rules.Budget.TimeZone)
	begins, ends := dayOf(now, zone)
	list, err := s.DayCosts(ctx, tenant, zone.String(), begins.AddDate(0, 0, 1-days), ends)
	return TenantDays{Zone: zone.String(), DailyMicros: rules.Budget.DailyCents * 10_000, Ends: ends, Days: list}, err
}

// DayCosts sums up each day of the zone between two instants.
func (s *Store) DayCosts(ctx context.Context, tenant uuid.UUID, zone string, since, until time.Time) ([]DayCost, error) {
	in, _ := zoneOf(zone)
	rows, err := s.q.DayCosts(ctx, s.reads(tenant), in.String(), tenant, since, until)
	if err != nil {
		return nil, fmt.Errorf("sum up the days: %w", err)
	}
	out := make([]DayCost, 0, len(rows))
	for _, r := range rows {
		out = append(out, DayCost{r.Day, Money{r.Reported, r.Estimated, r.UnknownCalls}, r.InputTokens, r.OutputTokens, r.ToolMs, r.ProviderCalls})
	}
	return out, nil
}

// zoneOf is the zone of the name, and whether there is one. A name that nobody knows is UTC: policies that were stored
// before names were checked are still read, and work must not stop over it.
func zoneOf(name string) (zone *time.Location, known bool) {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC, false
	}
	return zone, true
}

// zoneKnown reports whether there is a time zone of the name. The machine's own is no zone that everybody has.
func zoneKnown(name string) bool {
	_, known := zoneOf(name)
	return known && name != "Local"
}

// dayOf is the day in which the instant lies.
func dayOf(at time.Time, zone *time.Location) (begins, ends time.Time) {
	y, m, d := at.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
}

// bounded reports whether policy bounds a count, so that one admission of the tenant must decide at a time.
func bounded(r policy.Rules) bool {
	return r.Admission.Quota != (policy.QuotaRules{}) || r.Admission.Reviewers != (policy.ReviewerRules{}) || r.Admission.Rates.RepositoryPulls > 0
}

// ask is what an admission's grounds are read about. The zero scope and key find no answer.
func (s *Store) ask(tenant, repository, requester uuid.UUID) sqlc.AdmissionGroundsParams {
	return sqlc.AdmissionGroundsParams{TenantID: tenant, RepositoryID: repository, Requester: requester, Most: 1, TtlSeconds: s.timing.LeaseTTL.Seconds()}
}

// grounds are what a submission and an admission stand on, as one statement saw it.
type grounds struct {
	sqlc.AdmissionGroundsRow
	stored *sqlc.IdempotencyKey // nil: the key is new
	repo   *sqlc.Repository     // nil: there is none
	pauses map[string]float64   // seconds by provider
}

func (s *Store) grounds(ctx context.Context, h sqlc.DBTX, ask sqlc.AdmissionGroundsParams) (grounds, error) {
	row, err := s.q.AdmissionGrounds(ctx, h, ask)
	if err != nil {
		return grounds{}, fmt.Errorf("load what the admission stands on: %w", err)
	}
	g := grounds{AdmissionGroundsRow: row}
	return g, errors.Join(decode(row.Stored, &g.stored, "stored"), decode(row.Repository, &g.repo, "repository"), decode(row.Pauses, &g.pauses, "pauses"))
}

// heldGrounds are the grounds with counts that a decision may stand on: where policy bounds one, one admission of the
// tenant decides at a time, so that the bound is exact.
func (s *Store) heldGrounds(ctx context.Context, tx pgx.Tx, rules policy.Rules, ask sqlc.AdmissionGroundsParams) (grounds, error) {
	if bounded(rules) {
		if err := s.q.HoldOffAdmissions(ctx, tx, ask.TenantID.String()); err != nil {
			return grounds{}, fmt.Errorf("hold off other admissions: %w", err)
		}
	}
	q := rules.Admission.Quota
	ask.Most = int32(max(q.MaxQueued, q.MaxActive, 1))
	return s.grounds(ctx, tx, ask)
}

// admissionFacts fills in what puts work off.
func (s *Store) admissionFacts(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, g grounds, rules policy.Rules, f *policy.Facts) error {
	f.Queued, f.Active = int(g.Queued), int(g.Queued+g.Leased+g.Gates)
	f.OpenGates, f.OwnGates, f.OpenPulls, f.OwnPulls = int(g.Gates), int(g.OwnGates), int(g.Pulls), int(g.OwnPulls)
	f.ProviderOff, f.NoLiveWorker = policy.Duration(max(seconds(g.pauses[rules.Routing.Route(*f).Provider]), 0)), g.NoWorker
	if rules.Admission.Rates.Any() {
		if err := s.rateFacts(ctx, h, tenant, rules, f); err != nil {
			return err
		}
	}
	if rules.Budget.DailyCents > 0 {
		zone, known := zoneOf(rules.Budget.TimeZone)
		begins, ends := dayOf(g.Now, zone)
		cost, err := s.q.TenantCost(ctx, h, tenant, begins, ends)
		if err != nil {
			return fmt.Errorf("sum up what was spent today: %w", err)
		}
		f.SpentToday, f.Currency, f.DayLeft, f.NoSuchZone = cost.Reported+cost.Estimated, s.money, policy.Duration(ends.Sub(g.Now)), !known
	}
	return nil
}

// rateFacts measures what the tenant's work used of what it shares with others.
func (s *Store) rateFacts(ctx context.Context, h sqlc.DBTX, tenant uuid.UUID, rules policy.Rules, f *policy.Facts) error {
	x, err := s.q.AdmissionRates(ctx, h, tenant, rules.Routing.Route(*f).Provider, f.Repository)
	if err != nil {
		return fmt.Errorf("measure what was used: %w", err)
	}
	f.ProviderTokens, f.ForgePulls, f.RepositoryPulls, f.ArtifactBytes = x.ProviderTokens, int(x.ForgePulls), int(x.RepositoryPulls), x.ArtifactBytes
	f.WritesWaiting = s.commits.writes.Waiting()
	return nil
}

// admitted keeps with the decision what it stands on, so that anybody can make it again.
func (w *write) admitted(d policy.AdmissionDecision, f policy.Facts) error {
	if len(w.policyDecisions) == 0 {
		return nil // put off for too long: the clock's decision and not policy's
	}
	p := &w.policyDecisions[len(w.policyDecisions)-1]
	var err error
	if p.Decision, err = json.Marshal(d); err != nil {
		return fmt.Errorf("encode the decision: %w", err)
	}
	if p.Inputs, err = json.Marshal(f); err != nil {
		return fmt.Errorf("encode the facts: %w", err)
	}
	p.Code = d.Code
	return nil
}
