package acker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"acker.example/acker"
)

// The commands of the scenarios.

func (d *driver) clear() {
	d.clients, d.tuples = map[string]*acker.Client{}, map[string]*acker.Tuple{}
	d.gates, d.servers, d.handled = map[string]chan struct{}{}, nil, []object{}
}

func (d *driver) reset(command) (any, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, gate := range d.gates {
		open(gate)
	}
	for _, server := range d.servers {
		_ = server.Close()
	}
	d.clear()
	return object{}, nil
}

func (d *driver) open(given command) (any, error) {
	client, err := acker.New(given.URL, d.optionsOf(given)...)
	if err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.clients[given.Client] = client
	return object{}, nil
}

func (d *driver) optionsOf(given command) []acker.Option {
	options := []acker.Option{acker.WithLogger(d.logger)}
	durations := map[string]func(time.Duration) acker.Option{
		"linger_ms": acker.WithLinger, "retry_timeout_ms": acker.WithRetryTimeout, "emit_timeout_ms": acker.WithEmitTimeout,
		"request_timeout_ms": acker.WithRequestTimeout, "startup_timeout_ms": acker.WithStartupTimeout,
	}
	for name, option := range durations {
		if value, found := given.duration(name); found {
			options = append(options, option(value))
		}
	}
	sizes := map[string]func(int) acker.Option{"batch_size": acker.WithBatchSize, "buffer_size": acker.WithBufferSize}
	for name, option := range sizes {
		if value, found := given.numbers[name]; found {
			options = append(options, option(int(value)))
		}
	}
	if given.nulls["startup_timeout_ms"] {
		options = append(options, acker.WithoutStartupTimeout())
	}
	if given.Topology != nil {
		options = append(options, acker.WithTopology(*given.Topology))
	}
	if key, found := given.texts["api_key"]; found {
		options = append(options, acker.WithAPIKey(key))
	}
	if given.texts["on_full"] == "raise" {
		options = append(options, acker.WithOnFull(acker.OnFullRefuse))
	}
	return options
}

func (c *command) duration(name string) (time.Duration, bool) {
	value, found := c.numbers[name]
	return time.Duration(value * float64(time.Millisecond)), found
}

func (d *driver) close(given command) (any, error) {
	return object{}, d.clientOf(given).Close(context.Background())
}

func (d *driver) emit(given command) (any, error) {
	spout, err := d.spoutOf(given)
	if err != nil {
		return nil, err
	}
	found := object{"spout_task": spout.Name(), "headers": []any{}}
	run := func(ctx context.Context, root *acker.Root) error {
		found["root_id"] = root.ID()
		headers, err := makeChildren(ctx, root, given.Children, given.Ambient)
		found["headers"] = headers
		if err == nil && given.Raises {
			return &broken{}
		}
		return err
	}
	if given.MessageID == nil {
		err = spout.EmitUntracked(context.Background(), run)
	} else {
		err = spout.Emit(context.Background(), *given.MessageID, run, emitOptionsOf(given)...)
	}
	return noteBroken(found, err)
}

func emitOptionsOf(given command) []acker.EmitOption {
	var options []acker.EmitOption
	if timeout, found := given.duration("message_timeout_ms"); found {
		options = append(options, acker.WithMessageTimeout(timeout))
	}
	if timeout, found := given.duration("progress_timeout_ms"); found {
		options = append(options, acker.WithProgressTimeout(timeout))
	}
	if value, found := given.texts["traceparent"]; found {
		options = append(options, acker.WithTraceparent(value))
	}
	if value, found := given.texts["end_on"]; found {
		options = append(options, acker.WithEndOn(acker.EndOn(value)))
	}
	return options
}

func (d *driver) receive(given command) (any, error) {
	tuple, err := d.clientOf(given).Receive(context.Background(), headersOf(given.Header), receiveOptionsOf(given)...)
	if err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	handle := fmt.Sprintf("tuple %d", len(d.tuples)+1)
	d.tuples[handle] = tuple
	return object{"tuple": handle, "tracked": tuple.Tracked(), "anchors": tuple.Anchors().Len()}, nil
}

