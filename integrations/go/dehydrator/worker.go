package dehydrator

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"
)

// mostAtOnce is the maximum number of tasks per POLL, whatever the concurrency.
const mostAtOnce = 100

// Config are the settings of a [Worker]. The zero value is usable.
type Config struct {
	// Concurrency is how many handlers run at a time; by default 1.
	Concurrency int

	// Lease is for how long a task is hidden from other workers. It is renewed three times in that time. By default a
	// minute, at least 100 ms.
	Lease time.Duration

	// Timeout is how long a handler may take: then its context ends, with the cause [ErrTimeout], and the attempt has failed.
	// A task can have its own [Timeout]. By default, without limit.
	Timeout time.Duration

	// KeepPlace waits for a handler that goes on after its timeout: until it returns, the task keeps its lease, its place among
	// Concurrency, and that of its group. What has succeeded then is done. Without it, the next task takes the places, and
	// runs beside it.
	KeepPlace bool

	// Attempts is [Policy.Attempts] for a queue without a policy: by default 5. With [Unlimited], none is set. A queue that
	// has a policy keeps it: if it differs, that is logged, and the fewer hold. See [Queue.SetPolicy].
	Attempts int

	// RetryDelay returns the delay after a failed attempt: by default, ExponentialBackoff(time.Second, time.Hour).
	RetryDelay RetryDelayFunc

	// Block is how long a POLL sleeps in the server, and so how long a stop can take: by default two seconds.
	Block time.Duration

	// ShutdownTimeout is how long the end of the context of Run waits for handlers; by default 25 s, less than
	// Kubernetes gives.
	ShutdownTimeout time.Duration

	// Logger gets the events of the worker; by default, [slog.Default].
	Logger *slog.Logger

	// Hooks are called by the worker.
	Hooks *Hooks
}

func (c *Config) setDefaults() error {
	c.Concurrency = cmp.Or(c.Concurrency, 1)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.Block = cmp.Or(c.Block, 2*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 25*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Hooks = cmp.Or(c.Hooks, &Hooks{})
	if c.RetryDelay == nil {
		c.RetryDelay = ExponentialBackoff(time.Second, time.Hour)
	}
	var wrong checks
	wrong.number(c.Concurrency, 1, math.MaxInt, "Concurrency")
	// It is renewed three times in its time.
	wrong.span(c.Lease, 100*time.Millisecond, "Lease")
	wrong.span(c.Timeout, 0, "Timeout")
	wrong.number(c.Attempts, Unlimited, math.MaxUint16, "Attempts")
	wrong.span(c.Block, time.Millisecond, "Block")
	wrong.span(c.ShutdownTimeout, 0, "ShutdownTimeout")
	return wrong.wrong
}

// A Worker takes due tasks, and calls a handler with each.
type Worker struct {
	config Config
	routes []Route
	// By the names of their queues, and by priority.
	lanes map[string]*lane
	order []*lane
	// The queues whose policy is to be set.
	unset []*lane

	// For POLL, which is resent until the worker stops.
	polls      *server
	closePolls func()
	// For what ends or renews a lease, which is resent as long as the lease may run.
	leases *server
	held   held
	// Holds a value for each handler that does not run.
	free chan struct{}

	isRunning atomic.Bool
	// For how long a stop waits, in nanoseconds: 0 without a limit.
	limit atomic.Int64
	// stopped: no more tasks are taken. left: handlers are not waited for. finished: none is waited for. ended: Run returns.
	stopped, left, finished, ended context.Context
	stop, leave, finish, end       context.CancelFunc
}

// NewWorker returns a worker of one or several queues of one server. The first queue with due tasks is served: list them
// by priority. On a cluster, the queues are in one slot, as {mail}:high and {mail}:low are.
func NewWorker(config Config, routes ...Route) *Worker {
	w := &Worker{config: config, routes: routes, lanes: map[string]*lane{}}
	w.stopped, w.stop = context.WithCancel(context.Background())
	w.left, w.leave = context.WithCancel(context.Background())
	w.finished, w.finish = context.WithCancel(context.Background())
	w.ended, w.end = context.WithCancel(context.Background())
	return w
}

// Run works until the context ends or [Worker.Shutdown] is called, and then returns nil when its handlers have ended. It
// returns an error that does not pass, such as [ErrModuleMissing], or an [OptionError]. A worker runs once.
//
// Handlers get the values of the context, but do not end with it: see [Config.ShutdownTimeout].
func (w *Worker) Run(ctx context.Context) error {
	if w.isRunning.Swap(true) {
		return ErrRunning
	}
	defer w.end()
	if err := w.prepare(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		w.limit.Store(int64(w.config.ShutdownTimeout))
		w.stop()
		time.AfterFunc(w.config.ShutdownTimeout, w.leave)
	})()
	return w.work(context.WithoutCancel(ctx))
}

// Shutdown makes the worker take no more tasks, and waits until Run returns. When the context ends, it waits no longer:
// the contexts of handlers end, with the cause [ErrStopped], their tasks are given back, and the context's error is
// returned. A handler that ignores its context continues, but what it returns is ignored. A POLL that sleeps in the
// server can delay all of this by up to [Config.Block].
//
// Before Run, it makes Run return at once.
func (w *Worker) Shutdown(ctx context.Context) error {
	if at, is := ctx.Deadline(); is {
		w.limit.Store(int64(time.Until(at)))
	}
	w.stop()
	if !w.isRunning.Load() {
		return nil
	}
	select {
	case <-w.ended.Done():
		return nil
	case <-ctx.Done():
		w.leave()
		<-w.ended.Done()
		return ctx.Err()
	}
}
