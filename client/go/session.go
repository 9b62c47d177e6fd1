package acker

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// infoMaxAge: after so long the topology is read again, since somebody may have changed it.
const infoMaxAge = time.Minute

// topologyInfo is what a client follows of its topology.
type topologyInfo struct {
	idempotencyWindow time.Duration
	dedupes           bool
	maxSpoutPending   *int
	trace             float64
}

// session sends requests to one topology, each again until it is answered: the one retry loop.
type session struct {
	*settings
	transport *transport
	reading   sharedCall

	mutex       sync.Mutex
	info        *topologyInfo // nil until it is first needed
	infoReadAt  time.Time
	everReached bool
	failing     bool
}

// send sends a request until it is answered; since is when it was first sent, if that was before, else zero.
//
// It returns ErrService or ErrInvalidResponse that end it, ErrRetriesExhausted when its time is over, ErrCanceled when
// the context ends, ErrClientClosed.
func (s *session) send(ctx context.Context, asked *request, since time.Time) (*answer, error) {
	if since.IsZero() {
		since = time.Now()
	} else if time.Since(since) > s.retryLimit() {
		return nil, exhausted(asked, &failure{})
	}
	return s.attempts(ctx, asked, since)
}

func (s *session) attempts(ctx context.Context, asked *request, since time.Time) (*answer, error) {
	pauses := delays()
	for {
		given, err := s.transport.send(ctx, asked, s.requestTimeout+asked.wait)
		if err != nil {
			return nil, err
		}
		if given.err != nil && ctx.Err() != nil {
			return nil, canceled(asked, ctx.Err()) // it tells nothing of the acker
		}
		failed := classify(asked, given)
		s.noteAnswer(given, failed)
		if failed == nil {
			return given, nil
		}
		if !failed.retryable {
			return nil, failed.err
		}
		if err := s.backOff(ctx, asked, failed, since, pauses.next()); err != nil {
			return nil, err
		}
	}
}

// noteAnswer notes whether a server was reached, and where an outage ends.
func (s *session) noteAnswer(given *answer, failed *failure) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.everReached = s.everReached || given.refusedBy == ""
	if failed == nil || !failed.retryable {
		s.failing = false
	}
}

// backOff waits before the next attempt. None is made too late, since the acker might have forgotten the key.
func (s *session) backOff(
	ctx context.Context, asked *request, failed *failure, since time.Time, delay time.Duration,
) error {
	if left := s.limit() - time.Since(since); s.isStarting() && left > 0 {
		delay = min(delay, left-time.Millisecond)
	}
	pause := max(delay, failed.wait)
	if err := s.checkDeadline(asked, failed, time.Since(since)+pause); err != nil {
		return err
	}
	s.warnOnce(ctx, asked, failed)
	if err := sleep(ctx, pause); err != nil {
		return canceled(asked, err)
	}
	if asked.key == "" || s.known() != nil {
		return nil
	}
	if err := s.learnWindow(ctx, asked, since); err != nil {
		return err
	}
	return s.checkDeadline(asked, failed, time.Since(since))
}

// learnWindow reads the topology: for how long the acker remembers the key decides whether it may be sent again.
func (s *session) learnWindow(ctx context.Context, asked *request, since time.Time) error {
	given, err := s.attempts(ctx, readTopology(s.topology), since)
	if err == nil {
		_, err = s.learn(given)
	}
	if err != nil && !s.isStarting() && ctx.Err() == nil {
		return exhausted(asked, &failure{err: err})
	}
	return err
}

// known returns what is known of the topology; nil before it was read.
func (s *session) known() *topologyInfo {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.info
}

