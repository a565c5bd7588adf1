// Package oteldehydrator makes traces and metrics of queues and workers, by OpenTelemetry.
//
//	telemetry, err := oteldehydrator.New()
//	mails := dehydrator.NewQueue[Mail](client, "mails", dehydrator.WithHooks(telemetry.Hooks()))
//	worker := dehydrator.NewWorker(dehydrator.Config{Hooks: telemetry.Hooks()}, mails.HandleFunc(send))
//	err = telemetry.Observe(mails)
//
// Names are those of the semantic conventions for messaging. The context of a trace travels in the headers of the task,
// in the format of the propagator: set one with [otel.SetTextMapPropagator], as OpenTelemetry for Go has none by default.
// With that of W3C, a trace goes through producers and workers in Go, Python and Node.
package oteldehydrator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"dehydrator.invalid/source/integrations/go/dehydrator"
)

const scope = "dehydrator.invalid/source/integrations/go/dehydrator/oteldehydrator"

// retryOf is the header with the traceparent of the attempt before this one, to which the next one links.
const retryOf = "retry-of"

// An Option changes [New].
type Option func(*Telemetry)

// WithTracerProvider sets the provider of tracers: by default, the global one.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(t *Telemetry) { t.tracers = provider }
}

// WithMeterProvider sets the provider of meters: by default, the global one.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(t *Telemetry) { t.meters = provider }
}

// WithPropagator sets the format of the headers: by default, the global propagator.
func WithPropagator(propagator propagation.TextMapPropagator) Option {
	return func(t *Telemetry) { t.propagator = propagator }
}

// Telemetry makes spans and metrics.
//
// Spans: "put", "poll", "process", and "settle", "release" or "bury". A process span is a child of its put, also after a
// dead letter was revived, and links to the attempt before it that was retried.
type Telemetry struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator

	tracer         trace.Tracer
	meter          metric.Meter
	sent, consumed metric.Int64Counter
	operation      metric.Float64Histogram
	process        metric.Float64Histogram
}

// New returns telemetry with the global providers, or those of the options.
func New(options ...Option) (*Telemetry, error) {
	t := &Telemetry{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), propagator: otel.GetTextMapPropagator()}
	for _, one := range options {
		one(t)
	}
	t.tracer, t.meter = t.tracers.Tracer(scope), t.meters.Meter(scope)
	var errs [4]error
	t.sent, errs[0] = t.meter.Int64Counter("messaging.client.sent.messages",
		metric.WithUnit("{message}"), metric.WithDescription("Jobs that were put"))
	t.consumed, errs[1] = t.meter.Int64Counter("messaging.client.consumed.messages",
		metric.WithUnit("{message}"), metric.WithDescription("Jobs that were taken"))
	t.operation, errs[2] = t.meter.Float64Histogram("messaging.client.operation.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of commands"))
	t.process, errs[3] = t.meter.Float64Histogram("messaging.process.duration",
		metric.WithUnit("s"), metric.WithDescription("Duration of the work"))
	return t, errors.Join(errs[:]...)
}

// Hooks returns the hooks for [dehydrator.WithHooks] and [dehydrator.Config].
func (t *Telemetry) Hooks() *dehydrator.Hooks {
	return &dehydrator.Hooks{
		Enqueuing:  t.enqueuing,
		Received:   t.received,
		Processing: t.processing,
		Settling:   t.settling,
	}
}

// Observed is a queue, whatever the type of its payloads.
type Observed interface {
	Name() string
	Info(ctx context.Context, group ...dehydrator.GroupOption) (*dehydrator.QueueInfo, error)
}

// Observe adds gauges of these queues, read with DEHYDRATOR.INFO at each collection. One process needs to do so.
func (t *Telemetry) Observe(queues ...Observed) error {
	var errs [4]error
	gauge := func(n int, name, unit, description string) metric.Float64ObservableGauge {
		var made metric.Float64ObservableGauge
		made, errs[n] = t.meter.Float64ObservableGauge("dehydrator.queue."+name, metric.WithUnit(unit), metric.WithDescription(description))
		return made
	}
	waiting := gauge(0, "waiting", "{job}", "Jobs that no worker holds")
	due := gauge(1, "due", "{job}", "Jobs that are due")
	held := gauge(2, "held", "{job}", "Jobs that workers hold")
	lateness := gauge(3, "lateness", "s", "For how long the oldest due job could have been taken")
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, observer metric.Observer) error {
		var failed error
		for _, queue := range queues {
			// While the server is away, the next collection asks again.
			info, err := queue.Info(ctx)
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			told := metric.WithAttributes(
				attribute.String("messaging.system", "dehydrator"), attribute.String("messaging.destination.name", queue.Name()))
			observer.ObserveFloat64(waiting, float64(info.Length-info.Leased), told)
			observer.ObserveFloat64(due, float64(info.Due), told)
			observer.ObserveFloat64(held, float64(info.Leased), told)
			observer.ObserveFloat64(lateness, info.Lateness.Seconds(), told)
		}
		return failed
	}, waiting, due, held, lateness)
	return err
}

