package dehydrator

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Unlimited is for [Config.Attempts].
const Unlimited = -1

// defaultAttempts is for a queue without a policy.
const defaultAttempts = 5

// mostAtOnce is the maximum number of tasks per POLL, whatever the concurrency.
const mostAtOnce = 100

// Config are the settings of a [Worker]. The zero value is usable.
type Config struct {
	// Concurrency is how many handlers run at a time; by default 1.
	Concurrency int

	// Lease is for how long a task is hidden from other workers. It is renewed three times in that time. By default a
	// minute, at least 100 ms.
	Lease time.Duration

	// Timeout is how long a handler may take: then its context ends, with the cause [ErrTimeout], the attempt has failed,
	// and another task takes its place, also if the handler goes on. A task can have its own [Timeout]. By default,
	// without limit.
	Timeout time.Duration

	// Attempts is how often a task without its own number is delivered before it becomes a dead letter. By default what
	// the queue has, which is 5 if nobody set anything else. With Unlimited, no dead letters are configured.
	Attempts int

	// RetryDelay returns the delay after a failed attempt: by default, ExponentialBackoff(time.Second, time.Hour).
	RetryDelay RetryDelayFunc

	// Block is how long a POLL sleeps in the server, and so how long a stop can take: by default two seconds.
	Block time.Duration

	// ShutdownTimeout is how long the end of the context of Run waits for handlers; by default, without limit.
	ShutdownTimeout time.Duration

	// Logger gets the events of the worker; by default, [slog.Default].
	Logger *slog.Logger

	// Hooks are called by the worker.
	Hooks *Hooks
}

func (c *Config) setDefaults() error {
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.RetryDelay == nil {
		c.RetryDelay = ExponentialBackoff(time.Second, time.Hour)
	}
	if c.Block == 0 {
		c.Block = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Hooks == nil {
		c.Hooks = &Hooks{}
	}
	switch {
	case c.Concurrency < 0:
		return errors.New("dehydrator: Concurrency is at least 1")
	case c.Timeout < 0:
		return errors.New("dehydrator: Timeout is at least 0")
	case c.Lease < 100*time.Millisecond:
		return errors.New("dehydrator: Lease is at least 100 ms: it is renewed three times in its time")
	case c.Attempts < Unlimited || c.Attempts > math.MaxUint16:
		return errors.New("dehydrator: Attempts is from 1 to 65535, or Unlimited")
	}
	return nil
}

// A Worker takes due tasks, and calls a handler with each.
type Worker struct {
	config Config
	routes []Route

	mu sync.Mutex
	// The run that goes on, or the next one.
	run       *run
	isRunning bool
}

// NewWorker returns a worker of one or several queues of one server. The first queue with due tasks is served: list them
// by priority. On a cluster, the queues are in one slot, as {mail}:high and {mail}:low are.
func NewWorker(config Config, routes ...Route) *Worker {
	return &Worker{config: config, routes: routes, run: newRun()}
}

// Run works until the context ends or [Worker.Shutdown] is called, and then returns nil when its handlers have ended. It
// returns an error that does not pass, such as [ErrModuleMissing]. After that, it can be called again.
//
// Handlers get the values of the context, but do not end with it: see [Config.ShutdownTimeout].
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	r := w.run
	running := w.isRunning
	w.isRunning = true
	w.mu.Unlock()
	if running {
		return ErrRunning
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.run, w.isRunning = newRun(), false
		close(r.ended)
	}()
	if err := r.prepare(w.config, w.routes); err != nil {
		return err
	}
	go r.watch(ctx)
	return r.work(context.WithoutCancel(ctx))
}

// Shutdown makes the worker take no more tasks, and waits until Run returns. When the context ends, it waits no longer:
// the contexts of handlers end, with the cause [ErrStopped], their tasks are given back, and the context's error is
// returned. A handler that ignores its context continues, but what it returns is ignored. A POLL that sleeps in the
// server can delay all of this by up to [Config.Block].
//
// Before Run, it makes Run return at once.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	r, running := w.run, w.isRunning
	w.mu.Unlock()
	r.stop()
	if !running {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		r.leave()
		<-r.ended
		return ctx.Err()
	}
}
