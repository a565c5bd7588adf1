package dehydrator

import (
	"context"
	"fmt"
	"regexp"
)

// DeadLetter is a task that failed for good.
type DeadLetter[T any] struct {
	// Entry names the letter, for [Queue.ReviveLetters], [Queue.ReviveAs] and [Queue.DropLetters].
	Entry string
	// ID and Payload are those of the task.
	ID      string
	Payload T
	// Err tells why the payload, which is zero then, could not be decoded.
	Err error
	// Element is the encoded payload.
	Element []byte
	// Attempt is the number of the last attempt; 0 if there was none.
	Attempt int
	// Reason is empty if its last worker died, and nobody gave it back before.
	Reason string
	// Group is that of the task, into which it is revived.
	Group string
}

// DeadLetters returns the oldest dead letters: up to count of them, at least 1.
func (q *Queue[T]) DeadLetters(ctx context.Context, count int) ([]DeadLetter[T], error) {
	if count < 1 {
		return nil, &OptionError{"count", "is not at least 1"}
	}
	reply, err := q.server.ask(ctx, "XRANGE", q.settings.dead, "-", "+", "COUNT", count)
	if err != nil {
		return nil, err
	}
	entries, _ := reply.([]any)
	letters := make([]DeadLetter[T], 0, len(entries))
	for _, one := range entries {
		letter, err := letterOf[T](one)
		if err != nil {
			return nil, err
		}
		letter.Err = call(func() error { return q.settings.codec.Unmarshal(letter.Element, &letter.Payload) })
		letters = append(letters, letter)
	}
	return letters, nil
}

// letterOf reads an entry of a stream.
func letterOf[T any](entry any) (letter DeadLetter[T], err error) {
	pair, _ := entry.([]any)
	if len(pair) != 2 {
		return letter, fmt.Errorf("%w of XRANGE: %v", errReply, entry)
	}
	told := fields(pair[1])
	letter = DeadLetter[T]{
		Entry: textOf(pair[0]), ID: textOf(told["id"]), Reason: textOf(told["reason"]), Group: textOf(told["group"]),
	}
	_, letter.Element = unwrap([]byte(textOf(told["element"])))
	_, _ = fmt.Sscan(textOf(told["deliveries"]), &letter.Attempt)
	return letter, nil
}

// The most letters that REVIVE looks at.
const reviveMost = 1000

// Revive puts dead letters back, the oldest first and due at once, and returns how many. It looks at `count` letters: one
// whose id is in the queue stays.
//
// If a reply is lost, the command is resent, and so may revive more than it returns.
func (q *Queue[T]) Revive(ctx context.Context, count int) (revived int, err error) {
	if count < 1 {
		return 0, &OptionError{"count", "is not at least 1"}
	}
	var from []any
	for ; count > 0; count -= reviveMost {
		some, next, err := q.revive(ctx, append([]any{"COUNT", min(count, reviveMost)}, from...)...)
		if revived += some; err != nil || next == nil {
			return revived, err
		}
		from = []any{"FROM", next}
	}
	return revived, nil
}

var entryShape = regexp.MustCompile(`^\d+-\d+$`)

// checkEntries refuses what is not of [DeadLetter.Entry], such as the id of a task.
func checkEntries(entries ...string) error {
	var c checks
	for _, one := range entries {
		c.that(entryShape.MatchString(one), "Entry", "is %q, not a DeadLetter.Entry", one)
	}
	return c.wrong
}

// ReviveLetters puts these dead letters back, and returns how many: one that is not there, or whose id is in the queue, is
// left out.
func (q *Queue[T]) ReviveLetters(ctx context.Context, entries ...string) (int, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	if err := checkEntries(entries...); err != nil {
		return 0, err
	}
	revived, _, err := q.revive(ctx, withTexts([]any{"IDS", len(entries)}, entries)...)
	return revived, err
}

// ReviveAs puts a dead letter back with another payload. It returns [ErrNotFound] if the letter is not there, or its id is
// in the queue.
func (q *Queue[T]) ReviveAs(ctx context.Context, entry string, payload T) error {
	if err := checkEntries(entry); err != nil {
		return err
	}
	element, err := q.encode(payload, nil)
	if err != nil {
		return err
	}
	revived, _, err := q.revive(ctx, "ELEMENT", element, "IDS", 1, entry)
	if err == nil && revived == 0 {
		return ErrNotFound
	}
	return err
}

// revive returns how many letters were put back, and which one comes next, if any.
func (q *Queue[T]) revive(ctx context.Context, words ...any) (revived int, next any, err error) {
	reply, err := q.server.ask(ctx, append([]any{"DEHYDRATOR.REVIVE", q.settings.name}, words...)...)
	if pair, _ := reply.([]any); len(pair) == 2 {
		return integerOf(pair[0]), pair[1], err
	}
	return 0, nil, err
}

// DropLetters removes these dead letters, and returns how many there were.
func (q *Queue[T]) DropLetters(ctx context.Context, entries ...string) (int, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	if err := checkEntries(entries...); err != nil {
		return 0, err
	}
	return q.server.integer(ctx, withTexts([]any{"XDEL", q.settings.dead}, entries)...)
}
