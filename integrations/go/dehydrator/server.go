package dehydrator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// The pause before a command is resent: the first time, and at most.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second

	// The longest timeout for replies that do not block.
	replyTimeout = 5 * time.Second
)

const (
	// Version is the version of this package.
	Version = "0.1.0"

	// ModuleVersion is the oldest version of the module that it works with.
	ModuleVersion = "0.1.0"
)

// newID returns 32 random hexadecimal digits.
func newID() string {
	var id [16]byte
	// It never returns an error on the systems that Go supports.
	_, _ = rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// A server resends each command until there is a reply, or patience ends. All commands here are safe to repeat.
type server struct {
	client redis.UniversalClient
	// For how long it resends; negative: until stopped.
	patience time.Duration
	// Ends the resending; may be nil.
	stopped <-chan struct{}
	// Called for each error except the last.
	tell func(error)
	// What is wrong with the queue: nothing is sent.
	wrong error
}

// ask returns the reply, which is nil for the server's nil.
func (s *server) ask(ctx context.Context, words ...any) (any, error) {
	if s.wrong != nil {
		return nil, s.wrong
	}
	end := time.Now().Add(s.patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		command := redis.NewCmd(ctx, words...)
		if words[0] == "DEHYDRATOR.MPOLL" {
			command.SetFirstKeyPos(2)
		}
		_ = s.client.Process(ctx, command)
		reply, err := command.Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !passes(err) || s.patience >= 0 && time.Now().Add(pause).After(end) {
			return nil, explained(err)
		}
		if s.tell != nil {
			s.tell(err)
		}
		select {
		case <-s.stopped:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lessUpToHalf(pause)):
		}
	}
}

// integer returns a reply that is a number.
func (s *server) integer(ctx context.Context, words ...any) (int, error) {
	reply, err := s.ask(ctx, words...)
	if err != nil {
		return 0, err
	}
	number, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("%w of %v: %v", errReply, words[0], reply)
	}
	return int(number), nil
}

// integers returns a reply that is an array of numbers.
func (s *server) integers(ctx context.Context, words ...any) ([]int64, error) {
	reply, err := s.ask(ctx, words...)
	if err != nil {
		return nil, err
	}
	array, _ := reply.([]any)
	numbers := make([]int64, len(array))
	for i, one := range array {
		numbers[i], _ = one.(int64)
	}
	return numbers, nil
}

// check returns an error that explains what to do if the server lacks support, by INFO. Who may not read that finds out
// with the next command whether the module is there.
func (s *server) check(ctx context.Context) error {
	told, err := s.ask(ctx, "INFO", "dehydrator")
	if _, refused := replied(err); refused && !passes(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, version, found := strings.Cut(textOf(told), "dehydrator_version:")
	if !found {
		return ErrModuleMissing
	}
	if version, _, _ = strings.Cut(version, "\r"); isOlder(version, ModuleVersion) {
		return fmt.Errorf("%w: it is %s, not %s", ErrModuleTooOld, version, ModuleVersion)
	}
	return nil
}

// isOlder returns whether a version, as 0.1.0, comes before another.
func isOlder(version, other string) bool {
	var one, two [3]int
	_, _ = fmt.Sscanf(version, "%d.%d.%d", &one[0], &one[1], &one[2])
	_, _ = fmt.Sscanf(other, "%d.%d.%d", &two[0], &two[1], &two[2])
	return slices.Compare(one[:], two[:]) < 0
}

// fields parses a map in RESP3, or an array of names and values in RESP2.
func fields(reply any) map[string]any {
	told := map[string]any{}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			told[fmt.Sprint(name)] = value
		}
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			told[fmt.Sprint(reply[i])] = reply[i+1]
		}
	}
	return told
}

func integerOf(value any) int {
	number, _ := value.(int64)
	return int(number)
}

// momentOf returns the zero time for nil.
func momentOf(value any) time.Time {
	if value == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(integerOf(value)))
}

// withTexts returns words followed by texts.
func withTexts(words []any, texts []string) []any {
	for _, one := range texts {
		words = append(words, one)
	}
	return words
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// milliseconds returns a duration rounded up: never early.
func milliseconds(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return max(0, ms)
}

// unixMilliseconds returns a moment rounded up.
func unixMilliseconds(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return max(0, ms)
}
