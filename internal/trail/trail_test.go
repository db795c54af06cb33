package trail_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"signalbox/internal/trail"
	"signalbox/internal/typeid"
)

// R-OBS-1: a log line carries every id that is known of the work, under the fixed keys, once; what is not known is not there.
func TestLogsCarryTheChain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(trail.Handler(slog.NewJSONHandler(&out, nil)))
	ctx := trail.With(t.Context(), trail.Chain{Tenant: "t", Task: "task_1", Run: "run_1", AttemptNo: 2, Lease: "lse_1", Worker: "wrk_1", Boot: "boot_1", Token: 42})
	trail.Add(ctx, trail.Chain{Lease: "lse_2"})
	log.With("phase", "verify").InfoContext(ctx, "said", "run_id", "run_own")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"tenant_id": "t", "task_id": "task_1", "run_id": "run_own", "attempt_no": "2", "lease_id": "lse_2", "worker_id": "wrk_1",
		"boot_id": "boot_1", "fencing_token": "42", "phase": "verify"} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if _, there := line["sandbox_id"]; there {
		t.Error("an id that nobody knows is told")
	}
}

// R-OBS-1: spans of a run are on one trace whoever makes them, also over HTTP, with the chain as attributes and no words
// of an error.
func TestSpansOfARunAreOneTrace(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	tracer, _ := trail.New(sdktrace.WithSyncer(exporter), "test", "1")
	id := typeid.New()
	chain := trail.Chain{Run: typeid.Format(typeid.Run, id), Lease: "lse_1"}
	worker, phase := trail.Start(trail.With(trail.Begin(t.Context(), tracer), chain), "phase execute", trail.Internal)
	h := http.Header{}
	trail.Inject(worker, h)
	server, request := trail.Start(trail.Extract(trail.Begin(context.Background(), tracer), h), "POST", trail.Server)
	trail.Add(server, trail.Chain{Worker: "wrk_1"})
	request.End(errors.New("words of an agent"))
	phase.End(nil)
	_, event := trail.Start(trail.With(trail.Begin(context.Background(), tracer), chain), "run lease_acquired", trail.Internal)
	event.End(nil)
	spans := exporter.GetSpans()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	for _, s := range spans {
		if s.SpanContext.TraceID() != [16]byte(id) {
			t.Errorf("%s is on trace %s", s.Name, s.SpanContext.TraceID())
		}
		if s.Name == "POST" && (s.Parent.SpanID() != spans[1].SpanContext.SpanID() || s.Status.Description != "failed" || len(s.Events) > 0) {
			t.Errorf("the request: parent %s, status %+v", s.Parent.SpanID(), s.Status)
		}
	}
}

// Where nothing is traced, starting a span changes nothing and costs no allocation.
func TestOffCostsNothing(t *testing.T) { // not parallel: it counts allocations
	tracer, _, err := trail.Open(t.Context(), "test", "1", func(string) (string, bool) { return "", false })
	if err != nil || tracer != nil {
		t.Fatalf("%v %v", tracer, err)
	}
	ctx := trail.Begin(t.Context(), nil)
	if n := testing.AllocsPerRun(100, func() { _, s := trail.Start(ctx, "x", trail.Internal); s.End(nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