func attributes(operation, kind, queue string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "dehydrator"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", kind),
		attribute.String("messaging.destination.name", queue),
	}
}

func (t *Telemetry) enqueuing(ctx context.Context, queue string, ids []string) (map[string]string, func(error)) {
	told := attributes("put", "send", queue)
	which := attribute.Int("messaging.batch.message_count", len(ids))
	if len(ids) == 1 && ids[0] != "" {
		which = attribute.String("messaging.message.id", ids[0])
	}
	ctx, span := t.tracer.Start(ctx, "put "+queue,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(append(told, which)...))
	headers := propagation.MapCarrier{}
	t.propagator.Inject(ctx, headers)
	end := t.timed(ctx, span, t.operation, told)
	return headers, func(err error) {
		end(err)
		t.sent.Add(ctx, int64(len(ids)), metric.WithAttributes(failed(told, err)...))
	}
}

func (t *Telemetry) received(ctx context.Context, tasks []*dehydrator.Meta, elapsed time.Duration) {
	queue := tasks[0].Queue
	told := attributes("poll", "receive", queue)
	now := time.Now()
	_, span := t.tracer.Start(rootOf(ctx), "poll "+queue, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(now.Add(-elapsed)),
		trace.WithAttributes(append(told, attribute.Int("messaging.batch.message_count", len(tasks)))...))
	if span.IsRecording() {
		for _, task := range tasks {
			// There is no span of a trace that is not sampled.
			if put := spanContextOf(task.Headers["traceparent"]); put.IsSampled() {
				span.AddLink(trace.Link{SpanContext: put})
			}
		}
	}
	span.End(trace.WithTimestamp(now))
	t.consumed.Add(ctx, int64(len(tasks)), metric.WithAttributes(told...))
	t.operation.Record(ctx, elapsed.Seconds(), metric.WithAttributes(told...))
}

func (t *Telemetry) processing(ctx context.Context, task *dehydrator.Meta) (context.Context, func(error)) {
	told := attributes("process", "process", task.Queue)
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(told,
			attribute.String("messaging.message.id", task.ID),
			attribute.Int("messaging.dehydrator.message.delivery_count", task.Attempt))...),
	}
	if before := spanContextOf(task.Headers[retryOf]); before.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: before}))
	}
	delete(task.Headers, retryOf)
	// The trace of the producer, not that of Run.
	ctx = t.propagator.Extract(rootOf(ctx), carrier{task.Headers})
	ctx, span := t.tracer.Start(ctx, "process "+task.Queue, options...)
	end := t.timed(ctx, span, t.process, told)
	return ctx, func(err error) {
		if err != nil && span.IsRecording() {
			if task.Headers == nil {
				task.Headers = map[string]string{}
			}
			own := span.SpanContext()
			task.Headers[retryOf] = fmt.Sprintf("00-%s-%s-%s", own.TraceID(), own.SpanID(), own.TraceFlags())
		}
		end(err)
	}
}

func (t *Telemetry) settling(ctx context.Context, task *dehydrator.Meta, how string) func(error) {
	told := attributes(how, "settle", task.Queue)
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		// A sampler that did not want the work does not want its end either.
		return t.timed(ctx, trace.SpanFromContext(context.Background()), t.operation, told)
	}
	ctx, span := t.tracer.Start(ctx, how+" "+task.Queue, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(append(told, attribute.String("messaging.message.id", task.ID))...))
	return t.timed(ctx, span, t.operation, told)
}

// timed returns what ends a span, and records its duration.
func (t *Telemetry) timed(ctx context.Context, span trace.Span, duration metric.Float64Histogram, told []attribute.KeyValue) func(error) {
	began := time.Now()
	return func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetAttributes(errorType(err))
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		duration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(failed(told, err)...))
	}
}

// failed returns the attributes of a metric, with the kind of the error, if there is one.
func failed(told []attribute.KeyValue, err error) []attribute.KeyValue {
	if err == nil {
		return told
	}
	return append(told, errorType(err))
}

func errorType(err error) attribute.KeyValue {
	return attribute.String("error.type", fmt.Sprintf("%T", err))
}

// rootOf returns a context without the span that is active around Run.
func rootOf(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.SpanContext{})
}

// spanContextOf parses a traceparent.
func spanContextOf(traceparent string) trace.SpanContext {
	if traceparent == "" {
		return trace.SpanContext{}
	}
	headers := carrier{propagation.MapCarrier{"traceparent": traceparent}}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
}

// carrier reads headers. OpenTelemetry for Go 1.31 refuses a traceparent with the flag "random", which Python's sets.
type carrier struct{ propagation.MapCarrier }

// Get returns a header, and of the flags of a traceparent only "sampled".
func (c carrier) Get(key string) string {
	value := c.MapCarrier.Get(key)
	if key != "traceparent" || len(value) != len("00-")+32+len("-")+16+len("-00") || !strings.HasPrefix(value, "00-") {
		return value
	}
	flags, err := strconv.ParseUint(value[len(value)-2:], 16, 8)
	if err != nil {
		return value
	}
	return fmt.Sprintf("%s%02x", value[:len(value)-2], flags&1)
}
