package dehydrator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lane is a queue and its handler in a worker.
type lane struct {
	*settings
	settler settler
	decode  func(*delivery) (func(context.Context) error, error)
	// How often a task without its own number is delivered, as the server has it: 0 if that is not known.
	attempts atomic.Int64
	// [Config.Attempts].
	own int
}

// most returns how often a task without its own number is delivered: by the policy or by the worker, whichever says fewer.
func (l *lane) most() int {
	there := cmp.Or(int(l.attempts.Load()), l.own, defaultAttempts)
	if l.own > 0 && (there == Unlimited || l.own < there) {
		return l.own
	}
	return there
}

func (w *Worker) prepare() error {
	if err := w.config.setDefaults(); err != nil {
		return err
	}
	if len(w.routes) == 0 {
		return &OptionError{"routes", "are none"}
	}
	var client redis.UniversalClient
	for i, route := range w.routes {
		s := route.settings
		if s == nil {
			return &OptionError{"routes", "have one of no queue"}
		}
		if i == 0 {
			client = s.server.client
		}
		c := checks{s.wrong}
		c.that(route.decode != nil, "the handler", "of %s is nil", s.name)
		c.that(w.lanes[s.name] == nil, "routes", "have two handlers of %s", s.name)
		c.that(s.server.client == client, "routes", "have several clients: run a worker for that of %s", s.name)
		if c.wrong != nil {
			return c.wrong
		}
		one := &lane{settings: s, decode: route.decode, own: w.config.Attempts}
		w.lanes[s.name], w.order, w.unset = one, append(w.order, one), append(w.unset, one)
	}
	config := &w.config
	var polling redis.UniversalClient
	polling, config.Block, w.closePolls = forPolls(client, config.Block)
	w.polls = &server{client: polling, patience: -1, stopped: w.stopped.Done(), tell: w.tell}
	// So short that several replies may be lost in the time of a lease.
	leasing := forLeases(client, polling, min(replyTimeout, config.Lease/6))
	w.leases = &server{client: leasing, patience: max(config.Lease, 10*time.Second), tell: w.tell}
	w.free = make(chan struct{}, config.Concurrency)
	for range config.Concurrency {
		w.free <- struct{}{}
	}
	return nil
}

func (w *Worker) tell(err error) {
	w.config.Logger.Warn("dehydrator: the server does not answer, asking again", "error", err)
}

// work takes tasks until the run is stopped, or an error does not pass. Its context does not end.
func (w *Worker) work(ctx context.Context) error {
	defer w.closePolls()
	hearing, deafen := context.WithCancel(ctx)
	var beside sync.WaitGroup
	err := w.begin(ctx)
	if err == nil {
		w.config.Logger.Info("dehydrator: the worker takes tasks", "queues", slices.Sorted(maps.Keys(w.lanes)),
			"concurrency", w.config.Concurrency)
		for _, one := range []func(){func() { w.renew(ctx) }, func() { w.hear(hearing) }} {
			beside.Add(1)
			go func() {
				defer beside.Done()
				one()
			}()
		}
	}
	for err == nil && w.stopped.Err() == nil {
		err = w.take(ctx)
	}
	stopping := w.stopped.Err() != nil
	w.stop()
	w.await(ctx)
	w.finish()
	deafen()
	beside.Wait()
	w.config.Logger.Info("dehydrator: the worker has stopped")
	if stopping && err != nil && passes(err) {
		return nil
	}
	return err
}

// begin checks the server, and sets the policies of the queues.
func (w *Worker) begin(ctx context.Context) error {
	if err := w.polls.check(ctx); err != nil {
		return err
	}
	for _, one := range w.order {
		if err := one.checkKeys(ctx, w.polls); err != nil {
			return err
		}
	}
	return w.setPolicies(ctx, w.polls)
}

