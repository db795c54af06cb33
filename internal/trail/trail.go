// Package trail owns the chain of ids that ties one piece of work together on logs and traces: tenant, task, run,
// attempt, lease, worker, boot, sandbox and tool call. It is the one place that spells their keys, and the one that
// starts spans and carries them over HTTP as W3C traceparent.
//
// All spans of a run belong to one trace, whose id is the run's own: nobody has to pass it on for it to be found. The
// package refuses to send anything where no endpoint is configured, and costs nothing then; it keeps nothing global.
package trail

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"signalbox/internal/typeid"
)

// Chain is what is known about the work in hand; what is empty is not told. Ids are spelt as people see them.
type Chain struct {
	Tenant, Task, Run, Lease, Worker, Boot, Sandbox, ToolCall string
	AttemptNo                                                 int
	Token                                                     int64
}

// pair is one key with its value.
type pair struct{ key, value string }

// pairs lists what is known, in a fixed order, under the keys that logs and spans share.
func (c Chain) pairs() []pair {
	all := []pair{{"tenant_id", c.Tenant}, {"task_id", c.Task}, {"run_id", c.Run}, {"attempt_no", number(int64(c.AttemptNo))}, {"lease_id", c.Lease},
		{"worker_id", c.Worker}, {"boot_id", c.Boot}, {"fencing_token", number(c.Token)}, {"sandbox_id", c.Sandbox}, {"tool_call_id", c.ToolCall}}
	out := all[:0]
	for _, p := range all {
		if p.value != "" {
			out = append(out, p)
		}
	}
	return out
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func (c Chain) with(o Chain) Chain {
	for _, f := range []struct{ to, from *string }{{&c.Tenant, &o.Tenant}, {&c.Task, &o.Task}, {&c.Run, &o.Run}, {&c.Lease, &o.Lease}, {&c.Worker, &o.Worker},
		{&c.Boot, &o.Boot}, {&c.Sandbox, &o.Sandbox}, {&c.ToolCall, &o.ToolCall}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if o.AttemptNo != 0 {
		c.AttemptNo = o.AttemptNo
	}
	if o.Token != 0 {
		c.Token = o.Token
	}
	return c
}

type contextKey struct{}

// box holds a chain that is completed while the work goes on.
type box struct {
	tracer trace.Tracer // nil where nothing is traced
	mu     sync.Mutex
	chain  Chain
}

// Begin starts a chain of its own; tracer is nil where nothing is traced.
func Begin(ctx context.Context, tracer trace.Tracer) context.Context {
	return context.WithValue(ctx, contextKey{}, &box{tracer: tracer})
}

// With is a part of the work about which more is known.
func With(ctx context.Context, c Chain) context.Context {
	b, ok := ctx.Value(contextKey{}).(*box)
	if !ok {
		return context.WithValue(ctx, contextKey{}, &box{chain: c})
	}
	return context.WithValue(ctx, contextKey{}, &box{tracer: b.tracer, chain: b.known().with(c)})
}

// Add completes the chain that ctx carries, for everybody who has it already; without one it does nothing.
func Add(ctx context.Context, c Chain) {
	if b, ok := ctx.Value(contextKey{}).(*box); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.chain = b.chain.with(c)
	}
}

func (b *box) known() Chain {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.chain
}

// Of is the chain that ctx carries.
func Of(ctx context.Context) Chain {
	if b, ok := ctx.Value(contextKey{}).(*box); ok {
		return b.known()
	}
	return Chain{}
}

// Handler adds the chain of each record's context under the fixed keys; a key that the record has already stays.
func Handler(next slog.Handler) slog.Handler { return handler{next} }

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if pairs := Of(ctx).pairs(); len(pairs) > 0 {
		have := map[string]bool{}
		r.Attrs(func(a slog.Attr) bool { have[a.Key] = true; return true })
		r = r.Clone()
		for _, p := range pairs {
			if !have[p.key] {
				r.AddAttrs(slog.String(p.key, p.value))
			}
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(as []slog.Attr) slog.Handler { return handler{h.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// Kinds of span: work inside a process, and what a request from outside causes.
const (
	Internal = trace.SpanKindInternal
	Server   = trace.SpanKindServer
)

// Span is one piece of work on a trace; nil where nothing is traced.
type Span struct {
	span trace.Span
	ctx  context.Context
}

// Start begins a span. Without a parent on its trace it belongs to the trace of the chain's run, where one is known.
func Start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, *Span) {
	b, ok := ctx.Value(contextKey{}).(*box)
	if !ok || b.tracer == nil {
		return ctx, nil
	}
	if root, ok := rootOf(b.known().Run); ok && trace.SpanContextFromContext(ctx).TraceID() != root.TraceID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, root)
	}
	ctx, span := b.tracer.Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, &Span{span, ctx}
}

// End ends the span with what is known by now; err marks it as failed. The words of an error may hold what agents and
// repositories wrote, and are not told.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	for _, p := range Of(s.ctx).pairs() {
		s.span.SetAttributes(attribute.String("signalbox."+p.key, p.value))
	}
	switch {
	case errors.Is(err, context.Canceled):
		s.span.SetStatus(codes.Error, "broken off")
	case err != nil:
		s.span.SetStatus(codes.Error, "failed")
	}
	s.span.End()
}

// Name renames the span, for what is known only at its end; Set adds a fact without ids.
func (s *Span) Name(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Set adds a fact to the span.
func (s *Span) Set(key, value string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// rootOf is where every span of a run hangs: trace and span id are made of the run's id.
func rootOf(run string) (trace.SpanContext, bool) {
	id, err := typeid.Parse(typeid.Run, run)
	if err != nil {
		return trace.SpanContext{}, false
	}
	var span trace.SpanID
	binary.BigEndian.PutUint64(span[:], binary.BigEndian.Uint64(id[8:])|1) // never zero
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(id), SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true}), true
}

// Inject puts the span of ctx into the headers of a request; Extract reads it on the other side.
func Inject(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// Extract is ctx with the caller's span as parent.
func Extract(ctx context.Context, h http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
}
