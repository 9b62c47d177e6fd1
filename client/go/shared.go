package acker

import (
	"context"
	"errors"
	"sync"
)

// sharedCall is a call that many goroutines need at once: one of them makes it, the others wait for its result.
type sharedCall struct {
	mutex   sync.Mutex
	running *runningCall // nil while nobody makes it
}

type runningCall struct {
	ended chan struct{}
	err   error
}

// do makes the call, or waits for the one that is made. If the context of its caller ends, another one makes it.
func (s *sharedCall) do(ctx context.Context, call func() error) error {
	for {
		running, isOwn := s.join()
		if isOwn {
			defer s.leave(running)
			running.err = call()
			return running.err
		}
		select {
		case <-running.ended:
		case <-ctx.Done():
			return canceledWait(ctx, "a call waited for the same one of another goroutine")
		}
		if !errors.Is(running.err, ErrCanceled) {
			return running.err
		}
	}
}

func (s *sharedCall) join() (running *runningCall, isOwn bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.running != nil {
		return s.running, false
	}
	s.running = &runningCall{ended: make(chan struct{})}
	return s.running, true
}

func (s *sharedCall) leave(running *runningCall) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running = nil
	close(running.ended)
}
