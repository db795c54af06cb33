package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/e2e/rig"
	"signalbox/internal/run"
	"signalbox/internal/typeid"
	"signalbox/internal/wire"
)

// tenantless starts the real worker with a credential that serves every tenant.
func tenantless(r *rig.Rig) {
	r.T.Helper()
	secret := db.Mint(db.PrefixWorker)
	if _, err := r.Store.CreateWorkerCredential(r.T.Context(), db.WorkerCredential{Name: "everywhere", Phases: run.Phases()}, secret); err != nil {
		r.T.Fatal(err)
	}
	r.StartWorker(rig.WorkerOptions{Name: "everywhere", Credential: secret})
}

// tenant makes another tenant in which one person asks and another approves, with one repository on the same forge, and
// returns the two and the repository's id.
func tenant(r *rig.Rig, name, clone string) (asks, decides *wire.ClientWithResponses, repo string) {
	t := r.T
	t.Helper()
	id, forge := typeid.New(), typeid.New()
	exec := func(query string, args ...any) {
		if _, err := r.Owner.Exec(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, id, name)
	exec(`INSERT INTO forges (id, tenant_id, name, kind) VALUES ($1, $2, 'local', 'local')`, forge, id)
	info, err := r.Store.CreateRepository(t.Context(), id, uuid.Nil, db.RepositoryInfo{
		Name: name + "/shop", Forge: forge, CloneURL: clone, DefaultBranch: "main", Verification: []run.Check{{Name: "check", Kind: "test", Argv: []string{"sh", "./check.sh"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	member := func(role string) *wire.ClientWithResponses {
		person, secret := typeid.New(), db.Mint(db.PrefixLogin)
		exec(`INSERT INTO users (id, name, email) VALUES ($1, $2, '')`, person, name+"'s "+role)
		exec(`INSERT INTO memberships (tenant_id, user_id, roles) VALUES ($1, $2, ARRAY['viewer', $3])`, id, person, role)
		now := time.Now()
		if _, err := r.Store.CreateToken(t.Context(), db.Token{Tenant: id, User: person, Login: true, Name: "test", AuthTime: now, ExpiresAt: now.Add(time.Hour)}, secret); err != nil {
			t.Fatal(err)
		}
		return as(r, secret)
	}
	return member("requester"), member("approver"), typeid.Format(typeid.Repo, info.ID)
}

// R-TEN-1, R-WRK-1: one worker of the installation serves two tenants through the whole of a run each, and each finds its own
// pull request.
func TestOneWorkerServesTwoTenants(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Options{Timing: steady(), Workers: -1})
	tenantless(r)
	goal := rig.Recipe("Tax is 20 per cent now.", good())
	for _, name := range []string{"north", "south"} {
		planted := r.Repository(name+"/planted", rig.Shop())
		asks, decides, repo := tenant(r, name, name+"/planted.git")
		made, err := asks.CreateTaskWithResponse(t.Context(), &wire.CreateTaskParams{IdempotencyKey: rand.Text()}, wire.TaskCreate{RepositoryId: repo, Title: "Raise the tax", Goal: goal})
		if err != nil || made.JSON201 == nil {
			t.Fatalf("submit: %v %s", err, made.Body)
		}
		look := func(until func(*wire.Run) bool) (got *wire.Run) {
			r.Eventually("the run of "+name+" goes on", rig.Patience, func() (bool, string) {
				all, err := asks.ListRunsWithResponse(t.Context(), nil)
				if err != nil || all.JSON200 == nil || len(all.JSON200.Items) != 1 {
					return false, fmt.Sprintf("%v %s", err, all.Body)
				}
				got = &all.JSON200.Items[0]
				return until(got), string(got.State)
			})
			return got
		}
		approve(t.Context(), t, decides, look(func(r *wire.Run) bool { return r.State == wire.RunStateWAITINGFORAPPROVAL && r.GateId != "" }).GateId)
		done := look(func(r *wire.Run) bool { return r.Terminal })
		if done.State != wire.RunStateSUCCEEDED || done.PullRequest == nil {
			t.Fatalf("%s: the run ended as %s\n", name, done.State)
		}
		if branches := planted.Branches(); len(branches) != 1 {
			t.Errorf("%s: branches %q", name, branches)
		}
	}
}

func approve(ctx context.Context, t *testing.T, c *wire.ClientWithResponses, gate string) {
	t.Helper()
	g, err := c.GetGateWithResponse(ctx, gate)
	if err != nil || g.JSON200 == nil {
		t.Fatalf("read the gate: %v %s", err, g.Body)
	}
	done, err := c.DecideGateWithResponse(ctx, gate, &wire.DecideGateParams{IdempotencyKey: rand.Text()},
		wire.DecisionCreate{Verdict: wire.DecideApprove, Revision: g.JSON200.Revision, Digest: g.JSON200.Digest})
	if err != nil || done.JSON200 == nil {
		t.Fatalf("approve: %v %s", err, done.Body)
	}
}
