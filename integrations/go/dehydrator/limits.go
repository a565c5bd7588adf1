package dehydrator

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"
)

// Limits are those of a queue, or of a group. 0 is no limit.
type Limits struct {
	// Length is how many tasks fit.
	Length int
	// Held is how many tasks workers have at a time.
	Held int
	// Rate is how many tasks are given out in any Per.
	Rate int
	Per  time.Duration
	// EachLength, EachHeld, EachRate and EachPer are those of each group that has none of its own.
	EachLength, EachHeld, EachRate int
	EachPer                        time.Duration
	// Remember is how long the id of a finished task is refused.
	Remember time.Duration
	// Share is how many tasks the group gives out in its turn.
	Share int
	// Running is how many tasks workers have, if Held is set.
	Running int
}

// A LimitOption is an option of [Queue.Limit].
type LimitOption interface{ limit(*limiting) }

type limiting struct {
	checks
	of, each []any
	group    GroupOption
	// Which options are for groups alone, or for no group.
	ofGroup, ofNone string
}

type limitFunc func(*limiting)

func (f limitFunc) limit(l *limiting) { f(l) }

func limited(option, word string, n, most int) LimitOption {
	return limitFunc(func(l *limiting) {
		l.number(n, 0, most, option)
		l.of = append(l.of, word, n)
	})
}

// each moves what an option sets to the limits of each group.
func each(option string, of LimitOption) LimitOption {
	return limitFunc(func(l *limiting) {
		var own limiting
		of.limit(&own)
		if wrong := (*OptionError)(nil); errors.As(own.wrong, &wrong) {
			l.that(false, option, "%s", wrong.Problem)
		}
		l.each, l.ofNone = append(l.each, own.of...), option
	})
}

// Length limits how many tasks fit: further ones are refused with [ErrQueueFull].
func Length(n int) LimitOption { return limited("Length", "LENGTH", n, math.MaxInt) }

// Held limits how many tasks workers have at a time.
func Held(n int) LimitOption { return limited("Held", "HELD", n, math.MaxInt) }

// Rate limits how many tasks are given out in any `per`, at least a millisecond.
func Rate(n int, per time.Duration) LimitOption {
	return limitFunc(func(l *limiting) {
		l.number(n, 0, math.MaxInt, "Rate")
		if l.of = append(l.of, "RATE", n); n != 0 {
			l.span(per, time.Millisecond, "Rate")
			l.of = append(l.of, "PER", milliseconds(per))
		}
	})
}

// Remember makes the server refuse the id of a task for so long after it was done, rounded up to milliseconds.
func Remember(d time.Duration) LimitOption {
	return limitFunc(func(l *limiting) {
		l.span(d, 0, "Remember")
		l.of, l.ofNone = append(l.of, "REMEMBER", milliseconds(d)), "Remember"
	})
}

// Share sets how many tasks a group gives out in its turn, from 1 to 65535: by default 1. Give [Group] too.
func Share(n int) LimitOption {
	return limitFunc(func(l *limiting) {
		limited("Share", "SHARE", n, math.MaxUint16).limit(l)
		l.ofGroup = "Share"
	})
}

// EachLength is [Length] of each group.
func EachLength(n int) LimitOption { return each("EachLength", Length(n)) }

// EachHeld is [Held] of each group: with 1, the tasks of each customer are done in order, one at a time.
func EachHeld(n int) LimitOption { return each("EachHeld", Held(n)) }

// EachRate is [Rate] of each group.
func EachRate(n int, per time.Duration) LimitOption { return each("EachRate", Rate(n, per)) }

func (g GroupOption) limit(l *limiting) { l.group = g }

// Limit sets limits of the queue, over all workers, or with [Group] of that group. Those that are not named stay as they are;
// 0 removes one. [EachHeld], [EachLength], [EachRate] and [Remember] are not for one group.
func (q *Queue[T]) Limit(ctx context.Context, limits ...LimitOption) error {
	var l limiting
	for _, one := range limits {
		one.limit(&l)
	}
	if l.group.name == nil {
		l.that(l.ofGroup == "", l.ofGroup, "needs a Group")
	} else {
		l.that(l.ofNone == "", l.ofNone, "is not for one Group")
		l.that(len(l.of) > 0 || len(l.each) > 0, "Group", "has no limit beside it")
	}
	if l.wrong != nil {
		return l.wrong
	}
	for _, one := range []struct{ scope, words []any }{{l.group.words(), l.of}, {[]any{"EACH"}, l.each}} {
		if len(one.words) == 0 {
			continue
		}
		words := slices.Concat([]any{"DEHYDRATOR.LIMIT", q.settings.name}, one.scope, one.words)
		if _, err := q.server.ask(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}

// Limits returns the limits of the queue, or those that apply to a group.
func (q *Queue[T]) Limits(ctx context.Context, group ...GroupOption) (Limits, error) {
	info, err := q.Info(ctx, group...)
	if err != nil {
		return Limits{}, err
	}
	number := func(name string) int { return integerOf(info.Fields[name]) }
	span := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
	return Limits{
		Length: number("length-limit"), Held: number("held-limit"), Rate: number("rate-limit"), Per: span("rate-per"),
		EachLength: number("each-length-limit"), EachHeld: number("each-held-limit"),
		EachRate: number("each-rate-limit"), EachPer: span("each-rate-per"),
		Remember: span("remember"), Share: number("share"), Running: number("running"),
	}, nil
}
