package acker

import (
	"context"
	"time"
)

const (
	// minPollInterval lies between two polls when the first came back empty at once, as from an acker that shuts down.
	minPollInterval = 100 * time.Millisecond
	maxPollTimeout  = time.Minute
	maxPageSize     = 10_000
)

// ReadOption is one of Spout.Completions and Spout.Listen.
type ReadOption func(*reading)

type reading struct {
	stop        func() bool
	until       time.Duration
	bounded     bool
	pageSize    int
	pollTimeout time.Duration
}

// WithStop ends reading before a poll where stop returns true.
func WithStop(stop func() bool) ReadOption { return func(r *reading) { r.stop = stop } }

// WithUntil ends reading before a poll after so long, but for the first poll.
func WithUntil(timeout time.Duration) ReadOption {
	return func(r *reading) { r.until, r.bounded = timeout, true }
}

// WithPageSize sets how many completions a poll asks for; 100 without it.
func WithPageSize(completions int) ReadOption { return func(r *reading) { r.pageSize = completions } }

// WithPollTimeout sets how long a poll waits for the first completion; 30 s without it.
func WithPollTimeout(timeout time.Duration) ReadOption {
	return func(r *reading) { r.pollTimeout = timeout }
}

func readReading(options []ReadOption) (reading, error) {
	own := reading{pageSize: 100, pollTimeout: 30 * time.Second}
	for _, option := range options {
		option(&own)
	}
	if own.pageSize < 1 || own.pageSize > maxPageSize {
		return own, usageKind.newError("the page size must be from 1 to %d, not %d", maxPageSize, own.pageSize)
	}
	if own.pollTimeout < 0 || own.pollTimeout > maxPollTimeout {
		return own, usageKind.newError("the poll timeout must be from 0 to %v, not %v", maxPollTimeout, own.pollTimeout)
	}
	return own, nil
}

// mailboxReader is one reader of a mailbox: while it is open read, handle all that was read, release.
type mailboxReader struct {
	task   *spoutTask
	own    reading
	begun  time.Time
	last   page
	polled bool
}

func newMailboxReader(task *spoutTask, options []ReadOption) (*mailboxReader, error) {
	own, err := readReading(options)
	return &mailboxReader{task: task, own: own, begun: time.Now()}, err
}

// isOpen reports whether to go on reading.
func (m *mailboxReader) isOpen(ctx context.Context) bool {
	isStopped := m.own.stop != nil && m.own.stop()
	return !isStopped && ctx.Err() == nil && (!m.polled || m.left() > 0)
}

// read reads the next page; it may be empty, and is when the context ends.
func (m *mailboxReader) read(ctx context.Context) ([]Completion, error) {
	polledAt := time.Now()
	found, err := m.poll(ctx)
	if err != nil {
		return nil, err
	}
	m.last, m.polled = found, true
	early := min(minPollInterval-time.Since(polledAt), m.left())
	if len(found.completions) == 0 && early > 0 {
		_ = sleep(ctx, early) // isOpen looks at the context
	}
	return found.completions, nil
}

// release releases the page, now that each of its completions was handled; also if the context has ended meanwhile.
func (m *mailboxReader) release(ctx context.Context) error {
	if len(m.last.completions) == 0 || m.last.cursor == "" {
		return nil
	}
	asked := releaseCompletions(m.task.session.topology, m.task.name, m.last.cursor)
	_, err := m.task.session.send(context.WithoutCancel(ctx), asked, time.Time{})
	if hasCode(err, "unknown_spout", "unknown_topology") {
		return nil // the store has lost what is released: nothing is left to do
	}
	return err
}

func (m *mailboxReader) poll(ctx context.Context) (page, error) {
	wait := max(0, min(m.own.pollTimeout, m.left()))
	asked := readCompletions(m.task.session.topology, m.task.name, m.last.cursor, m.own.pageSize, wait)
	given, err := m.task.session.send(ctx, asked, time.Time{})
	switch {
	case err == nil:
		return readPage(given)
	case ctx.Err() != nil:
		return page{}, nil
	case hasCode(err, "unknown_spout"):
		m.task.setRegistered(false) // nothing was emitted yet, or the store has lost it
		return page{}, nil
	default:
		return page{}, err
	}
}

// left returns how long reading goes on.
func (m *mailboxReader) left() time.Duration {
	if !m.own.bounded {
		return maxPollTimeout
	}
	return m.own.until - time.Since(m.begun)
}
