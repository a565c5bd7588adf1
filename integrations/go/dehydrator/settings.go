package dehydrator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A QueueOption changes a [Queue].
type QueueOption func(*settings)

// settings are those of a queue, whatever the type of its payloads.
type settings struct {
	checks
	server server
	name   string
	dead   string
	codec  Codec
	hooks  *Hooks
	// The queue has no several keys: that was asked.
	hasOneKey atomic.Bool
}

func settingsOf(client redis.UniversalClient, name string, options []QueueOption) *settings {
	s := &settings{
		server: server{client: client, patience: 10 * time.Second},
		name:   name,
		dead:   beside(client, name, "dead"),
		codec:  JSON,
		hooks:  &Hooks{},
	}
	s.text(name, "the queue's name")
	s.that(client != nil, "the client", "is nil")
	for _, one := range options {
		one(s)
	}
	s.server.wrong = s.wrong
	return s
}

// WithCodec sets how payloads are converted to bytes: [JSON] by default.
func WithCodec(codec Codec) QueueOption {
	return func(s *settings) {
		s.that(codec != nil, "WithCodec", "is nil")
		s.codec = codec
	}
}

// WithHooks sets the hooks of [Queue.Enqueue]. Those of a worker are in its [Config].
func WithHooks(hooks *Hooks) QueueOption {
	return func(s *settings) { s.hooks = cmp.Or(hooks, s.hooks) }
}

// WithPatience sets for how long a command is resent while the server is away: ten seconds by default; 0: not at all.
func WithPatience(d time.Duration) QueueOption {
	return func(s *settings) {
		s.span(d, 0, "WithPatience")
		s.server.patience = d
	}
}

// WithDeadLetters sets the stream of dead letters: by default, the name of the queue with ":dead".
func WithDeadLetters(key string) QueueOption {
	return func(s *settings) {
		s.text(key, "WithDeadLetters")
		s.dead = key
	}
}

// checkKeys refuses a queue of several keys, before its first task is put. Who may not read where they are named goes on.
func (s *settings) checkKeys(ctx context.Context, server *server) error {
	if s.hasOneKey.Load() {
		return nil
	}
	found, err := server.integer(ctx, "EXISTS", s.name+":keys")
	if _, refused := replied(err); err != nil && !refused {
		return err
	}
	if found == 1 {
		return fmt.Errorf("%w: %s", ErrSeveralKeys, s.name)
	}
	s.hasOneKey.Store(true)
	return nil
}

// beside returns another key of a queue: on a cluster, in its slot.
func beside(client redis.UniversalClient, name, suffix string) string {
	if _, ok := client.(*redis.ClusterClient); ok && !strings.Contains(name, "{") {
		return fmt.Sprintf("{%s}:%s", name, suffix)
	}
	return name + ":" + suffix
}

// A Policy is what the server does with the tasks of a queue that fail: see [Queue.SetPolicy].
type Policy struct {
	// Attempts is how often a task without its own number is delivered before it becomes a dead letter: 5 if it is 0, at most
	// 65535. With [Unlimited], there are no dead letters.
	Attempts int
	// KeepDead is about how many dead letters are kept, the latest ones: 10,000 if it is 0. With [Unlimited], all.
	KeepDead int
}

// Unlimited is for [Config] and [Policy].
const Unlimited = -1

const (
	defaultAttempts = 5
	defaultKeepDead = 10_000
)

func (s *settings) policyWords(p Policy, option ...any) []any {
	words := append(append([]any{"DEHYDRATOR.ONDUE", s.name}, option...), "HOLD")
	if p.Attempts == Unlimited {
		return words
	}
	words = append(words, "DELIVERIES", cmp.Or(p.Attempts, defaultAttempts), "STREAM", s.dead)
	if p.KeepDead == Unlimited {
		return words
	}
	return append(words, "MAXLEN", "~", cmp.Or(p.KeepDead, defaultKeepDead))
}

// policyOf reads a policy from that of INFO.
func policyOf(told map[string]any) Policy {
	return Policy{cmp.Or(integerOf(told["deliveries"]), Unlimited), cmp.Or(integerOf(told["maxlen"]), Unlimited)}
}

// SetPolicy sets how often tasks are delivered, and how many dead letters are kept, in the server and so for all workers. A
// worker sets that of its [Config] only if the queue has no policy; otherwise the fewer attempts hold.
func (q *Queue[T]) SetPolicy(ctx context.Context, policy Policy) error {
	var c checks
	c.number(policy.Attempts, Unlimited, math.MaxUint16, "Attempts")
	c.number(policy.KeepDead, Unlimited, math.MaxInt, "KeepDead")
	if c.wrong != nil {
		return c.wrong
	}
	_, err := q.server.ask(ctx, q.settings.policyWords(policy)...)
	return err
}
