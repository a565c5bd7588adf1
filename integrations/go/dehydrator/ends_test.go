package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

// How tasks end that a worker has begun: lost, interrupted, or beyond their time.

func TestALostLeaseEndsTheContextOfTheHandler(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	causes := make(chan error, 1)
	begun := make(chan struct{})
	log := &logged{}
	start(t, dehydrator.Config{Lease: 300 * time.Millisecond, Logger: log.logger()}, jobs.HandleFunc(
		func(ctx context.Context, _ *dehydrator.Task[int]) error {
			close(begun)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("this is ignored")
		}))
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	<-begun
	// Renewed for as long as the handler runs.
	time.Sleep(900 * time.Millisecond)
	equal(t, must(jobs.Look(ctx, "a"))(t).Attempt, 1)
	equal(t, must(jobs.Cancel(ctx, "a"))(t), 1)
	equal(t, <-causes, dehydrator.ErrLeaseLost)
	equal(t, len(must(jobs.DeadLetters(ctx, 10))(t)), 0)
	until(t, func() bool { return strings.Contains(log.with("a task was lost"), dehydrator.ErrLeaseLost.Error()) })
}

func TestAStaleWorkerChangesNothing(t *testing.T) {
	server := realserver.Start(t)
	proxy := through(t, server)
	config := dehydrator.Config{Lease: 600 * time.Millisecond}
	stale := dehydrator.NewQueue[int](clientOf(t, proxy.addr), "jobs")
	causes, begun := make(chan error, 1), make(chan struct{}, 1)
	start(t, config, stale.HandleFunc(func(ctx context.Context, task *dehydrator.Task[int]) error {
		if task.Attempt > 1 {
			t.Error("the stale worker has it again")
		}
		begun <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}))
	jobs := queueOf[int](t, server)
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	<-begun
	proxy.down()
	var done list[int]
	until(t, func() bool { return must(jobs.Info(ctx))(t).Due == 1 })
	start(t, config, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		// By its own clock: the server cannot be asked.
		select {
		case cause := <-causes:
			equal(t, cause, dehydrator.ErrLeaseLost)
		case <-time.After(10 * time.Second):
			t.Error("the stale worker was not told")
		}
		proxy.up()
		done.add(task.Attempt)
		return nil
	}))
	until(t, empty(t, jobs))
	equal(t, fmt.Sprint(done.all()), "[2]")
}

func TestAStopWaitsForHandlersAndTakesNoMore(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	var done list[string]
	begun := make(chan struct{}, 2)
	must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(1, dehydrator.TaskID("a")), dehydrator.NewItem(2, dehydrator.TaskID("b"))}))(t)
	worker, _ := start(t, dehydrator.Config{}, jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[int]) error {
		begun <- struct{}{}
		time.Sleep(700 * time.Millisecond)
		done.add(fmt.Sprint(task.ID, " ", ctx.Err()))
		return nil
	}))
	<-begun
	equal(t, errors.Is(worker.Run(ctx), dehydrator.ErrRunning), true)
	equal(t, worker.Shutdown(ctx), nil)
	equal(t, strings.Join(done.all(), ","), "a <nil>")
	info := must(jobs.Look(ctx, "b"))(t)
	equal(t, info.Attempt, 0)
	// An earlier Shutdown ends a run at once.
	equal(t, worker.Run(ctx), dehydrator.ErrRunning)
	other := dehydrator.NewWorker(dehydrator.Config{Logger: quiet}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return nil }))
	equal(t, other.Shutdown(ctx), nil)
	equal(t, other.Run(ctx), nil)
}

func TestATaskThatArrivesAfterTheStopIsGivenBackUncounted(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	var done list[int]
	handler := jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[int]) error {
		done.add(task.Attempt)
		return nil
	})
	sleepers := func() bool { return strings.Contains(server.Info("clients"), "blocked_clients:1") }
	worker, stop := start(t, dehydrator.Config{Attempts: 1, Block: 20 * time.Second}, handler)
	until(t, sleepers)
	begun, cancel := context.WithCancel(ctx)
	go func() { _ = worker.Shutdown(begun) }()
	cancel()
	time.Sleep(100 * time.Millisecond)
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
	stop()
	info := must(jobs.Look(ctx, "a"))(t)
	equal(t, fmt.Sprint(info.Attempt, info.Leased, done.len()), "0 false 0")
	start(t, dehydrator.Config{Attempts: 1}, handler)
	until(t, empty(t, jobs))
	equal(t, fmt.Sprint(done.all()), "[1]")
}

func TestAStopHasADeadline(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	causes := make(chan error, 10)
	begun := make(chan struct{}, 10)
	handler := jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[int]) error {
		begun <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a"), dehydrator.Attempts(1)))(t)
	// By the context of Shutdown.
	worker, _ := start(t, dehydrator.Config{}, handler)
	<-begun
	brief, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	equal(t, worker.Shutdown(brief), context.DeadlineExceeded)
	equal(t, <-causes, dehydrator.ErrStopped)
	info := must(jobs.Look(ctx, "a"))(t)
	equal(t, fmt.Sprint(info.Attempt, info.Leased), "0 false")
	// By ShutdownTimeout.
	log := &logged{}
	_, stop := start(t, dehydrator.Config{ShutdownTimeout: 300 * time.Millisecond, Logger: log.logger()}, handler)
	<-begun
	began := time.Now()
	stop()
	equal(t, time.Since(began) > 300*time.Millisecond, true)
	equal(t, log.with("stopping: waits for 1 tasks, at most 300ms") != "", true)
	equal(t, log.with("a task was given back, uncounted") != "" && log.with("lost") == "", true)
	equal(t, <-causes, dehydrator.ErrStopped)
	info = must(jobs.Look(ctx, "a"))(t)
	equal(t, fmt.Sprint(info.Attempt, info.Leased), "0 false")
}

