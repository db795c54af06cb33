// Package metrics owns the numbers that Prometheus reads: their names, labels and where each comes from. What describes
// the present (depths, ages, leases, workers) is asked of the database when somebody scrapes; what happened is counted
// from this process's own commits, so that the sum over replicas is the whole.
//
// It refuses labels without a bound: no run, task, worker, tenant, person or repository is ever one. It keeps a registry
// of its own; nothing is global.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"signalbox/db"
	"signalbox/internal/run"
)

// Metrics counts one process. Its methods are safe for concurrent use and never block.
type Metrics struct {
	registry *prometheus.Registry
	present  *present

	accepted, deferred, denied *prometheus.CounterVec
	claimed, empty             prometheus.Counter
	expired                    *prometheus.CounterVec
	retries                    *prometheus.CounterVec
	duration                   *prometheus.HistogramVec
	heldBack                   *prometheus.CounterVec
	cancelled                  prometheus.Histogram
	transitions                *prometheus.CounterVec

	loopRuns, loopWork, loopErrors *prometheus.CounterVec
	loopTime                       *prometheus.HistogramVec
	batches                        *prometheus.HistogramVec
	requests                       *prometheus.HistogramVec
	vitals                         map[string]*prometheus.HistogramVec
}

// New makes the registry. version is told as a label of signalbox_build_info. Watch and Observer connect it to a store.
func New(version string, log *slog.Logger) *Metrics {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		present:  &present{log: log},
		accepted: counters("scheduler_admission_accepted_total", "Runs that admission let into the queue."),
		deferred: counters("scheduler_admission_deferred_total", "Decisions to put a run off, by reason.", "reason"),
		denied:   counters("scheduler_admission_denied_total", "Runs that policy refused, at submission, admission or claim."),
		claimed:  counter("scheduler_claim_success_total", "Leases given to workers."),
		empty:    counter("scheduler_claim_empty_total", "Questions of workers that ended without work, after waiting."),
		expired:  counters("scheduler_lease_expired_total", "Leases that ended because their worker was not heard of in time or did not stop when told, by phase.", "phase"),
		retries:  counters("scheduler_retry_total", "Failures after which the run was put into the queue again, by reason code.", "reason_code"),
		duration: histograms("scheduler_run_duration_seconds", "From a run's request to its end, by the state in which it ended; waiting for people included.",
			[]float64{10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 604800}, "status"),
		heldBack: counters("scheduler_capacity_denied_total", "Waiting items that a look for work passed over because of a limit, by the limit. An item counts at every look.", "dimension"),
		cancelled: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "scheduler_cancellation_latency_seconds", Help: "From the request to cancel to the run's end.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300}}),
		transitions: counters("signalbox_run_transitions_total", "Events of runs, by kind.", "event"),
		loopRuns:    counters("signalbox_loop_runs_total", "Looks of a control loop.", "loop"),
		loopWork:    counters("signalbox_loop_work_total", "Things that a control loop did.", "loop"),
		loopErrors:  counters("signalbox_loop_errors_total", "Looks of a control loop that failed.", "loop"),
		loopTime:    histograms("signalbox_loop_duration_seconds", "How long one look of a control loop took.", []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30}, "loop"),
		batches:     histograms("signalbox_commit_batch_size", "Calls that one statement carried together, by kind.", []float64{1, 2, 4, 8, 16, 32, 64, 100}, "kind"),
		requests: histograms("signalbox_http_request_duration_seconds", "Time to answer, by route pattern, method and class of status. Long polls and streams wait on purpose.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30}, "route", "method", "status"),
		vitals: map[string]*prometheus.HistogramVec{
			"lcp": histograms("signalbox_page_lcp_seconds", "Until the largest part of a page's first view was there, as readers' browsers measured it.",
				[]float64{.1, .25, .5, .75, 1, 1.25, 1.5, 2, 2.5, 4, 10}, "route"),
			"inp": histograms("signalbox_page_inp_seconds", "A page's slowest answer to a key or click, as readers' browsers measured it.",
				[]float64{.04, .075, .1, .15, .2, .3, .5, 1, 5}, "route"),
			"cls": histograms("signalbox_page_cls", "How much a page moved under its reader, the worst five seconds.",
				[]float64{.005, .01, .02, .05, .1, .25, .5, 1}, "route"),
		},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "signalbox_build_info", Help: "Always 1; the label is the version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.accepted, m.deferred, m.denied, m.claimed, m.empty, m.expired, m.retries, m.duration, m.heldBack, m.cancelled, m.transitions,
		m.loopRuns, m.loopWork, m.loopErrors, m.loopTime, m.batches, m.requests, m.vitals["lcp"], m.vitals["inp"], m.vitals["cls"], build, m.present,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// What has not happened yet is 0 and not missing: an alert on an absent series never fires.
	m.accepted.WithLabelValues()
	m.denied.WithLabelValues()
	for _, p := range []run.Phase{run.PhaseExecute, run.PhaseVerify, run.PhasePublish} {
		m.expired.WithLabelValues(string(p))
	}
	for _, c := range run.Codes() {
		if c.Retry == run.RetryAgain {
			m.retries.WithLabelValues(string(c.Code))
		}
	}
	for _, d := range dimensions() {
		m.heldBack.WithLabelValues(d)
	}
	return m
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Handler answers scrapes. It needs no login and belongs on a listener of its own.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Observer counts what leaves no row; it is one of the options of a store.
func (m *Metrics) Observer() db.Observer {
	return db.Observer{
		Batch: func(kind string, calls int) { m.batches.WithLabelValues(kind).Observe(float64(calls)) },
		Claimed: func(leases int) {
			if leases == 0 {
				m.empty.Inc()
			}
		},
		HeldBack: func(code string, items int) { m.heldBack.WithLabelValues(dimension(code)).Add(float64(items)) },
	}
}

// Watch counts the store's commits from now on and answers scrapes from it. The returned function ends the counting.
func (m *Metrics) Watch(s *db.Store) (stop func()) {
	m.present.set(s)
	return s.Watch(func(c db.Change) {
		for _, v := range c.Moves {
			m.moved(v)
		}
	})
}

func (m *Metrics) moved(v db.Movement) {
	m.transitions.WithLabelValues(string(v.Kind)).Inc()
	switch v.Kind {
	case run.KindEnqueued:
		m.accepted.WithLabelValues().Inc()
	case run.KindDeferred:
		m.deferred.WithLabelValues(v.Deferred).Inc()
	case run.KindPolicyDenied:
		m.denied.WithLabelValues().Inc()
	case run.KindLeaseAcquired:
		m.claimed.Inc()
	}
	if v.Lease != nil && (v.LeaseEnd == run.LeaseExpired || v.LeaseEnd == run.LeaseRevoked) {
		m.expired.WithLabelValues(string(v.Lease.Phase)).Inc()
	}
	if v.Retried {
		m.retries.WithLabelValues(string(v.Code)).Inc()
	}
	if v.Ended() {
		m.duration.WithLabelValues(string(v.To)).Observe(v.At.Sub(v.Created).Seconds())
		if v.To == run.Cancelled && !v.Cancelled.IsZero() {
			m.cancelled.Observe(max(v.At.Sub(v.Cancelled), 0).Seconds())
		}
	}
}

// LoopRan counts one look of the named loop.
func (m *Metrics) LoopRan(name string, n int, took time.Duration, err error) {
	m.loopRuns.WithLabelValues(name).Inc()
	m.loopWork.WithLabelValues(name).Add(float64(n))
	m.loopTime.WithLabelValues(name).Observe(took.Seconds())
	failed := m.loopErrors.WithLabelValues(name)
	if err != nil {
		failed.Inc()
	}
}

// Served counts one answer. route is the pattern and never the address; empty for an address that does not exist.
func (m *Metrics) Served(method, route string, status int, took time.Duration) {
	if route == "" {
		route = "unmatched"
	}
	m.requests.WithLabelValues(route, verb(method), class(status)).Observe(took.Seconds())
}

// Read counts what a page was like for its reader: lcp or inp in seconds, or cls. route is the pattern and never the address.
func (m *Metrics) Read(route, vital string, value float64) {
	if h, ok := m.vitals[vital]; ok {
		h.WithLabelValues(route).Observe(value)
	}
}

// verb bounds what a client may send as a method.
func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

func class(status int) string {
	switch {
	case status < 100 || status > 599 || status == 499:
		return "none" // the client went away before there was an answer
	default:
		return string(rune('0'+status/100)) + "xx"
	}
}

// asker measures the present.
type asker interface {
	Gauges(ctx context.Context) ([]db.Gauge, error)
}
