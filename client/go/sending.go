package acker

import (
	"context"
	"time"
)

// The goroutine of the flusher, which sends what was buffered.

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
	for _, each := range written {
		f.frozen = append(f.frozen, &frozen{request: each, pauses: delays()})
	}
	added := f.frozen[len(f.frozen)-len(written):]
	for _, waits := range f.waiters {
		waits.pending--
		for _, each := range added {
			if waits.isFor(each) {
				each.waiters = append(each.waiters, waits)
				waits.pending++
			}
		}
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

// giveUp removes a request that cannot be delivered. The flushes that wait for it return the error, or else the next call.
func (f *flusher) giveUp(sent *frozen, operations int, err error) {
	f.mutex.Lock()
	lost := lostOperations{count: operations, err: err}
	f.lost += operations
	isTaken := false
	for _, each := range sent.waiters {
		if each.isFlush() && !each.abandoned {
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

// takeOut replaces a request by others, behind all the rest, and wakes who waits for it, or for space. Flushes go on to
// wait for the others.
func (f *flusher) takeOut(sent *frozen, others []*frozen) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	left := make([]*frozen, 0, len(f.frozen)+len(others))
	for _, each := range f.frozen {
		if each != sent {
			left = append(left, each)
		}
	}
	f.frozen = append(left, others...)
	for _, waits := range sent.waiters {
		waits.pending--
		for _, each := range others {
			if waits.isFor(each) {
				each.waiters = append(each.waiters, waits)
				waits.pending++
			}
		}
		if waits.pending == 0 {
			close(waits.settled)
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
