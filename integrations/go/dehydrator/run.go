package dehydrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// A run is a worker from the start of Run to its end. Handlers that were cut off stay with theirs.
type run struct {
	config Config
	routes []Route
	keys   map[string]*Route
	// Of each queue.
	settlers map[string]*settler
	// How often a task of each queue is delivered, if it has no number of its own and the worker has none.
	attempts map[string]int
	// The queues whose policy could not be set, as the server's memory is full, and when to try again.
	unset   []*Route
	setNext time.Time

	// For POLL, which is resent until the worker stops.
	polls      *server
	closePolls func()
	// For what ends or renews a lease, which is resent as long as the lease may run.
	leases *server
	held   held
	// Guards attempts.
	mu sync.Mutex
	// Holds a value for each handler that may still begin.
	free chan struct{}
	// The handlers that run.
	handlers sync.WaitGroup

	stop    func()
	stopped chan struct{}
	// Ends the wait for handlers.
	leave   func()
	leaving chan struct{}
	// Closed when no handler is waited for, and when Run returns.
	finished, ended chan struct{}
}

func newRun() *run {
	stopped, leaving := make(chan struct{}), make(chan struct{})
	return &run{
		keys:     map[string]*Route{},
		settlers: map[string]*settler{},
		attempts: map[string]int{},
		stop:     sync.OnceFunc(func() { close(stopped) }),
		stopped:  stopped,
		leave:    sync.OnceFunc(func() { close(leaving) }),
		leaving:  leaving,
		finished: make(chan struct{}),
		ended:    make(chan struct{}),
	}
}

func (r *run) isStopping() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

func (r *run) prepare(config Config, routes []Route) error {
	if err := config.setDefaults(); err != nil {
		return err
	}
	if len(routes) == 0 {
		return errors.New("dehydrator: a worker needs a queue")
	}
	client := routes[0].settings.server.client
	for i, route := range routes {
		if route.settings.server.client != client {
			return fmt.Errorf("dehydrator: %s has another client than %s: run two workers",
				route.settings.name, routes[0].settings.name)
		}
		if _, twice := r.keys[route.settings.name]; twice {
			return fmt.Errorf("dehydrator: %s has two handlers", route.settings.name)
		}
		r.keys[route.settings.name], r.settlers[route.settings.name] = &routes[i], &settler{}
		r.unset = append(r.unset, &routes[i])
	}
	polling, block, end := forPolls(client, config.Block)
	config.Block = block
	r.config, r.routes, r.closePolls = config, routes, end
	r.polls = &server{polling, -1, r.stopped, r.tell}
	// So short that several replies may be lost in the time of a lease.
	leasing := forLeases(client, polling, min(replyTimeout, config.Lease/6))
	r.leases = &server{leasing, max(config.Lease, 10*time.Second), nil, r.tell}
	r.free = make(chan struct{}, config.Concurrency)
	for range config.Concurrency {
		r.free <- struct{}{}
	}
	return nil
}

func (r *run) tell(err error) {
	r.config.Logger.Warn("dehydrator: the server does not answer, asking again", "error", err)
}

// watch stops the run when the context ends.
func (r *run) watch(ctx context.Context) {
	select {
	case <-r.ended:
		return
	case <-ctx.Done():
		r.stop()
	}
	if r.config.ShutdownTimeout <= 0 {
		return
	}
	select {
	case <-r.ended:
	case <-time.After(r.config.ShutdownTimeout):
		r.leave()
	}
}

// work takes tasks until the run is stopped, or an error does not pass. Its context does not end.
func (r *run) work(ctx context.Context) error {
	defer r.closePolls()
	hearing, deafen := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Add(1)
	go func() {
		defer beside.Done()
		r.renew(ctx)
	}()
	err := r.begin(ctx)
	if err == nil {
		r.config.Logger.Info("dehydrator: the worker takes tasks", "queues", slices.Sorted(maps.Keys(r.keys)),
			"concurrency", r.config.Concurrency)
		beside.Add(1)
		go func() {
			defer beside.Done()
			r.hear(hearing)
		}()
	}
	for err == nil && !r.isStopping() {
		err = r.take(ctx)
	}
	stopping := r.isStopping()
	r.stop()
	r.finish(ctx)
	close(r.finished)
	deafen()
	beside.Wait()
	r.config.Logger.Info("dehydrator: the worker has stopped")
	if stopping && err != nil && passes(err) {
		return nil
	}
	return err
}

// begin checks the server, and sets the rules of the queues.
func (r *run) begin(ctx context.Context) error {
	if err := r.polls.check(ctx, r.routes[0].settings.name); err != nil {
		return err
	}
	for _, route := range r.routes {
		if err := route.settings.checkKeys(ctx, r.polls); err != nil {
			return err
		}
	}
	return r.setRules(ctx)
}

// setRules sets the policies of queues that have none. Where the server's memory is full, tasks are done all the same, and
// it tries again in a minute.
func (r *run) setRules(ctx context.Context) error {
	if len(r.unset) == 0 || time.Now().Before(r.setNext) {
		return nil
	}
	var left []*Route
	for _, route := range r.unset {
		err := r.setRule(ctx, route.settings)
		if hasCode(err, "OOM") {
			r.config.Logger.Warn("dehydrator: the server's memory is full", "queue", route.settings.name, "error", err)
			left = append(left, route)
		} else if err != nil {
			return err
		}
	}
	r.unset, r.setNext = left, time.Now().Add(time.Minute)
	return nil
}

