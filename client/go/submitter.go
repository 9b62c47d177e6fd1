package acker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// OnError is what happens to a tuple whose function returns an error.
type OnError int

const (
	// OnErrorFail fails the tree at once.
	OnErrorFail OnError = iota
	// OnErrorLeaveOpen sends nothing: the message is delivered again.
	OnErrorLeaveOpen
)

const needsKeys = "with OnErrorLeaveOpen a redelivery would give it another edge, and the topology has no dedupe " +
	"window: give it a key, or receive it as repeatable"

// submitter sends operations of one topology; acks are buffered.
type submitter struct {
	session   *session
	flusher   *flusher
	dropped   atomic.Int64
	untracked atomic.Int64
}

// ack acks a tuple. Nearly every ack is folded into the buffer, and nothing is left to do.
func (s *submitter) ack(ctx context.Context, tuple *Tuple) error {
	if err := s.flusher.takeFailures(); err != nil {
		return err
	}
	return s.complete(ctx, tuple, ackForm{})
}

// complete acks a tuple; whether its acks fold is the topology's.
func (s *submitter) complete(ctx context.Context, tuple *Tuple, form ackForm) error {
	if !tuple.Tracked() {
		_, err := tuple.takeAcks()
		return err
	}
	if s.session.linger == 0 || s.flusher.isClosed() {
		return s.ackNow(ctx, tuple, form)
	}
	info, err := s.session.topologyInfo(ctx)
	if err != nil {
		return err
	}
	form.folds = !info.dedupes
	return s.flusher.add(ctx, tuple, form)
}

// ackNow acks a tuple by a request of its own.
func (s *submitter) ackNow(ctx context.Context, tuple *Tuple, form ackForm) error {
	if ctx.Err() != nil {
		return canceledWait(ctx, "the ack was to be sent")
	}
	taken, err := tuple.takeAcks()
	if err != nil {
		return err
	}
	own := newFoldedOperations()
	own.add(taken, form, s.session.isTraced)
	return s.session.deliver(ctx, own.operations())
}

// fail fails every root of a tuple, or its edge alone where the root ends when all have ended.
func (s *submitter) fail(ctx context.Context, tuple *Tuple, reason *string) error {
	if err := s.flusher.takeFailures(); err != nil {
		return err
	}
	return s.failNow(ctx, tuple, reason)
}

func (s *submitter) failNow(ctx context.Context, tuple *Tuple, reason *string) error {
	if ctx.Err() != nil {
		return canceledWait(ctx, "the fail was to be sent")
	}
	operations, err := tuple.failOperations(reason, s.session.isTraced)
	if err != nil {
		return err
	}
	return s.sendNow(ctx, operations)
}

// resetTimeout gives every root of a tuple its message timeout again.
func (s *submitter) resetTimeout(ctx context.Context, tuple *Tuple) error {
	operations, err := tuple.resetOperations()
	if err != nil {
		return err
	}
	return s.sendNow(ctx, operations)
}

// sendNow sends operations after what is in flight for their roots.
func (s *submitter) sendNow(ctx context.Context, operations []*operation) error {
	if len(operations) == 0 {
		return nil
	}
	if err := s.flusher.flushConflicting(ctx, operations); err != nil {
		return err
	}
	return s.session.deliver(ctx, operations)
}

// process runs a bolt's function with its tuple current, then acks it; or ends it as what the function returns says.
func (s *submitter) process(
	ctx context.Context, tuple *Tuple, run func(context.Context, *Tuple) error, onError OnError,
) error {
	if err := s.begin(ctx, tuple, onError); err != nil {
		return err
	}
	err := s.runAndRecover(ctx, tuple, run, onError)
	// what was done, or has failed, is told also if the context has ended meanwhile
	told := context.WithoutCancel(ctx)
	if err == nil {
		return s.completeUnlessClosed(told, tuple, ackForm{})
	}
	sent := s.interrupt(ctx, tuple, err, onError)
	switch {
	case signalOf(err) != nil:
		return sent
	case sent == nil:
		return err
	default:
		return errors.Join(err, sent)
	}
}

// begin prepares the run of a function.
//
// With OnErrorLeaveOpen a redelivered message gives a child without a key another edge. Without a dedupe window such
// a child is refused, so the topology is read first.
func (s *submitter) begin(ctx context.Context, tuple *Tuple, onError OnError) error {
	if err := s.flusher.takeFailures(); err != nil {
		return err
	}
	if onError != OnErrorLeaveOpen || !tuple.Tracked() || tuple.repeatable {
		return nil
	}
	info, err := s.session.topologyInfo(ctx)
	if err != nil {
		return err
	}
	if !info.dedupes {
		tuple.requireKeys(needsKeys)
	}
	return nil
}

// runAndRecover runs the function. A panic ends the tuple as an error does, and goes on.
func (s *submitter) runAndRecover(
	ctx context.Context, tuple *Tuple, run func(context.Context, *Tuple) error, onError OnError,
) error {
	defer func() {
		if thrown := recover(); thrown != nil {
			if err := s.interrupt(ctx, tuple, fmt.Errorf("panic: %v", thrown), onError); err != nil {
				s.session.logger.WarnContext(ctx, "acker: a tuple could not be ended", "tuple", tuple.String(), "error", err)
			}
			panic(thrown)
		}
	}()
	return run(Use(ctx, tuple), tuple)
}

// interrupt ends a tuple whose function returned an error.
//
// Nothing is sent if the context has ended: the function was stopped, and its message comes again.
func (s *submitter) interrupt(ctx context.Context, tuple *Tuple, err error, onError OnError) error {
	found := signalOf(err)
	told := context.WithoutCancel(ctx)
	switch {
	case found != nil && found.does == dropTuple:
		s.dropped.Add(1)
		s.noteDrop(ctx, tuple, found.reason)
		return s.completeUnlessClosed(told, tuple, ackForm{dropped: true})
	case tuple.Closed() || found != nil && found.does == leaveOpen:
		return nil
	case found != nil || onError == OnErrorFail && ctx.Err() == nil:
		reason := err.Error()
		return s.failNow(told, tuple, &reason)
	default:
		return nil
	}
}

func (s *submitter) noteDrop(ctx context.Context, tuple *Tuple, reason string) {
	if s.session.onDrop != nil {
		s.session.onDrop(ctx, tuple, reason)
		return
	}
	s.session.logger.WarnContext(ctx, "acker: a tuple was dropped", "tuple", tuple.String(), "reason", reason)
}

func (s *submitter) completeUnlessClosed(ctx context.Context, tuple *Tuple, form ackForm) error {
	if tuple.Closed() {
		return nil
	}
	return s.complete(ctx, tuple, form)
}

// milliseconds returns a duration of the wire.
func milliseconds(of time.Duration) *int64 {
	found := of.Milliseconds()
	return &found
}