func TestAHandlerHasATimeout(t *testing.T) {
	jobs := queueOf[string](t, realserver.Start(t))
	causes := make(chan error, 2)
	stuck := make(chan struct{})
	defer close(stuck)
	var done list[string]
	start(t, dehydrator.Config{Timeout: time.Minute, Attempts: 2}, jobs.HandleFunc(
		func(ctx context.Context, task *dehydrator.Task[string]) error {
			if task.Payload == "hangs" {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				<-stuck
			}
			done.add(task.Payload)
			return nil
		}))
	must(jobs.Enqueue(ctx, "hangs", dehydrator.TaskID("a"), dehydrator.Timeout(200*time.Millisecond)))(t)
	must(jobs.Enqueue(ctx, "next", dehydrator.ProcessIn(10*time.Millisecond)))(t)
	until(t, empty(t, jobs))
	equal(t, <-causes, dehydrator.ErrTimeout)
	letter := must(jobs.DeadLetters(ctx, 1))(t)[0]
	equal(t, fmt.Sprint(letter.ID, letter.Attempt, letter.Reason), "a2"+dehydrator.ErrTimeout.Error())
	equal(t, strings.Join(done.all(), ""), "next")
	// That of the worker.
	start(t, dehydrator.Config{Timeout: 100 * time.Millisecond, Attempts: 1}, jobs.HandleFunc(
		func(ctx context.Context, _ *dehydrator.Task[string]) error { <-stuck; return nil }))
	must(jobs.Enqueue(ctx, "again", dehydrator.TaskID("b"), dehydrator.Attempts(1)))(t)
	until(t, func() bool { return len(must(jobs.DeadLetters(ctx, 9))(t)) == 2 || done.len() == 2 })
}

func TestAHandlerThatGoesOnCanKeepItsPlaceAndThatOfItsGroup(t *testing.T) {
	jobs := queueOf[string](t, realserver.Start(t))
	equal(t, jobs.Limit(ctx, dehydrator.EachHeld(1)), nil)
	var done list[string]
	goOn, log := make(chan struct{}), &logged{}
	config := dehydrator.Config{
		Concurrency: 2, Lease: 300 * time.Millisecond, Timeout: 100 * time.Millisecond, KeepPlace: true, Attempts: 1,
		Logger: log.logger(),
	}
	start(t, config, jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[string]) error {
		switch task.Payload {
		case "fails", "succeeds":
			<-ctx.Done()
			<-goOn
			done.add(task.Payload)
			if task.Payload == "fails" {
				return errors.New("interrupted")
			}
			return nil
		}
		done.add(task.Payload)
		return nil
	}))
	anna, bert := dehydrator.Group("anna"), dehydrator.Group("bert")
	for _, one := range []struct {
		payload string
		group   dehydrator.GroupOption
	}{{"fails", anna}, {"annas", anna}, {"succeeds", bert}, {"berts", bert}} {
		must(jobs.Enqueue(ctx, one.payload, dehydrator.TaskID(one.payload), one.group))(t)
	}
	// Longer than the lease and the timeout.
	time.Sleep(time.Second)
	equal(t, done.len(), 0)
	equal(t, must(jobs.Info(ctx))(t).Leased, 2)
	equal(t, strings.Contains(log.with("keeps its place"), "too long"), true)
	close(goOn)
	until(t, empty(t, jobs))
	all := done.all()
	slices.Sort(all)
	equal(t, strings.Join(all, " "), "annas berts fails succeeds")
	letters := must(jobs.DeadLetters(ctx, 9))(t)
	equal(t, fmt.Sprint(len(letters), letters[0].ID, letters[0].Reason), "1fails"+dehydrator.ErrTimeout.Error())
}

func TestACancelledTaskIsToldAtOnce(t *testing.T) {
	server := realserver.Start(t)
	for _, rights := range []string{"+@all", "-subscribe"} {
		server.Do("ACL", "SETUSER", "anna", "on", ">x", "resetchannels", "&__cancelled@*", "~*", "+@all", rights)
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "anna", Password: "x"})
		defer client.Close()
		jobs := dehydrator.NewQueue[int](client, "jobs")
		causes, begun := make(chan error, 1), make(chan struct{})
		lease := time.Minute
		if rights == "-subscribe" {
			lease = 2 * time.Second
		}
		_, stop := start(t, dehydrator.Config{Lease: lease}, jobs.HandleFunc(func(ctx context.Context, _ *dehydrator.Task[int]) error {
			close(begun)
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		}))
		if rights == "+@all" {
			until(t, func() bool { return strings.Contains(server.Info("stats"), "pubsub_channels:1") })
		}
		must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a")))(t)
		<-begun
		began := time.Now()
		equal(t, must(jobs.Cancel(ctx, "a"))(t), 1)
		equal(t, <-causes, dehydrator.ErrLeaseLost)
		if elapsed := time.Since(began); elapsed > 10*time.Second {
			t.Fatalf("it took %v", elapsed)
		}
		stop()
	}
}
