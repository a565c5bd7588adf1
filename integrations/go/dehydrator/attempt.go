package dehydrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// serve does a task, from its delivery to the command that ends the attempt.
func (r *run) serve(ctx context.Context, d *delivery) {
	free := r.free
	defer r.handlers.Done()
	defer func() { free <- struct{}{} }()
	if err := r.do(ctx, d); err != nil {
		r.crashed(err, "the end of a task")
	}
}

func (r *run) do(ctx context.Context, d *delivery) error {
	work, err := r.decode(d)
	if err != nil {
		return r.reject(ctx, r.leases, d, fmt.Sprintf("it cannot be decoded: %v", err))
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !r.held.add(d, cancel) {
		r.giveBack(ctx, d)
		return nil
	}
	var late <-chan time.Time
	if limit := d.timeout(r.config.Timeout); limit > 0 {
		var free context.CancelFunc
		inner, free = context.WithTimeoutCause(inner, limit, ErrTimeout)
		defer free()
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	before := maps.Clone(d.meta.Headers)
	began := time.Now()
	working, end := r.config.Hooks.processing(inner, &d.meta)
	r.log(slog.LevelDebug, d, "a task begins")
	ended := begin(func() error { return work(working) })
	var failure error
	isLate := false
	select {
	case failure = <-ended:
		if failure != nil && context.Cause(inner) == ErrTimeout {
			failure = ErrTimeout
		}
	case <-late:
		failure, isLate = ErrTimeout, r.held.remove(d, ErrTimeout)
	}
	end(failure)
	if !isLate && !r.held.remove(d, nil) {
		// Lost: the renewal or the stop has logged it.
		return nil
	}
	elapsed := time.Since(began)
	if failure == nil {
		err := r.settling(working, d, "settle", func() error {
			return r.settlers[d.meta.Queue].settle(ctx, r.leases, &d.meta)
		})
		if err == nil {
			r.log(slog.LevelDebug, d, "a task is done", "elapsed", elapsed)
		}
		return err
	}
	v := verdictOf(failure)
	if !v.isFinal {
		if v.isFinal, err = r.isLast(ctx, r.leases, d); err != nil {
			return err
		}
	}
	if v.isFinal {
		return r.settling(working, d, "bury", func() error { return r.reject(ctx, r.leases, d, v.reason) })
	}
	delay := r.delayAfter(d, v, failure)
	// The headers that the hooks have left belong to the next attempt.
	var element []byte
	if !maps.Equal(before, d.meta.Headers) {
		element = wrap(d.meta.Headers, d.payload)
	}
	err = r.settling(working, d, "release", func() error { return r.release(ctx, d, element, delay, v.reason) })
	if err == nil {
		r.log(slog.LevelWarn, d, "a task failed", "elapsed", elapsed, "error", v.reason, "again_in", delay)
	}
	return err
}

// timeout returns how long the handler may take: by the task, or else by the worker.
func (d *delivery) timeout(otherwise time.Duration) time.Duration {
	if ms, err := strconv.ParseInt(d.meta.Headers[timeoutHeader], 10, 32); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return otherwise
}

// decode returns the work of a task. A codec that panics fails.
func (r *run) decode(d *delivery) (work func(context.Context) error, err error) {
	err = call(func() (err error) {
		work, err = d.route.decode(d)
		return err
	})
	return work, err
}

// call calls a function of the user's, and returns a panic as an error.
func call(function func() error) error { return <-begin(function) }

// begin calls a function of the user's in a goroutine of its own, which runtime.Goexit ends, as in a test that fails.
func begin(function func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := errors.New("the handler called runtime.Goexit")
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{value, debug.Stack()}
			}
			ended <- err
		}()
		err = function()
	}()
	return ended
}

// A verdict is what follows from the error of a handler.
type verdict struct {
	reason string
	// isFinal: it is not retried.
	isFinal bool
	retry   *retryIn
}

