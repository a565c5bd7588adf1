package dehydrator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dehydrator.invalid/source/integrations/go/dehydrator"
	"dehydrator.invalid/source/integrations/go/dehydrator/internal/realserver"
)

// programs are workers as programs, which end with the test, and what they have noted.
type programs struct {
	t     *testing.T
	addr  string
	notes string
	// When programs were killed.
	killed map[int]int64
}

func programsOf(t *testing.T, addr string) *programs {
	notes := filepath.Join(t.TempDir(), "notes")
	must(1, os.WriteFile(notes, nil, 0o600))(t)
	return &programs{t, addr, notes, map[int]int64{}}
}

func (p *programs) start() *exec.Cmd {
	p.t.Helper()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), "DEHYDRATOR_TEST_WORKER="+p.addr, "DEHYDRATOR_TEST_NOTES="+p.notes)
	worker.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(1, worker.Start())(p.t)
	p.t.Cleanup(func() { p.end(worker, syscall.SIGKILL) })
	return worker
}

// end sends a signal, waits, and returns how the program ended.
func (p *programs) end(program *exec.Cmd, signal syscall.Signal) string {
	_ = program.Process.Signal(signal)
	_ = program.Wait()
	if signal == syscall.SIGKILL {
		p.killed[program.Process.Pid] = time.Now().UnixMilli()
	}
	return program.ProcessState.String()
}

type note struct {
	what, id string
	attempt  int
	at       int64
	pid      int
}

// noted returns the notes of a kind, or all.
func (p *programs) noted(what string) (found []note) {
	for line := range strings.Lines(string(must(os.ReadFile(p.notes))(p.t))) {
		var one note
		must(fmt.Sscan(line, &one.what, &one.id, &one.attempt, &one.at, &one.pid))(p.t)
		if what == "" || one.what == what {
			found = append(found, one)
		}
	}
	return found
}

func TestAKilledServerComesBackAndEachTaskIsDoneOnce(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[int](t, server)
	var done list[int]
	var items []dehydrator.Item[int]
	for n := range 300 {
		items = append(items, dehydrator.NewItem(n, dehydrator.ProcessIn(time.Duration(n*5)*time.Millisecond)))
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
	workers := programsOf(t, server.Addr)
	worker := workers.start()
	must(jobs.Enqueue(ctx, job{}))(t)
	until(t, empty(t, jobs))
	server.Kill()
	equal(t, workers.end(worker, syscall.SIGTERM), "exit status 0")
}

// Workers are killed at random, the server is killed and restarted, and connections are reset.
func TestACampaign(t *testing.T) {
	seconds := 10
	if isQuick {
		seconds = 2
	}
	if set := os.Getenv("DEHYDRATOR_CAMPAIGN_SECONDS"); set != "" {
		seconds = must(strconv.Atoi(set))(t)
	}
	for _, one := range []struct {
		name string
		// Between two tasks, of each tenth of them, between two kills, and between two resets, in milliseconds.
		every, long, kill, reset int
	}{
		{"ShortTasks", 20, 20, 500, 0},
		{"TasksOfTenSecondsAndResets", 100, 10_000, 8000, 2000},
	} {
		t.Run(one.name, func(t *testing.T) {
			if isQuick && one.reset > 0 {
				t.Skip()
			}
			campaign(t, seconds*1000/one.every, one.every, one.long, one.kill, one.reset)
		})
	}
}

func campaign(t *testing.T, count, every, long, kill, reset int) {
	server := realserver.Start(t)
	proxy := through(t, server)
	jobs := queueOf[job](t, server, dehydrator.WithPatience(time.Minute))
	var items []dehydrator.Item[job]
	for n := range count {
		one := job{MS: 20}
		switch n % 10 {
		case 0:
			one.Fail = 1
		case 1:
			one.MS = long
		}
		items = append(items, dehydrator.NewItem(one, dehydrator.TaskID(fmt.Sprint(n)), dehydrator.ProcessIn(time.Duration(n*every)*time.Millisecond)))
	}
	began := time.Now().UnixMilli()
	must(jobs.EnqueueMany(ctx, items))(t)
	programs := programsOf(t, proxy.addr)
	workers := make([]*exec.Cmd, 4)
	for i := range workers {
		workers[i] = programs.start()
	}
	kills, restarts, resets := 0, 0, 0
	nextKill, nextReset := time.Now(), time.Now()
	for !empty(t, jobs)() {
		time.Sleep(50 * time.Millisecond)
		if reset > 0 && time.Now().After(nextReset) {
			resets += proxy.reset()
			nextReset = nextReset.Add(time.Duration(reset) * time.Millisecond)
		}
		if time.Now().Before(nextKill) {
			continue
		}
		nextKill = time.Now().Add(time.Duration(kill*2/5+rand.IntN(kill*6/5)) * time.Millisecond)
		if rand.IntN(10) == 0 {
			server.Kill()
			server.Up()
			restarts++
			continue
		}
		which := rand.IntN(len(workers))
		programs.end(workers[which], syscall.SIGKILL)
		workers[which] = programs.start()
		kills++
	}
	for _, worker := range workers {
		// One that is asked before it has begun to listen ends by the signal.
		if how := programs.end(worker, syscall.SIGTERM); how != "exit status 0" && how != "signal: terminated" {
			t.Fatalf("a worker ended with %s", how)
		}
	}
	// Only a task that has failed, or whose worker was killed in the meantime, begins again.
	before, done := map[string]note{}, map[string]bool{}
	for _, one := range programs.noted("") {
		if at := began + int64(must(strconv.Atoi(one.id))(t)*every); one.at < at {
			t.Errorf("%s was %d ms early", one.id, at-one.at)
		}
		if last, is := before[one.id]; is && one.what == "begun" && last.what != "failed" {
			// What is done is settled within the three seconds that a server needs to come back.
			killed := programs.killed[last.pid]
			if killed == 0 || killed > one.at || last.what == "done" && killed > last.at+3000 {
				t.Errorf("%v, and again %v: its worker lived until %d", last, one, killed)
			}
		}
		before[one.id] = one
		done[one.id] = done[one.id] || one.what == "done"
	}
	equal(t, len(done), count)
	t.Logf("%d tasks, %d kills, %d restarts, %d resets, %d done again", count, kills, restarts, resets,
		len(programs.noted("done"))-count)
	equal(t, len(must(jobs.DeadLetters(ctx, 9))(t)), 0)
}

func TestTasksOfADeadWorkerBecomeDeadLetters(t *testing.T) {
	server := realserver.Start(t)
	jobs := queueOf[job](t, server)
	must(jobs.Enqueue(ctx, job{MS: 60_000}, dehydrator.TaskID("a"), dehydrator.Attempts(2)))(t)
	workers := programsOf(t, server.Addr)
	for attempt := range 2 {
		worker := workers.start()
		until(t, func() bool { return must(jobs.Look(ctx, "a"))(t).Attempt == attempt+1 })
		workers.end(worker, syscall.SIGKILL)
	}
	until(t, empty(t, jobs))
	letter := must(jobs.DeadLetters(ctx, 1))(t)[0]
	equal(t, fmt.Sprint(letter.Attempt, letter.Reason), "2")
}