func receiveOptionsOf(given command) []acker.ReceiveOption {
	options := []acker.ReceiveOption{acker.WithComponent(given.Component)}
	if given.Repeats {
		options = append(options, acker.Repeatable())
	}
	if given.OnError == "leave_open" {
		options = append(options, acker.WithOnError(acker.OnErrorLeaveOpen))
	}
	if given.Secret != nil {
		options = append(options, acker.WithProof(*given.Secret))
	}
	return options
}

func (d *driver) child(given command) (any, error) {
	anchors, err := d.tupleAt(given.Tuple).Anchor(keyed(given.Key)...)
	return object{"header": valueOrNull(anchors)}, err
}

func (d *driver) join(given command) (any, error) {
	var tuples []*acker.Tuple
	for _, handle := range given.Tuples {
		tuples = append(tuples, d.tupleAt(handle))
	}
	anchors, err := d.clientOf(given).Anchor(tuples, keyed(given.Key)...)
	return object{"header": valueOrNull(anchors)}, err
}

func (d *driver) ack(given command) (any, error) {
	return object{}, d.tupleAt(given.Tuple).Ack(context.Background())
}

func (d *driver) fail(given command) (any, error) {
	return object{}, d.tupleAt(given.Tuple).Fail(context.Background(), given.Reason)
}

func (d *driver) resetTimeout(given command) (any, error) {
	return object{}, d.tupleAt(given.Tuple).ResetTimeout(context.Background())
}

func (d *driver) process(given command) (any, error) {
	found := object{"headers": []any{}}
	outer := context.Background()
	err := d.clientOf(given).Process(outer, headersOf(given.Header), func(ctx context.Context, tuple *acker.Tuple) error {
		d.passGate(given.Gate)
		headers, err := makeChildren(ctx, tuple, given.Children, given.Ambient)
		found["headers"] = headers
		if err != nil {
			return err
		}
		return end(ctx, tuple, given.Then, given.Reason)
	}, receiveOptionsOf(given)...)
	found["restored"] = acker.Current(outer) == nil
	return noteBroken(found, err)
}

func (d *driver) enqueue(given command) (any, error) {
	var headers []string
	err := json.Unmarshal(given.RawHeader, &headers)
	d.queue = make([]acker.Carrier, len(headers))
	for at := range headers {
		d.queue[at] = headersOf(&headers[at])
	}
	return object{}, err
}

func (d *driver) workOff(given command) (any, error) {
	ctx, client, component := context.Background(), d.clientOf(given), acker.WithComponent(given.Component)
	keys := make([]string, int(given.numbers["child_count"]))
	for at := range keys {
		keys[at] = strconv.Itoa(at)
	}
	work := func(_ context.Context, tuple *acker.Tuple) error {
		for _, key := range keys {
			child, err := tuple.Anchor(acker.WithKey(key))
			if err != nil {
				return err
			}
			child.SetOn(acker.HTTP{})
		}
		return nil
	}
	for _, headers := range d.queue {
		if err := workOn(ctx, client, headers, component, work, len(keys) > 0); err != nil {
			return nil, err
		}
	}
	return object{}, client.Flush(ctx)
}

// workOn acks a message by hand, or by its function.
func workOn(
	ctx context.Context, client *acker.Client, headers acker.Carrier, component acker.ReceiveOption,
	work func(context.Context, *acker.Tuple) error, byFunction bool,
) error {
	if byFunction {
		return client.Process(ctx, headers, work, component)
	}
	tuple, err := client.Receive(ctx, headers, component)
	if err != nil {
		return err
	}
	return tuple.Ack(ctx)
}

func (d *driver) openGate(given command) (any, error) {
	gate := d.gateOf(*given.Gate)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	open(gate)
	return object{}, nil
}