// setPolicies sets the policies of queues that have none. Where the server's memory is full, tasks are done all the same, and
// it tries again with the next renewal.
func (w *Worker) setPolicies(ctx context.Context, server *server) error {
	var left []*lane
	for _, one := range w.unset {
		err := w.setPolicy(ctx, server, one)
		if hasCode(err, "OOM") {
			w.config.Logger.Warn("dehydrator: the server's memory is full", "queue", one.name, "error", err)
			left = append(left, one)
		} else if err != nil {
			return err
		}
	}
	w.unset = left
	return nil
}

func (w *Worker) setPolicy(ctx context.Context, server *server, one *lane) error {
	own := w.config.Attempts
	if own != Unlimited {
		set, err := server.ask(ctx, one.policyWords(Policy{Attempts: own}, "NX")...)
		if err != nil || set != nil {
			return err
		}
	}
	// Another policy is there.
	policy, err := one.readPolicy(ctx, server)
	if err != nil {
		return err
	}
	if dest := textOf(policy["dest"]); dest != "" && dest != one.dead {
		w.config.Logger.Warn(fmt.Sprintf("dehydrator: the dead letters of queue %s go to %s, and are read from %s: "+
			"WithDeadLetters says where, SetPolicy tells the server", one.name, dest, one.dead))
	}
	if attempts := policyOf(policy).Attempts; own != 0 && attempts != own {
		w.config.Logger.Warn(fmt.Sprintf("dehydrator: queue %s has attempts=%s in the server; this worker asks for %s: the fewer hold, "+
			"SetPolicy changes the server's",
			one.name, times(attempts), times(own)))
	}
	return nil
}

func times(attempts int) string {
	if attempts == Unlimited {
		return "unlimited"
	}
	return strconv.Itoa(attempts)
}

// readPolicy returns the policy that the server has, and notes its attempts.
func (l *lane) readPolicy(ctx context.Context, server *server) (map[string]any, error) {
	told, err := server.ask(ctx, "DEHYDRATOR.INFO", l.name)
	if err != nil {
		return nil, err
	}
	policy := fields(fields(told)["policy"])
	l.attempts.Store(int64(policyOf(policy).Attempts))
	return policy, nil
}

// take waits for a free handler, and for up to as many tasks as there are free handlers.
func (w *Worker) take(ctx context.Context) error {
	select {
	case <-w.free:
	case <-w.stopped.Done():
		return nil
	}
	room := 1
	for room < mostAtOnce {
		select {
		case <-w.free:
			room++
			continue
		default:
		}
		break
	}
	tasks, err := w.poll(ctx, room)
	if w.stopped.Err() != nil {
		// The POLL slept in the server when the stop was requested. Other workers can do these.
		for _, one := range tasks {
			w.giveBack(ctx, w.leases, one)
		}
		tasks = nil
	}
	for range room - len(tasks) {
		w.free <- struct{}{}
	}
	for _, one := range tasks {
		go w.serve(ctx, one)
	}
	return err
}

// A delivery is an element that the server delivered with a lease.
type delivery struct {
	lane *lane
	meta Meta
	// What the codec made of the payload.
	payload []byte
	// Fires when the lease may have expired, by the clock here.
	expiry *time.Timer
}

