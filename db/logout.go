package db

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
)

// ProviderLogout is what a provider's logout token said, after it was checked.
type ProviderLogout struct {
	Provider uuid.UUID
	// Subject or SID is set, or both: the person, and the provider's session.
	Subject, SID string
	// TokenID names the token; ExpiresAt is until when it would be believed again.
	TokenID   string
	ExpiresAt time.Time
	// Audit is completed with tenant and person, and written once for each person and tenant; nil writes none.
	Audit *Audit
}

// EndByProvider ends the logins that a provider's logout token names and returns how many. A token that was used before is
// fault.Malformed and ends nothing; one that names what is not known ends nothing and is no error (O14).
func (s *Store) EndByProvider(ctx context.Context, in ProviderLogout) (int, error) {
	type of struct{ user, tenant uuid.UUID }
	ended := map[of]int{}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		clear(ended)
		if err := s.q.DeleteOldLogoutTokens(ctx, tx); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(in.TokenID))
		n, err := s.q.UseLogoutToken(ctx, tx, in.Provider, sum[:], in.ExpiresAt)
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Malformed, "Nobody was signed out: this logout token was used before.").WithCode("logout_token")
		}
		sessions, err := s.q.EndProviderSessions(ctx, tx, &in.Provider, in.Subject, in.SID)
		if err != nil {
			return err
		}
		for _, r := range sessions {
			ended[of{r.UserID, r.TenantID}]++
		}
		// A session of the provider's says nothing about the command line; the person does.
		if in.SID == "" {
			logins, err := s.q.EndSubjectLogins(ctx, tx, in.Provider, in.Subject)
			if err != nil {
				return err
			}
			for _, r := range logins {
				ended[of{r.UserID, value(r.TenantID)}]++
			}
		}
		// Each audit line locks its tenant's chain until the commit: two logouts lock them in one order, so that none waits
		// for the other in a circle.
		order := slices.SortedFunc(maps.Keys(ended), func(a, b of) int {
			return cmp.Or(bytes.Compare(a.tenant[:], b.tenant[:]), bytes.Compare(a.user[:], b.user[:]))
		})
		users := make([]uuid.UUID, 0, len(ended))
		for _, x := range order {
			users = append(users, x.user)
		}
		if err := s.q.DropLoginCodes(ctx, tx, users, nil); err != nil {
			return err
		}
		for _, x := range order {
			if in.Audit == nil {
				break
			}
			a, n := *in.Audit, ended[x]
			a.Tenant, a.By, a.ObjectID = x.tenant, run.Actor{Kind: run.ControlPlane, Name: "the login provider"}, typeid.Format(typeid.User, x.user)
			a.Detail = map[string]any{"ended": n}
			if err := s.audit(ctx, tx, &a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("end by provider: %w", err)
	}
	total := 0
	for x, n := range ended {
		total += n
		s.ring(Change{Person: x.user})
	}
	return total, nil
}
