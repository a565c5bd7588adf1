package dehydrator

import (
	"context"
	"sync"
)

// held are the tasks whose handlers run, whose leases must be renewed. It is safe for concurrent use.
type held struct {
	mu    sync.Mutex
	tasks map[*delivery]context.CancelCauseFunc
}

func (h *held) add(d *delivery, cancel context.CancelCauseFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tasks == nil {
		h.tasks = map[*delivery]context.CancelCauseFunc{}
	}
	h.tasks[d] = cancel
}

// remove returns whether the task was still held: whoever gets true ends the attempt.
func (h *held) remove(d *delivery) bool {
	return h.lose(d, nil)
}

// lose ends the context of a handler with a cause; it returns true once.
func (h *held) lose(d *delivery, cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	cancel, found := h.tasks[d]
	delete(h.tasks, d)
	if found && cause != nil {
		cancel(cause)
	}
	return found
}

// all returns the tasks, by queue.
func (h *held) byQueue() map[string][]*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string][]*delivery{}
	for d := range h.tasks {
		found[d.meta.Queue] = append(found[d.meta.Queue], d)
	}
	return found
}
