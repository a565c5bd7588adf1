package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

func TestWhatIsDueIsDoneOnceAndNotEarly(t *testing.T) {
	jobs := queueOf[int64](t, realserver.Start(t))
	var early atomic.Int64
	var done list[string]
	var items []dehydrator.Item[int64]
	// The server counts whole milliseconds.
	now := time.Now().Truncate(time.Millisecond)
	for n := range 200 {
		delay := time.Duration(n*5) * time.Millisecond
		items = append(items, dehydrator.NewItem(now.Add(delay).UnixMicro(), dehydrator.TaskID(fmt.Sprint(n)), dehydrator.ProcessIn(delay)))
	}
	must(jobs.EnqueueMany(ctx, items))(t)
	start(t, dehydrator.Config{Concurrency: 20}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int64]) error {
		if time.Now().UnixMicro() < task.Payload {
			early.Add(1)
		}
		done.add(fmt.Sprint(task.ID, " ", task.Attempt, " ", task.Queue))
		return nil
	}))
	until(t, empty(t, jobs))
	equal(t, early.Load(), 0)
	all := done.all()
	slices.Sort(all)
	equal(t, len(slices.Compact(all)), 200)
	equal(t, done.len(), 200)
}

func TestConcurrencyIsABound(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var running, most atomic.Int64
	must(jobs.EnqueueMany(ctx, make([]dehydrator.Item[int], 40)))(t)
	start(t, dehydrator.Config{Concurrency: 3}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(20 * time.Millisecond)
		running.Add(-1)
		return nil
	}))
	until(t, empty(t, jobs))
	equal(t, most.Load(), 3)
}

func TestAFailureIsRetriedAndThenADeadLetter(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	var seen list[string]
	handler := func(_ context.Context, task *dehydrator.Task[int]) error {
		seen.add(fmt.Sprint(task.ID, task.Attempt))
		return fmt.Errorf("no %d", task.Attempt)
	}
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a"), dehydrator.Group("anna")))(t)
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("once"), dehydrator.Attempts(1)))(t)
	must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(1, dehydrator.TaskID("four"))}, dehydrator.Attempts(4)))(t)
	start(t, dehydrator.Config{Attempts: 3}, jobs.HandleFunc(handler))
	until(t, empty(t, jobs))
	all := seen.all()
	slices.Sort(all)
	equal(t, strings.Join(all, " "), "a1 a2 a3 four1 four2 four3 four4 once1")
	reasons := map[string]string{}
	for _, letter := range must(jobs.DeadLetters(ctx, 10))(t) {
		reasons[letter.ID] = fmt.Sprint(letter.Attempt, " ", letter.Reason)
	}
	equal(t, fmt.Sprint(reasons), "map[a:3 no 3 four:4 no 4 once:1 no 1]")
}

func TestAHandlerSaysWhenToRetry(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var at list[time.Time]
	broken := errors.New("no answer")
	var asked list[string]
	config := dehydrator.Config{RetryDelay: func(attempt int, err error) time.Duration {
		asked.add(fmt.Sprint(attempt, " ", errors.Is(err, broken)))
		if attempt == 2 {
			panic("a mistake in RetryDelay waits for a minute")
		}
		return 0
	}}
	start(t, config, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		at.add(time.Now())
		if task.Attempt == 1 {
			return dehydrator.RetryIn(500*time.Millisecond, broken)
		}
		return broken
	}))
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	until(t, func() bool {
		info := must(jobs.Look(ctx, "a"))(t)
		return info.Attempt == 2 && !info.Leased
	})
	equal(t, time.Until(must(jobs.Look(ctx, "a"))(t).Due) > 50*time.Second, true)
	times := at.all()
	// The server counts whole milliseconds.
	equal(t, times[1].Sub(times[0]) > 498*time.Millisecond, true)
	equal(t, strings.Join(asked.all(), ","), "2 true")
}

// badError has a mistake.
type badError struct{}

func (badError) Error() string { panic("no text") }

// typedNil is an error in a way that many programs return by mistake.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }
func (e *typedNil) Unwrap() error { return errors.New(e.text) }

