package dehydrator

import (
	"context"
	"log/slog"
	"time"
)

// Hooks are called by a [Queue] or a [Worker]. Each may be nil. A hook that panics is logged, and has no effect. The
// package oteldehydrator has some for OpenTelemetry.
type Hooks struct {
	// Enqueuing is called before tasks are put into a queue; an empty id will be generated. The headers are stored with
	// each task. The function that it returns is called with the result.
	Enqueuing func(ctx context.Context, queue string, ids []string) (headers map[string]string, done func(error))

	// Received is called with tasks that the server delivered.
	Received func(ctx context.Context, tasks []*Meta, elapsed time.Duration)

	// Processing is called before a handler, which gets the context that it returns. It may change the headers of the
	// task; the next attempt gets those. The function that it returns is called with the handler's error.
	Processing func(ctx context.Context, task *Meta) (context.Context, func(error))

	// Settling is called before the command that ends an attempt: "settle" if it succeeded, "release" if it will be
	// retried, "bury" for a dead letter. It is not called for a task that was lost.
	Settling func(ctx context.Context, task *Meta, how string) (done func(error))
}

// guarded calls a hook, and logs a panic.
func guarded(call func()) {
	defer func() {
		if value := recover(); value != nil {
			slog.Error("dehydrator: a hook panicked", "panic", value)
		}
	}()
	call()
}

// done returns a function that may be called, whatever a hook returned.
func done(hooked func(error)) func(error) {
	return func(err error) {
		if hooked != nil {
			guarded(func() { hooked(err) })
		}
	}
}

func (h *Hooks) enqueuing(ctx context.Context, queue string, ids ...string) (headers map[string]string, end func(error)) {
	var hooked func(error)
	if h.Enqueuing != nil {
		guarded(func() { headers, hooked = h.Enqueuing(ctx, queue, ids) })
	}
	return headers, done(hooked)
}

func (h *Hooks) received(ctx context.Context, tasks []*delivery, elapsed time.Duration) {
	if h.Received == nil {
		return
	}
	told := make([]*Meta, len(tasks))
	for i, one := range tasks {
		told[i] = &one.meta
	}
	guarded(func() { h.Received(ctx, told, elapsed) })
}

func (h *Hooks) processing(ctx context.Context, task *Meta) (context.Context, func(error)) {
	inner := ctx
	var hooked func(error)
	if h.Processing != nil {
		guarded(func() { inner, hooked = h.Processing(ctx, task) })
	}
	if inner == nil {
		inner = ctx
	}
	return inner, done(hooked)
}

func (h *Hooks) settling(ctx context.Context, task *Meta, how string) func(error) {
	var hooked func(error)
	if h.Settling != nil {
		guarded(func() { hooked = h.Settling(ctx, task, how) })
	}
	return done(hooked)
}
