package acker

import (
	"context"
	"sync"
	"time"
)

// waiter waits until all that was buffered or in flight at its call is settled; or, with roots, until each request that
// holds one of them was answered once.
type waiter struct {
	pending   int
	roots     map[id]struct{} // nil for a flush, which returns what failed
	failures  []lostOperations
	settled   chan struct{}
	abandoned bool // its context has ended: what fails is for the next call
}

// lostOperations are operations that were given up, and why.
type lostOperations struct {
	count int
	err   error
}

// frozen is a request that does not change any more.
//
// Since is when it, or the one that was refused before it, was first sent; due is when a refused one may be sent
// again, and pauses are those after each further refusal.
type frozen struct {
	request *request
	waiters []*waiter
	since   time.Time
	due     time.Time
	pauses  *backoff
}

// flusher has the buffered acks of one client, and the one goroutine that sends them.
//
// Group commit: while a request is in flight, all acks and flushes that come gather for the next one. A request stays
// here until it is answered or given up; what the acker refuses waits behind all else.
type flusher struct {
	session *session

	mutex    sync.Mutex
	lost     int
	folded   *foldedOperations
	frozen   []*frozen
	waiters  []*waiter // of what is not frozen yet
	failures []lostOperations
	closed   bool // nothing is added any more
	running  bool
	urgent   bool
	timer    *time.Timer
	wake     chan struct{}
	space    chan struct{} // closed when space may have come

	spaceWaiters int // acks that wait for it
}

func newFlusher(s *session) *flusher {
	return &flusher{
		session: s, folded: newFoldedOperations(), wake: make(chan struct{}, 1), space: make(chan struct{}),
	}
}

// inFlight returns how many operations are buffered or being sent.
func (f *flusher) inFlight() int {
	count := f.folded.size()
	for _, each := range f.frozen {
		count += len(each.request.operations)
	}
	return count
}

func (f *flusher) isFull() bool { return f.inFlight() >= f.session.bufferSize }

// counts returns how many operations are in flight, and how many were lost.
func (f *flusher) counts() (inFlight, lost int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.inFlight(), f.lost
}

// add adds the acks of a tuple, which are sent after the linger or with a full batch, once there is space for them.
//
// The tuple is closed only when nothing can go wrong any more before its acks are in flight.
func (f *flusher) add(ctx context.Context, tuple *Tuple, form ackForm) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for f.closed || f.isFull() {
		if f.closed {
			return clientClosedKind.newError("the client was closed before the ack was sent")
		}
		if f.session.onFull == OnFullRefuse {
			return bufferFullKind.newError("%d operations are in flight, and the buffer size allows no more", f.inFlight())
		}
		if err := f.waitForSpace(ctx); err != nil {
			return err
		}
	}
	taken, err := tuple.takeAcks()
	if err != nil {
		return err
	}
	f.folded.add(taken, form, f.session.isTraced)
	switch {
	case f.folded.size() >= f.session.batchSize:
		f.sendSoon()
	case f.timer == nil:
		f.timer = time.AfterFunc(f.session.linger, func() {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			f.sendSoon()
		})
	}
	return nil
}

// close lets nothing be added any more, and wakes what waits for space: what is there is all that a flush has to send.
func (f *flusher) close() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closed = true
	close(f.space)
	f.space = make(chan struct{})
}

func (f *flusher) isClosed() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.closed
}

// waitForSpace waits, without the lock, until something was taken out.
func (f *flusher) waitForSpace(ctx context.Context) error {
	f.sendSoon()
	space := f.space
	f.spaceWaiters++
	f.mutex.Unlock()
	defer func() {
		f.mutex.Lock()
		f.spaceWaiters--
	}()
	select {
	case <-space:
		return nil
	case <-ctx.Done():
		return canceledWait(ctx, "the ack waited for space")
	}
}

// flushConflicting sends first what is in flight now for the roots of these operations: the order of one root is kept.
//
// It does not wait for what the acker has refused: that may be accepted only after these operations.
func (f *flusher) flushConflicting(ctx context.Context, operations []*operation) error {
	roots := make(map[id]struct{}, len(operations))
	for _, each := range operations {
		roots[each.RootID] = struct{}{}
	}
	return f.wait(ctx, f.newWaiter(roots))
}

// flush sends all that is buffered now, and what is refused again until it is accepted. It returns ErrOperationsLost.
func (f *flusher) flush(ctx context.Context) error {
	waits := f.newWaiter(nil)
	if err := f.wait(ctx, waits); err != nil {
		return err
	}
	return f.takeFailures(waits)
}

// takeFailures returns ErrOperationsLost for what was given up since the last call, and what these have waited for.
func (f *flusher) takeFailures(waited ...*waiter) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	failures := f.failures
	f.failures = nil
	for _, each := range waited {
		failures = append(failures, each.failures...)
		each.failures = nil
	}
	if len(failures) == 0 {
		return nil
	}
	count := 0
	for _, each := range failures {
		count += each.count
	}
	cause := failures[len(failures)-1].err
	found := operationsLostKind.newError("%d operations sent in the background could not be delivered: %v", count, cause)
	found.Operations, found.cause = count, cause
	return found
}

// wait waits until all is settled. If the context ends first, the next call returns what fails.
func (f *flusher) wait(ctx context.Context, waits *waiter) error {
	select {
	case <-waits.settled:
		return nil
	case <-ctx.Done():
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if waits.pending == 0 {
		return nil
	}
	waits.abandoned = true
	f.failures = append(f.failures, waits.failures...)
	return canceledWait(ctx, "the flush waited for answers")
}

// newWaiter lets a waiter wait for all that is here, or for what holds these roots.
func (f *flusher) newWaiter(roots map[id]struct{}) *waiter {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	waits := &waiter{roots: roots, settled: make(chan struct{})}
	for _, each := range f.frozen {
		if waits.isFor(each) {
			each.waiters = append(each.waiters, waits)
			waits.pending++
		}
	}
	if f.folded.size() > 0 && waits.isForAny(f.folded.holds) {
		f.waiters = append(f.waiters, waits)
		waits.pending++
	}
	if waits.pending == 0 {
		close(waits.settled)
	} else {
		f.sendSoon()
	}
	return waits
}

// isFlush reports whether it waits for all, until that is accepted.
func (w *waiter) isFlush() bool { return w.roots == nil }

func (w *waiter) isFor(each *frozen) bool {
	return w.isFlush() || !each.isRefused() && w.isForAny(each.request.holds)
}

func (w *waiter) isForAny(holds func(root id) bool) bool {
	if w.isFlush() {
		return true
	}
	for root := range w.roots {
		if holds(root) {
			return true
		}
	}
	return false
}

// isRefused reports whether the acker has refused it.
func (f *frozen) isRefused() bool { return !f.due.IsZero() }

func canceledWait(ctx context.Context, what string) error {
	found := canceledKind.newError("%s, and its context ended: %v", what, ctx.Err())
	found.cause = ctx.Err()
	return found
}
