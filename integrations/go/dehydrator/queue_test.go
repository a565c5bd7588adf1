package dehydrator_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

func TestATaskIsPutReadPostponedAndCancelledByItsID(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[map[string]string](t, server)
	id := must(jobs.Enqueue(ctx, map[string]string{"to": "<anna> & é\u2028"}, dehydrator.ProcessIn(time.Minute)))(t)
	equal(t, len(id), 32)
	info := must(jobs.Look(ctx, id))(t)
	equal(t, info.Payload["to"], "<anna> & é\u2028")
	equal(t, info.Attempt, 0)
	equal(t, info.Leased, false)
	if in := time.Until(info.Due); in < 50*time.Second || in > 61*time.Second {
		t.Fatalf("it is due in %v", in)
	}
	at := time.Date(2099, 1, 2, 3, 4, 5, 678_000_001, time.UTC)
	equal(t, jobs.Postpone(ctx, id, dehydrator.ProcessAt(at)), nil)
	equal(t, must(jobs.Look(ctx, id))(t).Due.UnixMilli(), at.UnixMilli()+1)
	equal(t, jobs.Update(ctx, id, map[string]string{"to": "bert"}), nil)
	equal(t, must(jobs.Look(ctx, id))(t).Payload["to"], "bert")
	equal(t, jobs.Postpone(ctx, id, dehydrator.ProcessIn(1<<63-1)), nil)
	equal(t, time.Until(must(jobs.Look(ctx, id))(t).Due) > 250*365*24*time.Hour, true)
	equal(t, must(jobs.Cancel(ctx, id, "another"))(t), 1)
	equal(t, must(jobs.Cancel(ctx))(t), 0)
	equal(t, must(jobs.Len(ctx))(t), 0)
	_, err := jobs.Look(ctx, id)
	for _, err := range []error{err, jobs.Postpone(ctx, id, dehydrator.ProcessIn(0)), jobs.Update(ctx, id, nil)} {
		equal(t, errors.Is(err, dehydrator.ErrNotFound), true)
	}
}

func TestADuplicateIsRefusedOrReplacesTheTask(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	equal(t, must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a"), dehydrator.ProcessIn(time.Hour)))(t), "a")
	_, err := jobs.Enqueue(ctx, 2, dehydrator.TaskID("a"))
	equal(t, errors.Is(err, dehydrator.ErrExists), true)
	equal(t, must(jobs.Look(ctx, "a"))(t).Payload, 1)
	must(jobs.Enqueue(ctx, 3, dehydrator.TaskID("a"), dehydrator.ProcessIn(2*time.Hour), dehydrator.Replace()))(t)
	info := must(jobs.Look(ctx, "a"))(t)
	equal(t, info.Payload, 3)
	equal(t, time.Until(info.Due) > 90*time.Minute, true)
	results := must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(4, dehydrator.TaskID("a")), dehydrator.NewItem(5, dehydrator.TaskID("b")), {Payload: 6}}))(t)
	equal(t, fmt.Sprint(results[:2]), "[{a exists} {b stored}]")
	equal(t, len(results[2].ID), 32)
	again := must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(7, dehydrator.TaskID("a"))}, dehydrator.Replace()))(t)
	equal(t, fmt.Sprint(again), "[{a stored}]")
	equal(t, must(jobs.Look(ctx, "a"))(t).Payload, 7)
}

func TestManyAreListedInTheOrderOfDelivery(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	items := make([]dehydrator.Item[int], 2500)
	for n := range items {
		items[n] = dehydrator.NewItem(n, dehydrator.TaskID(fmt.Sprint(n)), dehydrator.ProcessIn(time.Hour+time.Duration(n)*time.Second))
	}
	for n, one := range must(jobs.EnqueueMany(ctx, items))(t) {
		equal(t, one, dehydrator.Result{ID: fmt.Sprint(n), Outcome: dehydrator.Stored})
	}
	next := 0
	for info, err := range jobs.All(ctx) {
		equal(t, err, nil)
		equal(t, info.Payload, next)
		next++
	}
	equal(t, next, 2500)
	for range jobs.All(ctx) {
		break
	}
}

