package bench_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"signalbox/db"
	"signalbox/internal/dbtest/drive"
)

// Sizes of audited actions.
const (
	auditMost    = 8
	auditRounds  = 5 // with and without in turn, so that both meet the same machine
	auditActions = 60
)

// BenchmarkAudit prints what chaining the audit log costs the actions of people; b.N means nothing to it.
func BenchmarkAudit(b *testing.B) {
	p := start(b)
	f := p.figure()
	defer f.print()
	p.auditedActions(f.line)
}

// auditedActions is clients of one tenant that do the smallest audited action there is, with the chain and without it.
func (p *product) auditedActions(line func(string, ...any)) {
	ctx := p.b.Context()
	// Only for this: rows without the trigger have neither number nor hash.
	p.exec(`ALTER TABLE audit_log ALTER COLUMN seq DROP NOT NULL, ALTER COLUMN hash DROP NOT NULL`)
	round := func(clients int, name string) float64 {
		var wg sync.WaitGroup
		began := time.Now()
		for n := range clients {
			wg.Go(func() {
				for i := range auditActions {
					key := fmt.Sprint(name, n, "-", i)
					by := p.world.Requester
					in := db.Request{Tenant: p.world.Tenant, By: by.Actor(), Key: key, Hash: drive.Hash(key),
						Audit: &db.Audit{Tenant: p.world.Tenant, By: by.Actor(), Action: "token.create", ObjectType: "token", Result: "recorded"}}
					if _, _, err := p.world.Store.IssueToken(ctx, in, db.Token{Tenant: p.world.Tenant, User: by.ID, Name: key, ExpiresAt: time.Now().Add(time.Hour)}, uuid.NewString()); err != nil {
						p.b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return float64(clients*auditActions) / time.Since(began).Seconds()
	}
	for _, clients := range []int{1, auditMost} {
		var with, without, ratios []float64
		for n := range auditRounds {
			w := round(clients, fmt.Sprint(clients, "with", n))
			p.exec(`ALTER TABLE audit_log DISABLE TRIGGER audit_log_chain`)
			o := round(clients, fmt.Sprint(clients, "without", n))
			p.exec(`ALTER TABLE audit_log ENABLE TRIGGER audit_log_chain`)
			with, without, ratios = append(with, w), append(without, o), append(ratios, w/o)
		}
		for _, list := range [][]float64{with, without, ratios} {
			slices.Sort(list)
		}
		line("%d clients of one tenant: %.0f audited actions/s with the chain, %.0f without it; ratio %.2f (median of %d rounds, %.2f to %.2f).",
			clients, with[auditRounds/2], without[auditRounds/2], ratios[auditRounds/2], auditRounds, ratios[0], ratios[auditRounds-1])
	}
}
