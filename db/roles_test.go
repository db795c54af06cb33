package db_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/policy"
	"signalbox/internal/run"
	"signalbox/internal/secret"
)

// O18: what is taken from an administrator while they sign in stays taken: the sign-in does not bring back what it read before.
func TestADismissalOutlivesASignIn(t *testing.T) {
	t.Parallel()
	v, ctx := newVault(t), t.Context()
	super := got(pgx.Connect(ctx, v.d.SuperuserURL(t)))(t)
	t.Cleanup(func() { must(t, super.Close(context.WithoutCancel(ctx))) })
	s := v.store(secret.NewKey("one"))
	id := got(s.SaveProvider(ctx, provider("people")))(t)
	in := db.SignIn{Provider: id, Subject: "x", Name: "X", AuthTime: time.Now()}
	user := got(s.SignIn(ctx, in))(t).User
	got(s.SignIn(ctx, db.SignIn{Provider: id, Subject: "root", Name: "Root", AuthTime: time.Now(), Appointed: true}))(t)
	request := func(key string) db.Request {
		return db.Request{Tenant: db.DefaultTenant, Key: key, Hash: []byte(key), Audit: &db.Audit{Tenant: db.DefaultTenant, By: run.Actor{Kind: run.Human}, Action: "admin." + key, ObjectType: "user", Result: "recorded"}}
	}
	link := db.Mint(db.PrefixAdminLink)
	must(t, s.MakeAdminLink(ctx, link, time.Minute, true, nil))
	must(t, s.UseAdminLink(ctx, request("appoint"), link, user))
	if roles := got(s.SignIn(ctx, in))(t).Roles; !slices.Contains(roles, policy.RoleAdmin) {
		t.Fatalf("the link gave %v", roles)
	}

	// The dismissal is done and waits for its line in the audit; then the person signs in.
	other := got(v.owner.Begin(ctx))(t)
	t.Cleanup(func() { _ = other.Rollback(context.WithoutCancel(ctx)) }) // where the test ends before
	got(other.Exec(ctx, `SELECT FROM audit_heads WHERE tenant_id = $1 FOR UPDATE`, db.DefaultTenant))(t)
	dismissed, signedIn := make(chan error, 1), make(chan db.Session, 1)
	go func() { dismissed <- s.DismissAdministrator(ctx, request("dismiss"), user) }()
	waitFor(t, super, `SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%InsertAudit%'`)
	go func() {
		session, err := s.SignIn(ctx, in)
		if err != nil {
			t.Error(err)
		}
		signedIn <- session
	}()
	waitFor(t, super, `SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	must(t, other.Rollback(ctx))
	must(t, <-dismissed)
	if roles := (<-signedIn).Roles; len(roles) != 0 {
		t.Errorf("signed in with %v after the dismissal", roles)
	}
	if roles := got(s.SignIn(ctx, in))(t).Roles; len(roles) != 0 {
		t.Errorf("the next sign-in gives %v", roles)
	}
}

// O10: a group whose role the configuration no longer names gives it to nobody who signs in from then on; what another tenant gives stays.
func TestRolesThatAreNoLongerConfigured(t *testing.T) {
	t.Parallel()
	v, ctx := newVault(t), t.Context()
	s, p := v.store(secret.NewKey("one")), provider("people")
	save := func(groups map[string][]policy.Role) db.SignIn {
		p.Groups = groups
		return db.SignIn{Provider: got(s.SaveProvider(ctx, p))(t), Subject: "x", Name: "X", Groups: []string{"all", "few"}, AuthTime: time.Now()}
	}
	in := save(map[string][]policy.Role{"all": {policy.RoleViewer, policy.RoleBreakglass}, "few": {policy.RoleAdmin}})
	if roles := got(s.SignIn(ctx, in))(t).Roles; len(roles) != 3 {
		t.Fatalf("at first %v", roles)
	}
	v.exec(`INSERT INTO tenants (id, name) VALUES ($1, 'next door')`, tenant(1))
	v.exec(`INSERT INTO group_roles (tenant_id, provider_id, group_name, role) VALUES ($1, $2, 'few', 'approver')`, tenant(1), in.Provider)
	for _, x := range []struct {
		groups map[string][]policy.Role
		want   []policy.Role
	}{{map[string][]policy.Role{"all": {policy.RoleViewer}}, []policy.Role{policy.RoleViewer}}, {map[string][]policy.Role{"few": {policy.RoleViewer}}, []policy.Role{policy.RoleViewer}}, {nil, nil}} {
		session := got(s.SignIn(ctx, save(x.groups)))(t)
		var here []string
		must(t, v.owner.QueryRow(ctx, `SELECT coalesce(max(roles), '{}') FROM memberships WHERE tenant_id = $1 AND user_id = $2`, db.DefaultTenant, session.User).Scan(&here))
		if len(here) != len(x.want) || len(here) > 0 && here[0] != string(x.want[0]) {
			t.Errorf("with %v the roles are %v", x.groups, here)
		}
		must(t, v.owner.QueryRow(ctx, `SELECT roles FROM memberships WHERE tenant_id = $1 AND user_id = $2`, tenant(1), session.User).Scan(&here))
		if len(here) != 1 {
			t.Errorf("next door %v", here)
		}
	}
}
