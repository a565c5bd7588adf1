package dehydrator

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// A Plan tells when a schedule occurs: see [Cron] and [Interval].
type Plan struct {
	words []any
	check func(*checks)
}

// Cron is a plan of five fields, minute, hour, day, month and weekday, in a time zone of the server, such as "Europe/Berlin";
// if that is empty, in UTC.
func Cron(expression, zone string) Plan {
	words := []any{expression}
	if zone != "" {
		words = append(words, "ZONE", zone)
	}
	return Plan{words, func(c *checks) {
		c.that(len(strings.Fields(expression)) == 5, "Cron", "is %q, which has not five fields", expression)
	}}
}

// Interval is a plan that occurs each d, at least a millisecond, from [From] on or after the first d.
func Interval(d time.Duration) Plan {
	return Plan{[]any{milliseconds(d)}, func(c *checks) { c.span(d, time.Millisecond, "Interval") }}
}

// A ScheduleOption is an option of [Queue.Every]. [Attempts], [Within], [Timeout] and [Group] apply to each task.
type ScheduleOption interface{ schedule(*scheduling) }

type scheduling struct {
	common
	words []any
}

type scheduleFunc func(*scheduling)

func (f scheduleFunc) schedule(s *scheduling) { f(s) }

// scheduled is an option of one word and its value.
func scheduled(option, word string, value any, check func(*checks)) ScheduleOption {
	return scheduleFunc(func(s *scheduling) {
		check(&s.checks)
		s.that(!slices.Contains(s.words, any(word)), option, "is given beside another one of its kind")
		s.words = append(s.words, word, value)
	})
}

func isRight(*checks) {}

// From sets the first moment at which a schedule may occur: by default, now.
func From(at time.Time) ScheduleOption {
	return scheduled("From", "FROM", unixMilliseconds(at), func(c *checks) { c.that(!at.IsZero(), "From", "is the zero time") })
}

// Until sets the last moment at which a schedule may occur: by default, it does not end.
func Until(at time.Time) ScheduleOption {
	return scheduled("Until", "UNTIL", max(0, at.UnixMilli()), func(c *checks) { c.that(!at.IsZero(), "Until", "is the zero time") })
}

// Times limits how many tasks a schedule puts, from 1 on.
func Times(n int) ScheduleOption {
	return scheduled("Times", "TIMES", n, func(c *checks) { c.number(n, 1, math.MaxInt, "Times") })
}

// MissedAll puts each occurrence that passed while there was no server, instead of the last one.
func MissedAll() ScheduleOption { return scheduled("MissedAll", "MISSED", "ALL", isRight) }

// MissedNone leaves out occurrences that are over a minute late.
func MissedNone() ScheduleOption { return scheduled("MissedNone", "MISSED", "NONE", isRight) }

// SkipOverlap leaves out an occurrence while the task of the last one waits or is being done.
func SkipOverlap() ScheduleOption { return scheduled("SkipOverlap", "OVERLAP", "SKIP", isRight) }

// Jitter makes each occurrence up to d late, rounded up to milliseconds: always as much for one occurrence.
func Jitter(d time.Duration) ScheduleOption {
	return scheduled("Jitter", "JITTER", milliseconds(d), func(c *checks) { c.span(d, 0, "Jitter") })
}

// Every sets a schedule of the queue: the server puts a task at each occurrence, with the id name@unix-ms. Call it at each
// deployment: with the same arguments, it changes nothing and returns false. A plan that the server refuses is an [OptionError].
func (q *Queue[T]) Every(ctx context.Context, name string, plan Plan, payload T, options ...ScheduleOption) (bool, error) {
	var s scheduling
	s.text(name, "the schedule's name")
	if s.that(plan.check != nil, "the plan", "is empty"); plan.check != nil {
		plan.check(&s.checks)
	}
	for _, one := range options {
		one.schedule(&s)
	}
	if s.wrong != nil {
		return false, s.wrong
	}
	if err := q.settings.checkKeys(ctx, q.server); err != nil {
		return false, err
	}
	element, err := q.encode(payload, s.headers(nil))
	if err != nil {
		return false, err
	}
	words := []any{"DEHYDRATOR.EVERY", q.settings.name, plan.words[0], element, name}
	words = append(append(append(words, plan.words[1:]...), s.words...), s.common.words()...)
	changed, err := q.server.integer(ctx, words...)
	if reply, _ := replied(err); strings.HasPrefix(reply, "ERR ") {
		// Such as a zone that the server does not know, or a cron that never occurs.
		return false, &OptionError{"the plan", "is refused: " + reply}
	}
	return changed == 1, err
}

// A Schedule is what [Queue.Schedules] returns.
type Schedule[T any] struct {
	// Name is that of [Queue.Every].
	Name string
	// Plan is the cron, or a number of milliseconds.
	Plan, Zone string
	// Payload is that of each task.
	Payload T
	// Err tells why the payload could not be decoded.
	Err error
	// Next and Last are zero if there is none.
	Next, Last time.Time
	// Late is how long after Last its task was put.
	Late time.Duration
	// Stored and Missed are how many of its tasks were put, and left out.
	Stored, Missed int
	// Paused tells whether [Queue.PauseSchedule] was called.
	Paused bool
	// Fields are all fields of DEHYDRATOR.SCHEDULES.
	Fields map[string]any
}

// Schedules returns the schedules of the queue, the next one first, or those with these names.
func (q *Queue[T]) Schedules(ctx context.Context, names ...string) ([]Schedule[T], error) {
	reply, err := q.server.ask(ctx, withTexts([]any{"DEHYDRATOR.SCHEDULES", q.settings.name}, names)...)
	rows, _ := reply.([]any)
	var found []Schedule[T]
	for _, row := range rows {
		if row == nil {
			continue
		}
		told := fields(row)
		one := Schedule[T]{
			Name: textOf(told["name"]), Plan: textOf(told["plan"]), Zone: textOf(told["zone"]),
			Next: momentOf(told["next"]), Last: momentOf(told["last"]),
			Late:   time.Duration(integerOf(told["late"])) * time.Millisecond,
			Stored: integerOf(told["stored"]), Missed: integerOf(told["missed"]),
			Paused: integerOf(told["paused"]) == 1, Fields: told,
		}
		_, payload := unwrap([]byte(textOf(told["element"])))
		one.Err = call(func() error { return q.settings.codec.Unmarshal(payload, &one.Payload) })
		found = append(found, one)
	}
	return found, err
}

// Unschedule removes schedules, and returns how many there were. Tasks that they have put stay.
func (q *Queue[T]) Unschedule(ctx context.Context, names ...string) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	return q.server.integer(ctx, withTexts([]any{"DEHYDRATOR.UNSCHEDULE", q.settings.name}, names)...)
}

// PauseSchedule lets a schedule not occur until [Queue.ResumeSchedule].
func (q *Queue[T]) PauseSchedule(ctx context.Context, name string) error {
	_, err := q.server.ask(ctx, "DEHYDRATOR.PAUSE", q.settings.name, "SCHEDULE", name)
	return err
}

// ResumeSchedule ends the pause of a schedule. What would have occurred meanwhile is not missed.
func (q *Queue[T]) ResumeSchedule(ctx context.Context, name string) error {
	_, err := q.server.ask(ctx, "DEHYDRATOR.RESUME", q.settings.name, "SCHEDULE", name)
	return err
}
