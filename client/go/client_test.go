package acker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"acker.example/acker"
	"acker.example/acker/ackertest"
)

// opened returns a client of an acker in memory, whose warnings are dropped.
func opened(t *testing.T, memory *ackertest.Acker, options ...acker.Option) *acker.Client {
	t.Helper()
	quiet := acker.WithLogger(slog.New(slog.DiscardHandler))
	client, err := memory.Client(append([]acker.Option{quiet}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// emitted emits a root with these children, and returns its id and their headers.
func emitted(t *testing.T, client *acker.Client, messageID string, keys ...string) (string, []acker.HTTP) {
	t.Helper()
	return emittedWith(t, client, messageID, keys)
}

func emittedWith(
	t *testing.T, client *acker.Client, messageID string, keys []string, options ...acker.EmitOption,
) (string, []acker.HTTP) {
	t.Helper()
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	var rootID string
	var children []acker.HTTP
	err = spout.Emit(t.Context(), messageID, func(_ context.Context, root *acker.Root) error {
		rootID = root.ID()
		for _, key := range keys {
			child, err := root.Anchor(acker.WithKey(key))
			if err != nil {
				return err
			}
			headers := acker.HTTP{}
			child.SetOn(headers)
			children = append(children, headers)
		}
		return nil
	}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return rootID, children
}

func outcomeIs(t *testing.T, memory *ackertest.Acker, rootID, want string) {
	t.Helper()
	if found := memory.Outcome(rootID); found != want {
		t.Fatalf("the root is %q, not %q", found, want)
	}
}

// completed returns the completions that the spout orders has not released.
func completed(t *testing.T, client *acker.Client) []acker.Completion {
	t.Helper()
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	var found []acker.Completion
	for completion, err := range spout.Completions(t.Context(), acker.WithUntil(0)) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, completion)
	}
	return found
}

func nothing(context.Context, *acker.Tuple) error { return nil }

func TestATreeCompletesInMemory(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	rootID, children := emitted(t, client, "42", "a", "b")
	for _, headers := range children {
		outcomeIs(t, memory, rootID, "pending")
		if err := client.Process(t.Context(), headers, nothing, acker.WithComponent("bolt")); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "acked")
	if found := memory.Completions("orders"); !slices.Equal(found, []string{"42"}) {
		t.Fatalf("the mailbox has %q", found)
	}
}

func TestARootTimesOutWhenItsTimeIsOver(t *testing.T) {
	memory := ackertest.New()
	rootID, _ := emitted(t, opened(t, memory), "42", "a")
	memory.Advance(29 * time.Second)
	outcomeIs(t, memory, rootID, "pending")
	memory.Advance(2 * time.Second)
	outcomeIs(t, memory, rootID, "timed_out")
}

func TestARootEndsWhenAllHaveEndedAndTellsHowManyFailed(t *testing.T) {
	memory := ackertest.New(ackertest.WithEndOn(acker.AllEnded))
	client := opened(t, memory, acker.WithLinger(0))
	rootID, rows := emitted(t, client, "import", "1", "2", "3")
	tell := acker.HTTP{}
	for at, headers := range append(rows, rows[1], tell) {
		err := client.Process(t.Context(), headers, func(_ context.Context, tuple *acker.Tuple) error {
			if at != 1 && at != 3 {
				return nil
			}
			child, err := tuple.Anchor(acker.WithKey("tell"))
			child.SetOn(tell)
			return errors.Join(err, acker.FailTuple("row 2 has no price"))
		}, acker.WithComponent("load"))
		if err != nil {
			t.Fatal(err)
		}
		if at == 3 {
			outcomeIs(t, memory, rootID, "pending")
		}
	}
	outcomeIs(t, memory, rootID, "failed")
	done := completed(t, client)[0]
	if done.EndOn != acker.AllEnded || done.Failures != 1 || done.Reason != "row 2 has no price" {
		t.Errorf("%+v", done)
	}
}

func TestAnEmitSaysWhatEndsItsRoot(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	for _, endOn := range []acker.EndOn{acker.FirstFail, acker.AllEnded} {
		rootID, children := emittedWith(t, client, string(endOn), []string{"a", "b"}, acker.WithEndOn(endOn))
		fails := func(context.Context, *acker.Tuple) error { return acker.FailTuple("no") }
		if err := client.Process(t.Context(), children[0], fails, acker.WithComponent("bolt")); err != nil {
			t.Fatal(err)
		}
		want := map[acker.EndOn]string{acker.FirstFail: "failed", acker.AllEnded: "pending"}[endOn]
		outcomeIs(t, memory, rootID, want)
	}
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	err = spout.Emit(t.Context(), "42", nil, acker.WithEndOn("last_fail"))
	if !errors.Is(err, acker.ErrUsage) {
		t.Errorf("a root that ends with its last fail was emitted: %v", err)
	}
}

func TestACompletionCountsTheTuplesThatWereDropped(t *testing.T) {
	memory := ackertest.New(ackertest.WithoutDedupe())
	dropped := 0
	client := opened(t, memory, acker.WithOnDrop(func(context.Context, *acker.Tuple, string) { dropped++ }))
	_, children := emitted(t, client, "42", "a", "b", "c")
	for at, headers := range children {
		err := client.Process(t.Context(), headers, func(context.Context, *acker.Tuple) error {
			if at > 0 {
				return acker.DropTuple("malformed")
			}
			return nil
		}, acker.WithComponent("bolt"))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := completed(t, client)[0]
	if done.Outcome != acker.Acked || done.Dropped != 2 || dropped != 2 || done.EndOn != acker.FirstFail {
		t.Errorf("%+v, and %d were told", done, dropped)
	}
}

func TestAnAckWhoseAnswerIsLostIsSentAgainWithItsKey(t *testing.T) {
	memory := ackertest.New(ackertest.WithoutDedupe())
	client := opened(t, memory, acker.WithLinger(0))
	rootID, children := emitted(t, client, "42", "a", "b")
	memory.Fail(ackertest.LostAnswer)
	for _, headers := range children {
		if err := client.Process(t.Context(), headers, nothing, acker.WithComponent("bolt")); err != nil {
			t.Fatal(err)
		}
	}
	outcomeIs(t, memory, rootID, "acked")
	keys := map[string]int{}
	for _, each := range memory.Requests() {
		if strings.HasSuffix(each.Path, "/ack") {
			keys[each.Key]++
		}
	}
	if len(keys) != 2 {
		t.Fatalf("the acks came with the keys %v", keys)
	}
}

func TestManyGoroutinesAckOneRoot(t *testing.T) {
	memory := ackertest.New(ackertest.WithoutDedupe())
	client := opened(t, memory, acker.WithBatchSize(7), acker.WithBufferSize(7))
	keys := make([]string, 100)
	for at := range keys {
		keys[at] = strings.Repeat("k", at+1)
	}
	rootID, children := emitted(t, client, "42", keys...)
	var all sync.WaitGroup
	for _, headers := range children {
		all.Go(func() {
			if err := client.Process(t.Context(), headers, nothing, acker.WithComponent("bolt")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := client.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "acked")
}

func TestAPanicFailsTheTreeAndGoesOn(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	rootID, children := emitted(t, client, "42", "a")
	defer func() {
		if recover() != "no such card" {
			t.Error("the panic did not go on")
		}
		outcomeIs(t, memory, rootID, "failed")
	}()
	_ = client.Process(t.Context(), children[0], func(context.Context, *acker.Tuple) error {
		panic("no such card")
	}, acker.WithComponent("bolt"))
}

func TestAFunctionThatIsCanceledSendsNothing(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	rootID, children := emitted(t, client, "42", "a")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := func(ctx context.Context, _ *acker.Tuple) error {
		cancel()
		return ctx.Err()
	}
	err := client.Process(ctx, children[0], stopped, acker.WithComponent("bolt"))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "pending")
}

func TestAnAckIsSentAlsoIfTheContextHasEndedMeanwhile(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory, acker.WithLinger(0))
	rootID, children := emitted(t, client, "42", "a")
	ctx, cancel := context.WithCancel(t.Context())
	err := client.Process(ctx, children[0], func(context.Context, *acker.Tuple) error {
		cancel()
		return nil
	}, acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "acked")
}

func TestACallWhoseContextEndsReturnsItsError(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	_, children := emitted(t, client, "42", "a")
	tuple, err := client.Receive(t.Context(), children[0], acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	memory.Fail(slices.Repeat([]ackertest.Fault{ackertest.NoAnswer}, 1000)...)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = tuple.Fail(ctx, "late")
	var found *acker.Error
	if !errors.As(err, &found) || !found.OutcomeUnknown {
		t.Fatalf("%#v", err)
	}
	if !errors.Is(err, acker.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestAnAckAndAFailWhoseContextHasEndedLeaveTheirTupleOpen(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory, acker.WithLinger(0))
	rootID, children := emitted(t, client, "42", "a")
	tuple, err := client.Receive(t.Context(), children[0], acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{tuple.Ack(ended), tuple.Fail(ended, "late")} {
		var found *acker.Error
		if !errors.As(err, &found) || found.Code != "canceled" || found.OutcomeUnknown {
			t.Errorf("%#v", err)
		}
	}
	if err := tuple.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	outcomeIs(t, memory, rootID, "acked")
}

func TestErrorsAreATree(t *testing.T) {
	client := opened(t, ackertest.New())
	_, err := client.Receive(t.Context(), acker.HTTP{"acker-anchors": {"nonsense"}}, acker.WithComponent("bolt"))
	if !errors.Is(err, acker.ErrInvalidHeader) || errors.Is(err, acker.ErrUsage) {
		t.Error(err)
	}
	_, err = client.Receive(t.Context(), acker.HTTP{})
	if !errors.Is(err, acker.ErrUsage) {
		t.Error("a tuple without a component was received")
	}
	tuple, err := client.Receive(t.Context(), acker.HTTP{}, acker.WithComponent("bolt"))
	if err != nil || tuple.Ack(t.Context()) != nil {
		t.Fatal(err)
	}
	err = tuple.Ack(t.Context())
	if !errors.Is(err, acker.ErrTupleClosed) || !errors.Is(err, acker.ErrUsage) {
		t.Error(err)
	}
	var found *acker.Error
	if !errors.As(err, &found) || found.Code != "tuple_closed" || found.Retryable || found.Advice == "" {
		t.Errorf("%#v", found)
	}
}

func TestInjectedHeadersAreThoseOfTheCurrentTupleAndSigned(t *testing.T) {
	client := opened(t, ackertest.New())
	_, children := emitted(t, client, "42", "a")
	const secret = "32 random characters, from a file"
	err := client.Process(t.Context(), children[0], func(ctx context.Context, _ *acker.Tuple) error {
		headers := acker.HTTP{"Accept": {"*/*"}}
		if err := acker.Inject(ctx, headers, acker.WithKey("charge"), acker.Signed(secret)); err != nil {
			return err
		}
		if len(headers) != 3 || acker.Verify(headers, secret) != nil {
			t.Errorf("the headers are %v", headers)
		}
		first := headers[acker.AnchorsHeader][0]
		if err := acker.Inject(ctx, headers); err != nil || headers[acker.AnchorsHeader][0] != first {
			t.Error("headers with anchors were given others")
		}
		return nil
	}, acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	headers := acker.HTTP{}
	if err := acker.Inject(t.Context(), headers); err != nil || len(headers) > 0 {
		t.Errorf("without a current tuple the headers are %v", headers)
	}
}

func TestAHandlerThatAnnouncesMoreThanItWritesBreaksOff(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	rootID, children := emitted(t, client, "42", "a")
	bolt, err := client.Bolt(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Length", "100")
		_, _ = response.Write([]byte("begun"))
	}), acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	asked := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(nil))
	asked.Header = http.Header(children[0])
	bolt.ServeHTTP(httptest.NewRecorder(), asked)
	outcomeIs(t, memory, rootID, "failed")
}

// answeredBy lets a bolt of this handler answer a request, whose caller has gone if it says so, and returns its root.
func answeredBy(
	t *testing.T, memory *ackertest.Acker, method string, hasGone bool, handler http.HandlerFunc,
) (rootID string) {
	t.Helper()
	client := opened(t, memory, acker.WithLinger(0))
	rootID, children := emitted(t, client, "42", "a")
	bolt, err := client.Bolt(handler, acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, goAway := context.WithCancel(t.Context())
	defer goAway()
	asked := httptest.NewRequestWithContext(ctx, method, "/", nil)
	asked.Header = http.Header(children[0])
	if hasGone {
		goAway()
	}
	bolt.ServeHTTP(httptest.NewRecorder(), asked)
	return rootID
}

func TestAHandlerWhoseCallerHasGoneAcksOnlyWithAWholeAnswer(t *testing.T) {
	memory := ackertest.New()
	for name, each := range map[string]struct {
		want   string
		method string
		answer http.HandlerFunc
	}{
		"without a word": {"failed", http.MethodPost, func(http.ResponseWriter, *http.Request) {}},
		"of no announced length": {"failed", http.MethodPost, func(response http.ResponseWriter, _ *http.Request) {
			_, _ = response.Write([]byte("done"))
		}},
		"begun": {"failed", http.MethodPost, func(response http.ResponseWriter, _ *http.Request) {
			response.Header().Set("Content-Length", "100")
			response.WriteHeader(http.StatusOK)
		}},
		"of the announced length": {"acked", http.MethodPost, func(response http.ResponseWriter, _ *http.Request) {
			response.Header().Set("Content-Length", "4")
			_, _ = response.Write([]byte("done"))
		}},
		"without a body": {"acked", http.MethodPost, func(response http.ResponseWriter, _ *http.Request) {
			response.WriteHeader(http.StatusNoContent)
		}},
		"of a head": {"acked", http.MethodHead, func(response http.ResponseWriter, _ *http.Request) {
			response.WriteHeader(http.StatusOK)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			outcomeIs(t, memory, answeredBy(t, memory, each.method, true, each.answer), each.want)
		})
	}
}

func TestAHandlerThatAnnouncesALengthAndWritesNothingBreaksOff(t *testing.T) {
	memory := ackertest.New()
	for _, each := range []struct {
		want   string
		method string
		status int
	}{
		{"failed", http.MethodPost, http.StatusOK},
		{"failed", http.MethodGet, http.StatusNotFound},
		{"acked", http.MethodHead, http.StatusOK},
		{"acked", http.MethodGet, http.StatusNotModified},
	} {
		rootID := answeredBy(t, memory, each.method, false, func(response http.ResponseWriter, _ *http.Request) {
			response.Header().Set("Content-Length", "100")
			response.WriteHeader(each.status)
		})
		outcomeIs(t, memory, rootID, each.want)
	}
}

func TestOfTwoBoltsTheOuterEndsTheTuple(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory, acker.WithLinger(0))
	rootID, children := emitted(t, client, "42", "a")
	answers := http.HandlerFunc(func(response http.ResponseWriter, asked *http.Request) {
		if acker.TupleOf(asked.Context()).Component() != "outer" {
			t.Error("the tuple is not that of the outer bolt")
		}
		response.WriteHeader(http.StatusNoContent)
	})
	inner, err := client.Bolt(answers, acker.WithComponent("inner"))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := client.Bolt(inner, acker.WithComponent("outer"))
	if err != nil {
		t.Fatal(err)
	}
	asked := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	asked.Header = http.Header(children[0])
	outer.ServeHTTP(httptest.NewRecorder(), asked)
	outcomeIs(t, memory, rootID, "acked")
	if untracked := client.Stats().UntrackedTuples; untracked != 0 {
		t.Errorf("%d tuples were untracked", untracked)
	}
}

func TestCompletionsAreReleasedAfterTheLastOfAPageWasHandled(t *testing.T) {
	memory := ackertest.New()
	client := opened(t, memory)
	for _, messageID := range []string{"1", "2", "3"} {
		emitted(t, client, messageID)
	}
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	note := func(_ context.Context, messageID string) error {
		if len(memory.Completions("orders")) < 3-len(seen)/2*2 {
			t.Error("a page was released before it was handled")
		}
		seen = append(seen, messageID)
		return nil
	}
	stop := acker.WithStop(func() bool { return len(seen) == 3 })
	if err := spout.Listen(t.Context(), acker.ByOutcome(note, nil), stop, acker.WithPageSize(2)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []string{"1", "2", "3"}) || len(memory.Completions("orders")) > 0 {
		t.Fatalf("%q were handled, and %q are left", seen, memory.Completions("orders"))
	}
}

func TestAClientIsMadeWhereTheProgramHasReplacedTheDefaultTransport(t *testing.T) {
	common := http.DefaultTransport
	defer func() { http.DefaultTransport = common }()
	memory := ackertest.New()
	http.DefaultTransport = memory
	rootID, _ := emitted(t, opened(t, memory), "42", "a")
	outcomeIs(t, memory, rootID, "pending")
	client, err := acker.New("http://127.0.0.1:8700")
	if err != nil || client.Close(t.Context()) != nil {
		t.Error(err)
	}
}

func TestProcessReturnsTheErrorOfItsFunctionItself(t *testing.T) {
	client := opened(t, ackertest.New())
	_, children := emitted(t, client, "42", "a")
	for _, headers := range []acker.HTTP{children[0], {}} {
		broken := errors.New("out of stock")
		err := client.Process(t.Context(), headers, func(context.Context, *acker.Tuple) error {
			return broken
		}, acker.WithComponent("bolt"))
		if err != broken {
			t.Errorf("%#v was returned", err)
		}
	}
}

func TestAKeyIsNoNumberWhateverItBeginsWith(t *testing.T) {
	client := opened(t, ackertest.New())
	_, children := emitted(t, client, "42", "a")
	tuple, err := client.Receive(t.Context(), children[0], acker.WithComponent("bolt"), acker.Repeatable())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"5", "#5", "#", "#0"} {
		if _, err := client.Anchor([]*acker.Tuple{tuple, tuple}, acker.WithKey(key)); !errors.Is(err, acker.ErrDuplicateKey) {
			t.Errorf("a child with the key %q was anchored to one tuple twice: %v", key, err)
		}
	}
	child, err := client.Anchor([]*acker.Tuple{tuple, tuple})
	if err != nil || child.Len() != 2 {
		t.Errorf("a child without a key was not anchored to one tuple twice: %v", err)
	}
}

func TestAnAPIKeyThatIsNoHeaderIsRefusedAndNotShown(t *testing.T) {
	for _, key := range []string{"secret\n", "sec\rret", "secret\x00", "\x7fsecret"} {
		_, err := acker.New("http://127.0.0.1:8700", acker.WithAPIKey(key))
		if !errors.Is(err, acker.ErrUsage) || strings.Contains(err.Error(), "sec") {
			t.Errorf("a client with the API key %q: %v", key, err)
		}
	}
}

// dialing makes a client whose connections are made by this function, which starts for a moment only.
func dialing(
	t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error), options ...acker.Option,
) *acker.Client {
	t.Helper()
	own := []acker.Option{
		acker.WithLogger(slog.New(slog.DiscardHandler)), acker.WithStartupTimeout(100 * time.Millisecond),
		acker.WithHTTPClient(&http.Client{Transport: &http.Transport{DialContext: dial}}),
	}
	client, err := acker.New("http://127.0.0.1:8700", append(own, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func emitsOne(ctx context.Context, t *testing.T, client *acker.Client) error {
	t.Helper()
	spout, err := client.SharedSpout("orders")
	if err != nil {
		t.Fatal(err)
	}
	return spout.Emit(ctx, "42", nil)
}

func TestTheStartupTimeoutHoldsWhereNoConnectionIsMadeAndNoneIsRefused(t *testing.T) {
	drops := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client := dialing(t, drops, acker.WithRequestTimeout(50*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := emitsOne(ctx, t, client)
	if !errors.Is(err, acker.ErrRetriesExhausted) || !strings.Contains(err.Error(), "no acker answers at") {
		t.Errorf("where packets are dropped: %v", err)
	}
}

func TestAnAttemptThatItsCallerCancelsTellsNothingOfTheAcker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dials := 0
	drops := func(dialed context.Context, _, _ string) (net.Conn, error) {
		if dials++; dials == 1 {
			cancel()
			<-dialed.Done()
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	client := dialing(t, drops)
	if err := emitsOne(ctx, t, client); !errors.Is(err, acker.ErrCanceled) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := emitsOne(ctx, t, client)
	if !errors.Is(err, acker.ErrRetriesExhausted) || !strings.Contains(err.Error(), "no acker answers at") {
		t.Errorf("after an attempt that was canceled: %v", err)
	}
}

func TestTheStartupTimeoutEndsWithTheFirstConnection(t *testing.T) {
	silent := func(context.Context, string, string) (net.Conn, error) {
		own, other := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, other) }()
		return own, nil
	}
	client := dialing(t, silent, acker.WithRequestTimeout(30*time.Millisecond), acker.WithRetryTimeout(time.Second))
	err := emitsOne(t.Context(), t, client)
	if !errors.Is(err, acker.ErrRetriesExhausted) || strings.Contains(err.Error(), "no acker answers at") {
		t.Errorf("where a server listens and does not answer: %v", err)
	}
}

func TestMetadataOfGRPCIsWrittenInLowerCase(t *testing.T) {
	const secret = "32 random characters, from a file"
	client := opened(t, ackertest.New())
	_, children := emitted(t, client, "42", "a")
	metadata := acker.Metadata{"authorization": {"Bearer x"}}
	err := client.Process(t.Context(), children[0], func(ctx context.Context, _ *acker.Tuple) error {
		return acker.Inject(ctx, metadata, acker.Signed(secret))
	}, acker.WithComponent("bolt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(metadata) != 3 {
		t.Errorf("the metadata is %v", metadata)
	}
	for name := range metadata {
		if name != strings.ToLower(name) {
			t.Errorf("gRPC does not send %s", name)
		}
	}
	if err := acker.Verify(metadata, secret); err != nil {
		t.Error(err)
	}
	tuple, err := client.Receive(t.Context(), metadata, acker.WithComponent("end"))
	if err != nil || !tuple.Tracked() {
		t.Errorf("%v was received: %v", tuple, err)
	}
	metadata.Delete(acker.AnchorsHeader)
	if metadata[strings.ToLower(acker.AnchorsHeader)] != nil {
		t.Errorf("the metadata is %v", metadata)
	}
}
