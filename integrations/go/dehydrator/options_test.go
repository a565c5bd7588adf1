package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	d "dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

// Every option that can be wrong is refused by its name, before anything is sent.
func TestAWrongOptionIsRefusedByItsName(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	done := func(context.Context, *d.Task[int]) error { return nil }
	named := func(options ...d.QueueOption) error {
		return d.NewQueue[int](server.Client, "jobs", options...).Pause(ctx, 0)
	}
	put := func(options ...d.Option) error {
		_, err := jobs.Enqueue(ctx, 1, options...)
		_, many := jobs.EnqueueMany(ctx, []d.Item[int]{{Payload: 1}, d.NewItem(1, options...)})
		if err == nil || many == nil || many.Error() != "item 1: "+err.Error() {
			t.Errorf("of one: %v, of many: %v", err, many)
		}
		return err
	}
	every := func(plan d.Plan, options ...d.ScheduleOption) error {
		_, err := jobs.Every(ctx, "tick", plan, 1, options...)
		return err
	}
	hourly := d.Interval(time.Hour)
	limit := func(options ...d.LimitOption) error { return jobs.Limit(ctx, options...) }
	work := func(config d.Config, routes ...d.Route) error {
		config.Logger = quiet
		return d.NewWorker(config, append(routes, jobs.HandleFunc(done))...).Run(ctx)
	}
	second := func(_ any, err error) error { return err }
	for i, one := range []struct {
		err    error
		option string
	}{
		{d.NewQueue[int](server.Client, "").Pause(ctx, 0), "the queue's name"},
		{d.NewQueue[int](nil, "jobs").Pause(ctx, 0), "the client"},
		{named(d.WithCodec(nil)), "WithCodec"},
		{named(d.WithPatience(-1)), "WithPatience"},
		{named(d.WithDeadLetters("")), "WithDeadLetters"},

		{put(d.ProcessIn(-time.Second)), "ProcessIn"},
		{put(d.ProcessAt(time.Time{})), "ProcessAt"},
		{put(d.ProcessIn(0), d.ProcessAt(time.Now())), "ProcessAt"},
		{put(d.ProcessAt(time.Now()), d.ProcessIn(0)), "ProcessIn"},
		{put(d.TaskID("")), "TaskID"},
		{put(d.Group("")), "Group"},
		{put(d.Within(0)), "Within"},
		{put(d.Timeout(-time.Second)), "Timeout"},
		{put(d.Timeout(0)), "Timeout"},
		{put(d.Attempts(0)), "Attempts"},
		{put(d.Timeout(30)), "Timeout"},
		{second(jobs.ReviveLetters(ctx, "1-0", "a")), "Entry"},
		{second(jobs.DropLetters(ctx, "mail:18")), "Entry"},
		{jobs.ReviveAs(ctx, "", 1), "Entry"},
		{put(nil), "options"},
		{put(d.Attempts(65536)), "Attempts"},
		{put(d.Attempts(d.Unlimited)), "Attempts"},

		{jobs.Postpone(ctx, "a", d.ProcessIn(-1)), "ProcessIn"},
		{jobs.Postpone(ctx, "a", d.ProcessAt(time.Time{})), "ProcessAt"},
		{second(jobs.PostponeAll(ctx, -1, d.Group("anna"))), "the delay"},
		{second(jobs.PostponeAll(ctx, 1, d.Group(""))), "Group"},
		{second(jobs.CancelAll(ctx, d.Group(""))), "Group"},
		{second(jobs.CancelAll(ctx, d.GroupOption{})), "Group"},
		{second(jobs.CancelAll(ctx, nil)), "Group"},
		{jobs.Pause(ctx, -1), "the duration"},
		{jobs.Pause(ctx, 0, d.Group("")), "Group"},
		{jobs.Pause(ctx, 0, d.Group("anna"), d.Group("bert")), "Group"},
		{jobs.Resume(ctx, d.Group("")), "Group"},
		{second(jobs.DeadLetters(ctx, 0)), "count"},
		{second(jobs.Revive(ctx, -1)), "count"},
		{jobs.SetPolicy(ctx, d.Policy{Attempts: -2}), "Attempts"},
		{jobs.SetPolicy(ctx, d.Policy{Attempts: 65536}), "Attempts"},
		{jobs.SetPolicy(ctx, d.Policy{KeepDead: -2}), "KeepDead"},

		{limit(d.Length(-1)), "Length"},
		{limit(d.Held(-1)), "Held"},
		{limit(d.Rate(-1, time.Second)), "Rate"},
		{limit(d.Rate(10, 0)), "Rate"},
		{limit(d.Rate(10, time.Microsecond)), "Rate"},
		{limit(d.Remember(-1)), "Remember"},
		{limit(d.Share(2)), "Share"},
		{limit(d.Group("anna"), d.Share(-1)), "Share"},
		{limit(d.Group("anna"), d.Share(65536)), "Share"},
		{limit(d.EachLength(-1)), "EachLength"},
		{limit(d.EachHeld(-1)), "EachHeld"},
		{limit(d.EachRate(1, 0)), "EachRate"},
		{limit(d.EachHeld(1), d.Group("anna")), "EachHeld"},
		{limit(d.Group("anna"), d.EachLength(1)), "EachLength"},
		{limit(d.Group("anna"), d.EachRate(1, time.Second)), "EachRate"},
		{limit(d.Group("anna"), d.Remember(time.Second)), "Remember"},
		{limit(d.Group("anna")), "Group"},

		{every(d.Plan{}), "the plan"},
		{every(d.Cron("", "")), "Cron"},
		{every(d.Cron("0 9 * *", "Europe/Berlin")), "Cron"},
		{every(d.Interval(0)), "Interval"},
		{every(d.Interval(time.Microsecond)), "Interval"},
		{second(jobs.Every(ctx, "", hourly, 1)), "the schedule's name"},
		{every(hourly, d.From(time.Time{})), "From"},
		{every(hourly, d.Until(time.Time{})), "Until"},
		{every(hourly, d.Times(0)), "Times"},
		{every(hourly, d.Jitter(-1)), "Jitter"},
		{every(hourly, d.MissedAll(), d.MissedNone()), "MissedNone"},
		{every(hourly, d.Group("")), "Group"},
		{every(hourly, d.Attempts(0)), "Attempts"},
		{every(hourly, d.Timeout(0)), "Timeout"},
		{every(hourly, d.Within(-1)), "Within"},

		{work(d.Config{Concurrency: -1}), "Concurrency"},
		{work(d.Config{Lease: time.Millisecond}), "Lease"},
		{work(d.Config{Timeout: -1}), "Timeout"},
		{work(d.Config{Attempts: -2}), "Attempts"},
		{work(d.Config{Attempts: 65536}), "Attempts"},
		{work(d.Config{Block: -1}), "Block"},
		{work(d.Config{ShutdownTimeout: -1}), "ShutdownTimeout"},
		{work(d.Config{}, d.NewQueue[int](server.Client, "other").HandleFunc(nil)), "the handler"},
		{work(d.Config{}, d.NewQueue[int](server.Client, "").HandleFunc(done)), "the queue's name"},
		{work(d.Config{}, d.NewQueue[int](clientOf(t, server.Addr), "other").HandleFunc(done)), "routes"},
		{work(d.Config{}, jobs.HandleFunc(done)), "routes"},
		{work(d.Config{}, d.Route{}), "routes"},
		{d.NewWorker(d.Config{}).Run(ctx), "routes"},
	} {
		wrong := (*d.OptionError)(nil)
		if !errors.As(one.err, &wrong) || wrong.Option != one.option || !strings.HasPrefix(wrong.Error(), "dehydrator: "+one.option+" ") {
			t.Errorf("%d: it is %v, not of %s", i, one.err, one.option)
		}
	}
	for line := range strings.Lines(server.Info("commandstats")) {
		if strings.Contains(line, "dehydrator.") {
			t.Errorf("it was sent: %s", line)
		}
	}
}

