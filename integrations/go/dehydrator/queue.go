package dehydrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The maximum number of elements per command, and of bytes, if there are several.
const (
	batch      = 1000
	batchBytes = 1 << 20
)

// A Queue puts tasks into a queue, and reads, postpones and cancels them by their ids. It is safe for concurrent use.
//
// While the server is away, a command is resent until the context ends, or for ten seconds: see [WithPatience]. It takes
// effect once, except as Enqueue and Revive describe.
type Queue[T any] struct {
	settings *settings
	server   *server
}

// NewQueue returns the queue with that name, which is its key in the server. The client may be of a single server, of
// Sentinel or of a cluster; it remains the caller's.
func NewQueue[T any](client redis.UniversalClient, name string, options ...QueueOption) *Queue[T] {
	s := settingsOf(client, name, options)
	return &Queue[T]{s, &s.server}
}

// Name returns the name of the queue.
func (q *Queue[T]) Name() string { return q.settings.name }

func (q *Queue[T]) encode(payload T, headers map[string]string) ([]byte, error) {
	element, err := q.settings.codec.Marshal(payload)
	if err != nil {
		return nil, err
	}
	return wrap(headers, element), nil
}

// Enqueue puts a task into the queue, due now or as an option says, and returns its id. It returns an [OptionError] if an
// option is wrong, and [ErrQueueFull] if a limit is reached.
//
// If a task with that [TaskID] exists, it stays, and [ErrExists] is returned, unless [Replace] is given. If the
// reply is lost, the command is resent: ErrExists can then mean that this call put the task there. If a worker
// has finished the task by then, its id is free, and the task is put there again, unless the server remembers ids: see
// [Remember].
func (q *Queue[T]) Enqueue(ctx context.Context, payload T, options ...Option) (id string, err error) {
	p, err := optionsOf(options)
	if err == nil {
		err = q.settings.checkKeys(ctx, q.server)
	}
	if err != nil {
		return "", err
	}
	id = cmp.Or(p.id, newID())
	headers, end := q.settings.hooks.enqueuing(ctx, q.settings.name, id)
	defer func() {
		if errors.Is(err, ErrExists) {
			// The command did what it should.
			end(nil)
		} else {
			end(err)
		}
	}()
	element, err := q.encode(payload, p.headers(headers))
	if err != nil {
		return "", err
	}
	ttl, words := p.words()
	reply, err := q.server.ask(ctx, append([]any{"DEHYDRATOR.PUSH", q.settings.name, ttl, element, id}, words...)...)
	if err != nil {
		return "", err
	}
	// A drawn id exists only if the same command arrived before.
	if reply == nil && p.id != "" {
		return "", fmt.Errorf("%w: %s", ErrExists, id)
	}
	return id, nil
}

// Item is one of several tasks that are put into a queue at once: see [NewItem].
type Item[T any] struct {
	Payload T
	// Options are those of [Queue.Enqueue].
	Options []Option
}

// NewItem returns an item with the options of [Queue.Enqueue].
func NewItem[T any](payload T, options ...Option) Item[T] { return Item[T]{payload, options} }

// EnqueueMany puts many tasks into the queue. The options apply to each, beside its own. Up to a thousand items, or a megabyte,
// are sent in a command: of those beside each other that have the same options, except [TaskID], [ProcessIn] and [Timeout].
//
// It returns what became of each item, and after an error of those before it. Wrong options are found before anything is sent.
func (q *Queue[T]) EnqueueMany(ctx context.Context, items []Item[T], options ...Option) (results []Result, err error) {
	putting, names := make([]*putting, len(items)), make([]string, len(items))
	for i, one := range items {
		if putting[i], err = optionsOf(options, one.Options); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		names[i] = putting[i].id
	}
	if err := q.settings.checkKeys(ctx, q.server); err != nil {
		return nil, err
	}
	headers, end := q.settings.hooks.enqueuing(ctx, q.settings.name, names...)
	defer func() { end(err) }()
	var words, shared []any
	begin, weight := 0, 0
	flush := func(to int) error {
		if begin == to {
			return nil
		}
		words = append(append([]any{"DEHYDRATOR.MPUSH", q.settings.name}, words...), shared...)
		told, err := q.server.integers(ctx, words...)
		if err == nil && len(told) != to-begin {
			err = fmt.Errorf("%w of MPUSH: %d numbers for %d elements", errReply, len(told), to-begin)
		}
		if err != nil {
			return err
		}
		for i, one := range told {
			results = append(results, Result{names[begin+i], outcomeOf(one, putting[begin+i].id == "")})
		}
		words, begin, weight = nil, to, 0
		return nil
	}
	for i, one := range items {
		element, err := q.encode(one.Payload, putting[i].headers(headers))
		if err != nil {
			return results, err
		}
		ttl, own := putting[i].words()
		if i-begin == batch || i > begin && weight+len(element) > batchBytes || !slices.Equal(own, shared) {
			if err := flush(i); err != nil {
				return results, err
			}
		}
		names[i], shared = cmp.Or(names[i], newID()), own
		words = append(words, ttl, element, names[i])
		weight += len(element)
	}
	err = flush(len(items))
	return results, err
}

