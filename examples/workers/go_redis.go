// A worker with go-redis 9. README.md describes it. Replace work.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	queue            = setting("QUEUE", "{jobs}")
	blockMS, leaseMS = setting("BLOCK_MS", int64(5000)), setting("LEASE_MS", int64(60_000))
	retryMS, most    = setting("RETRY_MS", int64(1000)), setting("DELIVERIES", int64(5))
	stopping, _      = signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	passing          = regexp.MustCompile(`^(BUSY|LOADING|READONLY|UNBLOCKED|NOREPLICAS|MISCONF)\b`)
	server           *redis.Client // A pool: the work uses another connection than POLL.
)

func work(lost context.Context, id, job string, deliveries int64) error {
	word, number := "", int64(0)
	fmt.Sscan(job, &word, &number)
	if word == "fail" && deliveries <= number {
		return errors.New("it was to fail")
	}
	if word == "slow" {
		select {
		case <-time.After(time.Duration(number) * time.Millisecond):
		case <-lost.Done():
			return lost.Err()
		}
	}
	ask("SADD", queue+":done", fmt.Sprint(id, " ", deliveries, " ", time.Now().UnixMilli()))
	return nil
}

func setting[T any](name string, value T) T { fmt.Sscan(os.Getenv(name), &value); return value }

func ask(command ...any) any {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		reply, err := server.Do(context.Background(), command...).Result()
		if err == nil || err == redis.Nil || stopping.Err() != nil && command[0] == "DEHYDRATOR.POLL" {
			return reply
		}
		if _, refused := err.(redis.Error); refused && !passing.MatchString(err.Error()) {
			log.Fatalf("%v: %v", command[0], err)
		}
		log.Printf("%v again: %v", command[0], err)
		time.Sleep(pause)
	}
}

func do(token, id, job string, deliveries int64) {
	lost, lose := context.WithCancel(context.Background())
	defer lose()
	ended := make(chan error)
	go func() { ended <- work(lost, id, job, deliveries) }()
	for {
		select {
		case <-time.After(time.Duration(leaseMS/3) * time.Millisecond):
			if held := ask("DEHYDRATOR.RENEW", queue, leaseMS, token, id); held.([]any)[0] == int64(0) {
				lose()
			}
		case err := <-ended:
			if err == nil {
				ask("DEHYDRATOR.SETTLE", queue, token, id)
			} else {
				log.Printf("%s failed: %v", id, err)
				ask("DEHYDRATOR.RELEASE", queue, retryMS<<(deliveries-1), token, id)
			}
			return
		}
	}
}

func main() {
	options, err := redis.ParseURL(setting("REDIS_URL", "redis://127.0.0.1:6379"))
	if err != nil {
		log.Fatal(err)
	}
	// The library resends nothing: ask does.
	options.MaxRetries, options.ReadTimeout = -1, time.Duration(blockMS+5000)*time.Millisecond
	server = redis.NewClient(options)
	ask("DEHYDRATOR.ONDUE", queue, "HOLD", "DELIVERIES", most, "STREAM", queue+":dead")
	for stopping.Err() == nil {
		token := rand.Text()
		poll := []any{"DEHYDRATOR.POLL", queue, "COUNT", 1, "BLOCK", blockMS, "LEASE", leaseMS, "TOKEN", token}
		elements, _ := ask(poll...).([]any)
		for _, element := range elements {
			fields := element.([]any)
			do(token, fields[0].(string), fields[1].(string), fields[2].(int64))
		}
	}
}
