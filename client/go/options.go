package acker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode"
)

const (
	firstDelay = 50 * time.Millisecond
	maxDelay   = 5 * time.Second
)

// OnFull is what an ack does when the buffer is full.
type OnFull int

const (
	// OnFullBlock lets the ack wait for space.
	OnFullBlock OnFull = iota
	// OnFullRefuse lets it return ErrBufferFull; the tuple is unchanged.
	OnFullRefuse
)

// Option is one of New.
type Option func(*settings)

// settings are the options of one client, complete.
type settings struct {
	topology       string
	apiKey         string
	retryTimeout   time.Duration
	emitTimeout    time.Duration
	requestTimeout time.Duration
	startupTimeout time.Duration
	bounded        bool // whether the startup timeout holds
	linger         time.Duration
	batchSize      int
	bufferSize     int
	onFull         OnFull
	onDrop         func(ctx context.Context, tuple *Tuple, reason string)
	logger         *slog.Logger
	httpClient     *http.Client
}

// WithTopology sets the topology; "default" without it.
func WithTopology(name string) Option { return func(s *settings) { s.topology = name } }

// WithAPIKey sets what is sent as a bearer token.
func WithAPIKey(key string) Option { return func(s *settings) { s.apiKey = key } }

// WithLinger sets how long acks wait, or until the batch is full, to be sent together; 0: each by itself, and Ack
// returns when it was answered. 5 ms without it.
func WithLinger(linger time.Duration) Option { return func(s *settings) { s.linger = linger } }

// WithBatchSize sets how many acks do not wait any more; 1,000 without it.
func WithBatchSize(operations int) Option { return func(s *settings) { s.batchSize = operations } }

// WithBufferSize sets how many operations may be in flight; 10,000 without it.
func WithBufferSize(operations int) Option { return func(s *settings) { s.bufferSize = operations } }

// WithOnFull sets what an ack does when the buffer is full; it waits without it.
func WithOnFull(onFull OnFull) Option { return func(s *settings) { s.onFull = onFull } }

// WithRetryTimeout sets for how long a request that fails is sent again, at most half the time for which the acker
// remembers keys; 60 s without it.
func WithRetryTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.retryTimeout = timeout }
}

// WithEmitTimeout sets for how long a refused init is sent again, and an emit waits for a free place; 30 s without it.
func WithEmitTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.emitTimeout = timeout }
}

// WithRequestTimeout sets the time limit of one attempt of a request; 10 s without it.
func WithRequestTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.requestTimeout = timeout }
}

// WithStartupTimeout sets for how long a request is sent again while no server listens and none ever answered; 5 s
// without it. See WithoutStartupTimeout.
func WithStartupTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.startupTimeout, s.bounded = timeout, true }
}

// WithoutStartupTimeout lets requests wait for the first answer as for any other.
func WithoutStartupTimeout() Option { return func(s *settings) { s.bounded = false } }

// WithOnDrop sets what is called with a tuple that DropTuple ended; without it that is a warning.
func WithOnDrop(call func(ctx context.Context, tuple *Tuple, reason string)) Option {
	return func(s *settings) { s.onDrop = call }
}

// WithLogger sets where warnings go; slog.Default() without it.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithHTTPClient sets what sends requests; its Timeout would end long polls, and is not needed.
func WithHTTPClient(client *http.Client) Option { return func(s *settings) { s.httpClient = client } }

func readSettings(options []Option) (*settings, error) {
	s := &settings{
		topology:       "default",
		retryTimeout:   60 * time.Second,
		emitTimeout:    30 * time.Second,
		requestTimeout: 10 * time.Second,
		startupTimeout: 5 * time.Second,
		bounded:        true,
		linger:         5 * time.Millisecond,
		batchSize:      1_000,
		bufferSize:     10_000,
		logger:         slog.Default(),
	}
	for _, option := range options {
		option(s)
	}
	return s, s.check()
}

func (s *settings) check() error {
	if err := checkName("the topology", s.topology); err != nil {
		return err
	}
	if strings.ContainsFunc(s.apiKey, unicode.IsControl) {
		return usageKind.newError("the API key must be one line without control characters") // it is not shown
	}
	shortest := min(s.retryTimeout, s.emitTimeout, s.startupTimeout, s.linger)
	switch {
	case shortest < 0 || s.requestTimeout <= 0:
		return usageKind.newError("timeouts must not be negative, and the request timeout more than 0")
	case s.batchSize < 1 || s.bufferSize < s.batchSize:
		return usageKind.newError("the batch size must be 1 or more, and the buffer size at least as large")
	case s.onFull != OnFullBlock && s.onFull != OnFullRefuse:
		return usageKind.newError(
			"what an ack does when the buffer is full must be OnFullBlock or OnFullRefuse, not %d", s.onFull,
		)
	case s.logger == nil:
		return usageKind.newError("the logger must not be nil")
	}
	return nil
}

// backoff gives the pauses before each further attempt: doubling up to 5 s, the upper half of each random.
type backoff struct {
	span   time.Duration
	jitter func() float64
}

func newBackoff(jitter func() float64) *backoff { return &backoff{span: firstDelay, jitter: jitter} }

func (b *backoff) next() time.Duration {
	pause := time.Duration(float64(b.span) * (1 + b.jitter()) / 2)
	b.span = min(2*b.span, maxDelay)
	return pause
}

// delays returns the pauses of one request.
func delays() *backoff { return newBackoff(rand.Float64) }

// sleep waits; it returns the error of a context that ends before.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