// Cancel removes tasks, waiting or with a worker, and returns how many existed.
func (q *Queue[T]) Cancel(ctx context.Context, ids ...string) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return q.server.integer(ctx, withTexts([]any{"DEHYDRATOR.REM", q.settings.name}, ids)...)
}

// CancelAll removes a [Group], or all tasks with a [Prefix], waiting or with a worker, and returns how many.
//
// A thousand are removed at a time. To remove what is there at one moment, pause the group first. If a reply is lost, the
// command is resent, and counts only how many were left.
func (q *Queue[T]) CancelAll(ctx context.Context, of Selection) (int, error) {
	if _, isPrefix := of.(prefix); !isPrefix {
		group, _ := of.(GroupOption)
		if _, err := namedWords([]GroupOption{group}); err != nil {
			return 0, err
		}
		return q.repeated(ctx, append([]any{"DEHYDRATOR.PURGE", q.settings.name}, of.words()...))
	}
	for total, cursor := 0, "0"; ; {
		words := append([]any{"DEHYDRATOR.SCAN", q.settings.name, cursor, "COUNT", 1000}, of.words()...)
		reply, err := q.server.ask(ctx, words...)
		if err != nil {
			return total, err
		}
		page, _ := reply.([]any)
		if len(page) != 2 {
			return total, fmt.Errorf("%w of %v: %v", errReply, words[0], reply)
		}
		cursor = fmt.Sprint(page[0])
		found, _ := page[1].([]any)
		ids := make([]string, len(found))
		for i, id := range found {
			ids[i] = fmt.Sprint(id)
		}
		removed, err := q.Cancel(ctx, ids...)
		total += removed
		if err != nil || cursor == "0" {
			return total, err
		}
	}
}

// repeated sends a command that changes some elements until it has changed all, and returns how many.
func (q *Queue[T]) repeated(ctx context.Context, words []any) (int, error) {
	for total := 0; ; {
		changed, err := q.server.integer(ctx, words...)
		total += changed
		if err != nil || changed == 0 {
			return total, err
		}
	}
}

// Postpone sets the deadline of a task, later or earlier than before. It returns [ErrNotFound] if there is none.
func (q *Queue[T]) Postpone(ctx context.Context, id string, when When) error {
	var c checks
	when.check(&c)
	if c.wrong != nil {
		return c.wrong
	}
	// A ttl of 0 would take the element from its worker; a millisecond does not.
	ttl, at := when.words(1)
	words := append([]any{"DEHYDRATOR.TOUCH", q.settings.name, ttl}, at...)
	found, err := q.server.integer(ctx, append(words, id)...)
	if err == nil && found == 0 {
		return notFound(id)
	}
	return err
}

// PostponeAll sets the deadlines, from now, of a [Group], and returns how many. Tasks with a worker stay as they are, and
// those whose deadline is about that already: up to an eighth of the delay earlier, from a second to a minute. A thousand
// are set at a time, as with CancelAll.
func (q *Queue[T]) PostponeAll(ctx context.Context, delay time.Duration, of GroupOption) (int, error) {
	var c checks
	c.span(delay, 0, "the delay")
	of.check(&c)
	if c.wrong != nil {
		return 0, c.wrong
	}
	words := []any{"DEHYDRATOR.TOUCH", q.settings.name, milliseconds(delay)}
	return q.repeated(ctx, append(words, of.words()...))
}

// Update replaces a payload. The deadline stays. It returns [ErrNotFound] if there is no such task.
func (q *Queue[T]) Update(ctx context.Context, id string, payload T) error {
	element, err := q.encode(payload, nil)
	if err != nil {
		return err
	}
	if _, err = q.server.ask(ctx, "DEHYDRATOR.UPDATE", q.settings.name, id, element); errors.Is(err, ErrNotFound) {
		return notFound(id)
	}
	return err
}