func TestAnyBytesAreIDsAndPayloads(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[[]byte](t, server, dehydrator.WithCodec(dehydrator.Raw))
	huge := bytes.Repeat([]byte("\x00\xff\r\n{"), 5_000_000)
	payloads := [][]byte{{}, {0}, []byte("a\x00b\r\n\xff"), []byte("\x1e{\"a\":\"b\"}\nc"), []byte("\x1e{"), []byte("\x1e"), huge}
	for n, payload := range payloads {
		id := fmt.Sprintf("\x00\xff id\r\n%d", n)
		equal(t, must(jobs.Enqueue(ctx, payload, dehydrator.TaskID(id)))(t), id)
		equal(t, bytes.Equal(must(jobs.Look(ctx, id))(t).Payload, payload), true)
	}
	var done list[*dehydrator.Task[[]byte]]
	start(t, dehydrator.Config{}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[[]byte]) error {
		done.add(task)
		return nil
	}))
	until(t, empty(t, jobs))
	for n, task := range done.all() {
		equal(t, task.ID, fmt.Sprintf("\x00\xff id\r\n%d", n))
		equal(t, bytes.Equal(task.Payload, payloads[n]), true)
		equal(t, len(task.Headers), 0)
	}
	equal(t, done.len(), len(payloads))
	_, err := dehydrator.NewQueue[int](server.Client, "jobs", dehydrator.WithCodec(dehydrator.Raw)).Enqueue(ctx, 1)
	equal(t, err != nil, true)
	equal(t, must(dehydrator.NewQueue[string](server.Client, "text", dehydrator.WithCodec(dehydrator.Raw)).Enqueue(ctx, ""))(t) != "", true)
}

func TestGroupsAndPrefixesAreCancelledPostponedAndPaused(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	anna, bert := dehydrator.Group("anna"), dehydrator.Group("bert")
	for n := range 6 {
		must(jobs.Enqueue(ctx, n, anna, dehydrator.TaskID(fmt.Sprint("a", n)), dehydrator.ProcessIn(time.Hour)))(t)
		must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(n, dehydrator.TaskID(fmt.Sprint("b", n)))}, bert))(t)
	}
	equal(t, must(jobs.Info(ctx, anna))(t).Length, 6)
	equal(t, must(jobs.PostponeAll(ctx, 2*time.Hour, anna))(t), 6)
	equal(t, time.Until(must(jobs.Look(ctx, "a0"))(t).Due) > 90*time.Minute, true)
	equal(t, jobs.Pause(ctx, 0, anna), nil)
	equal(t, must(jobs.Info(ctx, anna))(t).Paused, true)
	equal(t, must(jobs.Info(ctx))(t).Paused, false)
	equal(t, jobs.Resume(ctx, anna), nil)
	equal(t, jobs.Pause(ctx, time.Minute), nil)
	info := must(jobs.Info(ctx))(t)
	equal(t, info.Paused && info.Fields["paused-until"] != nil, true)
	equal(t, jobs.Resume(ctx), nil)
	equal(t, must(jobs.CancelAll(ctx, anna))(t), 6)
	equal(t, must(jobs.CancelAll(ctx, dehydrator.Prefix("b1")))(t), 1)
	equal(t, must(jobs.Len(ctx))(t), 5)
}

