package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/db"
	"signalbox/internal/schedule"
)

const (
	// fresh is how long one measurement answers scrapes, so that many scrapers cost no more than one.
	fresh = time.Second
	// patience is how long a scrape waits for the database; the other metrics are answered without it.
	patience = 3 * time.Second
)

// present measures what is, at most once a second.
type present struct {
	log *slog.Logger

	mu     sync.Mutex
	source asker
	at     time.Time
	gauges []db.Gauge
	err    error
}

func (p *present) set(a asker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source = a
}

// descriptions of the gauges.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

type shapes struct {
	depth, oldest, delayed, admission, paused  *prometheus.Desc
	active, lag, workers, live, overdue, slots *prometheus.Desc
	outbox, outboxAge, measured                *prometheus.Desc
}

func newShapes() shapes {
	return shapes{
		depth:     describe("scheduler_queue_depth", "READY items by queue.", "queue"),
		oldest:    describe("scheduler_queue_oldest_ready_age_seconds", "How long the READY item that waits longest has waited, by queue; 0 where none waits.", "queue"),
		delayed:   describe("scheduler_queue_delayed", "Items that a pause after a failure holds, by queue.", "queue"),
		admission: describe("scheduler_admission_waiting", "Runs that admission looks at again later."),
		paused:    describe("scheduler_queue_paused", "1 for a queue that somebody paused for at least one tenant.", "queue"),
		active:    describe("scheduler_lease_active", "Leases that have not run out, by phase.", "phase"),
		overdue:   describe("scheduler_lease_overdue", "Leases that have run out and were not taken back yet."),
		workers:   describe("scheduler_workers", "Workers that are up, by state; STALE has no heartbeat for longer than the lease time.", "state"),
		live:      describe("scheduler_worker_active", "Workers that are ready or draining and were heard of within the lease time."),
		lag:       describe("scheduler_worker_heartbeat_lag_seconds", "The longest time since the last heartbeat over all workers that are up."),
		slots:     describe("scheduler_worker_slots", "Leases that ready workers may hold together."),
		outbox:    describe("signalbox_outbox_waiting", "Messages to the world that were not delivered, by state; dead ones were given up.", "state"),
		outboxAge: describe("signalbox_outbox_overdue_seconds", "How long the message that is overdue longest is overdue."),
		measured:  describe("signalbox_database_measured", "1 where the database answered this scrape, otherwise 0 and its gauges are missing."),
	}
}

// Describe implements prometheus.Collector. What is there depends on the database, so that nothing is promised.
func (*present) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *present) Collect(out chan<- prometheus.Metric) {
	s := newShapes()
	gauges, err := p.measure()
	tell := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if err != nil {
		tell(s.measured, 0)
		return
	}
	tell(s.measured, 1)
	phases, workers := map[string]float64{"execute": 0, "verify": 0, "publish": 0}, map[string]float64{"STARTING": 0, "READY": 0, "DRAINING": 0, "STALE": 0}
	queues := map[string]db.Gauge{"default": {}}
	outbox := map[string]float64{"waiting": 0, "dead": 0}
	var lag, late float64
	for _, g := range gauges {
		switch g.What {
		case "queue":
			queues[g.Name] = g
		case "delayed":
			tell(s.delayed, g.Amount, g.Name)
		case "admission":
			tell(s.admission, g.Amount)
		case "paused":
			tell(s.paused, 1, g.Name)
		case "lease":
			phases[g.Name] = g.Amount
		case "overdue":
			tell(s.overdue, g.Amount)
		case "worker":
			workers[g.Name] += g.Amount
			lag = max(lag, g.Age)
		case "slots":
			tell(s.slots, g.Amount)
		case "outbox":
			outbox[g.Name] = g.Amount
			if g.Name == "waiting" {
				late = g.Age
			}
		}
	}
	for name, g := range queues {
		tell(s.depth, g.Amount, name)
		tell(s.oldest, g.Age, name)
	}
	for name, v := range phases {
		tell(s.active, v, name)
	}
	for name, v := range workers {
		tell(s.workers, v, name)
	}
	for name, v := range outbox {
		tell(s.outbox, v, name)
	}
	tell(s.live, workers["READY"]+workers["DRAINING"])
	tell(s.lag, lag)
	tell(s.outboxAge, late)
}

// measure asks the database, or answers what it said within the last second.
func (p *present) measure() ([]db.Gauge, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.source == nil {
		return nil, nil
	}
	if time.Since(p.at) < fresh {
		return p.gauges, p.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.gauges, p.err = p.source.Gauges(ctx)
	p.at = time.Now()
	if p.err != nil {
		p.log.Warn("the database was not measured", "error", p.err)
	}
	return p.gauges, p.err
}

// dimension names what a limit counts by.
func dimension(code string) string {
	switch code {
	case schedule.CodeInstallationLimit:
		return "installation"
	case schedule.CodeTenantLimit:
		return "tenant"
	case schedule.CodeRepositoryLimit:
		return "repository"
	case schedule.CodeUserLimit:
		return "user"
	case schedule.CodeRiskLimit:
		return "risk"
	case schedule.CodeProviderLimit:
		return "provider"
	case schedule.CodeProviderParked:
		return "provider_pause"
	case schedule.CodePoolLimit:
		return "pool"
	case schedule.CodeIncident:
		return "incident"
	}
	return "other"
}

func dimensions() []string {
	return []string{"installation", "tenant", "repository", "user", "risk", "provider", "provider_pause", "pool", "incident", "other"}
}
