package dehydrator_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

var (
	ctx     = context.Background()
	until   = realserver.Until
	isQuick = os.Getenv("DEHYDRATOR_QUICK") != ""
	quiet   = slog.New(slog.NewTextHandler(io.Discard, nil))
	// quick retries soon.
	quick = dehydrator.ExponentialBackoff(50*time.Millisecond, 100*time.Millisecond)
)

// TestMain is also a worker, which tests of kills start as a program.
func TestMain(m *testing.M) {
	if addr := os.Getenv("DEHYDRATOR_TEST_WORKER"); addr != "" {
		workAsProgram(addr)
		return
	}
	os.Exit(m.Run())
}

// job is a payload for workAsProgram.
type job struct {
	MS   int `json:"ms"`
	Fail int `json:"fail"`
}

// workAsProgram notes in a file what it begins and does, as `done id attempt at pid`.
func workAsProgram(addr string) {
	stop, end := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer end()
	notes, err := os.OpenFile(os.Getenv("DEHYDRATOR_TEST_NOTES"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	jobs := dehydrator.NewQueue[job](redis.NewClient(&redis.Options{Addr: addr}), "jobs")
	worker := dehydrator.NewWorker(dehydrator.Config{
		Concurrency: 4, Lease: 4 * time.Second, Attempts: 50, Block: 500 * time.Millisecond, Logger: quiet,
		RetryDelay: dehydrator.ExponentialBackoff(50*time.Millisecond, 200*time.Millisecond),
	}, jobs.HandleFunc(func(ctx context.Context, task *dehydrator.Task[job]) error {
		note := func(what string) {
			_, _ = fmt.Fprintln(notes, what, task.ID, task.Attempt, time.Now().UnixMilli(), os.Getpid())
		}
		note("begun")
		time.Sleep(time.Duration(task.Payload.MS) * time.Millisecond)
		if task.Attempt <= task.Payload.Fail {
			note("failed")
			return fmt.Errorf("it was to fail")
		}
		note("done")
		return nil
	}))
	if err := worker.Run(stop); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func clientOf(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func queueOf[T any](t testing.TB, server *realserver.Server, options ...dehydrator.QueueOption) *dehydrator.Queue[T] {
	return dehydrator.NewQueue[T](clientOf(t, server.Addr), "jobs", options...)
}

// start runs a worker until the test ends, or the returned function is called.
func start(t testing.TB, config dehydrator.Config, routes ...dehydrator.Route) (*dehydrator.Worker, func()) {
	t.Helper()
	if config.RetryDelay == nil {
		config.RetryDelay = quick
	}
	if config.Block == 0 {
		config.Block = 300 * time.Millisecond
	}
	if config.Logger == nil {
		config.Logger = quiet
	}
	worker := dehydrator.NewWorker(config, routes...)
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(running) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("the worker did not end")
		}
	})
	t.Cleanup(stop)
	return worker, stop
}

// list is safe for concurrent use.
type list[T any] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T{}, l.items...)
}

func (l *list[T]) len() int { return len(l.all()) }

// logged are the lines of a log.
type logged struct{ list[string] }

func (l *logged) Write(line []byte) (int, error) {
	l.add(string(line))
	return len(line), nil
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with returns the first line with a text.
func (l *logged) with(text string) string {
	for _, line := range l.all() {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// empty returns whether a queue is empty.
func empty[T any](t testing.TB, jobs *dehydrator.Queue[T]) func() bool {
	return func() bool { return must(jobs.Len(ctx))(t) == 0 }
}

// must returns a value, or ends the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal[T any](t testing.TB, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Fatalf("it is %s, not %s", g, w)
	}
}
