package dehydrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

func TestAScheduleIsSetShownPausedAndRemoved(t *testing.T) {
	jobs := queueOf[string](t, realserver.Start(t))
	nine := dehydrator.Cron("0 9 * * 1-5", "Europe/Berlin")
	equal(t, must(jobs.Every(ctx, "report", nine, "sales", dehydrator.SkipOverlap(), dehydrator.Jitter(time.Second)))(t), true)
	equal(t, must(jobs.Every(ctx, "report", nine, "sales", dehydrator.SkipOverlap(), dehydrator.Jitter(time.Second)))(t), false)
	equal(t, must(jobs.Every(ctx, "report", nine, "more", dehydrator.MissedAll(), dehydrator.Within(time.Hour)))(t), true)
	first := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	equal(t, must(jobs.Every(ctx, "tick", dehydrator.Interval(time.Minute), "x", dehydrator.From(first), dehydrator.Times(2),
		dehydrator.Until(first.Add(time.Hour)), dehydrator.Group("anna"), dehydrator.Attempts(7), dehydrator.MissedNone()))(t), true)
	all := must(jobs.Schedules(ctx))(t)
	equal(t, len(all), 2)
	report := must(jobs.Schedules(ctx, "report", "none"))(t)[0]
	equal(t, fmt.Sprint(report.Plan, " ", report.Zone, " ", report.Payload, " ", report.Stored, report.Missed, report.Paused),
		"0 9 * * 1-5 Europe/Berlin more 0 0 false")
	equal(t, report.Last.IsZero(), true)
	berlin := must(time.LoadLocation("Europe/Berlin"))(t)
	equal(t, report.Next.In(berlin).Hour(), 9)
	tick := must(jobs.Schedules(ctx, "tick"))(t)[0]
	equal(t, tick.Next.Equal(first), true)
	equal(t, fmt.Sprint(tick.Plan, tick.Zone, tick.Fields["group"], tick.Fields["deliveries-limit"], tick.Fields["times"],
		tick.Fields["if-missed"]), "60000anna7 2NONE")
	equal(t, jobs.PauseSchedule(ctx, "report"), nil)
	equal(t, must(jobs.Schedules(ctx, "report"))(t)[0].Paused, true)
	equal(t, jobs.ResumeSchedule(ctx, "report"), nil)
	equal(t, must(jobs.Schedules(ctx, "report"))(t)[0].Paused, false)
	_, err := jobs.Every(ctx, "never", dehydrator.Cron("0 0 31 2 *", ""), "x")
	equal(t, strings.Contains(err.Error(), "never occurs"), true)
	_, err = jobs.Every(ctx, "nowhere", dehydrator.Cron("0 0 * * *", "Europe/Atlantis"), "x")
	wrong := (*dehydrator.OptionError)(nil)
	equal(t, errors.As(err, &wrong) && wrong.Option == "the plan" && strings.Contains(wrong.Problem, "Atlantis"), true)
	equal(t, must(jobs.Unschedule(ctx, "report", "tick", "none"))(t), 2)
	equal(t, must(jobs.Unschedule(ctx))(t), 0)
	equal(t, len(must(jobs.Schedules(ctx))(t)), 0)
}

func TestEachOccurrenceIsATask(t *testing.T) {
	jobs := queueOf[string](t, realserver.Start(t))
	var done list[string]
	start(t, dehydrator.Config{}, jobs.HandleFunc(func(_ context.Context, task *dehydrator.Task[string]) error {
		name, moment, _ := strings.Cut(task.ID, "@")
		done.add(fmt.Sprint(name, len(moment), task.Payload, task.Headers))
		return nil
	}))
	must(jobs.Every(ctx, "tick", dehydrator.Interval(100*time.Millisecond), "x", dehydrator.Times(3), dehydrator.Timeout(time.Minute)))(t)
	until(t, func() bool { return done.len() == 3 })
	equal(t, strings.Join(done.all(), " "), "tick13xmap[timeout:60000] tick13xmap[timeout:60000] tick13xmap[timeout:60000]")
}
