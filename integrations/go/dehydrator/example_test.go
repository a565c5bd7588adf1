package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
)

// Mail is a payload.
type Mail struct {
	To string `json:"to"`
}

func send(ctx context.Context, task *dehydrator.Task[Mail]) error {
	fmt.Println(task.ID, task.Payload.To, task.Attempt)
	return nil
}

// A worker as a program: a signal ends it gracefully, and after ten seconds its handlers are interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	mails := dehydrator.NewQueue[Mail](client, "mails")
	worker := dehydrator.NewWorker(dehydrator.Config{
		Concurrency:     20,
		ShutdownTimeout: 10 * time.Second,
	}, mails.HandleFunc(send))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleQueue_Enqueue() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	mails := dehydrator.NewQueue[Mail](client, "mails")
	id, err := mails.Enqueue(ctx, Mail{"anna"}, dehydrator.ProcessIn(5*time.Second))
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
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return next.ProcessTask(ctx, task)
		})
	}
	handler := timed(dehydrator.HandlerFunc[Mail](send))
	task := &dehydrator.Task[Mail]{Meta: dehydrator.Meta{ID: "mail:17", Attempt: 1}, Payload: Mail{"anna"}}
	fmt.Println(handler.ProcessTask(context.Background(), task))
	// Output:
	// mail:17 anna 1
	// <nil>
}