func TestErrorsCanBeToldApart(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	server.Do("DEHYDRATOR.LIMIT", "jobs", "LENGTH", 1)
	must(jobs.Enqueue(ctx, 1, dehydrator.ProcessIn(time.Hour)))(t)
	_, err := jobs.Enqueue(ctx, 2)
	equal(t, errors.Is(err, dehydrator.ErrQueueFull), true)
	equal(t, must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{{Payload: 2}}))(t)[0].Outcome, dehydrator.Full)
	server.Do("CONFIG", "SET", "dehydrator.max-ttl", 60_000)
	_, err = jobs.Enqueue(ctx, 2, dehydrator.ProcessIn(time.Hour))
	equal(t, errors.Is(err, dehydrator.ErrTooLate), true)
	server.Do("CONFIG", "SET", "dehydrator.max-ttl", 0)
	server.Do("CONFIG", "SET", "maxmemory", 1)
	_, err = dehydrator.NewQueue[int](server.Client, "other").Enqueue(ctx, 1)
	equal(t, errors.Is(err, dehydrator.ErrQueueFull), true)
	server.Do("CONFIG", "SET", "maxmemory", 0)

	server.Do("SET", "text", "x")
	_, err = dehydrator.NewQueue[int](server.Client, "text").Enqueue(ctx, 1)
	equal(t, redis.HasErrorPrefix(err, "WRONGTYPE"), true)

	bare := realserver.Bare(t)
	other := queueOf[int](t, bare)
	_, err = other.Enqueue(ctx, 1)
	equal(t, errors.Is(err, dehydrator.ErrModuleMissing), true)
	equal(t, errors.Is(other.Check(ctx), dehydrator.ErrModuleMissing), true)
	equal(t, jobs.Check(ctx), nil)
	_, err = dehydrator.NewQueue[func()](server.Client, "jobs").Enqueue(ctx, nil)
	equal(t, err != nil, true)
}

func TestACommandIsResentWhileTheServerIsAwayUntilTheContextEnds(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	must(jobs.Enqueue(ctx, 1, dehydrator.TaskID("a"), dehydrator.ProcessIn(time.Hour)))(t)
	server.Kill()
	brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := jobs.Enqueue(brief, 2)
	equal(t, errors.Is(err, context.DeadlineExceeded), true)
	impatient := dehydrator.NewQueue[int](clientOf(t, server.Addr), "jobs", dehydrator.WithPatience(0))
	_, err = impatient.Len(ctx)
	equal(t, err != nil && !errors.Is(err, context.DeadlineExceeded), true)
	put := make(chan error, 1)
	patient := queueOf[int](t, server, dehydrator.WithPatience(time.Minute))
	go func() {
		_, err := patient.Enqueue(ctx, 2, dehydrator.TaskID("b"))
		put <- err
	}()
	server.Up()
	equal(t, <-put, nil)
	equal(t, must(jobs.Len(ctx))(t), 2)
	closed := redis.NewClient(&redis.Options{Addr: server.Addr})
	_ = closed.Close()
	_, err = dehydrator.NewQueue[int](closed, "jobs").Enqueue(ctx, 1)
	equal(t, errors.Is(err, redis.ErrClosed), true)
}

func TestAPutWhoseReplyIsLostHasTheGeneratedIDOnce(t *testing.T) {
	server := realserver.Start(t)
	proxy := through(t, server)
	jobs := dehydrator.NewQueue[int](clientOf(t, proxy.addr), "jobs")
	for n, command := range []string{"DEHYDRATOR.PUSH", "DEHYDRATOR.MPUSH"} {
		must(jobs.Len(ctx))(t)
		proxy.cutReplyTo(command)
		if command == "DEHYDRATOR.PUSH" {
			must(jobs.Enqueue(ctx, n, dehydrator.ProcessIn(time.Hour)))(t)
		} else {
			equal(t, must(jobs.EnqueueMany(ctx, []dehydrator.Item[int]{dehydrator.NewItem(n, dehydrator.ProcessIn(time.Hour))}))(t)[0].Outcome, dehydrator.Stored)
		}
		equal(t, proxy.cuts(), n+1)
		equal(t, must(jobs.Len(ctx))(t), n+1)
	}
}