func TestTheBackoffDoublesWithJitter(t *testing.T) {
	for _, one := range []struct {
		first, most time.Duration
		attempt     int
		want        time.Duration
	}{
		{time.Second, time.Minute, 1, time.Second}, {time.Second, time.Minute, 2, 2 * time.Second},
		{time.Second, time.Minute, 3, 4 * time.Second}, {time.Second, time.Minute, 7, time.Minute},
		{time.Second, time.Minute, 60000, time.Minute}, {0, 0, 60000, 0}, {-1, time.Second, 3, 0}, {time.Second, -1, 3, 0},
		{time.Hour, time.Second, 1, time.Second}, {math.MaxInt64, math.MaxInt64, 64, math.MaxInt64},
	} {
		for range 100 {
			if delay := d.ExponentialBackoff(one.first, one.most)(one.attempt, nil); delay > one.want || delay < one.want/2-1024 {
				t.Fatalf("%v after %v", delay, one)
			}
		}
	}
}

func TestItemsHaveOptionsOfTheirOwn(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	must(jobs.Enqueue(ctx, 0, d.TaskID("0"), d.ProcessIn(time.Hour)))(t)
	results := must(jobs.EnqueueMany(ctx, []d.Item[int]{
		d.NewItem(1, d.TaskID("0")), d.NewItem(2, d.TaskID("0"), d.Replace(), d.ProcessAt(at)),
		d.NewItem(3, d.TaskID("3"), d.Group("bert"), d.ProcessAt(at)), d.NewItem(4, d.TaskID("4"), d.Attempts(7), d.ProcessIn(2*time.Hour)),
		d.NewItem(5, d.TaskID("5"), d.Timeout(time.Minute)),
	}, d.Group("anna"), d.Attempts(3)))(t)
	equal(t, fmt.Sprint(results), "[{0 exists} {0 stored} {3 stored} {4 stored} {5 stored}]")
	var told []string
	for _, id := range []string{"0", "3", "4", "5"} {
		info := must(jobs.Look(ctx, id))(t)
		told = append(told, fmt.Sprint(info.Payload, info.Group, info.MaxAttempts, info.Due.Equal(at)))
	}
	equal(t, strings.Join(told, " "), "2anna3 true 3bert3 true 4anna7 false 5anna3 false")
}

