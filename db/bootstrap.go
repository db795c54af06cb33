package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/internal/fault"
	"signalbox/internal/typeid"
)

// Why somebody is an administrator whatever their groups are.
const (
	AppointedByLink          = "link"
	AppointedByConfiguration = "configuration"
)

// MakeAdminLink keeps the hash of a one-time link for ttl; whoever uses it becomes an administrator of the installation. It takes
// the place of a link that nobody used. Where there is an administrator it is fault.Conflict, unless it is forced.
func (s *Store) MakeAdminLink(ctx context.Context, secret string, ttl time.Duration, forced bool, a *Audit) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := s.q.LockAdminLinks(ctx, tx); err != nil {
			return err
		}
		has, err := s.q.HasAdministrator(ctx, tx, DefaultTenant)
		if err != nil {
			return err
		}
		if has && !forced {
			return fault.New(fault.Conflict, "No link was made: this installation has an administrator. Ask them, or, where they are gone, say --force; that stays in the audit log.").WithCode("has_administrator")
		}
		if err := s.q.DropAdminLinks(ctx, tx); err != nil {
			return err
		}
		if err := s.q.InsertAdminLink(ctx, tx, HashToken(secret), forced, ttl.Seconds()); err != nil {
			return err
		}
		return s.audit(ctx, tx, a)
	})
	return wrap("make a link for an administrator", err)
}

var errAdminLink = fault.New(fault.Gone, "Nothing was changed: this link was used before, was replaced by a newer one or is too old. Whoever runs the server makes another with signalbox admin link.").WithCode("admin_link")

// AdminLink says until when a link can be used; fault.Gone where it cannot.
func (s *Store) AdminLink(ctx context.Context, secret string) (time.Time, error) {
	l, err := s.q.GetAdminLink(ctx, s.pool, HashToken(secret))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && (!l.Live || l.UsedBy != nil) {
		return time.Time{}, errAdminLink
	}
	return l.ExpiresAt.UTC(), wrap("read the link", err)
}

// UseAdminLink makes a person an administrator of the installation by a link, once. fault.Gone where the link is worth nothing
// any more; fault.Conflict where somebody became administrator meanwhile and it was not forced. A request that is repeated by
// its key is answered as before.
func (s *Store) UseAdminLink(ctx context.Context, in Request, secret string, user uuid.UUID) error {
	_, _, err := once(ctx, s, in, "admin-link:"+user.String(), func(tx pgx.Tx) (bool, error) {
		if err := s.lockAppointment(ctx, tx, user); err != nil {
			return false, err
		}
		l, err := s.q.GetAdminLink(ctx, tx, HashToken(secret))
		if errors.Is(err, pgx.ErrNoRows) {
			return false, errAdminLink
		}
		if err != nil {
			return false, err
		}
		has, err := s.q.HasAdministrator(ctx, tx, DefaultTenant)
		if err != nil {
			return false, err
		}
		if n, err := s.q.UseAdminLink(ctx, tx, &user, HashToken(secret)); err != nil {
			return false, err
		} else if n == 0 {
			return false, errAdminLink
		}
		if has && !l.Forced {
			return false, fault.New(fault.Conflict, "Nothing was changed: somebody else became administrator meanwhile. Ask them for the role.").WithCode("has_administrator")
		}
		object(in, typeid.User, user)
		if in.Audit != nil {
			in.Audit.Tenant, in.Audit.Detail = DefaultTenant, map[string]any{"by": AppointedByLink, "forced": l.Forced}
		}
		return true, s.q.Appoint(ctx, tx, DefaultTenant, user, AppointedByLink)
	})
	return wrap("use a link for an administrator", err)
}

// DismissAdministrator takes back what a link or the configuration gave somebody; the role that their groups give comes back with
// their next sign-in. fault.Conflict where nobody else is an administrator.
func (s *Store) DismissAdministrator(ctx context.Context, in Request, user uuid.UUID) error {
	_, _, err := once(ctx, s, in, "admin-dismiss:"+user.String(), func(tx pgx.Tx) (bool, error) {
		if err := s.lockAppointment(ctx, tx, user); err != nil {
			return false, err
		}
		object(in, typeid.User, user)
		if n, err := s.q.Dismiss(ctx, tx, in.Tenant, user); err != nil || n == 0 {
			if err == nil {
				err = fault.New(fault.Conflict, "Nothing was changed: this person's role comes from no link and no configuration.").WithCode("not_appointed")
			}
			return false, err
		}
		has, err := s.q.HasAdministrator(ctx, tx, in.Tenant)
		if err == nil && !has {
			err = fault.New(fault.Conflict, "Nothing was changed: nobody else is an administrator, and the last one stays.").WithCode("last_administrator")
		}
		return true, err
	})
	return wrap("dismiss an administrator", err)
}

// lockAppointment holds off other appointments, and the person's own sign-in: it reads what they were appointed to and writes it
// again, and would bring back what was taken in between.
func (s *Store) lockAppointment(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
	if err := s.q.LockAdminLinks(ctx, tx); err != nil {
		return err
	}
	return s.q.LockPerson(ctx, tx, user)
}

// HasAdministrator reports whether anybody is an administrator of the installation.
func (s *Store) HasAdministrator(ctx context.Context) (bool, error) {
	has, err := s.q.HasAdministrator(ctx, s.reads(DefaultTenant), DefaultTenant)
	return has, wrap("look for an administrator", err)
}

// appointment is why a person is an administrator whatever their groups are, and whether that is new.
func (s *Store) appointment(ctx context.Context, tx pgx.Tx, user uuid.UUID, configured bool) (why string, fresh bool, err error) {
	before, err := s.q.Appointment(ctx, tx, DefaultTenant, user)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", false, fmt.Errorf("look whether a person was appointed: %w", err)
	}
	switch {
	case configured:
		return AppointedByConfiguration, before != AppointedByConfiguration, nil
	case before == AppointedByLink:
		return before, false, nil
	}
	return "", false, nil
}