func (d *driver) flush(given command) (any, error) {
	return object{}, d.clientOf(given).Flush(context.Background())
}

func (d *driver) stats(given command) (any, error) {
	found := d.clientOf(given).Stats()
	return object{
		"in_flight": found.InFlight, "lost": found.Lost, "dropped": found.DroppedTuples, "untracked": found.UntrackedTuples,
	}, nil
}

func (d *driver) internals(given command) (any, error) {
	client := d.clientOf(given)
	waiting, isClosing := client.WaitingForSpace()
	return object{
		"waiting_for_space": waiting, "waiting_for_answers": client.Waiting(), "closing": isClosing,
	}, nil
}

func (d *driver) completions(given command) (any, error) {
	spout, err := d.spoutOf(given)
	if err != nil {
		return nil, err
	}
	seen := []object{}
	stop := func() bool { return given.Count > 0 && len(seen) >= given.Count }
	err = func() error {
		for completion, err := range spout.Completions(context.Background(), readOptionsOf(given, stop)...) {
			if err != nil {
				return err
			}
			seen = append(seen, written(completion))
			d.passGate(given.Gate)
			if len(seen) == given.RaiseAt {
				return &broken{}
			}
		}
		return nil
	}()
	return noteBroken(object{"completions": seen}, err)
}

func readOptionsOf(given command, stop func() bool) []acker.ReadOption {
	options := []acker.ReadOption{acker.WithStop(stop)}
	if size, found := given.numbers["page_size"]; found {
		options = append(options, acker.WithPageSize(int(size)))
	}
	if timeout, found := given.duration("poll_timeout_ms"); found {
		options = append(options, acker.WithPollTimeout(timeout))
	}
	if timeout, found := given.duration("until_ms"); found {
		options = append(options, acker.WithUntil(timeout))
	}
	return options
}

func (d *driver) serveBolt(given command) (any, error) {
	handler, err := d.clientOf(given).Bolt(http.HandlerFunc(application), receiveOptionsOf(given)...)
	if err != nil {
		return nil, err
	}
	return d.serve(handler)
}