func TestAnErrorOfAnIDNamesIt(t *testing.T) {
	jobs := queueOf[int](t, realserver.Start(t))
	must(jobs.Enqueue(ctx, 1, d.TaskID("here")))(t)
	_, looked := jobs.Look(ctx, "mail:18")
	_, put := jobs.Enqueue(ctx, 1, d.TaskID("here"))
	equal(t, errors.Is(put, d.ErrExists), true)
	equal(t, fmt.Sprint(jobs.Postpone(ctx, "mail:18", d.ProcessIn(0)), jobs.Update(ctx, "mail:18", 1), looked, put),
		strings.Repeat("dehydrator: no such task: mail:18 ", 3)+"dehydrator: the task id exists: here")
}

func TestAPolicyIsSetReadAndNamedByAWorkerThatAsksForAnother(t *testing.T) {
	server := realserver.Start(t)
	jobs := d.NewQueue[int](server.Client, "jobs", d.WithDeadLetters("graves"))
	equal(t, jobs.SetPolicy(ctx, d.Policy{}), nil)
	equal(t, must(jobs.Info(ctx))(t).Policy, d.Policy{Attempts: 5, KeepDead: 10_000})
	equal(t, jobs.SetPolicy(ctx, d.Policy{Attempts: d.Unlimited}), nil)
	equal(t, must(jobs.Info(ctx))(t).Policy, d.Policy{Attempts: d.Unlimited, KeepDead: d.Unlimited})
	equal(t, jobs.SetPolicy(ctx, d.Policy{Attempts: 3, KeepDead: d.Unlimited}), nil)
	equal(t, must(jobs.Info(ctx))(t).Policy, d.Policy{Attempts: 3, KeepDead: d.Unlimited})
	for attempts, want := range map[int]string{
		0: "", 3: "", 5: "dehydrator: queue jobs has attempts=3 in the server; this worker asks for 5: the fewer hold, SetPolicy changes the server's",
		d.Unlimited: "dehydrator: queue jobs has attempts=3 in the server; this worker asks for unlimited: the fewer hold, SetPolicy changes the server's",
	} {
		log := &logged{}
		_, stop := start(t, d.Config{Attempts: attempts, Logger: log.logger()}, jobs.HandleFunc(func(context.Context, *d.Task[int]) error { return nil }))
		until(t, func() bool { return log.with("takes tasks") != "" })
		stop()
		if got := log.with("attempts="); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("with %d: %q", attempts, got)
		}
	}
	// The fewer hold, but for a task with its own.
	var done list[int]
	_, stop := start(t, d.Config{Attempts: 2}, jobs.HandleFunc(func(ctx context.Context, task *d.Task[int]) error {
		done.add(must(task.Info(ctx))(t).MaxAttempts)
		return errors.New("no")
	}))
	for _, own := range [][]d.Option{nil, {d.Attempts(4)}} {
		must(jobs.Enqueue(ctx, 1, own...))(t)
		until(t, empty(t, jobs))
	}
	stop()
	equal(t, fmt.Sprint(done.all()), "[2 2 4 4 4 4]")
	// Also if what the server has changes.
	done = list[int]{}
	start(t, d.Config{Attempts: 5}, jobs.HandleFunc(func(_ context.Context, task *d.Task[int]) error {
		if done.add(task.Attempt); task.Attempt == 1 {
			equal(t, jobs.SetPolicy(ctx, d.Policy{Attempts: 4}), nil)
		}
		return errors.New("no")
	}))
	must(jobs.Enqueue(ctx, 1))(t)
	until(t, empty(t, jobs))
	equal(t, fmt.Sprint(done.all(), server.Do("XLEN", "graves")), "[1 2 3 4] 3")
}
