package acker

import (
	"context"
	"sync"
	"time"
)

// waiter waits until all that was buffered or in flight at its call is settled.
type waiter struct {
	pending   int
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
	running  bool
	urgent   bool
	timer    *time.Timer
	wake     chan struct{}
	space    chan struct{} // closed when space may have come
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
func (f *flusher) add(ctx context.Context, tuple *Tuple, folds bool) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for f.isFull() {
		if f.session.onFull == Refuse {
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
	f.folded.add(taken, folds, f.session.isTraced)
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

// waitForSpace waits, without the lock, until something was taken out.
func (f *flusher) waitForSpace(ctx context.Context) error {
	f.sendSoon()
	space := f.space
	f.mutex.Unlock()
	defer f.mutex.Lock()
	select {
	case <-space:
		return nil
	case <-ctx.Done():
		return canceledWait("the ack waited for space", ctx)
	}
}

// flushConflicting sends what is in flight for these roots before anything else of theirs: the order of one root is kept.
func (f *flusher) flushConflicting(ctx context.Context, operations []*operation) error {
	for f.holdsAny(operations) {
		if err := f.waitForAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// flush sends all that is buffered now, and what is refused again until it is accepted. It returns ErrOperationsLost.
func (f *flusher) flush(ctx context.Context) error {
	if err := f.waitForAll(ctx); err != nil {
		return err
	}
	return f.takeFailures()
}

// takeFailures returns ErrOperationsLost for what was given up since the last call.
func (f *flusher) takeFailures() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.failures) == 0 {
		return nil
	}
	count := 0
	for _, each := range f.failures {
		count += each.count
	}
	cause := f.failures[len(f.failures)-1].err
	f.failures = nil
	found := operationsLostKind.newError("%d operations sent in the background could not be delivered: %v", count, cause)
	found.Operations, found.cause = count, cause
	return found
}

func (f *flusher) waitForAll(ctx context.Context) error {
	waits := f.newWaiter()
	if waits == nil {
		return nil
	}
	var err error
	select {
	case <-waits.settled:
	case <-ctx.Done():
		err = canceledWait("the flush waited for answers", ctx)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	waits.abandoned = true
	f.failures = append(f.failures, waits.failures...)
	return err
}

// newWaiter lets a waiter wait for all that is here; it returns nil if there is nothing.
func (f *flusher) newWaiter() *waiter {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	waits := &waiter{settled: make(chan struct{}), pending: len(f.frozen)}
	for _, each := range f.frozen {
		each.waiters = append(each.waiters, waits)
	}
	if f.folded.size() > 0 {
		f.waiters = append(f.waiters, waits)
		waits.pending++
	}
	if waits.pending == 0 {
		return nil
	}
	f.sendSoon()
	return waits
}

func (f *flusher) holdsAny(operations []*operation) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, each := range operations {
		if f.holds(each.RootID) {
			return true
		}
	}
	return false
}

func (f *flusher) holds(root id) bool {
	if f.folded.holds(root) {
		return true
	}
	for _, each := range f.frozen {
		for _, held := range each.request.operations {
			if held.RootID == root {
				return true
			}
		}
	}
	return false
}

// sendSoon lets what is buffered be sent as soon as the request in flight is answered. It is called with the lock.
func (f *flusher) sendSoon() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	f.urgent = true
	select {
	case f.wake <- struct{}{}:
	default:
	}
	if !f.running {
		f.running = true
		go f.run()
	}
}

// run sends until nothing is left: one request after the other.
func (f *flusher) run() {
	for {
		next, pause, done := f.next()
		switch {
		case done:
			return
		case next == nil:
			f.pause(pause)
		default:
			f.sendOne(next)
		}
	}
}

// next freezes what is to be sent, and returns the first request that is due, or how long to wait for one.
func (f *flusher) next() (next *frozen, pause time.Duration, done bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.freeze()
	if len(f.frozen) == 0 {
		f.running = false
		return nil, 0, true
	}
	pause = time.Until(f.frozen[0].due)
	for _, each := range f.frozen {
		if wait := time.Until(each.due); wait <= 0 {
			return each, 0, false
		} else if wait < pause {
			pause = wait
		}
	}
	return nil, pause, false
}

func (f *flusher) freeze() {
	isUrgent := f.urgent
	f.urgent = false
	if !isUrgent || f.folded.size() == 0 {
		return
	}
	written := writeOperations(f.session.topology, f.folded.operations())
	for _, each := range f.waiters {
		each.pending += len(written) - 1
	}
	for _, each := range written {
		waiters := append([]*waiter(nil), f.waiters...)
		f.frozen = append(f.frozen, &frozen{request: each, waiters: waiters, pauses: delays()})
	}
	f.folded, f.waiters = newFoldedOperations(), nil
}

func (f *flusher) sendOne(sent *frozen) {
	ctx := context.Background() // acks belong to no call: that which made them has returned
	since := sent.since
	if since.IsZero() {
		sent.since = time.Now()
	}
	given, err := f.session.send(ctx, sent.request, since)
	var results []result
	if err == nil {
		results, err = readResults(sent.request, given)
	}
	if err != nil {
		f.giveUp(sent, len(sent.request.operations), err)
		return
	}
	f.settle(sent, results, given.askedWait())
	f.session.refreshTopology(ctx)
}

// settle removes a request that was answered, and queues again what it refused: nothing of that was applied.
func (f *flusher) settle(sent *frozen, results []result, asked time.Duration) {
	var refused []*operation
	state := ""
	for _, each := range results {
		if isNotAdmitted(each.state) {
			refused, state = append(refused, each.operation), each.state
		}
	}
	if len(refused) == 0 {
		f.takeOut(sent, nil)
		return
	}
	due := time.Now().Add(max(sent.pauses.next(), asked))
	if due.Sub(sent.since) > f.session.retryLimit() {
		f.giveUp(sent, len(refused), newServiceError(state, "they were refused until their time was over"))
		return
	}
	var again []*frozen
	for _, each := range rewriteRefused(f.session.topology, []*request{sent.request}, refused) {
		again = append(again, &frozen{request: each, since: sent.since, due: due, pauses: sent.pauses})
	}
	f.takeOut(sent, again)
}

// giveUp removes a request that cannot be delivered. Those who wait for it return the error, or else the next call.
func (f *flusher) giveUp(sent *frozen, operations int, err error) {
	f.mutex.Lock()
	lost := lostOperations{count: operations, err: err}
	f.lost += operations
	isTaken := false
	for _, each := range sent.waiters {
		if !each.abandoned {
			each.failures = append(each.failures, lost)
			isTaken = true
		}
	}
	if !isTaken {
		f.failures = append(f.failures, lost)
	}
	f.mutex.Unlock()
	f.takeOut(sent, nil)
}

// takeOut replaces a request by others, behind all the rest, and wakes who waits for it, or for space.
func (f *flusher) takeOut(sent *frozen, others []*frozen) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	left := make([]*frozen, 0, len(f.frozen)+len(others))
	for _, each := range f.frozen {
		if each != sent {
			left = append(left, each)
		}
	}
	for _, each := range others {
		each.waiters = append([]*waiter(nil), sent.waiters...)
	}
	f.frozen = append(left, others...)
	for _, each := range sent.waiters {
		if each.pending += len(others) - 1; each.pending == 0 {
			close(each.settled)
		}
	}
	close(f.space)
	f.space = make(chan struct{})
}

// pause waits until a refused request may be sent again, or something else is to be sent.
func (f *flusher) pause(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wake:
	}
}

func canceledWait(what string, ctx context.Context) error {
	found := canceledKind.newError("%s, and its context ended: %v", what, ctx.Err())
	found.cause = ctx.Err()
	return found
}