func TestDeadLettersAreListedRevivedEditedAndDroppedByTheirEntries(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[string](t, server)
	_, stop := start(t, dehydrator.Config{}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[string]) error {
		return fmt.Errorf("no address of %s: %w", task.Payload, dehydrator.SkipRetry)
	}))
	for _, who := range strings.Fields("anna bert carl dora") {
		must(jobs.Enqueue(ctx, who, dehydrator.TaskID(who), dehydrator.Group("g")))(t)
		until(t, empty(t, jobs))
	}
	stop()
	policy := must(jobs.Info(ctx))(t).Fields["policy"].(map[string]any)
	equal(t, fmt.Sprint(policy["maxlen"], policy["approximate"]), "10000 1")
	letters := must(jobs.DeadLetters(ctx, 10))(t)
	equal(t, len(letters), 4)
	equal(t, fmt.Sprintf("%s %s %s %d %s %s", letters[1].ID, letters[1].Payload, letters[1].Element, letters[1].Attempt,
		letters[1].Reason, letters[1].Group), `bert bert "bert" 1 no address of bert: rejected g`)
	must(jobs.Enqueue(ctx, "again", dehydrator.TaskID("carl")))(t)
	equal(t, must(jobs.DropLetters(ctx, letters[0].Entry, "1-1"))(t), 1)
	equal(t, must(jobs.ReviveLetters(ctx, letters[0].Entry, letters[2].Entry))(t), 0)
	equal(t, jobs.ReviveAs(ctx, letters[3].Entry, "dora@example.org"), nil)
	equal(t, errors.Is(jobs.ReviveAs(ctx, letters[3].Entry, ""), dehydrator.ErrNotFound), true)
	equal(t, must(jobs.Look(ctx, "dora"))(t).Payload, "dora@example.org")
	equal(t, must(jobs.Revive(ctx, 10))(t), 1)
	bert := must(jobs.Look(ctx, "bert"))(t)
	equal(t, bert.Payload+bert.Group, "bertg")
	equal(t, must(jobs.DeadLetters(ctx, 10))(t)[0].ID, "carl")
	server.Do("XADD", "jobs:dead", "*", "id", "x", "element", "{", "deliveries", "1")
	equal(t, must(jobs.DeadLetters(ctx, 10))(t)[1].Err != nil, true)
}

func TestManyDeadLettersAreRevivedByOneCall(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	server.Do("DEHYDRATOR.ONDUE", "jobs", "HOLD", "DELIVERIES", 1, "STREAM", "jobs:dead")
	for n := range 2500 {
		server.Do("XADD", "jobs:dead", "*", "id", n, "element", n, "deliveries", 1)
	}
	equal(t, must(jobs.Revive(ctx, 2400))(t), 2400)
	equal(t, must(jobs.Revive(ctx, 2400))(t), 100)
}

func TestAServerOfAnOlderModuleIsToldApart(t *testing.T) {
	for _, one := range []struct {
		version string
		want    error
	}{
		{"0.0.9", dehydrator.ErrModuleTooOld},
		{"0.1.0", nil},
		{"0.10.0", nil},
		{"1.0.0-rc.1", nil},
		// Who may not read it finds out by the next command.
		{"", nil},
	} {
		info := "dehydrator_version:" + one.version + "\r\n"
		replies := map[string]string{"INFO": fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)}
		if one.version == "" {
			replies["INFO"] = "-NOPERM this user has no permissions\r\n"
		}
		err := dehydrator.NewQueue[int](clientOf(t, answering(t, replies)), "jobs").Check(ctx)
		if !errors.Is(err, one.want) || err != nil && !strings.Contains(err.Error(), one.version) {
			t.Errorf("%q: %v", one.version, err)
		}
	}
}

// answering returns the address of a server that knows some commands.
func answering(t *testing.T, replies map[string]string) string {
	listening := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listening.Close() })
	go func() {
		for {
			conn, err := listening.Accept()
			if err != nil {
				return
			}
			go func() {
				for words := bufio.NewScanner(conn); words.Scan(); {
					name := strings.TrimPrefix(strings.ToUpper(words.Text()), "DEHYDRATOR.")
					if name == "HELLO" || name == "CLIENT" {
						_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
					}
					_, _ = conn.Write([]byte(replies[name]))
				}
			}()
		}
	}()
	return listening.Addr().String()
}

