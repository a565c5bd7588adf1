package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

var client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})

// Mail is a payload.
type Mail struct {
	To string `json:"to"`
}

func send(ctx context.Context, task *dehydrator.Task[Mail]) error {
	fmt.Println(task.ID, task.Payload.To, task.Attempt)
	return nil
}

// A worker as a program: a signal ends it gracefully, after ten seconds its handlers are interrupted, and a second signal
// ends it at once.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
	mails := dehydrator.NewQueue[Mail](client, "mails")
	worker := dehydrator.NewWorker(dehydrator.Config{
		Concurrency:     20,
		Timeout:         time.Minute,
		ShutdownTimeout: 10 * time.Second,
		RetryDelay:      dehydrator.ExponentialBackoff(time.Second, time.Hour),
	}, mails.HandleFunc(send))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleQueue_Enqueue() {
	ctx := context.Background()
	mails := dehydrator.NewQueue[Mail](client, "mails")
	id, err := mails.Enqueue(ctx, Mail{"anna"}, dehydrator.ProcessIn(5*time.Second), dehydrator.Group("anna"))
	if err != nil {
		log.Fatal(err)
	}
	log.Print(id)
	// Safe to repeat.
	_, err = mails.Enqueue(ctx, Mail{"bert"}, dehydrator.TaskID("mail:18"), dehydrator.ProcessIn(10*time.Minute))
	if err != nil && !errors.Is(err, dehydrator.ErrExists) {
		log.Fatal(err)
	}
}

func ExampleQueue_EnqueueMany() {
	mails := dehydrator.NewQueue[Mail](client, "mails")
	results, err := mails.EnqueueMany(context.Background(), []dehydrator.Item[Mail]{
		{Payload: Mail{"anna"}},
		dehydrator.NewItem(Mail{"bert"}, dehydrator.TaskID("mail:19"), dehydrator.ProcessIn(time.Hour)),
	}, dehydrator.Attempts(3))
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range results {
		fmt.Println(one.ID, one.Outcome == dehydrator.Stored)
	}
}

func ExampleQueue_Limit() {
	mails := dehydrator.NewQueue[Mail](client, "mails")
	// Ten a second, and one at a time of each customer, who are groups.
	err := mails.Limit(context.Background(), dehydrator.Rate(10, time.Second), dehydrator.EachHeld(1))
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleQueue_Every() {
	mails := dehydrator.NewQueue[Mail](client, "mails")
	nine := dehydrator.Cron("0 9 * * 1-5", "Europe/Berlin")
	if _, err := mails.Every(context.Background(), "report", nine, Mail{"boss"}, dehydrator.SkipOverlap()); err != nil {
		log.Fatal(err)
	}
}

func ExampleQueue_Revive() {
	ctx := context.Background()
	mails := dehydrator.NewQueue[Mail](client, "mails")
	if err := mails.SetPolicy(ctx, dehydrator.Policy{Attempts: 3, KeepDead: 1000}); err != nil {
		log.Fatal(err)
	}
	letters, err := mails.DeadLetters(ctx, 100)
	for _, one := range letters {
		fmt.Println(one.ID, one.Attempt, one.Reason)
	}
	if err == nil {
		_, err = mails.Revive(ctx, 100)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleTask_Info() {
	mails := dehydrator.NewQueue[Mail](client, "mails")
	mails.HandleFunc(func(ctx context.Context, task *dehydrator.Task[Mail]) error {
		info, err := task.Info(ctx)
		if err == nil && info.IsLast() {
			log.Print("the last attempt for ", info.Group, ", after ", info.Reason)
		}
		return dehydrator.RetryIn(time.Hour, err)
	})
}

func ExampleSkipRetry() {
	handler := func(_ context.Context, task *dehydrator.Task[Mail]) error {
		if task.Payload.To == "" {
			return fmt.Errorf("no address: %w", dehydrator.SkipRetry)
		}
		return nil
	}
	fmt.Println(handler(context.Background(), &dehydrator.Task[Mail]{}))
	// Output: no address: rejected
}

func ExampleMiddlewareFunc() {
	timed := func(next dehydrator.Handler[Mail]) dehydrator.Handler[Mail] {
		return dehydrator.HandlerFunc[Mail](func(ctx context.Context, task *dehydrator.Task[Mail]) error {
			defer fmt.Println(task.ID, "has ended")
			return next.ProcessTask(ctx, task)
		})
	}
	task := &dehydrator.Task[Mail]{Meta: dehydrator.Meta{ID: "mail:17", Attempt: 1}, Payload: Mail{"anna"}}
	fmt.Println(timed(dehydrator.HandlerFunc[Mail](send)).ProcessTask(context.Background(), task))
	// Output:
	// mail:17 anna 1
	// mail:17 has ended
	// <nil>
}

func TestTheExamplesRun(t *testing.T) {
	client = clientOf(t, realserver.Start(t).Addr)
	for _, example := range []func(){
		ExampleQueue_Enqueue, ExampleQueue_EnqueueMany, ExampleQueue_Limit, ExampleQueue_Every, ExampleQueue_Revive, ExampleTask_Info,
	} {
		example()
	}
	mails := dehydrator.NewQueue[Mail](client, "mails")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Example()
	}()
	// The mail to anna in five seconds and the one without a delay are sent, and what is later stays.
	until(t, func() bool { return must(mails.Len(ctx))(t) == 2 })
	equal(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM), nil)
	<-ended
}
