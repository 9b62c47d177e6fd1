package acker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"acker.example/acker"
	"acker.example/acker/ackertest"
)

// transportFunc is a Transport of one function.
type transportFunc func(asked *http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(asked *http.Request) (*http.Response, error) { return f(asked) }

// through lets an http.Client send the requests of acks by this function, and all others to an acker in memory.
func through(memory *ackertest.Acker, sendAck transportFunc) acker.Option {
	return acker.WithHTTPClient(&http.Client{Transport: transportFunc(func(asked *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(asked.Body)
		if err != nil {
			return nil, err
		}
		asked.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.HasSuffix(asked.URL.Path, "/ack") || strings.Contains(string(body), `"op":"ack"`) {
			return sendAck(asked)
		}
		return memory.RoundTrip(asked)
	})})
}

// problem answers a request with a problem of this code.
func problem(asked *http.Request, code string, status int) *http.Response {
	return &http.Response{
		StatusCode: status, Request: asked, Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body: io.NopCloser(strings.NewReader(`{"code":"` + code + `","detail":"no","retryable":false}`)),
	}
}

func processed(t *testing.T, client *acker.Client, headers acker.Carrier) {
	t.Helper()
	if err := client.Process(t.Context(), headers, nothing, acker.WithComponent("bolt")); err != nil {
		t.Fatal(err)
	}
}

// until waits for something that other goroutines do.
func until(t *testing.T, isDone func() bool) {
	t.Helper()
	for !isDone() {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
		runtime.Gosched()
	}
}

func TestEachFlushReturnsWhatItHasWaitedForOnce(t *testing.T) {
	memory := ackertest.New()
	gate := make(chan struct{})
	client := opened(t, memory, acker.WithBatchSize(2), acker.WithBufferSize(1000),
		through(memory, func(asked *http.Request) (*http.Response, error) {
			<-gate
			return problem(asked, "forbidden", http.StatusForbidden), nil
		}))
	_, children := emitted(t, client, "42", "a", "b")
	processed(t, client, children[0])
	processed(t, client, children[1])
	const flushes = 20
	lost := make(chan error, flushes)
	for range flushes {
		go func() { lost <- client.Flush(t.Context()) }()
	}
	until(t, func() bool { return client.Waiting() == flushes })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Flush(ctx); !errors.Is(err, acker.ErrCanceled) {
		t.Error(err)
	}
	var others sync.WaitGroup
	var isOver atomic.Bool
	for range 4 {
		others.Go(func() {
			for !isOver.Load() {
				if err := client.Process(t.Context(), acker.HTTP{}, nothing, acker.WithComponent("bolt")); err != nil {
					t.Errorf("another call returned %v", err)
				}
			}
		})
	}
	close(gate)
	for range flushes {
		var found *acker.Error
		if err := <-lost; !errors.As(err, &found) || found.Operations != 2 {
			t.Errorf("a flush returned %v", err)
		}
	}
	isOver.Store(true)
	others.Wait()
	for range 20 {
		if err := client.Flush(ctx); err != nil {
			t.Errorf("a flush that has nothing to wait for returned %v", err)
		}
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Errorf("another flush returned %v", err)
	}
}

func TestAFailThatWaitsForLostAcksLeavesThemToTheFlush(t *testing.T) {
	memory := ackertest.New()
	gate := make(chan struct{})
	client := opened(t, memory, acker.WithBatchSize(1), through(memory, func(asked *http.Request) (*http.Response, error) {
		<-gate
		return problem(asked, "forbidden", http.StatusForbidden), nil
	}))
	_, children := emitted(t, client, "42", "a", "b")
	processed(t, client, children[0])
	tuple, err := client.Receive(t.Context(), children[1], acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	lost, failed := make(chan error), make(chan error)
	go func() { lost <- client.Flush(t.Context()) }()
	go func() { failed <- tuple.Fail(t.Context(), "late") }()
	until(t, func() bool { return client.Waiting() == 2 })
	close(gate)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	var found *acker.Error
	if err := <-lost; !errors.As(err, &found) || found.Operations != 1 {
		t.Errorf("the flush returned %v", err)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Errorf("another flush returned %v", err)
	}
}

func TestAnAckThatIsRefusedHoldsNothingElseUp(t *testing.T) {
	memory := ackertest.New()
	var refused atomic.Int64
	client := opened(t, memory, through(memory, func(asked *http.Request) (*http.Response, error) {
		refused.Add(1)
		return problem(asked, "store_full", http.StatusServiceUnavailable), nil
	}))
	rootID, children := emitted(t, client, "42", "a", "b", "c")
	processed(t, client, children[0])
	until(t, func() bool { return refused.Load() > 0 })
	tuple, err := client.Receive(t.Context(), children[1], acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tuple.ResetTimeout(ctx); err != nil {
		t.Fatalf("a reset: %v", err)
	}
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	var early string
	err = spout.Emit(ctx, "43", func(_ context.Context, root *acker.Root) error {
		early = root.ID()
		child, err := root.Anchor()
		headers := acker.HTTP{}
		child.SetOn(headers)
		processed(t, client, headers)
		return err
	})
	if err != nil {
		t.Fatalf("an init: %v", err)
	}
	outcomeIs(t, memory, early, "pending")
	processed(t, client, children[2])
	if err := tuple.Fail(ctx, "late"); err != nil {
		t.Fatalf("a fail: %v", err)
	}
	outcomeIs(t, memory, rootID, "failed")
}

// noticed is a context that says when it is waited for.
type noticed struct {
	context.Context
	waits chan struct{}
}

func (n noticed) Done() <-chan struct{} {
	select {
	case n.waits <- struct{}{}:
	default:
	}
	return n.Context.Done()
}

func TestAnAckThatWaitsForSpaceWhenTheClientIsClosedIsRefused(t *testing.T) {
	memory := ackertest.New()
	gate := make(chan struct{})
	client := opened(t, memory, acker.WithLinger(time.Minute), acker.WithBatchSize(2), acker.WithBufferSize(2),
		through(memory, func(asked *http.Request) (*http.Response, error) {
			<-gate
			return memory.RoundTrip(asked)
		}))
	rootID, children := emitted(t, client, "42", "a", "b", "c")
	processed(t, client, children[0])
	processed(t, client, children[1])
	tuple, err := client.Receive(t.Context(), children[2], acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := noticed{t.Context(), make(chan struct{}, 1)}
	acked, closed := make(chan error, 1), make(chan error, 1)
	go func() { acked <- tuple.Ack(ctx) }()
	<-ctx.waits
	closing := noticed{t.Context(), make(chan struct{}, 1)}
	go func() { closed <- client.Close(closing) }()
	<-closing.waits
	close(gate)
	if err := <-acked; !errors.Is(err, acker.ErrClientClosed) || tuple.Closed() {
		t.Errorf("the ack that waited returned %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	outcomeIs(t, memory, rootID, "pending")
	another := opened(t, memory)
	processed(t, another, children[2])
	if err := another.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "acked")
}
