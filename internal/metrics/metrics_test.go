package metrics_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/internal/dbtest"
	"signalbox/internal/dbtest/drive"
	"signalbox/internal/metrics"
	"signalbox/internal/run"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// scraped is one answer of /metrics: series with its value.
type scraped map[string]float64

func scrape(t testing.TB, m *metrics.Metrics) scraped {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	out := scraped{}
	for line := range strings.Lines(rec.Body.String()) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		n := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[n+1:], 64)
		must(t, err)
		out[line[:n]] = v
	}
	return out
}

func (s scraped) is(t testing.TB, series string, want float64) {
	t.Helper()
	if have, ok := s[series]; !ok || have != want {
		t.Errorf("%s is %v (there: %v), want %v", series, have, ok, want)
	}
}

func (s scraped) atLeast(t testing.TB, series string, want float64) {
	t.Helper()
	if have, ok := s[series]; !ok || have < want {
		t.Errorf("%s is %v (there: %v), want at least %v", series, have, ok, want)
	}
}

func world(t *testing.T, policy string) (*drive.World, *metrics.Metrics) {
	t.Helper()
	d := dbtest.New(t)
	m := metrics.New("test", nil)
	store, err := db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL, Observer: m.Observer(), Timing: db.Timing{BackoffScale: 0.01}})
	must(t, err)
	t.Cleanup(store.Close)
	t.Cleanup(m.Watch(store))
	return drive.New(t, d, drive.Options{Store: store, Policy: policy}), m
}

// R-OBS-1: the fourteen metrics of the scheduler are there under their names before anything happened, so that an alert
// on them can be written; and each counts what it says, as an ordinary day of runs goes by.
func TestTheFourteenMetrics(t *testing.T) {
	t.Parallel()
	w, m := world(t, "")
	ctx := t.Context()
	calm := scrape(t, m)
	for _, name := range []string{
		"scheduler_admission_accepted_total", "scheduler_admission_denied_total", `scheduler_queue_depth{queue="default"}`,
		`scheduler_queue_oldest_ready_age_seconds{queue="default"}`, "scheduler_claim_success_total", "scheduler_claim_empty_total",
		`scheduler_lease_active{phase="execute"}`, `scheduler_lease_expired_total{phase="execute"}`, `scheduler_retry_total{reason_code="WORKER_LOST"}`,
		"scheduler_worker_heartbeat_lag_seconds", `scheduler_capacity_denied_total{dimension="tenant"}`, "scheduler_cancellation_latency_seconds_count",
	} {
		if v, ok := calm[name]; !ok || v != 0 && name != "scheduler_worker_heartbeat_lag_seconds" {
			t.Errorf("before anything happened %s is %v (there: %v)", name, v, ok)
		}
	}
	calm.is(t, "scheduler_worker_active", 2)
	calm.is(t, "signalbox_database_measured", 1)

	// One run to the end, one whose worker is lost, one cancelled while it waits, one that waits.
	got(w.To(ctx, run.Succeeded))(t)
	lost := got(w.To(ctx, run.Leased))(t)
	got(w.Reap(ctx, lost.Ref))(t)
	cancelled := got(w.To(ctx, run.Queued))(t)
	got(w.Cancel(ctx, cancelled.Ref))(t)
	got(w.To(ctx, run.Queued))(t)
	first := w.Workers[0]
	if _, _, err := w.Store.ClaimWait(ctx, db.ClaimRequest{ClaimID: "empty", Worker: first.WorkerID, Boot: first.Boot, Phases: []run.Phase{run.PhasePublish}, Max: 1}, time.Millisecond); err != nil {
		t.Fatal(err)
	}

	s := scrapeAfter(t, m, func(s scraped) bool { return s[`scheduler_queue_depth{queue="default"}`] > 0 })
	s.is(t, "scheduler_admission_accepted_total", 4)
	s.atLeast(t, "scheduler_claim_success_total", 4) // three phases of the first, one of the second
	s.is(t, "scheduler_claim_empty_total", 1)
	s.is(t, `scheduler_lease_expired_total{phase="execute"}`, 1)
	s.is(t, `scheduler_retry_total{reason_code="WORKER_LOST"}`, 1)
	s.is(t, `scheduler_run_duration_seconds_count{status="SUCCEEDED"}`, 1)
	s.is(t, `scheduler_run_duration_seconds_count{status="CANCELLED"}`, 1)
	s.is(t, "scheduler_cancellation_latency_seconds_count", 1)
	s.atLeast(t, `signalbox_commit_batch_size_count{kind="write"}`, 4)
	s.is(t, `signalbox_run_transitions_total{event="worker_lost"}`, 1)
}