func TestAPanicAndAnyErrorIsAFailedAttempt(t *testing.T) {
	jobs := queueOf[string](t, realserver.Start(t))
	log := &logged{}
	var done list[string]
	config := dehydrator.Config{Attempts: 2, Timeout: time.Minute, Logger: log.logger()}
	own := map[string]error{
		"late": dehydrator.ErrTimeout, "lost": dehydrator.ErrLeaseLost, "stopped": dehydrator.ErrStopped, "typed nil": (*typedNil)(nil),
	}
	_, stop := start(t, config, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[string]) error {
		switch task.Payload {
		case "panic":
			panic("at the disco")
		case "nil":
			var empty map[string]int
			empty["a"] = 1
		case "exit":
			runtime.Goexit()
		case "again":
			if task.Attempt == 1 {
				return dehydrator.RetryIn(0, nil)
			}
			return badError{}
		}
		if err, is := own[task.Payload]; is {
			return err
		}
		done.add(task.Payload)
		return nil
	}))
	for _, how := range []string{"panic", "nil", "exit", "again", "late", "lost", "stopped", "typed nil", "well"} {
		must(jobs.Enqueue(ctx, how, dehydrator.TaskID(how)))(t)
	}
	until(t, empty(t, jobs))
	stop()
	reasons := map[string]string{}
	for _, letter := range must(jobs.DeadLetters(ctx, 10))(t) {
		text, _, _ := strings.Cut(letter.Reason, "\n")
		reasons[letter.ID] = fmt.Sprint(letter.Attempt, " ", text)
	}
	equal(t, fmt.Sprint(reasons), "map[again:2 dehydrator_test.badError exit:2 the handler called runtime.Goexit "+
		"late:2 dehydrator: the handler took too long lost:2 dehydrator: the task was cancelled, or its lease expired "+
		"nil:2 panic: assignment to entry in nil map panic:2 panic: at the disco "+
		"stopped:2 dehydrator: the worker stopped before the work ended typed nil:2 *dehydrator_test.typedNil]")
	equal(t, strings.Join(done.all(), ""), "well")
	// The stack is an attribute of its own, and after the reason in the server.
	for _, what := range []string{"a task failed", "a task is a dead letter"} {
		line := log.with(`msg="dehydrator: ` + what + `" queue=jobs id=panic`)
		_, stack, _ := strings.Cut(line, ` error="panic: at the disco" stack="goroutine`)
		equal(t, strings.Contains(stack, "worker_test.go"), true)
	}
}

func TestWhatCannotBeDecodedIsADeadLetter(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	server.Do("DEHYDRATOR.PUSH", "jobs", 0, "{not json", "a")
	start(t, dehydrator.Config{}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return nil }))
	until(t, empty(t, jobs))
	letter := must(jobs.DeadLetters(ctx, 10))(t)[0]
	equal(t, strings.HasPrefix(letter.Reason, "it cannot be decoded: "), true)
}

func TestQueuesOfSeveralTypesAreServedByPriority(t *testing.T) {
	server := realserver.Start(t)
	client := clientOf(t, server.Addr)
	high, low := dehydrator.NewQueue[int](client, "high"), dehydrator.NewQueue[string](client, "low")
	for n := range 3 {
		must(low.Enqueue(ctx, fmt.Sprint("low", n)))(t)
		must(high.Enqueue(ctx, n))(t)
	}
	var done list[string]
	route := low.Handle(dehydrator.HandlerFunc[string](func(_ context.Context, task *dehydrator.Task[string]) error {
		done.add(task.Payload)
		return nil
	}))
	start(t, dehydrator.Config{}, high.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		done.add(fmt.Sprint(task.Queue, task.Payload))
		return nil
	}), route)
	until(t, func() bool { return done.len() == 6 })
	equal(t, strings.Join(done.all(), " "), "high0 high1 high2 low0 low1 low2")
}

func TestMiddlewareSurroundsTheHandler(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var said list[string]
	named := func(name string) dehydrator.MiddlewareFunc[int] {
		return func(next dehydrator.Handler[int]) dehydrator.Handler[int] {
			return dehydrator.HandlerFunc[int](func(ctx context.Context, task *dehydrator.Task[int]) error {
				said.add(name)
				return next.ProcessTask(ctx, task)
			})
		}
	}
	start(t, dehydrator.Config{}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error {
		said.add("work")
		return nil
	}, named("outer"), named("inner")))
	must(jobs.Enqueue(ctx, 1))(t)
	until(t, empty(t, jobs))
	equal(t, strings.Join(said.all(), " "), "outer inner work")
}

