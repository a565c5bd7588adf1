package oteldehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
	"dehydrator.invalid/source/integrations/go/dehydrator/oteldehydrator"
)

var ctx = context.Background()

type recorded struct {
	t         *testing.T
	exporter  *tracetest.InMemoryExporter
	provider  *sdk.TracerProvider
	reader    *metric.ManualReader
	telemetry *oteldehydrator.Telemetry
}

func record(t *testing.T, sampler sdk.Sampler) *recorded {
	t.Helper()
	r := &recorded{t: t, exporter: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	r.provider = sdk.NewTracerProvider(sdk.WithSyncer(r.exporter), sdk.WithSampler(sampler))
	var err error
	r.telemetry, err = oteldehydrator.New(
		oteldehydrator.WithTracerProvider(r.provider),
		oteldehydrator.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(r.reader))),
		oteldehydrator.WithPropagator(propagation.TraceContext{}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorded) spans(name string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, span := range r.exporter.GetSpans() {
		if strings.HasPrefix(span.Name, name) {
			found = append(found, span)
		}
	}
	return found
}

// metrics returns the points of each metric, as text.
func (r *recorded) metrics() map[string][]string {
	r.t.Helper()
	var data metricdata.ResourceMetrics
	if err := r.reader.Collect(ctx, &data); err != nil {
		r.t.Fatal(err)
	}
	told := map[string][]string{}
	for _, scope := range data.ScopeMetrics {
		for _, one := range scope.Metrics {
			var points []string
			switch data := one.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					points = append(points, fmt.Sprint(point.Value, " ", text(point.Attributes.ToSlice())))
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					points = append(points, fmt.Sprint(point.Value, " ", text(point.Attributes.ToSlice())))
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					points = append(points, fmt.Sprint(point.Count, " ", text(point.Attributes.ToSlice())))
				}
			}
			slices.Sort(points)
			told[one.Name+" "+one.Unit] = points
		}
	}
	return told
}

