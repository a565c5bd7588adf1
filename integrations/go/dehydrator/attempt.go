package dehydrator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"
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
		return r.bury(ctx, r.leases, d, d.element, fmt.Sprintf("it cannot be decoded: %v", err))
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !r.held.add(d, cancel) {
		r.giveBack(ctx, d)
		return nil
	}
	before := maps.Clone(d.meta.Headers)
	began := time.Now()
	inner, end := r.config.Hooks.processing(inner, &d.meta)
	r.log(slog.LevelDebug, d, "a task begins")
	failure := call(func() error { return work(inner) })
	end(failure)
	if panicked := (*PanicError)(nil); errors.As(failure, &panicked) {
		r.log(slog.LevelError, d, "a handler panicked", "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	if !r.held.remove(d, nil) {
		// Lost: the renewal or the stop has logged it.
		return nil
	}
	// The headers that the hooks have left belong to the next attempt.
	element := d.element
	if !maps.Equal(before, d.meta.Headers) {
		element = wrap(d.meta.Headers, d.payload)
	}
	elapsed := time.Since(began)
	if failure == nil {
		// A 0 can mean that a first SETTLE worked, but its reply was lost.
		err := r.settling(inner, d, "settle", func() error {
			_, err := r.leases.ask(ctx, "DEHYDRATOR.SETTLE", d.meta.Queue, d.meta.Token, d.meta.ID)
			return err
		})
		if err == nil {
			r.log(slog.LevelDebug, d, "a task is done", "elapsed", elapsed)
		}
		return err
	}
	dead := errors.Is(failure, SkipRetry)
	if !dead {
		if dead, err = r.isLast(ctx, r.leases, d); err != nil {
			return err
		}
	}
	if dead {
		return r.settling(inner, d, "bury", func() error { return r.bury(ctx, r.leases, d, element, reasonOf(failure)) })
	}
	delay := r.delayAfter(d, failure)
	err = r.settling(inner, d, "release", func() error { return r.release(ctx, d, element, delay) })
	if err == nil {
		r.log(slog.LevelWarn, d, "a task failed", "elapsed", elapsed, "error", failure, "again_in", delay)
	}
	return err
}

// decode returns the work of a task. A codec that panics fails.
func (r *run) decode(d *delivery) (work func(context.Context) error, err error) {
	err = call(func() (err error) {
		work, err = d.route.decode(d)
		return err
	})
	return work, err
}

// call calls a function of the user's, and returns a panic as an error. It runs in a goroutine of its own, which
// runtime.Goexit ends, as in a test that fails.
func call(function func() error) error {
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
	return <-ended
}

// delayAfter returns the delay after a failed attempt.
func (r *run) delayAfter(d *delivery, failure error) (delay time.Duration) {
	var asked *retryIn
	if errors.As(failure, &asked) {
		return asked.delay
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

// isLast returns whether this is the last attempt. Without Attempts, the queue has its own policy, or none.
func (r *run) isLast(ctx context.Context, server *server, d *delivery) (bool, error) {
	if r.config.Attempts == Unlimited {
		return false, nil
	}
	reply, err := server.ask(ctx, "DEHYDRATOR.LOOK", d.meta.Queue, d.meta.ID, "FULL")
	if err != nil {
		return false, err
	}
	most := r.config.Attempts
	if own := integerOf(fields(reply)["deliveries-limit"]); own > 0 {
		most = own
	}
	return d.meta.Attempt >= most, nil
}

func (r *run) release(ctx context.Context, d *delivery, element []byte, delay time.Duration) error {
	words := []any{"DEHYDRATOR.RELEASE", d.meta.Queue, milliseconds(delay), d.meta.Token, d.meta.ID}
	if string(element) != string(d.element) {
		words = []any{"EVAL", retryScript, 1, d.meta.Queue, milliseconds(delay), d.meta.Token, d.meta.ID, element}
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

// bury makes a task a dead letter.
func (r *run) bury(ctx context.Context, server *server, d *delivery, element []byte, reason string) error {
	s := d.route.settings
	var err error
	if r.config.Attempts == Unlimited {
		// This worker does not configure dead letters: the policy of the queue does, if any.
		_, err = server.ask(ctx, newest, s.name, d.meta.Token, d.meta.ID)
		if _, ok := replied(err); ok {
			reason = fmt.Sprintf("%s; it waits for an hour, for it could not go to the dead letters: %v", reason, err)
			_, err = server.ask(ctx, "DEHYDRATOR.RELEASE", s.name, milliseconds(time.Hour), d.meta.Token, d.meta.ID)
		}
	} else {
		words := []any{"EVAL", buryScript, 2, s.name, s.dead, d.meta.Token, d.meta.ID, element, d.meta.Attempt, reason}
		_, err = server.ask(ctx, append(words, s.keepWords()...)...)
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
			last, err := r.isLast(ctx, &once, d)
			switch {
			case err != nil:
			case last:
				err = r.bury(ctx, &once, d, d.element, "the worker stopped before the work ended")
			default:
				_, err = once.ask(ctx, "DEHYDRATOR.RELEASE", d.meta.Queue, 0, d.meta.Token, d.meta.ID)
			}
			if err != nil {
				r.crashed(err, "the return of a task")
			}
			r.lost(d)
		}
	}
}

// reasonOf returns the reason of a failure, as text, even if its method panics.
func reasonOf(failure error) (reason string) {
	if call(func() error { reason = failure.Error(); return nil }) != nil || reason == "" {
		return fmt.Sprintf("%T", failure)
	}
	return reason
}
