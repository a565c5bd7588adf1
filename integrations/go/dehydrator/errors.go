package dehydrator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func notFound(id string) error { return fmt.Errorf("%w: %s", ErrNotFound, id) }

var (
	// ErrExists is returned by [Queue.Enqueue] if the id is in the queue, or the server remembers it.
	ErrExists = errors.New("dehydrator: the task id exists")

	// ErrNotFound is returned for an id that is not there.
	ErrNotFound = errors.New("dehydrator: no such task")

	// ErrQueueFull is returned by [Queue.Enqueue] if the queue or its group has reached its limit, or the server has no
	// memory left.
	ErrQueueFull = errors.New("dehydrator: the queue is full")

	// ErrTooLate is returned for a deadline that is later than the operator allows: dehydrator.max-ttl.
	ErrTooLate = errors.New("dehydrator: later than the server allows")

	// ErrSeveralKeys means that clients in Python or Node spread the queue over several keys. Nobody would look for a
	// task in the one that this package uses.
	ErrSeveralKeys = errors.New("dehydrator: the queue has several keys, which Go does not know")

	// ErrModuleMissing means that the server has not loaded the module.
	ErrModuleMissing = errors.New("dehydrator: the server has not loaded the module: " +
		"docs/operations.md, section Install, describes how to")

	// ErrModuleTooOld means that the server's module is older than [ModuleVersion].
	ErrModuleTooOld = errors.New("dehydrator: the server's module is older than this package needs: " +
		"docs/operations.md, section Upgrade, describes how to replace it")

	// ErrLeaseLost is the cause ([context.Cause]) of the end of a handler's context if the task was cancelled, or
	// another worker may have it: after [Config.Lease] without a renewal, too. What the handler returns is ignored.
	ErrLeaseLost = errors.New("dehydrator: the task was cancelled, or its lease expired")

	// ErrTimeout is the cause of the end of a handler's context after [Config.Timeout] or the task's own [Timeout]. The
	// attempt has failed. What the handler returns is ignored, unless [Config.KeepPlace] waits for it.
	ErrTimeout = errors.New("dehydrator: the handler took too long")

	// ErrStopped is the cause of the end of a handler's context if the worker stopped waiting for it. The task was
	// given back.
	ErrStopped = errors.New("dehydrator: the worker stopped before the work ended")

	// ErrRunning is returned by [Worker.Run] the second time.
	ErrRunning = errors.New("dehydrator: a worker runs once")

	// SkipRetry makes a task a dead letter now, if a handler returns an error that wraps it. The text of that error is
	// the reason.
	SkipRetry = errors.New("rejected")
)

// RetryIn wraps an error of a handler, or nil: if the task has attempts left, the next one begins after delay, at once if
// that is negative.
func RetryIn(delay time.Duration, err error) error { return retry(delay, err, false) }

// RetryUncounted is [RetryIn] for what is no failure, such as an API that asks to come later: the attempt does not count.
func RetryUncounted(delay time.Duration, err error) error { return retry(delay, err, true) }

func retry(delay time.Duration, err error, isUncounted bool) error {
	if err == nil {
		err = errors.New("the handler asked to be called again")
	}
	return &RetryError{delay, isUncounted, err}
}

// RetryError is what [RetryIn] and [RetryUncounted] return, for tests of handlers.
type RetryError struct {
	Delay       time.Duration
	IsUncounted bool
	err         error
}

func (e *RetryError) Error() string { return e.err.Error() }

// Unwrap returns the error that was wrapped.
func (e *RetryError) Unwrap() error { return e.err }

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
	"BUSY", "UNBLOCKED", "READONLY", "NOREPLICAS", "MISCONF", "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "MOVED",
	"ASK", "REDIRECT",
}

// passes returns whether the same command may succeed later.
func passes(err error) bool {
	if reply, ok := replied(err); ok {
		word, _, _ := strings.Cut(reply, " ")
		return slices.Contains(passing, word) || strings.HasPrefix(reply, "ERR max number of clients")
	}
	return !errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled) && !errors.Is(err, errReply)
}

// replied returns the text of an error that the server replied.
func replied(err error) (string, bool) {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply.Error(), true
	}
	return "", false
}

// codes are the first words of replies that have an error of their own here.
var codes = map[string]error{
	"FULL": ErrQueueFull, "OOM": ErrQueueFull, "EXISTS": ErrExists, "NOSUCHID": ErrNotFound, "LIMIT": ErrTooLate,
}

var unknown = regexp.MustCompile("(?i)unknown command ['`]dehydrator")

// hasCode returns whether the server replied an error with this first word.
func hasCode(err error, code string) bool {
	reply, ok := replied(err)
	return ok && strings.HasPrefix(reply, code+" ")
}

// errReply means that a reply has another shape than expected.
var errReply = errors.New("dehydrator: unexpected reply")

// missingError is [ErrModuleMissing] without the server's words, which repeat the payload.
type missingError struct{ reply error }

func (e *missingError) Error() string   { return ErrModuleMissing.Error() }
func (e *missingError) Unwrap() []error { return []error{ErrModuleMissing, e.reply} }

// explained returns a clearer error for a reply of the server.
func explained(err error) error {
	reply, ok := replied(err)
	switch {
	case !ok:
		return err
	case unknown.MatchString(reply):
		return &missingError{err}
	}
	word, _, _ := strings.Cut(reply, " ")
	if named, ok := codes[word]; ok {
		return fmt.Errorf("%w (%w)", named, err)
	}
	return err
}