func TestAHookThatPanicsIsOutlived(t *testing.T) {
	hooks := &dehydrator.Hooks{
		Enqueuing:  func(context.Context, string, []string) (map[string]string, func(error)) { panic("enqueuing") },
		Received:   func(context.Context, []*dehydrator.Meta, time.Duration) { panic("received") },
		Processing: func(context.Context, *dehydrator.Meta) (context.Context, func(error)) { panic("processing") },
		Settling:   func(context.Context, *dehydrator.Meta, string) func(error) { return func(error) { panic("settling") } },
	}
	jobs := queueOf[int](t, realserver.Start(t), dehydrator.WithHooks(hooks))
	must(jobs.Enqueue(ctx, 1))(t)
	start(t, dehydrator.Config{Hooks: hooks}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return nil }))
	until(t, empty(t, jobs))
}

func TestHeadersThatAHookChangesBelongToTheNextAttempt(t *testing.T) {
	server := realserver.Start(t)
	var seen list[string]
	hooks := &dehydrator.Hooks{
		Enqueuing: func(context.Context, string, []string) (map[string]string, func(error)) {
			return map[string]string{"a": "1"}, nil
		},
		Processing: func(ctx context.Context, task *dehydrator.Meta) (context.Context, func(error)) {
			return ctx, func(error) { task.Headers["a"] += "<" }
		},
	}
	jobs := queueOf[string](t, server, dehydrator.WithHooks(hooks))
	must(jobs.Enqueue(ctx, "p"))(t)
	start(t, dehydrator.Config{Hooks: hooks, Attempts: 3}, jobs.HandleFunc(
		func(_ context.Context, task *dehydrator.Task[string]) error {
			seen.add(task.Headers["a"] + task.Payload)
			return errors.New("no")
		}))
	until(t, empty(t, jobs))
	equal(t, strings.Join(seen.all(), " "), "1p 1<p 1<<p")
	equal(t, string(must(jobs.DeadLetters(ctx, 1))(t)[0].Element), `"p"`)
}

func TestATaskThatIsTooLateIsNotBegun(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	_, stop := start(t, dehydrator.Config{}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return nil }))
	until(t, func() bool {
		return must(jobs.Info(ctx))(t).Policy.Attempts != dehydrator.Unlimited
	})
	stop()
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("late"), dehydrator.Within(50*time.Millisecond)))(t)
	until(t, empty(t, jobs))
	letter := must(jobs.DeadLetters(ctx, 1))(t)[0]
	equal(t, letter.ID+" "+letter.Reason, "late expired")
}

func TestWithoutAttemptsThePolicyOfTheQueueHolds(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	rejected := jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return dehydrator.SkipRetry })
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	_, stop := start(t, dehydrator.Config{Attempts: dehydrator.Unlimited}, rejected)
	until(t, func() bool {
		info := must(jobs.Look(ctx, "a"))(t)
		return info.Attempt == 1 && time.Until(info.Due) > 55*time.Minute
	})
	stop()
	server.Do("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 9, "STREAM", "jobs:dead")
	equal(t, jobs.Postpone(ctx, "a", dehydrator.ProcessIn(0)), nil)
	start(t, dehydrator.Config{Attempts: dehydrator.Unlimited}, rejected)
	until(t, empty(t, jobs))
	equal(t, len(must(jobs.DeadLetters(ctx, 9))(t)), 1)
}

func TestErrorsThatDoNotPassEndTheWorker(t *testing.T) {
	server := realserver.Start(t)
	handler := func(context.Context, *dehydrator.Task[int]) error { return nil }
	server.Do("LPUSH", "list", "x")
	wrong := dehydrator.NewQueue[int](server.Client, "list").HandleFunc(handler)
	err := dehydrator.NewWorker(dehydrator.Config{Logger: quiet}, wrong).Run(ctx)
	equal(t, redis.HasErrorPrefix(err, "WRONGTYPE"), true)
	bare := queueOf[int](t, realserver.Bare(t)).HandleFunc(handler)
	err = dehydrator.NewWorker(dehydrator.Config{Logger: quiet}, bare).Run(ctx)
	equal(t, errors.Is(err, dehydrator.ErrModuleMissing), true)
	_, err = queueOf[string](t, realserver.Bare(t)).Enqueue(ctx, "anna@example.org")
	equal(t, errors.Is(err, dehydrator.ErrModuleMissing) && !strings.Contains(err.Error(), "anna"), true)
}

