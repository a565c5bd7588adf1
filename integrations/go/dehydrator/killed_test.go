package dehydrator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

// program starts a worker as a program, which ends with the tests.
func program(t *testing.T, server *realserver.Server) *exec.Cmd {
	t.Helper()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), "DEHYDRATOR_TEST_WORKER="+server.Addr)
	worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(worker, syscall.SIGKILL) })
	return worker
}

// end sends a signal, waits, and returns how the program ended.
func end(program *exec.Cmd, signal syscall.Signal) string {
	_ = program.Process.Signal(signal)
	_ = program.Wait()
	return program.ProcessState.String()
}

type doneJob struct {
	id      string
	attempt int
	at      int64
}

func doneOf(t *testing.T, server *realserver.Server) []doneJob {
	t.Helper()
	var done []doneJob
	for _, line := range must(server.Client.LRange(ctx, "done", 0, -1).Result())(t) {
		var one doneJob
		must(fmt.Sscan(line, &one.id, &one.attempt, &one.at))(t)
		done = append(done, one)
	}
	return done
}

func TestTheTasksOfAKilledWorkerComeAgain(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[job](t, server)
	var items []dehydrator.Item[job]
	for n := range 10 {
		// Four that the first worker has when it is killed, and six that wait.
		items = append(items, dehydrator.Item[job]{Payload: job{MS: max(0, 4-n) * 700}, ID: fmt.Sprint(n)})
	}
	must(jobs.EnqueueMany(ctx, items))(t)
	first := program(t, server)
	until(t, func() bool { return must(jobs.Info(ctx))(t).Leased == 4 })
	equal(t, end(first, syscall.SIGKILL), "signal: killed")
	second := program(t, server)
	until(t, empty(t, jobs))
	equal(t, end(second, syscall.SIGTERM), "exit status 0")
	done := doneOf(t, server)
	equal(t, len(done), 10)
	for _, one := range done {
		again := one.id < "4"
		equal(t, one.attempt == 2, again)
	}
}

func TestAKilledServerComesBackAndEachTaskIsDoneOnce(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	var done list[int]
	var items []dehydrator.Item[int]
	for n := range 300 {
		items = append(items, dehydrator.Item[int]{Payload: n, Delay: time.Duration(n*5) * time.Millisecond})
	}
	must(jobs.EnqueueMany(ctx, items))(t)
	start(t, dehydrator.Config{Concurrency: 10, Lease: 30 * time.Second}, jobs.HandleFunc(
		func(_ context.Context, task *dehydrator.Task[int]) error {
			done.add(task.Payload)
			return nil
		}))
	for cut := range 3 {
		until(t, func() bool { return done.len() > cut*50 })
		server.Do("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
	}
	until(t, func() bool { return done.len() > 150 })
	server.Kill()
	time.Sleep(300 * time.Millisecond)
	server.Up()
	until(t, empty(t, jobs))
	all := done.all()
	slices.Sort(all)
	equal(t, len(all), 300)
	equal(t, len(slices.Compact(all)), 300)
}

func TestAWorkerEndsWhileTheServerIsAway(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[job](t, server)
	worker := program(t, server)
	must(jobs.Enqueue(ctx, job{}))(t)
	until(t, empty(t, jobs))
	server.Kill()
	equal(t, end(worker, syscall.SIGTERM), "exit status 0")
}

// Workers are killed at random, and the server is killed and restarted.
func TestACampaign(t *testing.T) {
	count := 2000
	if isQuick {
		count = 200
	}
	server := realserver.Start(t)
	jobs := queueOf[job](t, server, dehydrator.WithPatience(time.Minute))
	var items []dehydrator.Item[job]
	for n := range count {
		one := job{MS: 20}
		if n%10 == 0 {
			one.Fail = 1
		}
		items = append(items, dehydrator.Item[job]{Payload: one, ID: fmt.Sprint(n), Delay: time.Duration(n*20) * time.Millisecond})
	}
	began := time.Now().UnixMilli()
	must(jobs.EnqueueMany(ctx, items))(t)
	workers := make([]*exec.Cmd, 4)
	for i := range workers {
		workers[i] = program(t, server)
	}
	kills, restarts := 0, 0
	for !empty(t, jobs)() {
		time.Sleep(time.Duration(200+rand.IntN(600)) * time.Millisecond)
		if rand.IntN(10) == 0 {
			server.Restart()
			restarts++
			continue
		}
		which := rand.IntN(len(workers))
		end(workers[which], syscall.SIGKILL)
		workers[which] = program(t, server)
		kills++
	}
	for _, worker := range workers {
		// One that is asked before it has begun to listen ends by the signal.
		if how := end(worker, syscall.SIGTERM); how != "exit status 0" && how != "signal: terminated" {
			t.Fatalf("a worker ended with %s", how)
		}
	}
	ids := map[string]int{}
	for _, one := range doneOf(t, server) {
		ids[one.id]++
		var n int64
		must(fmt.Sscan(one.id, &n))(t)
		if one.at < began+n*20 {
			t.Fatalf("%s was early", one.id)
		}
	}
	equal(t, len(ids), count)
	twice := 0
	for _, times := range ids {
		twice += times - 1
	}
	t.Logf("%d tasks, %d kills, %d restarts, %d done again", count, kills, restarts, twice)
	// Only tasks of a killed worker may be done again: at most four of each. The same for each restart.
	if twice > 4*kills+16*restarts {
		t.Fatalf("%d were done again, after %d kills and %d restarts", twice, kills, restarts)
	}
	equal(t, len(must(jobs.DeadLetters(ctx, 9))(t)), 0)
}

func TestTasksOfADeadWorkerBecomeDeadLetters(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[job](t, server)
	must(jobs.Enqueue(ctx, job{MS: 60_000}, dehydrator.TaskID("a"), dehydrator.Attempts(2)))(t)
	for attempt := range 2 {
		worker := program(t, server)
		until(t, func() bool { return must(jobs.Look(ctx, "a"))(t).Attempt == attempt+1 })
		end(worker, syscall.SIGKILL)
	}
	until(t, empty(t, jobs))
	letter := must(jobs.DeadLetters(ctx, 1))(t)[0]
	equal(t, fmt.Sprint(letter.Attempt, letter.Reason), "2")
}