// topologyInfo returns what the client follows of the topology; it is read the first time.
func (s *session) topologyInfo(ctx context.Context) (*topologyInfo, error) {
	if known := s.known(); known != nil {
		return known, nil
	}
	err := s.reading.do(ctx, func() error {
		if s.known() != nil {
			return nil
		}
		given, err := s.send(ctx, readTopology(s.topology), time.Time{})
		if err == nil {
			_, err = s.learn(given)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.known(), nil
}

// refreshTopology reads the topology again if that was long ago; without an answer, what is known stays.
func (s *session) refreshTopology(ctx context.Context) {
	s.mutex.Lock()
	isFresh := s.info == nil || time.Since(s.infoReadAt) < infoMaxAge
	if !isFresh {
		s.infoReadAt = time.Now()
	}
	s.mutex.Unlock()
	if isFresh {
		return
	}
	asked := readTopology(s.topology)
	given, err := s.transport.send(ctx, asked, s.requestTimeout)
	if err == nil && classify(asked, given) == nil {
		_, _ = s.learn(given)
	}
}

func (s *session) learn(given *answer) (*topologyInfo, error) {
	var found struct {
		IdempotencyWindowMs *int64   `json:"idempotency_window_ms"`
		DedupeWindowMs      float64  `json:"dedupe_window_ms"`
		MaxSpoutPending     *int     `json:"max_spout_pending"`
		Trace               *float64 `json:"trace"`
	}
	if err := json.Unmarshal(given.body, &found); err != nil || found.IdempotencyWindowMs == nil {
		return nil, invalidResponseKind.newError("the answer about a topology holds no idempotency_window_ms")
	}
	info := &topologyInfo{
		idempotencyWindow: time.Duration(*found.IdempotencyWindowMs) * time.Millisecond,
		dedupes:           found.DedupeWindowMs > 0,
		maxSpoutPending:   found.MaxSpoutPending,
	}
	if found.Trace != nil {
		info.trace = *found.Trace
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.info, s.infoReadAt = info, time.Now()
	return info, nil
}

// isTraced reports whether operations name the edges of a root, as far as the topology is known.
func (s *session) isTraced(root id) bool {
	if known := s.known(); known != nil {
		return isTraced(root, known.trace)
	}
	return isTraced(root, 0)
}

// retryLimit is the time after which a request is not sent again: half of that for which its key is remembered, at most.
func (s *session) retryLimit() time.Duration {
	if known := s.known(); known != nil {
		return min(s.retryTimeout, known.idempotencyWindow/2)
	}
	return s.retryTimeout
}

// isStarting reports whether no server was ever reached, so that nothing can have been applied, and that is bounded.
func (s *session) isStarting() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return !s.everReached && s.bounded
}

func (s *session) limit() time.Duration {
	if s.isStarting() {
		return min(s.retryLimit(), s.startupTimeout)
	}
	return s.retryLimit()
}

func (s *session) checkDeadline(asked *request, failed *failure, age time.Duration) error {
	switch {
	case age <= s.limit():
		return nil
	case s.isStarting():
		return nobodyListens(failed)
	default:
		return exhausted(asked, failed)
	}
}

// warnOnce logs the first failure of an outage; the next answer ends it.
func (s *session) warnOnce(ctx context.Context, asked *request, failed *failure) {
	s.mutex.Lock()
	isFirst := !s.failing
	s.failing = true
	s.mutex.Unlock()
	if isFirst {
		s.logger.WarnContext(ctx, "acker: a request failed; it is sent again",
			"request", asked.String(), "error", failed.err, "for", s.limit())
	}
}

func exhausted(asked *request, failed *failure) error {
	found := retriesExhaustedKind.newError(
		"the result of %v is not known, and it is too late to send it again%s", asked, wordsOfFailure(failed),
	)
	found.OutcomeUnknown = asked.key != ""
	found.cause = failed.err
	return found
}

func wordsOfFailure(failed *failure) string {
	switch {
	case failed.err == nil:
		return ""
	case failed.refusedBy != "":
		return " (no acker answers at " + failed.refusedBy + ": " + failed.err.Error() + ")"
	default:
		return " (" + failed.err.Error() + ")"
	}
}

func nobodyListens(failed *failure) error {
	found := retriesExhaustedKind.newError(
		"no acker answers at %s: %v. Start one (`acker serve`), or set the URL; "+
			"WithStartupTimeout says how long a client waits for the first answer", failed.refusedBy, failed.err,
	)
	found.cause = failed.err
	return found
}

func canceled(asked *request, cause error) error {
	found := canceledKind.newError("%v was given up: %v", asked, cause)
	found.OutcomeUnknown = asked.key != ""
	found.cause = cause
	return found
}
