package trail

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"signalbox/internal/egress"
)

// Open makes the tracer that sends to the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT; where the variable is not set, tracer
// is nil. The exporter reads its own variables. stop sends what is left.
func Open(ctx context.Context, service, version string, lookup func(string) (string, bool)) (tracer trace.Tracer, stop func(context.Context) error, err error) {
	endpoint, _ := lookup("OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" {
		return nil, func(context.Context) error { return nil }, nil
	}
	authorities, err := certificates(lookup)
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	collector, err := egress.Origin{Purpose: "traces", URL: cmp.Or(variable(lookup, "ENDPOINT"), endpoint), Timeout: 10 * time.Second, TLS: authorities}.Client()
	if err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(collector))
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	tracer, stop = New(sdktrace.WithBatcher(exporter), service, version)
	return tracer, stop, nil
}

// variable reads one of the exporter's variables, of which the one for traces outranks the one for everything.
func variable(lookup func(string) (string, bool), name string) string {
	special, _ := lookup("OTEL_EXPORTER_OTLP_TRACES_" + name)
	general, _ := lookup("OTEL_EXPORTER_OTLP_" + name)
	return cmp.Or(special, general)
}

// certificates reads what the exporter would read for a client of its own making; nil where nothing is named.
func certificates(lookup func(string) (string, bool)) (*tls.Config, error) {
	authority, cert, key := variable(lookup, "CERTIFICATE"), variable(lookup, "CLIENT_CERTIFICATE"), variable(lookup, "CLIENT_KEY")
	if authority == "" && (cert == "" || key == "") {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", authority)
		}
	}
	if cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// New makes a tracer whose spans go where the option says.
func New(to sdktrace.TracerProviderOption, service, version string) (trace.Tracer, func(context.Context) error) {
	about := resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version))
	p := sdktrace.NewTracerProvider(to, sdktrace.WithResource(about))
	return p.Tracer("signalbox"), p.Shutdown
}
