package dehydrator

import (
	"context"
	"sync"
)

// held are the tasks whose handlers run, whose leases must be renewed, and what ends the contexts of their handlers.
type held struct{ sync.Map }

// remove ends the context of a handler, with a cause if it still runs. It returns true once: whoever gets that ends the
// attempt.
func (h *held) remove(d *delivery, cause error) bool {
	cancel, found := h.LoadAndDelete(d)
	if found && cause != nil {
		cancel.(context.CancelCauseFunc)(cause)
	}
	return found
}

// byQueue returns the tasks.
func (h *held) byQueue() map[string][]*delivery {
	found := map[string][]*delivery{}
	h.Range(func(key, _ any) bool {
		d := key.(*delivery)
		found[d.meta.Queue] = append(found[d.meta.Queue], d)
		return true
	})
	return found
}
