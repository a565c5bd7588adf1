package dehydrator

import (
	"context"
	"sync"
)

// held are the tasks whose handlers run, whose leases must be renewed. It is safe for concurrent use.
type held struct {
	mu     sync.Mutex
	tasks  map[*delivery]context.CancelCauseFunc
	closed bool
}

// add returns false after close.
func (h *held) add(d *delivery, cancel context.CancelCauseFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tasks == nil {
		h.tasks = map[*delivery]context.CancelCauseFunc{}
	}
	if !h.closed {
		h.tasks[d] = cancel
	}
	return !h.closed
}

// remove ends the context of a handler, with a cause if it still runs. It returns true once: whoever gets that ends the
// attempt.
func (h *held) remove(d *delivery, cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	cancel, found := h.tasks[d]
	delete(h.tasks, d)
	if found && cause != nil {
		cancel(cause)
	}
	return found
}

// close lets no more tasks begin.
func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// byQueue returns the tasks.
func (h *held) byQueue() map[string][]*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string][]*delivery{}
	for d := range h.tasks {
		found[d.meta.Queue] = append(found[d.meta.Queue], d)
	}
	return found
}
