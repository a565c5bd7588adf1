package dehydrator

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"
)

// An OptionError is returned for an option that is wrong, before anything is sent; and for a schedule that the server refuses.
type OptionError struct {
	// Option is its name, as "ProcessIn".
	Option string
	// Problem tells what is wrong with it.
	Problem string
}

func (e *OptionError) Error() string { return "dehydrator: " + e.Option + " " + e.Problem }

// checks are those of options: wrong is the first problem.
type checks struct{ wrong error }

func (c *checks) that(holds bool, option, problem string, values ...any) {
	if !holds && c.wrong == nil {
		c.wrong = &OptionError{option, fmt.Sprintf(problem, values...)}
	}
}

// span checks a duration.
func (c *checks) span(d, least time.Duration, option string) {
	c.that(d >= least, option, "is %v, not at least %v", d, least)
}

// number checks a number: 0 means that there is none, or that a limit is removed.
func (c *checks) number(n, least, most int, option string) {
	c.that(n >= least && n <= most, option, "is %d, not from %d to %d", n, least, most)
}

// text checks a name.
func (c *checks) text(text, option string) { c.that(text != "", option, "is empty") }

// An Option changes how a task is put into a queue.
type Option interface{ apply(*putting) }

// putting are the options of one task.
type putting struct {
	common
	id      string
	when    *When
	replace bool
}

// common are the options of a task, however it is put.
type common struct {
	checks
	within, timeout time.Duration
	attempts        int
	group           GroupOption
}

func optionsOf(options ...[]Option) (*putting, error) {
	p := &putting{}
	for _, some := range options {
		for _, one := range some {
			if p.that(one != nil, "options", "have a nil"); one != nil {
				one.apply(p)
			}
		}
	}
	return p, p.wrong
}

// words returns the ttl, and the options of PUSH and MPUSH.
func (p *putting) words() (ttl int64, words []any) {
	words = []any{"NX"}
	if p.replace {
		words = []any{"REPLACE"}
	}
	words = append(words, p.common.words()...)
	if p.when == nil {
		return 0, words
	}
	ttl, at := p.when.words(0)
	return ttl, append(words, at...)
}

func (c *common) words() (words []any) {
	if c.within != 0 {
		words = append(words, "WITHIN", milliseconds(c.within))
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
	if c.timeout == 0 {
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

// A When is the deadline of a task: see [ProcessIn] and [ProcessAt]. The zero value is now.
type When struct {
	delay time.Duration
	at    *time.Time
}

func (w When) apply(p *putting) {
	w.check(&p.checks)
	p.that(p.when == nil, w.name(), "is given beside another deadline")
	p.when = &w
}

func (w When) name() string {
	if w.at != nil {
		return "ProcessAt"
	}
	return "ProcessIn"
}

func (w When) check(c *checks) {
	c.span(w.delay, 0, w.name())
	c.that(w.at == nil || !w.at.IsZero(), w.name(), "is the zero time")
}

// words returns the ttl, at least least, and the absolute deadline, if any.
func (w When) words(least int64) (ttl int64, at []any) {
	if w.at != nil {
		return least, []any{"AT", unixMilliseconds(*w.at)}
	}
	return max(least, milliseconds(w.delay)), nil
}

// ProcessIn makes a task due after a delay, from 0 on, rounded up to milliseconds. Without it, a task is due now.
func ProcessIn(delay time.Duration) When { return When{delay: delay} }

// ProcessAt makes a task due at a moment, by the server's clock, rounded up to milliseconds.
func ProcessAt(at time.Time) When { return When{at: &at} }

// TaskID sets the id, any bytes. Without it, one of 32 hexadecimal digits is drawn.
func TaskID(id string) Option {
	return optionFunc(func(p *putting) {
		p.text(id, "TaskID")
		p.id = id
	})
}

// Replace puts the new task in the place of one with the same id, and restarts its delay: a debounce.
func Replace() Option { return optionFunc(func(p *putting) { p.replace = true }) }

// Within makes a task a dead letter, with the reason "expired", if no worker begins it within d of its deadline: at least a
// millisecond. It is dropped if the queue has no dead letters.
func Within(d time.Duration) TaskOption {
	return func(c *common) {
		c.span(d, time.Millisecond, "Within")
		c.within = d
	}
}

// Timeout sets how long an attempt of this task may take, at least a millisecond, instead of [Config.Timeout].
func Timeout(d time.Duration) TaskOption {
	return func(c *common) {
		c.span(d, time.Millisecond, "Timeout")
		c.timeout = d
	}
}

// Attempts sets how often this task is delivered before it becomes a dead letter, from 1 to 65535, instead of
// [Policy.Attempts].
func Attempts(n int) TaskOption {
	return func(c *common) {
		c.number(n, 1, math.MaxUint16, "Attempts")
		c.attempts = n
	}
}

// A GroupOption names a group of tasks.
type GroupOption struct{ name *string }

// Group names a group, such as a tenant or a customer: groups with due tasks take turns. The name "" is that of the tasks
// without a group, where that can be.
func Group(name string) GroupOption { return GroupOption{&name} }

func (g GroupOption) apply(p *putting)       { g.put(&p.common) }
func (g GroupOption) schedule(s *scheduling) { g.put(&s.common) }

func (g GroupOption) put(c *common) {
	g.check(&c.checks)
	c.group = g
}

// check refuses the tasks without a group.
func (g GroupOption) check(c *checks) { c.that(g.name != nil && *g.name != "", "Group", "is empty") }

func (g GroupOption) words() []any {
	if g.name == nil {
		return nil
	}
	return []any{"GROUP", *g.name}
}

func groupWords(group []GroupOption) (words []any) {
	for _, one := range group {
		words = append(words, one.words()...)
	}
	return words
}

// namedWords returns the words of groups that have a name.
func namedWords(group []GroupOption) (words []any, err error) {
	var c checks
	for _, one := range group {
		one.check(&c)
	}
	c.that(len(group) <= 1, "Group", "is given twice")
	return groupWords(group), c.wrong
}