// Look reads a task, without changing it. It returns [ErrNotFound] if there is none.
func (q *Queue[T]) Look(ctx context.Context, id string) (*TaskInfo[T], error) {
	reply, err := q.server.ask(ctx, "DEHYDRATOR.LOOK", q.settings.name, id, "FULL")
	if err == nil && reply == nil {
		err = notFound(id)
	}
	if err != nil {
		return nil, err
	}
	told := fields(reply)
	info, err := q.info(id, told["element"], told["deadline"], told["deliveries"], told["leased"])
	info.Group, info.Reason, info.MaxAttempts = textOf(told["group"]), textOf(told["reason"]), integerOf(told["deliveries-limit"])
	return info, err
}

func (q *Queue[T]) info(id string, element, deadline, deliveries, leased any) (*TaskInfo[T], error) {
	info := &TaskInfo[T]{
		ID:      id,
		Due:     momentOf(deadline),
		Attempt: integerOf(deliveries),
		Leased:  integerOf(leased) == 1,
	}
	_, payload := unwrap([]byte(textOf(element)))
	return info, q.settings.codec.Unmarshal(payload, &info.Payload)
}

// All returns everything in the queue, in the order of delivery, without taking anything. It ends after an error, except
// for a payload that cannot be decoded.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[*TaskInfo[T], error] {
	return func(yield func(*TaskInfo[T], error) bool) {
		for start := any("-"); start != nil; {
			reply, err := q.server.ask(ctx, "DEHYDRATOR.RANGE", q.settings.name, start, "+", "COUNT", batch, "WITHELEMENTS")
			page, _ := reply.([]any)
			if err == nil && len(page) != 2 {
				err = fmt.Errorf("%w of RANGE: %v", errReply, reply)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			rows, _ := page[1].([]any)
			for _, one := range rows {
				row, _ := one.([]any)
				if len(row) < 6 {
					yield(nil, fmt.Errorf("%w of RANGE: %v", errReply, one))
					return
				}
				if !yield(q.info(textOf(row[0]), row[5], row[1], row[3], row[4])) {
					return
				}
			}
			start = page[0]
		}
	}
}

// Len returns the number of tasks: due, with workers, and waiting.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	return q.server.integer(ctx, "DEHYDRATOR.LEN", q.settings.name)
}

// Info returns the state of the queue, or of a group. While the server is away, it is not resent.
func (q *Queue[T]) Info(ctx context.Context, group ...GroupOption) (*QueueInfo, error) {
	once := *q.server
	once.patience = 0
	reply, err := once.ask(ctx, append([]any{"DEHYDRATOR.INFO", q.settings.name}, groupWords(group)...)...)
	if err != nil {
		return nil, err
	}
	told := fields(reply)
	policy := fields(told["policy"])
	told["policy"] = policy
	return &QueueInfo{
		Length:   integerOf(told["length"]),
		Due:      integerOf(told["due"]),
		Leased:   integerOf(told["leased"]),
		Lateness: time.Duration(integerOf(told["oldest-due-ms"])) * time.Millisecond,
		Paused:   integerOf(told["paused"]) == 1,
		Policy:   policyOf(policy),
		Fields:   told,
	}, nil
}

// Pause stops deliveries, of all tasks or of a [Group], for a while, or until Resume if d is 0.
func (q *Queue[T]) Pause(ctx context.Context, d time.Duration, group ...GroupOption) error {
	var c checks
	c.span(d, 0, "the duration")
	of, err := namedWords(group)
	if err = cmp.Or(c.wrong, err); err != nil {
		return err
	}
	words := []any{"DEHYDRATOR.PAUSE", q.settings.name}
	if d > 0 {
		words = append(words, "FOR", milliseconds(d))
	}
	_, err = q.server.ask(ctx, append(words, of...)...)
	return err
}

// Resume ends the pause of the queue or of a [Group], not both.
func (q *Queue[T]) Resume(ctx context.Context, group ...GroupOption) error {
	of, err := namedWords(group)
	if err == nil {
		_, err = q.server.ask(ctx, append([]any{"DEHYDRATOR.RESUME", q.settings.name}, of...)...)
	}
	return err
}

// Check returns [ErrModuleMissing] or [ErrModuleTooOld] if the server lacks support, by its INFO. A worker checks that first.
func (q *Queue[T]) Check(ctx context.Context) error {
	return q.server.check(ctx)
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