func TestAQueueOfSeveralKeysIsRefused(t *testing.T) {
	server := realserver.Start(t)
	server.Do("SET", "jobs:keys", `{"generation":1,"lists":[["{jobs:0}"]]}`)
	jobs := queueOf[int](t, server)
	_, err := jobs.Enqueue(ctx, 1)
	equal(t, errors.Is(err, dehydrator.ErrSeveralKeys), true)
	_, err = jobs.EnqueueMany(ctx, []dehydrator.Item[int]{{Payload: 1}})
	equal(t, errors.Is(err, dehydrator.ErrSeveralKeys), true)
	err = dehydrator.NewWorker(dehydrator.Config{Logger: quiet}, jobs.HandleFunc(func(context.Context, *dehydrator.Task[int]) error { return nil })).Run(ctx)
	equal(t, errors.Is(err, dehydrator.ErrSeveralKeys), true)
	equal(t, server.Do("EXISTS", "jobs"), any(int64(0)))
	// Who may not look goes on.
	server.Do("ACL", "SETUSER", "anna", "on", ">x", "+@all", "-exists", "~jobs*")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "anna", Password: "x"})
	defer client.Close()
	must(dehydrator.NewQueue[int](client, "jobs").Enqueue(ctx, 1))(t)
}

func TestLimitsAreSetAndRead(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	equal(t, jobs.Limit(ctx, dehydrator.Rate(10, time.Second), dehydrator.Held(5), dehydrator.Length(100),
		dehydrator.EachHeld(1), dehydrator.EachLength(9), dehydrator.EachRate(2, time.Minute), dehydrator.Remember(time.Hour)), nil)
	equal(t, must(jobs.Limits(ctx))(t), dehydrator.Limits{Length: 100, Held: 5, Rate: 10, Per: time.Second,
		EachLength: 9, EachHeld: 1, EachRate: 2, EachPer: time.Minute, Remember: time.Hour})
	carl := dehydrator.Group("carl")
	equal(t, jobs.Limit(ctx, carl, dehydrator.Share(3)), nil)
	equal(t, must(jobs.Limits(ctx, carl))(t), dehydrator.Limits{Length: 9, Held: 1, Rate: 2, Per: time.Minute, Share: 3})
	equal(t, jobs.Limit(ctx, dehydrator.Rate(0, 0), dehydrator.EachRate(0, 0)), nil)
	equal(t, must(jobs.Limits(ctx))(t).Rate+must(jobs.Limits(ctx))(t).EachRate, 0)
	equal(t, jobs.Limit(ctx), nil)
}

func TestAWorkerNeedsTheModulesCommandsAlone(t *testing.T) {
	server := realserver.Start(t)
	rights := []any{"ACL", "SETUSER", "anna", "on", ">x", "resetchannels", "resetkeys", "~jobs*", "-@all"}
	for _, command := range server.Do("COMMAND", "LIST", "FILTERBY", "MODULE", "dehydrator").([]any) {
		rights = append(rights, "+"+command.(string))
	}
	server.Do(rights...)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "anna", Password: "x"})
	defer client.Close()
	jobs := dehydrator.NewQueue[string](client, "jobs")
	var done list[string]
	start(t, dehydrator.Config{Attempts: 2, Lease: 300 * time.Millisecond, Timeout: time.Second}, jobs.HandleFunc(
		func(_ context.Context, task *dehydrator.Task[string]) error {
			if task.Payload == "bad" && task.Attempt < 3 {
				return errors.New("no")
			}
			time.Sleep(500 * time.Millisecond)
			done.add(task.Payload)
			return nil
		}))
	for _, one := range []string{"good", "bad"} {
		must(jobs.Enqueue(ctx, one, dehydrator.TaskID(one)))(t)
	}
	must(jobs.Every(ctx, "tick", dehydrator.Interval(50*time.Millisecond), "tick", dehydrator.Times(1)))(t)
	until(t, func() bool { return done.len() == 2 && server.Do("XLEN", "jobs:dead") == any(int64(1)) })
	equal(t, must(jobs.Revive(ctx, 1))(t), 1)
	equal(t, jobs.Limit(ctx, dehydrator.Rate(1, time.Second)), nil)
	equal(t, must(jobs.CancelAll(ctx, dehydrator.Prefix("")))(t) >= 0, true)
}