func TestTasksThatEndTogetherAreSettledTogether(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	var begun list[int]
	end := make(chan struct{})
	_, stop := start(t, dehydrator.Config{Concurrency: 40}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		begun.add(task.Payload)
		<-end
		return nil
	}))
	must(jobs.EnqueueMany(ctx, payloads(0, 40)))(t)
	until(t, func() bool { return begun.len() == 40 })
	close(end)
	until(t, empty(t, jobs))
	stop()
	var calls int
	_, told, _ := strings.Cut(server.Info("commandstats"), "dehydrator.settle:calls=")
	must(fmt.Sscan(told, &calls))(t)
	if calls > 20 {
		t.Fatalf("%d SETTLE for 40 tasks", calls)
	}
}

func TestAPollWhoseReplyIsLostLosesNothing(t *testing.T) {
	server := realserver.Start(t)
	proxy := through(t, server)
	jobs := dehydrator.NewQueue[int](clientOf(t, proxy.addr), "jobs")
	var done list[string]
	// So long a lease that a lost task would not come again.
	start(t, dehydrator.Config{Concurrency: 2, Lease: time.Hour}, jobs.HandleFunc(
		func(_ context.Context, task *dehydrator.Task[int]) error {
			done.add(fmt.Sprint(task.ID, " ", task.Attempt))
			return nil
		}))
	own := queueOf[int](t, server)
	for n, command := range []string{"DEHYDRATOR.POLL", "DEHYDRATOR.SETTLE", "DEHYDRATOR.POLL"} {
		proxy.cutReplyTo(command)
		until(t, func() bool {
			return command != "DEHYDRATOR.POLL" || strings.Contains(server.Info("clients"), "blocked_clients:1")
		})
		must(own.Enqueue(ctx, n, dehydrator.TaskID(fmt.Sprint(n))))(t)
		until(t, func() bool { return proxy.cuts() == n+1 })
		until(t, empty(t, own))
	}
	equal(t, strings.Join(done.all(), ","), "0 1,1 1,2 1")
}

func TestAHandlerAsksForItsGroupAndItsLastAttempt(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var told list[string]
	start(t, dehydrator.Config{Attempts: 2}, jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[int]) error {
		info, err := task.Info(ctx)
		if err != nil {
			return err
		}
		told.add(fmt.Sprint(info.Group, info.Attempt, info.MaxAttempts, info.IsLast(), info.Reason, task.Payload == info.Payload))
		return errors.New("no")
	}))
	must(jobs.Enqueue(ctx, 1, dehydrator.Group("anna")))(t)
	until(t, empty(t, jobs))
	must(jobs.Enqueue(ctx, 1, dehydrator.Attempts(1)))(t)
	until(t, empty(t, jobs))
	made := &dehydrator.Task[int]{Meta: dehydrator.Meta{Attempt: 3}, Payload: 7}
	equal(t, must(made.Info(ctx))(t).Attempt, 3)
	equal(t, strings.Join(told.all(), ","), "anna1 2 falsetrue,anna2 2 truenotrue,1 1 truetrue")
}

func TestAHandlerIsTestedWithoutAServer(t *testing.T) {
	broken := errors.New("no answer")
	handler := func(ctx context.Context, task *dehydrator.Task[int]) error {
		if info := must(task.Info(ctx))(t); info.IsLast() {
			return fmt.Errorf("%s of %s: %w", task.ID, info.Group, dehydrator.SkipRetry)
		}
		return fmt.Errorf("later: %w", dehydrator.RetryUncounted(time.Duration(task.Payload*task.Attempt)*time.Hour, broken))
	}
	info := dehydrator.TaskInfo[int]{ID: "a", Group: "anna", MaxAttempts: 2}
	err := handler(ctx, dehydrator.NewTestTask(7, info))
	var retry *dehydrator.RetryError
	equal(t, errors.As(err, &retry) && errors.Is(err, broken), true)
	equal(t, fmt.Sprint(retry.Delay, retry.IsUncounted, err), "7h0m0s true later: no answer")
	info.Attempt = 2
	err = handler(ctx, dehydrator.NewTestTask(7, info))
	equal(t, fmt.Sprint(err, errors.Is(err, dehydrator.SkipRetry)), "a of anna: rejected true")
}

