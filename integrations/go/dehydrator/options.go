package dehydrator

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Option changes how a task is put into a queue.
type Option interface{ apply(*putting) }

// putting are the options of one call.
type putting struct {
	id       string
	when     When
	replace  bool
	within   *time.Duration
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
	words := []any{"NX"}
	if p.replace {
		words[0] = "REPLACE"
	}
	if p.within != nil {
		words = append(words, "WITHIN", milliseconds(*p.within))
	}
	if p.attempts != 0 {
		words = append(words, "DELIVERIES", p.attempts)
	}
	return append(words, p.group.words()...)
}

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
func Within(d time.Duration) Option { return optionFunc(func(p *putting) { p.within = &d }) }

// Attempts sets how often this task is delivered before it becomes a dead letter, instead of [Config.Attempts].
func Attempts(n int) Option { return optionFunc(func(p *putting) { p.attempts = n }) }

// A GroupOption names a group of tasks.
type GroupOption struct{ name string }

// Group names a group, such as a tenant: groups with due tasks take turns.
func Group(name string) GroupOption { return GroupOption{name} }

func (g GroupOption) apply(p *putting) { p.group = g }

func (g GroupOption) words() []any {
	if g.name == "" {
		return nil
	}
	return []any{"GROUP", g.name}
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
	server  server
	name    string
	dead    string
	codec   Codec
	hooks   *Hooks
	keep    int
	keepFor time.Duration
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

// keepWords returns the trim options of the stream of dead letters.
func (s *settings) keepWords() []any {
	switch {
	case s.keep > 0:
		return []any{"MAXLEN", s.keep}
	case s.keepFor > 0:
		return []any{"MINID", milliseconds(s.keepFor)}
	}
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

// KeepDead limits the number of dead letters. By default, all are kept.
func KeepDead(most int) QueueOption { return func(s *settings) { s.keep = most } }

// KeepDeadFor limits the age of dead letters: older ones are dropped when a worker adds the next.
func KeepDeadFor(age time.Duration) QueueOption { return func(s *settings) { s.keepFor = age } }