func (r *run) setRule(ctx context.Context, s *settings) error {
	attempts := r.config.Attempts
	if attempts == Unlimited {
		return nil
	}
	words := []any{"DEHYDRATOR.ONDUE", s.name, "NX", "HOLD", "DELIVERIES", cmp.Or(attempts, defaultAttempts), "STREAM", s.dead}
	if s.keep > 0 {
		words = append(words, "MAXLEN", "~", s.keep)
	}
	set, err := r.polls.ask(ctx, words...)
	if err != nil || set != nil || attempts != 0 {
		return err
	}
	// Another policy is there, and counts.
	told, err := r.polls.ask(ctx, "DEHYDRATOR.INFO", s.name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[s.name] = cmp.Or(integerOf(fields(fields(told)["policy"])["deliveries"]), Unlimited)
	return nil
}

// attemptsOf returns how often a task of a queue is delivered, if it has no number of its own.
func (r *run) attemptsOf(queue string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.config.Attempts, r.attempts[queue], defaultAttempts)
}

// take waits for a free handler, and for up to as many tasks as there are free handlers.
func (r *run) take(ctx context.Context) error {
	select {
	case <-r.free:
	case <-r.stopped:
		return nil
	}
	if err := r.setRules(ctx); err != nil {
		return err
	}
	room := 1
	for room < mostAtOnce {
		select {
		case <-r.free:
			room++
			continue
		default:
		}
		break
	}
	tasks, err := r.poll(ctx, room)
	for range room - len(tasks) {
		r.free <- struct{}{}
	}
	if r.isStopping() {
		// The POLL slept in the server when the stop was requested. Other workers can do these.
		for _, one := range tasks {
			r.giveBack(ctx, one)
		}
		return err
	}
	for _, one := range tasks {
		r.handlers.Add(1)
		go r.serve(ctx, one)
	}
	return err
}

// A delivery is an element that the server delivered with a lease.
type delivery struct {
	route *Route
	meta  Meta
	// The element as it is in the server, and what the codec made of the payload.
	element, payload []byte
}

func (r *run) poll(ctx context.Context, room int) ([]*delivery, error) {
	// If the reply is lost, the same command with the same token replies the same tasks.
	options := []any{"COUNT", room, "LEASE", milliseconds(r.config.Lease), "TOKEN", newID(), "BLOCK",
		max(1, milliseconds(r.config.Block))}
	words := []any{"DEHYDRATOR.POLL", r.routes[0].settings.name}
	if len(r.routes) > 1 {
		words = []any{"DEHYDRATOR.MPOLL", len(r.routes)}
		for _, route := range r.routes {
			words = append(words, route.settings.name)
		}
	}
	began := time.Now()
	reply, err := r.polls.ask(ctx, append(words, options...)...)
	if err != nil || reply == nil {
		return nil, err
	}
	key := r.routes[0].settings.name
	if len(r.routes) > 1 {
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
		task := &delivery{route: r.keys[key], meta: meta, element: []byte(textOf(row[1]))}
		task.meta.Headers, task.payload = unwrap(task.element)
		tasks = append(tasks, task)
	}
	if len(tasks) > 0 {
		r.config.Hooks.received(ctx, tasks, time.Since(began))
	}
	return tasks, nil
}

// finish waits for the handlers, and gives back the tasks of those that are no longer waited for. No POLL sleeps by now,
// which would get them again.
func (r *run) finish(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		r.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-r.leaving:
		r.cutOff(ctx)
	}
}

// renew renews the leases of current tasks, three times per lease, until the run has finished.
func (r *run) renew(ctx context.Context) {
	lease := r.config.Lease
	// As long as the leases still run.
	server := &server{r.leases.client, 2 * lease / 3, r.finished, r.tell}
	for {
		select {
		case <-r.finished:
			return
		case <-time.After(lease / 3):
		}
		for key, tasks := range r.held.byQueue() {
			r.confirm(ctx, server, key, tasks)
		}
	}
}

// confirm renews the leases of tasks, and ends the contexts of handlers whose tasks were lost.
func (r *run) confirm(ctx context.Context, server *server, key string, tasks []*delivery) {
	if len(tasks) == 0 {
		return
	}
	words := []any{"DEHYDRATOR.RENEW", key, milliseconds(r.config.Lease)}
	for _, one := range tasks {
		words = append(words, one.meta.Token, one.meta.ID)
	}
	renewed, err := server.integers(ctx, words...)
	if err != nil {
		if ctx.Err() == nil {
			r.crashed(err, "the renewal of leases")
		}
		return
	}
	for i, one := range tasks {
		if i < len(renewed) && renewed[i] != 1 && r.held.remove(one, ErrLeaseLost) {
			r.lost(one)
		}
	}
}

func (r *run) lost(d *delivery) {
	r.log(slog.LevelWarn, d, "a task was lost: cancelled, its lease ran out, or the worker stopped")
}

func (r *run) log(level slog.Level, d *delivery, what string, more ...any) {
	told := append([]any{"queue", d.meta.Queue, "id", d.meta.ID, "attempt", d.meta.Attempt}, more...)
	r.config.Logger.Log(context.Background(), level, "dehydrator: "+what, told...)
}

// crashed tells of an error outside of a handler. The task is delivered again when its lease expires.
func (r *run) crashed(err error, during string) {
	r.config.Logger.Error("dehydrator: an error of the server", "during", during, "error", err)
}
