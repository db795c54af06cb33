package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
)

// ProviderPause is a model provider that is left alone by everybody, as one tenant may see it.
type ProviderPause struct {
	Provider string
	// Since is when the first in a row was turned away, Until when one run tries, Failures how many in a row were.
	Since, Until time.Time
	Failures     int
	// Due says that the time is over, Probing that a run tries it now.
	Due, Probing bool
	// Run is the one that was turned away last, with its task and who asked for it, and Reason what its worker said. They
	// are empty where the run is another tenant's.
	Run               uuid.UUID
	Title, By, Reason string
}

// ProviderPauses lists the pauses by name that the tenant's work waits for, all of them to the installation. They hold for
// all tenants; whose run it was is told in its own tenant only.
func (s *Store) ProviderPauses(ctx context.Context, tenant uuid.UUID) ([]ProviderPause, error) {
	rows, err := s.q.ProviderPauses(ctx, s.pool, tenant, DefaultTenant)
	if err != nil {
		return nil, fmt.Errorf("list paused providers: %w", err)
	}
	out := make([]ProviderPause, 0, len(rows))
	for _, r := range rows {
		out = append(out, ProviderPause{Provider: r.Provider, Since: r.Since.UTC(), Until: r.Until.UTC(), Failures: int(r.Failures), Due: r.Due, Probing: r.Probing,
			Run: r.RunID, Title: r.Title, By: r.By, Reason: r.Reason})
	}
	return out, nil
}

// ResumeProvider ends the pause of a provider for everybody, so that its work is given out at once. Who is turned away after
// that pauses it again, as if for the first time. Pauses hold for all tenants, so only the installation's administrators may.
func (s *Store) ResumeProvider(ctx context.Context, in Request, provider string) error {
	if in.Tenant != DefaultTenant {
		return fault.New(fault.Forbidden, "Nothing was changed: the pause of a provider holds for all tenants. An administrator of the installation ends it.")
	}
	_, _, err := once(ctx, s, in, "provider-resume:"+provider, func(tx pgx.Tx) (bool, error) {
		n, err := s.q.ResumeProvider(ctx, tx, provider)
		if err != nil {
			return false, fmt.Errorf("resume provider: %w", err)
		}
		if n == 0 {
			return false, fault.Newf(fault.Conflict, "Nothing was changed: provider %s is not paused.", provider).WithCode("not_paused")
		}
		return true, nil
	})
	if err == nil {
		s.wakeAll()
	}
	return err
}
