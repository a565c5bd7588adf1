package dehydrator

import (
	"context"
	"time"
)

// A Plan tells when a schedule occurs: see [Cron] and [Interval].
type Plan struct{ words []any }

// Cron is a plan of five fields in a time zone of the server, such as "Europe/Berlin"; if that is empty, in UTC.
func Cron(fields, zone string) Plan {
	if zone == "" {
		return Plan{[]any{fields}}
	}
	return Plan{[]any{fields, "ZONE", zone}}
}

// Interval is a plan that occurs each d, from [From] on or after the first d.
func Interval(d time.Duration) Plan { return Plan{[]any{milliseconds(d)}} }

// A ScheduleOption is an option of [Queue.Every]. [Attempts], [Within], [Timeout] and [Group] apply to each task.
type ScheduleOption interface{ schedule(*scheduling) }

type scheduling struct {
	common
	words []any
}

type scheduleWords []any

func (w scheduleWords) schedule(s *scheduling) { s.words = append(s.words, w...) }

// From sets the first moment at which a schedule may occur.
func From(at time.Time) ScheduleOption { return scheduleWords{"FROM", unixMilliseconds(at)} }

// Until sets the last moment at which a schedule may occur.
func Until(at time.Time) ScheduleOption { return scheduleWords{"UNTIL", at.UnixMilli()} }

// Times limits how many tasks a schedule puts.
func Times(n int) ScheduleOption { return scheduleWords{"TIMES", n} }

// MissedAll puts each occurrence that passed while there was no server, instead of the last one.
func MissedAll() ScheduleOption { return scheduleWords{"MISSED", "ALL"} }

// MissedNone leaves out occurrences that are over a minute late.
func MissedNone() ScheduleOption { return scheduleWords{"MISSED", "NONE"} }

// SkipOverlap leaves out an occurrence while the task of the last one waits or is being done.
func SkipOverlap() ScheduleOption { return scheduleWords{"OVERLAP", "SKIP"} }

// Jitter makes each occurrence up to d late: always as much for one occurrence.
func Jitter(d time.Duration) ScheduleOption { return scheduleWords{"JITTER", milliseconds(d)} }

// Every sets a schedule of the queue: the server puts a task at each occurrence, with the id name@unix-ms. Call it at each
// deployment: with the same arguments, it changes nothing and returns false.
func (q *Queue[T]) Every(ctx context.Context, name string, plan Plan, payload T, options ...ScheduleOption) (bool, error) {
	if err := q.settings.checkKeys(ctx, q.server); err != nil {
		return false, err
	}
	var s scheduling
	for _, one := range options {
		one.schedule(&s)
	}
	element, err := q.encode(payload, s.headers(nil))
	if err != nil {
		return false, err
	}
	words := []any{"DEHYDRATOR.EVERY", q.settings.name, plan.words[0], element, name}
	words = append(append(append(words, plan.words[1:]...), s.words...), s.common.words()...)
	changed, err := q.server.integer(ctx, words...)
	return changed == 1, err
}

// A Schedule is what [Queue.Schedules] returns.
type Schedule[T any] struct {
	Name string
	// Plan is the cron, or a number of milliseconds.
	Plan, Zone string
	Payload    T
	// Next and Last are zero if there is none.
	Next, Last time.Time
	// Late is how long after Last its task was put.
	Late           time.Duration
	Stored, Missed int
	Paused         bool
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
		if err := q.settings.codec.Unmarshal(payload, &one.Payload); err != nil {
			return found, err
		}
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
