package dehydrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrTaskIDConflict is returned by [Queue.Enqueue] if the id is in the queue, or the server remembers it.
	ErrTaskIDConflict = errors.New("dehydrator: the task id exists")

	// ErrTaskNotFound is returned for an id that is not in the queue.
	ErrTaskNotFound = errors.New("dehydrator: no such task")

	// ErrQueueFull is returned by [Queue.Enqueue] if the queue, or its group, has reached its limit.
	ErrQueueFull = errors.New("dehydrator: the queue is full")

	// ErrModuleMissing means that the server has not loaded the module.
	ErrModuleMissing = errors.New("dehydrator: the server has not loaded the module: " +
		"docs/operations.md, section Install, describes how to")

	// ErrModuleTooOld means that the server's module lacks a command that this package needs.
	ErrModuleTooOld = errors.New("dehydrator: the server's module is older than this package needs: " +
		"docs/operations.md, section Upgrade, describes how to replace it")

	// ErrLeaseLost is the cause ([context.Cause]) of the end of a handler's context if the task was cancelled, or
	// another worker has it by now. What the handler returns is ignored.
	ErrLeaseLost = errors.New("dehydrator: the task was cancelled, or its lease expired")

	// ErrStopped is the cause of the end of a handler's context if the worker stopped waiting for it. The task was
	// given back.
	ErrStopped = errors.New("dehydrator: the worker stopped before the work ended")

	// ErrRunning is returned by [Worker.Run] if the worker runs already.
	ErrRunning = errors.New("dehydrator: the worker is running")

	// SkipRetry makes a task a dead letter now, if a handler returns an error that wraps it. The text of that error is
	// the reason.
	SkipRetry = errors.New("rejected")
)

// RetryIn wraps an error of a handler: if the task has attempts left, the next one begins after delay.
func RetryIn(delay time.Duration, err error) error {
	if err == nil {
		err = errors.New("the handler asked to be called again")
	}
	return &retryIn{delay, err}
}

type retryIn struct {
	delay time.Duration
	err   error
}

func (e *retryIn) Error() string { return e.err.Error() }
func (e *retryIn) Unwrap() error { return e.err }

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	// Value is what the handler panicked with.
	Value any
	// Stack is the trace of the goroutine, in the format of [runtime/debug.Stack].
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value, if the handler panicked with an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// passing are the first words of errors after which the same command may succeed.
var passing = []string{
	"UNBLOCKED", "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "MOVED", "ASK",
	// A script runs for too long. BUSYGROUP is something else.
	"BUSY",
}

// passes returns whether the same command may succeed later.
func passes(err error) bool {
	if reply, ok := replied(err); ok {
		word, _, _ := strings.Cut(reply, " ")
		for _, one := range passing {
			if word == one {
				return true
			}
		}
		return strings.HasPrefix(reply, "ERR max number of clients")
	}
	lasting := errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, errReply)
	return !lasting
}

// replied returns the text of an error that the server replied.
func replied(err error) (string, bool) {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply.Error(), true
	}
	return "", false
}

// errReply means that a reply has another shape than expected.
var errReply = errors.New("dehydrator: unexpected reply")

// explained returns a clearer error for a reply of the server.
func explained(err error, command string) error {
	reply, ok := replied(err)
	switch {
	case !ok:
		return err
	case strings.Contains(reply, "unknown command 'DEHYDRATOR"):
		if command == "DEHYDRATOR.RELEASE" || command == newest {
			return fmt.Errorf("%w (%s)", ErrModuleTooOld, reply)
		}
		return fmt.Errorf("%w (%s)", ErrModuleMissing, reply)
	case strings.HasPrefix(reply, "FULL "):
		return fmt.Errorf("%w (%s)", ErrQueueFull, reply)
	case strings.HasPrefix(reply, "NOSUCHID "):
		return ErrTaskNotFound
	}
	return err
}