// scrapeAfter scrapes until what is measured at most once a second shows the present.
func scrapeAfter(t testing.TB, m *metrics.Metrics, until func(scraped) bool) scraped {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if s := scrape(t, m); until(s) {
			return s
		}
		select {
		case <-deadline:
			t.Fatalf("after a minute the scrape is %v", scrape(t, m))
		case <-tick.C:
		}
	}
}

// R-OBS-1, R-Q-8: an item that a limit holds back counts for the limit's dimension.
func TestCapacityDenied(t *testing.T) {
	t.Parallel()
	w, m := world(t, "version: test\nconcurrency:\n  repository: 1\n")
	ctx := t.Context()
	got(w.To(ctx, run.Leased))(t)
	got(w.To(ctx, run.Queued))(t)
	if l := got(w.Claim(ctx, w.Workers[1]))(t); l != nil {
		t.Fatal("the limit of the repository did not hold")
	}
	scrape(t, m).is(t, `scheduler_capacity_denied_total{dimension="repository"}`, 1)
}

// T10, L9: no label ever names a run, a task, a worker, a person, a tenant or a repository, whatever clients send.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	w, m := world(t, "")
	got(w.To(t.Context(), run.Succeeded))(t)
	m.Served("BREW", "", 404, time.Millisecond)
	m.Served(http.MethodGet, "/runs/{id}", 200, time.Millisecond)
	m.Read("/runs/{id}", "lcp", 0.8)
	m.Read("/runs/{id}", "inp", 0.04)
	m.Read("/runs/{id}", "cls", 0)
	m.Served(http.MethodGet, "/runs/{id}", 0, time.Millisecond)
	m.Served(http.MethodGet, "/runs/{id}", 499, time.Millisecond)
	m.LoopRan("reaper", 0, time.Millisecond, nil)
	m.LoopRan("reaper", 2, time.Millisecond, errors.New("broken"))
	allowed := []string{"queue", "phase", "state", "status", "reason_code", "reason", "dimension", "event", "loop", "kind", "route", "method", "le", "version", "quantile"}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	s := scrape(t, m)
	for series := range s {
		for _, l := range label.FindAllStringSubmatch(series, -1) {
			known := strings.HasPrefix(series, "go_")
			for _, a := range allowed {
				known = known || a == l[1]
			}
			if !known || regexp.MustCompile(`[0-9a-f]{8}-|_01[0-9a-z]{20}|acme|worker-1`).MatchString(l[2]) {
				t.Errorf("label without a bound: %s", series)
			}
		}
	}
	s.is(t, `signalbox_http_request_duration_seconds_count{method="other",route="unmatched",status="4xx"}`, 1)
	s.is(t, `signalbox_http_request_duration_seconds_count{method="GET",route="/runs/{id}",status="none"}`, 2)
	s.is(t, `signalbox_page_lcp_seconds_bucket{route="/runs/{id}",le="1"}`, 1)
	s.is(t, `signalbox_page_cls_count{route="/runs/{id}"}`, 1)
	s.is(t, `signalbox_loop_runs_total{loop="reaper"}`, 2)
	s.is(t, `signalbox_loop_errors_total{loop="reaper"}`, 1)
	s.is(t, `signalbox_loop_work_total{loop="reaper"}`, 2)
}

// A database that is away costs the gauges, and nothing else: what was counted is still answered, and the scrape says why.
func TestScrapeWithoutDatabase(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t)
	m := metrics.New("test", nil)
	store, err := db.Open(t.Context(), db.Options{URL: d.EngineURL, AppURL: d.AppURL})
	must(t, err)
	defer m.Watch(store)()
	store.Close()
	s := scrape(t, m)
	s.is(t, "signalbox_database_measured", 0)
	s.is(t, "scheduler_claim_success_total", 0)
	if _, ok := s[`scheduler_queue_depth{queue="default"}`]; ok {
		t.Error("a depth is claimed that nobody measured")
	}
}
