package acker

import (
	"context"
	"time"
)

// shortestPause: what has less time left is not sent again.
const shortestPause = time.Millisecond

// deliver sends operations until they are admitted or their time is over: those that were refused again in new
// requests. The last attempt is made when it is over, and none where the acker asks to wait for longer. It returns the
// error of the first that stays refused.
func (s *session) deliver(ctx context.Context, operations []*operation) error {
	since := time.Now()
	pauses := delays()
	states := make(map[*operation]string, len(operations))
	written := writeOperations(s.topology, operations)
	for {
		asked, err := s.sendAll(ctx, written, states)
		if err != nil {
			return err
		}
		left, least := s.retryableOf(operations, states, time.Since(since), asked)
		if len(left) == 0 {
			return firstRefused(operations, states)
		}
		if err := sleep(ctx, max(min(pauses.next(), least), asked)); err != nil {
			return canceled(written[0], err)
		}
		written = rewriteRefused(s.topology, written, left)
	}
}

// sendAll sends requests, notes the state of each operation, and returns for how long the acker asks to wait.
func (s *session) sendAll(
	ctx context.Context, requests []*request, states map[*operation]string,
) (time.Duration, error) {
	var asked time.Duration
	for _, each := range requests {
		given, err := s.send(ctx, each, time.Time{})
		if err != nil {
			return 0, err
		}
		results, err := readResults(each, given)
		if err != nil {
			return 0, err
		}
		for _, found := range results {
			states[found.operation] = found.state
		}
		asked = max(asked, given.askedWait())
	}
	return asked, nil
}

// retryableOf returns the operations that were not admitted and may be sent again, after the wait that the acker asks
// for, and the least time that any of them has left.
func (s *session) retryableOf(
	operations []*operation, states map[*operation]string, age, asked time.Duration,
) (left []*operation, least time.Duration) {
	for _, each := range operations {
		own := s.limitOf(each) - age
		if !isNotAdmitted(states[each]) || own < max(asked, shortestPause) {
			continue
		}
		if len(left) == 0 || own < least {
			least = own
		}
		left = append(left, each)
	}
	return left, least
}

func (s *session) limitOf(each *operation) time.Duration {
	if each.Op != opInit {
		return s.retryTimeout
	}
	if each.MessageTimeoutMs == nil {
		return s.emitTimeout
	}
	return min(s.emitTimeout, time.Duration(*each.MessageTimeoutMs)*time.Millisecond)
}

// rewriteRefused writes operations again that were refused.
//
// An ack or a fail that was alone in its request is sent with the same key: the acker does not remember what it
// refused so. All others need a new key: under the old one it would repeat its refusal.
func rewriteRefused(topology string, refused []*request, operations []*operation) []*request {
	if len(refused) == 1 && len(refused[0].operations) == 1 && operations[0].Op != opInit {
		return refused
	}
	return writeOperations(topology, operations)
}

func firstRefused(operations []*operation, states map[*operation]string) error {
	for _, each := range operations {
		if state := states[each]; isRefused(state) {
			what := each.Op
			if each.MessageID != nil {
				what = "init of message id " + quoted(*each.MessageID)
			}
			return newServiceError(state, "the %s of root %v was refused until its time was over", what, each.RootID)
		}
	}
	return nil
}