// verdictOf looks at an error, which can have mistakes of its own: methods that panic, or a nil pointer in it.
func verdictOf(failure error) verdict {
	v := verdict{reason: fmt.Sprintf("%T", failure)}
	_ = call(func() error {
		v.isFinal = errors.Is(failure, SkipRetry)
		errors.As(failure, &v.retry)
		text := failure.Error()
		if panicked := (*PanicError)(nil); errors.As(failure, &panicked) {
			text += "\n\n" + string(panicked.Stack)
		}
		v.reason = cmp.Or(text, v.reason)
		return nil
	})
	return v
}

// reasonMax is the most bytes of a reason that the server takes.
const reasonMax = 4096

// shortened returns a reason as the server takes it: text in UTF-8, without a part of a character at its end.
func shortened(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= reasonMax {
		return reason
	}
	end := reasonMax
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// delayAfter returns the delay after a failed attempt.
func (r *run) delayAfter(d *delivery, v verdict, failure error) (delay time.Duration) {
	if v.retry != nil {
		return v.retry.delay
	}
	if err := call(func() error { delay = r.config.RetryDelay(d.meta.Attempt, failure); return nil }); err != nil {
		r.crashed(err, "RetryDelay")
		return time.Minute
	}
	return delay
}

// settling surrounds a command with the hook.
func (r *run) settling(ctx context.Context, d *delivery, how string, command func() error) error {
	end := r.config.Hooks.settling(ctx, &d.meta, how)
	err := command()
	end(err)
	return err
}

// isLast returns whether this is the last attempt, by the task's own number, or else by that of its queue.
func (r *run) isLast(ctx context.Context, server *server, d *delivery) (bool, error) {
	reply, err := server.ask(ctx, "DEHYDRATOR.LOOK", d.meta.Queue, d.meta.ID, "FULL")
	if err != nil {
		return false, err
	}
	most := cmp.Or(integerOf(fields(reply)["deliveries-limit"]), r.attemptsOf(d.meta.Queue))
	return most != Unlimited && d.meta.Attempt >= most, nil
}

// release gives a task back, to be done again after a delay, with another element if there is one.
func (r *run) release(ctx context.Context, d *delivery, element []byte, delay time.Duration, reason string) error {
	words := []any{"DEHYDRATOR.RELEASE", d.meta.Queue, milliseconds(delay), d.meta.Token, d.meta.ID, "REASON", shortened(reason)}
	if element != nil {
		_, err := r.leases.ask(ctx, append(words, "ELEMENT", element)...)
		if !hasCode(err, "OOM") {
			return err
		}
	}
	_, err := r.leases.ask(ctx, words...)
	return err
}

// giveBack gives back a task that was not begun, which counts as no attempt.
func (r *run) giveBack(ctx context.Context, d *delivery) {
	_, err := r.leases.ask(ctx, "DEHYDRATOR.RELEASE", d.meta.Queue, 0, d.meta.Token, d.meta.ID, "UNCOUNTED")
	if err != nil {
		r.crashed(err, "the return of a task")
	}
}

// reject makes a task a dead letter. Where dead letters have no destination, it waits for an hour.
func (r *run) reject(ctx context.Context, server *server, d *delivery, reason string) error {
	_, err := server.ask(ctx, "DEHYDRATOR.REJECT", d.meta.Queue, d.meta.Token, d.meta.ID, "REASON", shortened(reason))
	if hasCode(err, "NORULE") {
		r.log(slog.LevelError, d, "a task waits for an hour, as dead letters have no destination", "reason", reason)
		return r.release(ctx, d, nil, time.Hour, reason)
	}
	if err == nil {
		r.log(slog.LevelError, d, "a task is a dead letter", "reason", reason)
	}
	return err
}

// cutOff gives back the tasks whose handlers still run.
func (r *run) cutOff(ctx context.Context) {
	r.held.close()
	once := *r.leases
	once.patience = 0
	for _, tasks := range r.held.byQueue() {
		for _, d := range tasks {
			if !r.held.remove(d, ErrStopped) {
				continue
			}
			// It has not failed: a deployment must not make it a dead letter.
			words := []any{"DEHYDRATOR.RELEASE", d.meta.Queue, 0, d.meta.Token, d.meta.ID, "UNCOUNTED", "REASON", ErrStopped.Error()}
			if _, err := once.ask(ctx, words...); err != nil {
				r.crashed(err, "the return of a task")
			}
			r.lost(d)
		}
	}
}
