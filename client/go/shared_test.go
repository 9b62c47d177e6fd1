package acker_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"acker.example/acker"
	"acker.example/acker/ackertest"
)

// holding makes a client whose first request of this method waits until the gate is open, or its context ends.
func holding(
	t *testing.T, memory *ackertest.Acker, method string, gate <-chan struct{},
) (*acker.Client, <-chan struct{}) {
	t.Helper()
	came := make(chan struct{}, 1)
	var isFirst atomic.Bool
	isFirst.Store(true)
	return opened(t, memory, acker.WithHTTPClient(&http.Client{
		Transport: transportFunc(func(asked *http.Request) (*http.Response, error) {
			if asked.Method == method && isFirst.CompareAndSwap(true, false) {
				came <- struct{}{}
				select {
				case <-gate:
				case <-asked.Context().Done():
					return nil, asked.Context().Err()
				}
			}
			return memory.RoundTrip(asked)
		}),
	})), came
}

func TestManyFirstEmitsReadTheTopologyAndRegisterTheSpoutOnce(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		memory := ackertest.New()
		gate := make(chan struct{})
		client, came := holding(t, memory, method, gate)
		spout, err := client.Spout("reader")
		if err != nil {
			t.Fatal(err)
		}
		const emits = 50
		var all sync.WaitGroup
		var begun atomic.Int64
		for at := range emits {
			all.Go(func() {
				begun.Add(1)
				if err := spout.Emit(t.Context(), strconv.Itoa(at), nil); err != nil {
					t.Error(err)
				}
			})
		}
		<-came
		until(t, func() bool { return begun.Load() == emits })
		close(gate)
		all.Wait()
		count := map[string]int{}
		for _, each := range memory.Requests() {
			count[each.Method]++
		}
		if count[http.MethodGet] != 1 || count[http.MethodPut] != 1 {
			t.Errorf("%d emits made the requests %v", emits, count)
		}
	}
}

func TestACallThatWaitsForAnotherMakesItWhereThatIsCanceled(t *testing.T) {
	memory := ackertest.New()
	client, came := holding(t, memory, http.MethodGet, nil)
	first, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() { errs <- emitsOne(first, t, client) }()
	<-came
	second := noticed{t.Context(), make(chan struct{}, 1)}
	others := make(chan error, 1)
	go func() { others <- emitsOne(second, t, client) }()
	<-second.waits
	third, cancelThird := context.WithCancel(t.Context())
	cancelThird()
	if err := emitsOne(third, t, client); !errors.Is(err, acker.ErrCanceled) {
		t.Errorf("a call whose context has ended returned %v", err)
	}
	cancel()
	if err := <-errs; !errors.Is(err, acker.ErrCanceled) {
		t.Errorf("the call that was canceled returned %v", err)
	}
	if err := <-others; err != nil {
		t.Errorf("the other one returned %v", err)
	}
}
