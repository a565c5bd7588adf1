package dehydrator

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// replyError is an error as the server replies it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

// latin1 returns the bytes of a string of the vectors.
func latin1(text string) string {
	var bytes []byte
	for _, one := range text {
		bytes = append(bytes, byte(one))
	}
	return string(bytes)
}

// What all packages do alike: integrations/protocol.
func TestTheVectorsOfTheProtocolHold(t *testing.T) {
	text, err := os.ReadFile("../../protocol/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Wrap, Unwrap []struct {
			Headers           map[string]string
			Element, Envelope string
		}
		Beside []struct {
			Key, Dead string
			Cluster   bool
		}
		Passing, Final []string
		Errors         map[string]*string
		Backoff        []struct {
			First, Most, Attempt int
			Factor, Jitter       float64
			From, To             float64
		}
		Pauses  []int64
		Letters []struct {
			Entry  []any
			Letter struct {
				Entry, ID, Element, Reason string
				Attempts                   int
				Group                      *string
			}
		}
		PutMany []struct {
			Reply   int64
			Drawn   bool
			Outcome string
		} `json:"put-many"`
		Reasons []struct {
			Text, Reason string
			Times, Cut   int
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	same := func(got, want any) {
		t.Helper()
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if string(g) != string(w) {
			t.Errorf("it is %s, not %s", g, w)
		}
	}
	for _, one := range v.Wrap {
		same(string(wrap(one.Headers, []byte(latin1(one.Element)))), latin1(one.Envelope))
	}
	for _, one := range v.Unwrap {
		headers, element := unwrap([]byte(latin1(one.Envelope)))
		if headers == nil {
			headers = map[string]string{}
		}
		same(headers, one.Headers)
		same(string(element), latin1(one.Element))
	}
	single, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{})
	defer single.Close()
	defer cluster.Close()
	for _, one := range v.Beside {
		client := redis.UniversalClient(single)
		if one.Cluster {
			client = cluster
		}
		same(beside(client, one.Key, "dead"), one.Dead)
	}
	for _, reply := range v.Passing {
		if !passes(replyError(reply)) {
			t.Errorf("%q is final", reply)
		}
	}
	for _, reply := range v.Final {
		if passes(replyError(reply)) {
			t.Errorf("%q passes", reply)
		}
	}
	named := map[string]error{
		"QueueFull": ErrQueueFull, "Exists": ErrExists, "NotFound": ErrNotFound, "TooLate": ErrTooLate,
		"ModuleMissing": ErrModuleMissing,
	}
	for reply, name := range v.Errors {
		err := explained(replyError(reply))
		if name == nil {
			same(err, replyError(reply))
		} else if !errors.Is(err, named[*name]) {
			t.Errorf("%v is not %s", err, *name)
		}
	}
	for _, one := range v.Backoff {
		if one.Factor != 2 || one.Jitter != 0.5 {
			// Other functions are the user's.
			continue
		}
		delay := ExponentialBackoff(time.Duration(one.First)*time.Millisecond, time.Duration(one.Most)*time.Millisecond)
		for range 100 {
			if ms := float64(delay(one.Attempt, nil)) / float64(time.Millisecond); ms < one.From || ms > one.To {
				t.Errorf("%v ms after attempt %d", ms, one.Attempt)
			}
		}
	}
	pause := firstPause
	for _, ms := range v.Pauses {
		same(pause.Milliseconds(), ms)
		pause = min(2*pause, longestPause)
	}
	for _, one := range v.Letters {
		entry := []any{one.Entry[0], []any{}}
		for _, word := range one.Entry[1].([]any) {
			entry[1] = append(entry[1].([]any), latin1(word.(string)))
		}
		letter, err := letterOf[string](entry)
		want := one.Letter
		if want.Group == nil {
			want.Group = new(string)
		}
		same([]any{letter.Entry, letter.ID, string(letter.Element), letter.Reason, letter.Attempt, letter.Group, err},
			[]any{want.Entry, latin1(want.ID), latin1(want.Element), want.Reason, want.Attempts, *want.Group, nil})
	}
	for _, one := range v.PutMany {
		same(outcomeOf(one.Reply, one.Drawn), one.Outcome)
	}
	for _, one := range v.Reasons {
		same(shortened(strings.Repeat(one.Text, one.Times)), strings.Repeat(one.Reason, one.Cut))
	}
}
