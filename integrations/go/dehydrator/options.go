package dehydrator

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Option changes how a task is put into a queue.
type Option interface{ apply(*putting) }

// putting are the options of one call.
type putting struct {
	common
	id      string
	when    When
	replace bool
}

// common are the options of a task, however it is put.
type common struct {
	within   *time.Duration
	timeout  time.Duration
	attempts int
	group    GroupOption
}

func optionsOf(options []Option) putting {
	var p putting
	for _, one := range options {
		one.apply(&p)
	}
	return p
}

// words returns the options that PUSH and MPUSH have in common.
func (p *putting) words() []any {
	if p.replace {
		return append([]any{"REPLACE"}, p.common.words()...)
	}
	return append([]any{"NX"}, p.common.words()...)
}

func (c *common) words() (words []any) {
	if c.within != nil {
		words = append(words, "WITHIN", milliseconds(*c.within))
	}
	if c.attempts != 0 {
		words = append(words, "DELIVERIES", c.attempts)
	}
	return append(words, c.group.words()...)
}

// timeoutHeader has the timeout of a task, in milliseconds.
const timeoutHeader = "timeout"

// headers adds those that options make.
func (c *common) headers(headers map[string]string) map[string]string {
	if c.timeout <= 0 {
		return headers
	}
	with := map[string]string{timeoutHeader: strconv.FormatInt(milliseconds(c.timeout), 10)}
	maps.Copy(with, headers)
	return with
}

// A TaskOption is an option of a task, however it is put.
type TaskOption func(*common)

func (f TaskOption) apply(p *putting)       { f(&p.common) }
func (f TaskOption) schedule(s *scheduling) { f(&s.common) }

type optionFunc func(*putting)

func (f optionFunc) apply(p *putting) { f(p) }

// A When is the deadline of a task: see [ProcessIn] and [ProcessAt].
type When struct {
	delay time.Duration
	at    time.Time
}

func (w When) apply(p *putting) { p.when = w }

// words returns the ttl, at least least, and the absolute deadline, if any.
func (w When) words(least int64) (ttl int64, at []any) {
	if !w.at.IsZero() {
		return least, []any{"AT", unixMilliseconds(w.at)}
	}
	return max(least, milliseconds(w.delay)), nil
}

// ProcessIn makes a task due after a delay.
func ProcessIn(delay time.Duration) When { return When{delay: delay} }

// ProcessAt makes a task due at a moment, by the server's clock.
func ProcessAt(at time.Time) When { return When{at: at} }

// TaskID sets the id, any bytes. If it is empty, one is generated.
func TaskID(id string) Option { return optionFunc(func(p *putting) { p.id = id }) }

// Replace puts the new task in the place of one with the same id, and restarts its delay: a debounce.
func Replace() Option { return optionFunc(func(p *putting) { p.replace = true }) }

// Within makes a task a dead letter, with the reason "expired", if no worker begins it within d of its deadline. It is
// dropped if no worker of the queue has set a number of attempts.
func Within(d time.Duration) TaskOption { return func(c *common) { c.within = &d } }

// Timeout sets how long a handler may take for this task, instead of [Config.Timeout]. Workers in Go and Node know it.
func Timeout(d time.Duration) TaskOption { return func(c *common) { c.timeout = d } }

// Attempts sets how often this task is delivered before it becomes a dead letter, instead of [Config.Attempts].
func Attempts(n int) TaskOption { return func(c *common) { c.attempts = n } }

// A GroupOption names a group of tasks.
type GroupOption struct{ name *string }

// Group names a group, such as a tenant: groups with due tasks take turns. The tasks without one are the group "".
func Group(name string) GroupOption { return GroupOption{&name} }

func (g GroupOption) apply(p *putting)       { p.group = g }
func (g GroupOption) schedule(s *scheduling) { s.group = g }

func (g GroupOption) words() []any {
	if g.name == nil {
		return nil
	}
	return []any{"GROUP", *g.name}
}

func groupWords(group []GroupOption) []any {
	var words []any
	for _, one := range group {
		words = append(words, one.words()...)
	}
	return words
}

// A Selection is some tasks of a queue: a [Group], or those with a [Prefix].
type Selection interface{ words() []any }

type prefix string

// Prefix selects the tasks whose ids begin so.
func Prefix(of string) Selection { return prefix(of) }

// words returns how SCAN matches the ids.
func (p prefix) words() []any {
	return []any{"MATCH", strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(string(p)) + "*"}
}

// A QueueOption changes a [Queue].
type QueueOption func(*settings)

// settings are those of a queue, whatever the type of its payloads.
type settings struct {
	server server
	name   string
	dead   string
	codec  Codec
	hooks  *Hooks
	keep   int
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
	for _, one := range options {
		one(s)
	}
	return s
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

// WithCodec sets how payloads are converted to bytes: [JSON] by default.
func WithCodec(codec Codec) QueueOption { return func(s *settings) { s.codec = codec } }

// WithHooks sets the hooks of [Queue.Enqueue]. Those of a worker are in its [Config].
func WithHooks(hooks *Hooks) QueueOption { return func(s *settings) { s.hooks = hooks } }

// WithPatience sets for how long a command is resent while the server is away: ten seconds by default.
func WithPatience(d time.Duration) QueueOption { return func(s *settings) { s.server.patience = d } }

// WithDeadLetters sets the stream of dead letters: by default, the name of the queue with ":dead".
func WithDeadLetters(key string) QueueOption { return func(s *settings) { s.dead = key } }

// KeepDead limits the number of dead letters, approximately. By default, all are kept.
func KeepDead(most int) QueueOption { return func(s *settings) { s.keep = most } }