// application is what stands behind the middleware: the body of a request says what it does.
func application(response http.ResponseWriter, asked *http.Request) {
	var wanted struct {
		Children  []*string `json:"children"`
		Then      string    `json:"then"`
		Reason    string    `json:"reason"`
		Status    int       `json:"status"`
		BreaksOff bool      `json:"breaks_off"`
		GivesUp   bool      `json:"gives_up"`
	}
	if err := json.NewDecoder(asked.Body).Decode(&wanted); err != nil {
		panic(err)
	}
	headers, err := makeChildren(asked.Context(), acker.TupleOf(asked.Context()), wanted.Children, true)
	if err == nil {
		err = end(asked.Context(), acker.TupleOf(asked.Context()), wanted.Then, wanted.Reason)
	}
	if err != nil {
		panic(err)
	}
	if wanted.GivesUp {
		<-asked.Context().Done()
		return
	}
	if wanted.Status != 0 {
		response.WriteHeader(wanted.Status)
	}
	if wanted.BreaksOff {
		_, _ = response.Write([]byte("begun"))
		response.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(response).Encode(object{"headers": headers})
}

func (d *driver) serveWebhook(given command) (any, error) {
	left := slices.Clone(given.RaiseFor)
	handler, err := acker.WebhookHandler(given.Secrets, func(_ context.Context, completion acker.Completion) error {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if at := slices.Index(left, completion.MessageID); at >= 0 {
			left = slices.Delete(left, at, at+1)
			return &broken{}
		}
		d.handled = append(d.handled, written(completion))
		return nil
	}, acker.WithWebhookLogger(d.logger))
	if err != nil {
		return nil, err
	}
	return d.serve(handler)
}

func (d *driver) webhookHandled(command) (any, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return object{"completions": slices.Clone(d.handled)}, nil
}

func (d *driver) serve(handler http.Handler) (any, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	d.mutex.Lock()
	d.servers = append(d.servers, server)
	d.mutex.Unlock()
	go func() { _ = server.Serve(listener) }()
	return object{"url": "http://" + listener.Addr().String()}, nil
}

func end(ctx context.Context, tuple *acker.Tuple, then, reason string) error {
	switch then {
	case "raise":
		return &broken{reason: reason}
	case "fail_tuple":
		return acker.FailTuple(reason)
	case "drop_tuple":
		return acker.DropTuple(reason)
	case "ack":
		return tuple.Ack(ctx)
	case "fail":
		return tuple.Fail(ctx, reason)
	default:
		return nil
	}
}

func makeChildren(ctx context.Context, parent acker.Parent, keys []*string, ambient bool) ([]any, error) {
	made := []any{}
	for _, key := range keys {
		if !ambient {
			anchors, err := parent.Anchor(keyed(key)...)
			if err != nil {
				return made, err
			}
			made = append(made, valueOrNull(anchors))
			continue
		}
		headers, options := acker.HTTP{}, []acker.InjectOption{}
		for _, option := range keyed(key) {
			options = append(options, option)
		}
		if err := acker.Inject(ctx, headers, options...); err != nil {
			return made, err
		}
		anchors, _, err := acker.Extract(headers)
		if err != nil {
			return made, err
		}
		made = append(made, valueOrNull(anchors))
	}
	return made, nil
}

func keyed(key *string) []acker.ChildOption {
	if key == nil {
		return nil
	}
	return []acker.ChildOption{acker.WithKey(*key)}
}

func valueOrNull(anchors acker.Anchors) any {
	if value := anchors.Header(); value != "" {
		return value
	}
	return nil
}

func headersOf(header *string) acker.Carrier {
	headers := acker.HTTP{}
	if header != nil {
		headers.Set(acker.AnchorsHeader, *header)
	}
	return headers
}

func written(completion acker.Completion) object {
	found := object{
		"id": completion.ID, "root_id": completion.RootID, "outcome": completion.Outcome, "message_id": nil,
		"reason": orNull(completion.Reason), "component": orNull(completion.Component),
		"traceparent": orNull(completion.Traceparent), "dropped": completion.Dropped, "failures": nil,
		"last_component": orNull(completion.LastComponent), "last_ack_at_ms": nil, "outstanding": nil,
	}
	if completion.EndOn == acker.AllEnded {
		found["failures"] = completion.Failures
	}
	if !completion.LastAckAt.IsZero() {
		found["last_ack_at_ms"] = completion.LastAckAt.UnixMilli()
	}
	if completion.HasOutstanding {
		found["outstanding"] = completion.Outstanding
	}
	if completion.HasMessageID {
		found["message_id"] = completion.MessageID
	}
	return found
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func noteBroken(found object, err error) (any, error) {
	var own *broken
	found["raised"] = errors.As(err, &own)
	if found["raised"] == true {
		return found, nil
	}
	return found, err
}

func (d *driver) gateOf(name string) chan struct{} {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	gate := d.gates[name]
	if gate == nil {
		gate = make(chan struct{})
		d.gates[name] = gate
	}
	return gate
}

func (d *driver) passGate(name *string) {
	if name != nil {
		<-d.gateOf(*name)
	}
}

func open(gate chan struct{}) {
	select {
	case <-gate:
	default:
		close(gate)
	}
}

func (d *driver) clientOf(given command) *acker.Client {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.clients[given.Client]
}

func (d *driver) spoutOf(given command) (*acker.Spout, error) {
	if given.Shared {
		return d.clientOf(given).SharedSpout(given.Spout)
	}
	return d.clientOf(given).Spout(given.Spout)
}

func (d *driver) tupleAt(handle string) *acker.Tuple {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.tuples[handle]
}