func text(attributes []attribute.KeyValue) string {
	var words []string
	for _, one := range attributes {
		name := strings.TrimPrefix(string(one.Key), "messaging.")
		words = append(words, name+"="+one.Value.Emit())
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// work runs a worker until the queue is empty.
func work(t *testing.T, r *recorded, jobs *dehydrator.Queue[string], handler func(context.Context, *dehydrator.Task[string]) error) {
	t.Helper()
	worker := dehydrator.NewWorker(dehydrator.Config{
		Hooks: r.telemetry.Hooks(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Block: 100 * time.Millisecond,
		RetryDelay: dehydrator.ExponentialBackoff(time.Millisecond, time.Millisecond),
	}, jobs.HandleFunc(handler))
	ended := make(chan error, 1)
	running, span := r.provider.Tracer("test").Start(ctx, "around Run")
	defer span.End()
	go func() { ended <- worker.Run(running) }()
	realserver.Until(t, func() bool { count, err := jobs.Len(ctx); return err == nil && count == 0 })
	if err := worker.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("it is\n%v, not\n%v", got, want)
	}
}

func TestATaskIsOneTraceWithTheNamesOfTheConventions(t *testing.T) {
	server := realserver.Start(t)
	r := record(t, sdk.AlwaysSample())
	jobs := dehydrator.NewQueue[string](server.Client, "jobs", dehydrator.WithHooks(r.telemetry.Hooks()))
	inRequest, request := r.provider.Tracer("test").Start(ctx, "request")
	if _, err := jobs.Enqueue(inRequest, "mail", dehydrator.TaskID("mail:17")); err != nil {
		t.Fatal(err)
	}
	request.End()
	var inner trace.SpanID
	work(t, r, jobs, func(ctx context.Context, task *dehydrator.Task[string]) error {
		inner = trace.SpanContextFromContext(ctx).SpanID()
		if task.Attempt == 1 {
			return errors.New("no answer")
		}
		return nil
	})
	put, polls, processes := r.spans("put ")[0], r.spans("poll "), r.spans("process ")
	release, settle := r.spans("release ")[0], r.spans("settle ")[0]
	same(t, put.Parent.SpanID(), request.SpanContext().SpanID())
	for _, process := range processes {
		same(t, process.Parent.SpanID(), put.SpanContext.SpanID())
		same(t, process.SpanContext.TraceID(), request.SpanContext().TraceID())
	}
	same(t, inner, processes[1].SpanContext.SpanID())
	same(t, release.Parent.SpanID(), processes[0].SpanContext.SpanID())
	same(t, settle.Parent.SpanID(), processes[1].SpanContext.SpanID())
	same(t, len(processes[0].Links), 0)
	same(t, processes[1].Links[0].SpanContext.SpanID(), processes[0].SpanContext.SpanID())
	for _, poll := range polls {
		same(t, poll.Links[0].SpanContext.SpanID(), put.SpanContext.SpanID())
		same(t, poll.Parent.IsValid(), false)
	}
	same(t, []any{put.SpanKind, polls[0].SpanKind, processes[0].SpanKind, settle.SpanKind}, "[producer client consumer client]")
	every := "destination.name=jobs "
	same(t, text(put.Attributes), every+"message.id=mail:17 operation.name=put operation.type=send system=dehydrator")
	same(t, text(polls[0].Attributes), "batch.message_count=1 "+every+"operation.name=poll operation.type=receive system=dehydrator")
	same(t, text(processes[0].Attributes), "dehydrator.message.delivery_count=1 "+every+
		"error.type=*errors.errorString message.id=mail:17 operation.name=process operation.type=process system=dehydrator")
	same(t, text(settle.Attributes), every+"message.id=mail:17 operation.name=settle operation.type=settle system=dehydrator")
	same(t, processes[0].Status.Description, "no answer")

	told := r.metrics()
	point := func(count int, name, kind, more string) string {
		return fmt.Sprint(count, " ", every, more, "operation.name=", name, " operation.type=", kind, " system=dehydrator")
	}
	same(t, told["messaging.client.sent.messages {message}"], []string{point(1, "put", "send", "")})
	same(t, told["messaging.client.consumed.messages {message}"], []string{point(2, "poll", "receive", "")})
	same(t, told["messaging.client.operation.duration s"], []string{point(1, "put", "send", ""), point(1, "release", "settle", ""),
		point(1, "settle", "settle", ""), point(2, "poll", "receive", "")})
	same(t, told["messaging.process.duration s"], []string{
		point(1, "process", "process", "error.type=*errors.errorString "), point(1, "process", "process", "")})
}

func TestARevivedTaskBelongsToItsTrace(t *testing.T) {
	server := realserver.Start(t)
	r := record(t, sdk.AlwaysSample())
	jobs := dehydrator.NewQueue[string](server.Client, "jobs", dehydrator.WithHooks(r.telemetry.Hooks()))
	if _, err := jobs.EnqueueMany(ctx, []dehydrator.Item[string]{{Payload: "a"}}); err != nil {
		t.Fatal(err)
	}
	work(t, r, jobs, func(context.Context, *dehydrator.Task[string]) error { return dehydrator.SkipRetry })
	if count, err := jobs.Revive(ctx, 1); count != 1 || err != nil {
		t.Fatal(count, err)
	}
	work(t, r, jobs, func(context.Context, *dehydrator.Task[string]) error { return nil })
	processes, bury := r.spans("process "), r.spans("bury ")[0]
	same(t, bury.Parent.SpanID(), processes[0].SpanContext.SpanID())
	same(t, processes[1].Parent.SpanID(), r.spans("put ")[0].SpanContext.SpanID())
	same(t, processes[1].Links[0].SpanContext.SpanID(), processes[0].SpanContext.SpanID())
}

func TestWithoutASampledTraceThereAreMetricsOnly(t *testing.T) {
	server := realserver.Start(t)
	r := record(t, sdk.NeverSample())
	jobs := dehydrator.NewQueue[string](server.Client, "jobs", dehydrator.WithHooks(r.telemetry.Hooks()))
	if _, err := jobs.Enqueue(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	work(t, r, jobs, func(_ context.Context, task *dehydrator.Task[string]) error {
		if task.Attempt == 1 {
			return errors.New("no")
		}
		same(t, len(task.Headers), 1)
		return nil
	})
	same(t, len(r.spans("")), 0)
	same(t, len(r.metrics()["messaging.process.duration s"]), 2)
}

func TestGaugesOfQueues(t *testing.T) {
	server := realserver.Start(t)
	r := record(t, sdk.AlwaysSample())
	jobs := dehydrator.NewQueue[string](server.Client, "jobs")
	for _, when := range []dehydrator.When{dehydrator.ProcessIn(0), dehydrator.ProcessIn(time.Hour)} {
		if _, err := jobs.Enqueue(ctx, "a", when); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.telemetry.Observe(jobs); err != nil {
		t.Fatal(err)
	}
	told := r.metrics()
	same(t, told["dehydrator.queue.waiting {job}"], "[2 destination.name=jobs system=dehydrator]")
	same(t, told["dehydrator.queue.due {job}"], "[1 destination.name=jobs system=dehydrator]")
	same(t, told["dehydrator.queue.held {job}"], "[0 destination.name=jobs system=dehydrator]")
	same(t, len(told["dehydrator.queue.lateness s"]), 1)
}

const python = `
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from dehydrator_queue import Queue, Reject, Worker
from dehydrator_queue.opentelemetry import OpenTelemetryHooks

trace.set_tracer_provider(TracerProvider())
jobs = Queue(sys.argv[1], "jobs", hooks=OpenTelemetryHooks())
if sys.argv[2] == "put":
    with trace.get_tracer("web").start_as_current_span("request") as span:
        jobs.put("from Python")
        print(format(span.get_span_context().trace_id, "032x"))
else:
    def work(job):
        print(format(trace.get_current_span().get_span_context().trace_id, "032x"), job.payload, *sorted(job.headers))
        worker.stop()
    worker = Worker(jobs, work, hooks=OpenTelemetryHooks(), block=0.1)
    worker.run()
`

func TestATraceGoesThroughPythonAndBack(t *testing.T) {
	server := realserver.Start(t)
	run := func(what string) string {
		command := exec.Command(os.Getenv("DEHYDRATOR_PYTHON"), "-c", python, "redis://"+server.Addr, what)
		command.Stderr = os.Stderr
		printed, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(printed))
	}
	r := record(t, sdk.AlwaysSample())
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	jobs := dehydrator.NewQueue[string](client, "jobs", dehydrator.WithHooks(r.telemetry.Hooks()))
	id := run("put")
	work(t, r, jobs, func(ctx context.Context, task *dehydrator.Task[string]) error {
		if task.Attempt == 1 {
			return errors.New("once")
		}
		_, err := jobs.Enqueue(ctx, "from Go")
		if err == nil {
			same(t, run("work"), id+" from Go traceparent")
		}
		return err
	})
	processes := r.spans("process ")
	same(t, processes[0].SpanContext.TraceID(), id)
	same(t, processes[1].Links[0].SpanContext.SpanID(), processes[0].SpanContext.SpanID())
}
