package trail

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Open makes the tracer that sends to the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT; where the variable is not set, tracer
// is nil. The exporter reads its own variables. stop sends what is left.
func Open(ctx context.Context, service, version string, lookup func(string) (string, bool)) (tracer trace.Tracer, stop func(context.Context) error, err error) {
	if endpoint, _ := lookup("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	tracer, stop = New(sdktrace.WithBatcher(exporter), service, version)
	return tracer, stop, nil
}

// New makes a tracer whose spans go where the option says.
func New(to sdktrace.TracerProviderOption, service, version string) (trace.Tracer, func(context.Context) error) {
	about := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	p := sdktrace.NewTracerProvider(to, sdktrace.WithResource(about))
	return p.Tracer("signalbox"), p.Shutdown
}