func TestARetryNeedNotCount(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var attempts list[string]
	start(t, dehydrator.Config{Attempts: 1}, jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[int]) error {
		info := must(task.Info(ctx))(t)
		if attempts.add(fmt.Sprint(task.Attempt, info.Reason)); attempts.len() < 4 {
			return dehydrator.RetryUncounted(time.Duration(attempts.len()-2)*time.Millisecond, errors.New("later"))
		}
		return dehydrator.RetryUncounted(0, dehydrator.SkipRetry)
	}))
	must(jobs.Enqueue(ctx, 1))(t)
	until(t, empty(t, jobs))
	equal(t, strings.Join(attempts.all(), ","), "1,1later,1later,1later")
	equal(t, must(jobs.DeadLetters(ctx, 1))(t)[0].Reason, "rejected")
}

func TestTheReasonOfAFailureIsKeptWithTheTask(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	start(t, dehydrator.Config{Attempts: 2, RetryDelay: dehydrator.ExponentialBackoff(time.Hour, time.Hour)},
		jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error { panic(strings.Repeat("\u20ac", 2000)) }))
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	until(t, func() bool { info := must(jobs.Look(ctx, "a"))(t); return info.Attempt == 1 && !info.Leased })
	reason := must(jobs.Look(ctx, "a"))(t).Reason
	equal(t, strings.HasPrefix(reason, "panic: \u20ac"), true)
	equal(t, len(reason), 4096-(4096-len("panic: "))%3)
}

func TestAWorkerThatStartsOverwritesNoPolicyAndTakesItsAttempts(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	server.Do("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 2, "STREAM", "elsewhere")
	log := &logged{}
	_, stop := start(t, dehydrator.Config{Logger: log.logger()}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return errors.New("no") }))
	must(jobs.Enqueue(ctx, 1))(t)
	until(t, empty(t, jobs))
	stop()
	equal(t, log.with("the dead letters of queue jobs go to elsewhere, and are read from jobs:dead") != "", true)
	equal(t, server.Do("XLEN", "elsewhere"), any(int64(1)))
	policy := must(jobs.Info(ctx))(t).Fields["policy"].(map[string]any)
	equal(t, fmt.Sprint(policy["deliveries"], policy["dest"]), "2elsewhere")
}

func TestAWorkerStartsOnAServerWhoseMemoryIsFull(t *testing.T) {
	server := realserver.Start(t)
	client := clientOf(t, server.Addr)
	jobs, empties := dehydrator.NewQueue[int](client, "jobs"), dehydrator.NewQueue[int](client, "empty")
	must(jobs.Enqueue(ctx, 1))(t)
	server.Do("CONFIG", "SET", "maxmemory", 1)
	log := &logged{}
	done := func(context.Context, *dehydrator.Task[int]) error { return nil }
	config := dehydrator.Config{Logger: log.logger(), Lease: 300 * time.Millisecond}
	_, stop := start(t, config, jobs.HandleFunc(done), empties.HandleFunc(done))
	until(t, empty(t, jobs))
	server.Do("CONFIG", "SET", "maxmemory", 0)
	until(t, func() bool { return must(empties.Info(ctx))(t).Policy.Attempts == 5 })
	stop()
	equal(t, log.with("memory is full") != "", true)
}

func TestALargeReplyOverASlowNetworkArrives(t *testing.T) {
	server := realserver.Start(t)
	proxy := through(t, server)
	own := queueOf[string](t, server)
	must(own.Enqueue(ctx, strings.Repeat("x", 3_000_000)))(t)
	proxy.slow(400_000)
	jobs := dehydrator.NewQueue[string](clientOf(t, proxy.addr), "jobs")
	began := time.Now()
	var attempts list[int]
	start(t, dehydrator.Config{Lease: time.Minute}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[string]) error {
		attempts.add(task.Attempt)
		return nil
	}))
	until(t, empty(t, own))
	equal(t, time.Since(began) < 20*time.Second, true)
	equal(t, fmt.Sprint(attempts.all()), "[1]")
}