func (w *Worker) poll(ctx context.Context, room int) ([]*delivery, error) {
	// If the reply is lost, the same command with the same token replies the same tasks.
	options := []any{"COUNT", room, "LEASE", milliseconds(w.config.Lease), "TOKEN", newID(), "BLOCK",
		max(1, milliseconds(w.config.Block))}
	words := []any{"DEHYDRATOR.POLL"}
	if len(w.order) > 1 {
		words = []any{"DEHYDRATOR.MPOLL", len(w.order)}
	}
	for _, one := range w.order {
		words = append(words, one.name)
	}
	began := time.Now()
	reply, err := w.polls.ask(ctx, append(words, options...)...)
	if err != nil || reply == nil {
		return nil, err
	}
	key := w.order[0].name
	if len(w.order) > 1 {
		pair, _ := reply.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("%w of MPOLL: %v", errReply, reply)
		}
		key, reply = textOf(pair[0]), pair[1]
	}
	rows, _ := reply.([]any)
	tasks := make([]*delivery, 0, len(rows))
	for _, one := range rows {
		row, _ := one.([]any)
		if len(row) != 4 {
			return nil, fmt.Errorf("%w of POLL: %v", errReply, one)
		}
		meta := Meta{ID: textOf(row[0]), Queue: key, Attempt: integerOf(row[2]), Token: textOf(row[3])}
		task := &delivery{lane: w.lanes[key], meta: meta}
		task.meta.Headers, task.payload = unwrap([]byte(textOf(row[1])))
		tasks = append(tasks, task)
	}
	if len(tasks) > 0 {
		w.config.Hooks.received(ctx, tasks, time.Since(began))
	}
	return tasks, nil
}

// await waits for the handlers, and gives back the tasks of those that are no longer waited for. No POLL sleeps by now,
// which would get them again.
func (w *Worker) await(ctx context.Context) {
	if n := w.config.Concurrency - len(w.free); n > 0 {
		what := fmt.Sprintf("dehydrator: stopping: waits for %d tasks", n)
		if limit := w.limit.Load(); limit > 0 {
			what += fmt.Sprintf(", at most %v", time.Duration(limit).Round(time.Millisecond))
		}
		w.config.Logger.Info(what)
	}
	for range w.config.Concurrency {
		select {
		case <-w.free:
		case <-w.left.Done():
			w.cutOff(ctx)
			return
		}
	}
}

// renew renews the leases of current tasks, three times per lease, until the run has finished.
func (w *Worker) renew(ctx context.Context) {
	lease := w.config.Lease
	// As long as the leases still run.
	server := &server{client: w.leases.client, patience: 2 * lease / 3, stopped: w.finished.Done(), tell: w.tell}
	for {
		select {
		case <-w.finished.Done():
			return
		case <-time.After(lease / 3):
		}
		for key, tasks := range w.held.byQueue() {
			w.confirm(ctx, server, key, tasks)
		}
		if err := w.setPolicies(ctx, server); err != nil {
			w.crashed(err, "the setting of policies")
		}
	}
}

// confirm renews the leases of tasks, and ends the contexts of handlers whose tasks were lost.
func (w *Worker) confirm(ctx context.Context, server *server, key string, tasks []*delivery) {
	if len(tasks) == 0 {
		return
	}
	words := []any{"DEHYDRATOR.RENEW", key, milliseconds(w.config.Lease)}
	for _, one := range tasks {
		words = append(words, one.meta.Token, one.meta.ID)
	}
	began := time.Now()
	renewed, err := server.integers(ctx, words...)
	if err != nil {
		if ctx.Err() == nil {
			w.crashed(err, "the renewal of leases")
		}
		return
	}
	for i, one := range tasks[:min(len(tasks), len(renewed))] {
		if renewed[i] != 1 {
			w.lose(one)
		} else {
			one.expiry.Reset(w.config.Lease - time.Since(began))
		}
	}
}

// lose ends the context of a handler whose task another worker may have.
func (w *Worker) lose(d *delivery) {
	if w.held.remove(d, ErrLeaseLost) {
		w.log(slog.LevelWarn, d, "a task was lost", "cause", ErrLeaseLost)
	}
}

func (w *Worker) log(level slog.Level, d *delivery, what string, more ...any) {
	told := append([]any{"queue", d.meta.Queue, "id", d.meta.ID, "attempt", d.meta.Attempt}, more...)
	w.config.Logger.Log(context.Background(), level, "dehydrator: "+what, told...)
}

// crashed tells of an error outside of a handler. The task is delivered again when its lease expires.
func (w *Worker) crashed(err error, during string) {
	w.config.Logger.Error("dehydrator: an error of the server", "during", during, "error", err)
}
