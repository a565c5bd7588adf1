package dehydrator

import (
	"context"
	"sync"
)

// A settler has the tasks of a queue that end while a SETTLE is under way: the next one is of all of them.
type settler struct {
	// Held while a SETTLE is under way.
	turn sync.Mutex

	mu   sync.Mutex
	next *settlement
}

type settlement struct {
	words []any
	done  chan struct{}
	err   error
}

// settle ends the lease of a task that is done. A reply of 0 can mean that a first SETTLE worked, but its reply was lost.
func (s *settler) settle(ctx context.Context, server *server, meta *Meta) error {
	s.mu.Lock()
	one, isFirst := s.next, false
	if one == nil || len(one.words) > 2*batch {
		one, isFirst = &settlement{words: []any{"DEHYDRATOR.SETTLE", meta.Queue}, done: make(chan struct{})}, true
		s.next = one
	}
	one.words = append(one.words, meta.Token, meta.ID)
	s.mu.Unlock()
	if isFirst {
		s.turn.Lock()
		s.mu.Lock()
		if s.next == one {
			s.next = nil
		}
		s.mu.Unlock()
		_, one.err = server.ask(ctx, one.words...)
		s.turn.Unlock()
		close(one.done)
	}
	<-one.done
	return one.err
}
