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
func (w *Worker) serve(ctx context.Context, d *delivery) {
	defer func() { w.free <- struct{}{} }()
	if err := w.do(ctx, d); err != nil {
		w.crashed(err, "the end of a task")
	}
}

func (w *Worker) do(ctx context.Context, d *delivery) (err error) {
	var work func(context.Context) error
	if err := call(func() (err error) { work, err = d.lane.decode(d); return err }); err != nil {
		return w.reject(ctx, d, nil, &verdict{reason: fmt.Sprintf("it cannot be decoded: %v", err)})
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A worker that does not reach the server must not go on beside the next one.
	d.expiry = time.AfterFunc(w.config.Lease, func() { w.lose(d) })
	defer d.expiry.Stop()
	// A stop may already have given back what is held.
	if w.held.Store(d, cancel); w.left.Err() != nil {
		if w.held.remove(d, nil) {
			w.giveBack(ctx, w.leases, d)
		}
		return nil
	}
	var late <-chan time.Time
	if limit := d.timeout(w.config.Timeout); limit > 0 {
		var free context.CancelFunc
		inner, free = context.WithTimeoutCause(inner, limit, ErrTimeout)
		defer free()
		if w.config.KeepPlace {
			tell := func() { w.log(slog.LevelWarn, d, "a task takes too long, and keeps its place until it ends") }
			defer time.AfterFunc(limit, tell).Stop()
		} else {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			late = timer.C
		}
	}
	before := maps.Clone(d.meta.Headers)
	began := time.Now()
	working, end := w.config.Hooks.processing(inner, &d.meta)
	w.log(slog.LevelDebug, d, "a task begins")
	ended := begin(func() error { return work(working) })
	var failure error
	isLate := false
	select {
	case failure = <-ended:
		if failure != nil && context.Cause(inner) == ErrTimeout {
			failure = ErrTimeout
		}
	case <-late:
		failure, isLate = ErrTimeout, w.held.remove(d, ErrTimeout)
	}
	end(failure)
	if !isLate && !w.held.remove(d, nil) {
		// Lost: the renewal or the stop has logged it.
		return nil
	}
	elapsed := time.Since(began)
	if failure == nil {
		err := w.settling(working, d, "settle", func() error {
			return d.lane.settler.settle(ctx, w.leases, &d.meta)
		})
		if err == nil {
			w.log(slog.LevelDebug, d, "a task is done", "elapsed", elapsed)
		}
		return err
	}
	v := verdictOf(failure)
	// The headers that the hooks have left belong to the next attempt, or the dead letter.
	var element []byte
	if !maps.Equal(before, d.meta.Headers) {
		element = wrap(d.meta.Headers, d.payload)
	}
	if !v.isFinal && !v.isUncounted() {
		if v.isFinal, err = w.isLast(ctx, d); err != nil {
			return err
		}
	}
	if v.isFinal {
		return w.settling(working, d, "bury", func() error { return w.reject(ctx, d, element, v) })
	}
	delay := w.delayAfter(d, v, failure)
	err = w.settling(working, d, "release", func() error { return w.release(ctx, d, element, delay, v) })
	if err == nil {
		w.log(slog.LevelWarn, d, "a task failed", append(v.told(), "elapsed", elapsed, "again_in", delay)...)
	}
	return err
}

// timeout returns how long the handler may take: by the task, or else by the worker.
func (d *delivery) timeout(otherwise time.Duration) time.Duration {
	if ms, err := strconv.ParseInt(d.meta.Headers[timeoutHeader], 10, 43); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return otherwise
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
	// Of a panic.
	stack string
	// isFinal: it is not retried.
	isFinal bool
	retry   *RetryError
}

// verdictOf looks at an error, which can have mistakes of its own: methods that panic, or a nil pointer in it.
func verdictOf(failure error) *verdict {
	v := &verdict{reason: fmt.Sprintf("%T", failure)}
	_ = call(func() error {
		v.isFinal = errors.Is(failure, SkipRetry)
		errors.As(failure, &v.retry)
		v.reason = cmp.Or(failure.Error(), v.reason)
		if panicked := (*PanicError)(nil); errors.As(failure, &panicked) {
			v.stack = string(panicked.Stack)
		}
		return nil
	})
	return v
}

func (v *verdict) isUncounted() bool { return !v.isFinal && v.retry != nil && v.retry.IsUncounted }

// told returns what is logged.
func (v *verdict) told() []any {
	if v.stack == "" {
		return []any{"error", v.reason}
	}
	return []any{"error", v.reason, "stack", v.stack}
}

// words returns what the server keeps.
func (v *verdict) words() (words []any) {
	if v.isUncounted() {
		words = []any{"UNCOUNTED"}
	}
	reason := v.reason
	if v.stack != "" {
		reason += "\n\n" + v.stack
	}
	return append(words, "REASON", shortened(reason))
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
func (w *Worker) delayAfter(d *delivery, v *verdict, failure error) (delay time.Duration) {
	if v.retry != nil {
		return v.retry.Delay
	}
	if err := call(func() error { delay = w.config.RetryDelay(d.meta.Attempt, failure); return nil }); err != nil {
		w.crashed(err, "RetryDelay")
		return time.Minute
	}
	return delay
}

// settling surrounds a command with the hook.
func (w *Worker) settling(ctx context.Context, d *delivery, how string, command func() error) error {
	end := w.config.Hooks.settling(ctx, &d.meta, how)
	err := command()
	end(err)
	return err
}

// isLast returns whether this is the last attempt, by the task's own number, or else by what [lane.most] says now.
func (w *Worker) isLast(ctx context.Context, d *delivery) (bool, error) {
	reply, err := w.leases.ask(ctx, "DEHYDRATOR.LOOK", d.meta.Queue, d.meta.ID, "FULL")
	if err != nil {
		return false, err
	}
	most := integerOf(fields(reply)["deliveries-limit"])
	if most == 0 {
		if most = d.lane.most(); most != Unlimited && most != d.lane.own && d.meta.Attempt >= most {
			if _, err = d.lane.readPolicy(ctx, w.leases); err != nil {
				return false, err
			}
			most = d.lane.most()
		}
	}
	return most != Unlimited && d.meta.Attempt >= most, nil
}

// release gives a task back, to be done again after a delay, with another element if there is one.
func (w *Worker) release(ctx context.Context, d *delivery, element []byte, delay time.Duration, v *verdict) error {
	words := []any{"DEHYDRATOR.RELEASE", d.meta.Queue, milliseconds(delay), d.meta.Token, d.meta.ID}
	return w.endWith(ctx, append(words, v.words()...), element)
}

// endWith sends a command that ends an attempt, with another element if there is one and the server has memory for it.
func (w *Worker) endWith(ctx context.Context, words []any, element []byte) error {
	if element != nil {
		_, err := w.leases.ask(ctx, append(words[:len(words):len(words)], "ELEMENT", element)...)
		if !hasCode(err, "OOM") {
			return err
		}
	}
	_, err := w.leases.ask(ctx, words...)
	return err
}

// giveBack gives back a task that was not begun, or is not waited for, which counts as no attempt, and returns whether the server has it.
func (w *Worker) giveBack(ctx context.Context, server *server, d *delivery, more ...any) bool {
	words := []any{"DEHYDRATOR.RELEASE", d.meta.Queue, 0, d.meta.Token, d.meta.ID, "UNCOUNTED"}
	_, err := server.ask(ctx, append(words, more...)...)
	if err != nil {
		w.crashed(err, "the return of a task")
	}
	return err == nil
}

// reject makes a task a dead letter. Where dead letters have no destination, it waits for an hour.
func (w *Worker) reject(ctx context.Context, d *delivery, element []byte, v *verdict) error {
	err := w.endWith(ctx, append([]any{"DEHYDRATOR.REJECT", d.meta.Queue, d.meta.Token, d.meta.ID}, v.words()...), element)
	if hasCode(err, "NORULE") {
		w.log(slog.LevelError, d, "a task waits for an hour, as dead letters have no destination", v.told()...)
		return w.release(ctx, d, element, time.Hour, v)
	}
	if err == nil {
		w.log(slog.LevelError, d, "a task is a dead letter", v.told()...)
	}
	return err
}

// cutOff gives back the tasks whose handlers still run.
func (w *Worker) cutOff(ctx context.Context) {
	once := *w.leases
	once.patience = 0
	for _, tasks := range w.held.byQueue() {
		for _, d := range tasks {
			if w.held.remove(d, ErrStopped) {
				// It has not failed: a deployment must not make it a dead letter.
				if w.giveBack(ctx, &once, d, "REASON", ErrStopped.Error()) {
					w.log(slog.LevelWarn, d, "a task was given back, uncounted", "cause", ErrStopped)
				}
			}
		}
	}
}
