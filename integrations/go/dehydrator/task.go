package dehydrator

import (
	"cmp"
	"context"
	"maps"
	"time"
)

// Meta describes a task that a worker has.
type Meta struct {
	// ID is that of [TaskID], or was drawn.
	ID string
	// Queue is the name of its queue.
	Queue string
	// Attempt is how often it was delivered, including this time: 1 the first time. See [Task.Info] for the maximum.
	Attempt int
	// Token is that of the lease, different for each attempt. It can fence the writes of a handler.
	Token string
	// Headers are what hooks stored beside the payload, such as the context of a trace.
	Headers map[string]string
}

// A Task is passed to a [Handler].
type Task[T any] struct {
	Meta
	// Payload is what [Queue.Enqueue] was given.
	Payload T
	info    func(context.Context) (*TaskInfo[T], error)
}

// Info reads the group of the task, its MaxAttempts, and why it failed last, from the server: for those that need it, as
// POLL does not tell.
func (t *Task[T]) Info(ctx context.Context) (*TaskInfo[T], error) {
	if t.info == nil {
		// A test of a handler made it.
		return &TaskInfo[T]{ID: t.ID, Payload: t.Payload, Attempt: t.Attempt}, nil
	}
	return t.info(ctx)
}

// NewTestTask returns a task for the test of a handler, without a server. [Task.Info] returns info with this payload; the first
// attempt is 1.
func NewTestTask[T any](payload T, info TaskInfo[T]) *Task[T] {
	info.Payload, info.Attempt = payload, cmp.Or(info.Attempt, 1)
	return &Task[T]{Meta{ID: info.ID, Attempt: info.Attempt}, payload, func(context.Context) (*TaskInfo[T], error) {
		told := info
		return &told, nil
	}}
}

// A Handler does the work of a task.
//
// If it returns nil, the task is done. If it returns an error, or panics, the task is delivered again: see [RetryIn]
// and [SkipRetry]. The context ends if the task was lost: [context.Cause] is [ErrLeaseLost], [ErrTimeout]
// or [ErrStopped].
type Handler[T any] interface {
	ProcessTask(ctx context.Context, task *Task[T]) error
}

// A HandlerFunc is a function as a [Handler].
type HandlerFunc[T any] func(ctx context.Context, task *Task[T]) error

// ProcessTask calls f.
func (f HandlerFunc[T]) ProcessTask(ctx context.Context, task *Task[T]) error { return f(ctx, task) }

// A MiddlewareFunc surrounds a [Handler].
type MiddlewareFunc[T any] func(Handler[T]) Handler[T]

// A Route is a queue and its handler, for [NewWorker].
type Route struct {
	settings *settings
	// decode returns the work of a delivery, or an error if the payload cannot be decoded. It is nil without a handler.
	decode func(*delivery) (func(context.Context) error, error)
}

// Handle returns a route of this queue to a handler, for [NewWorker]. The first middleware is the outermost.
func (q *Queue[T]) Handle(handler Handler[T], middleware ...MiddlewareFunc[T]) Route {
	if handler == nil {
		return Route{settings: q.settings}
	}
	for i := len(middleware) - 1; i >= 0; i-- {
		handler = middleware[i](handler)
	}
	return Route{q.settings, func(d *delivery) (func(context.Context) error, error) {
		task := &Task[T]{}
		if err := q.settings.codec.Unmarshal(d.payload, &task.Payload); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			task.Meta = d.meta
			task.Headers = maps.Clone(d.meta.Headers)
			task.info = func(ctx context.Context) (*TaskInfo[T], error) {
				info, err := q.Look(ctx, task.ID)
				if info != nil {
					info.MaxAttempts = cmp.Or(info.MaxAttempts, d.lane.most())
				}
				return info, err
			}
			return handler.ProcessTask(ctx, task)
		}, nil
	}}
}

// HandleFunc is [Queue.Handle] of a function.
func (q *Queue[T]) HandleFunc(handler func(context.Context, *Task[T]) error, middleware ...MiddlewareFunc[T]) Route {
	if handler == nil {
		return q.Handle(nil, middleware...)
	}
	return q.Handle(HandlerFunc[T](handler), middleware...)
}

// TaskInfo is a task as a reader of the queue sees it.
type TaskInfo[T any] struct {
	// ID and Payload are those of [Queue.Enqueue].
	ID      string
	Payload T
	// Due is its deadline, or the end of its lease, by the server's clock.
	Due time.Time
	// Attempt is the number of the last attempt; 0 if there was none.
	Attempt int
	// Leased tells whether a worker has it.
	Leased bool
	// MaxAttempts is how often it is delivered at most: its own [Attempts], or 0. [Task.Info] fills in that of the queue,
	// [Unlimited] if it has none. [Queue.All] leaves this out, and what follows.
	MaxAttempts int
	// Group is empty if it has none.
	Group string
	// Reason tells why it was given back the last time.
	Reason string
}

// IsLast tells whether the task becomes a dead letter if this attempt fails.
func (i *TaskInfo[T]) IsLast() bool { return i.MaxAttempts > 0 && i.Attempt >= i.MaxAttempts }

// Result is what became of an [Item].
type Result struct {
	// ID is its [TaskID], or was drawn.
	ID      string
	Outcome Outcome
}

// Outcome tells whether a task was put into the queue.
type Outcome string

const (
	// Stored: it is in the queue.
	Stored Outcome = "stored"
	// Exists: its id was in the queue, or is remembered, and that task stays.
	Exists Outcome = "exists"
	// Full: a limit is reached.
	Full Outcome = "full"
)

// outcomeOf returns what a number in the reply of MPUSH means. An id that was drawn exists only if the same command arrived
// before.
func outcomeOf(reply int64, drawn bool) Outcome {
	switch {
	case reply < 0:
		return Full
	case reply == 0 && !drawn:
		return Exists
	}
	return Stored
}

// QueueInfo is the state of a queue or of a group.
type QueueInfo struct {
	// Length is the number of tasks: due, with workers, and waiting.
	Length int
	// Due is the number of tasks that are due.
	Due int
	// Leased is the number of tasks that workers have.
	Leased int
	// Lateness is for how long the oldest due task could have been taken.
	Lateness time.Duration
	// Paused tells whether deliveries are stopped: see [Queue.Pause].
	Paused bool
	// Policy is that of the queue: of a group, there is none.
	Policy Policy
	// Fields are all fields of DEHYDRATOR.INFO: of type int64, string, or nil; "policy" is a map of such fields.
	Fields map[string]any
}
