package acker_test

// The driver of the Go client, which plays the tests of tests/conformance; docs/clients.md has its commands.

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"acker.example/acker"
)

var asDriver = flag.Bool("driver", false, "play conformance tests: commands on the standard input, answers on the output")

func TestMain(m *testing.M) {
	flag.Parse()
	if *asDriver {
		newDriver().run()
		return
	}
	os.Exit(m.Run())
}

// command is one line of the standard input: its arguments, those that are left out as nil.
type command struct {
	ID int64  `json:"id"`
	Do string `json:"do"`

	Client    string             `json:"client"`
	URL       string             `json:"url"`
	Topology  *string            `json:"topology"`
	Carrier   string             `json:"carrier"`
	RawHeader json.RawMessage    `json:"headers"`
	Header    *string            `json:"header"`
	Others    [][2]string        `json:"others"`
	Anchors   json.RawMessage    `json:"anchors"`
	Root      string             `json:"root"`
	Parent    string             `json:"parent"`
	Component string             `json:"component"`
	Key       *string            `json:"key"`
	Digest    string             `json:"digest"`
	Secret    *string            `json:"secret"`
	Secrets   []string           `json:"secrets"`
	Body      string             `json:"body"`
	Now       float64            `json:"now"`
	Request   *decisionRequest   `json:"request"`
	Answer    *decisionAnswer    `json:"answer"`
	Attempts  int                `json:"attempts"`
	Jitter    float64            `json:"jitter"`
	Spout     string             `json:"spout"`
	Shared    bool               `json:"shared"`
	MessageID *string            `json:"message_id"`
	Children  []*string          `json:"children"`
	Ambient   bool               `json:"ambient"`
	Raises    bool               `json:"raises"`
	Tuple     string             `json:"tuple"`
	Tuples    []string           `json:"tuples"`
	Repeats   bool               `json:"repeatable"`
	OnError   string             `json:"on_error"`
	Gate      *string            `json:"gate"`
	Then      string             `json:"then"`
	Reason    string             `json:"reason"`
	Count     int                `json:"count"`
	RaiseAt   int                `json:"raise_at"`
	RaiseFor  []string           `json:"raise_for"`
	numbers   map[string]float64 // the members that end with _ms, and sizes
	nulls     map[string]bool    // members that are null
	texts     map[string]string
}

type decisionRequest struct {
	Method     string `json:"method"`
	Path       string `json:"path"`
	Operations int    `json:"operations"`
}

type decisionAnswer struct {
	Status     int    `json:"status"`
	Body       string `json:"body"`
	RetryAfter string `json:"retry_after"`
}

type object = map[string]any

// broken is what a program's own code returns.
type broken struct{ reason string }

func (b *broken) Error() string { return b.reason }

type driver struct {
	output   sync.Mutex
	logger   *slog.Logger
	mutex    sync.Mutex
	clients  map[string]*acker.Client
	tuples   map[string]*acker.Tuple
	gates    map[string]chan struct{}
	servers  []*http.Server
	handled  []object
	commands map[string]func(command) (any, error)
	waits    map[string]bool // commands that may wait: each has a goroutine
}

func newDriver() *driver {
	d := &driver{logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	d.clear()
	d.commands = map[string]func(command) (any, error){
		"hello": d.hello, "read_header": d.readHeader, "write_header": d.writeHeader, "derive_edge": d.deriveEdge,
		"derive_from_digest": d.deriveFromDigest, "verify_webhook": d.verifyWebhook, "sign_anchors": d.signAnchors,
		"check_signature": d.checkSignature, "decide": d.decide, "backoff": d.backoff,
		"reset": d.reset, "open": d.open, "close": d.close, "emit": d.emit, "receive": d.receive, "child": d.child,
		"join": d.join, "ack": d.ack, "fail": d.fail, "reset_timeout": d.resetTimeout, "process": d.process,
		"open_gate": d.openGate, "flush": d.flush, "stats": d.stats, "completions": d.completions,
		"serve_bolt": d.serveBolt, "serve_webhook": d.serveWebhook, "webhook_handled": d.webhookHandled,
	}
	d.waits = map[string]bool{
		"close": true, "emit": true, "ack": true, "fail": true, "reset_timeout": true, "process": true, "flush": true,
		"completions": true,
	}
	return d
}

func (d *driver) run() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		given, err := readCommand(line)
		if err == nil && d.waits[given.Do] {
			go d.answer(given)
			continue
		}
		d.answer(given)
	}
}

func readCommand(line []byte) (command, error) {
	given := command{Client: "main", numbers: map[string]float64{}, nulls: map[string]bool{}, texts: map[string]string{}}
	if err := json.Unmarshal(line, &given); err != nil {
		return given, err
	}
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		return given, err
	}
	for name, value := range members {
		switch found := value.(type) {
		case nil:
			given.nulls[name] = true
		case float64:
			given.numbers[name] = found
		case string:
			given.texts[name] = found
		}
	}
	return given, nil
}

func (d *driver) answer(given command) {
	answer := object{"id": given.ID}
	do := d.commands[given.Do]
	if do == nil {
		answer["error"] = object{"code": "driver", "message": "there is no command " + given.Do}
	} else if found, err := do(given); err != nil {
		answer["error"] = described(err, "driver")
	} else {
		answer["ok"] = found
	}
	written, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	d.output.Lock()
	defer d.output.Unlock()
	_, _ = os.Stdout.Write(append(written, '\n'))
}

// described writes an error; one that is not the client's has the other code.
func described(err error, other string) object {
	var found *acker.Error
	if !errors.As(err, &found) {
		return object{"code": other, "message": err.Error(), "retryable": other == "lost"}
	}
	written := object{
		"code": found.Code, "retryable": found.Retryable, "message": found.Message, "outcome_unknown": found.OutcomeUnknown,
	}
	if found.Status != 0 {
		written["status"] = found.Status
	}
	if found.Operations != 0 {
		written["operations"] = found.Operations
	}
	return written
}

// The commands of the vectors.

func (d *driver) hello(command) (any, error) { return object{"language": "go"}, nil }

func (d *driver) readHeader(given command) (any, error) {
	headers, err := carried(given.Carrier, given.RawHeader)
	if err != nil {
		return nil, err
	}
	anchors, found, err := acker.Extract(headers)
	if given.Topology != nil {
		anchors, err = receivedAnchors(headers, *given.Topology)
		found = anchors.Len() > 0
	}
	if err != nil || !found {
		return nil, err
	}
	return object{"topology": anchors.Topology(), "anchors": anchors.Listed()}, nil
}

func receivedAnchors(headers acker.Carrier, topology string) (acker.Anchors, error) {
	client, err := acker.New("http://acker.test", acker.WithTopology(topology))
	if err != nil {
		return acker.Anchors{}, err
	}
	tuple, err := client.Receive(context.Background(), headers, acker.WithComponent("reader"))
	if err != nil {
		return acker.Anchors{}, err
	}
	return tuple.Anchors(), nil
}

// kafkaHeader is as franz-go, confluent-kafka-go and kafka-go have it.
type kafkaHeader struct {
	Key   string
	Value []byte
}

// carried returns headers as a library of the carrier gives them.
func carried(carrier string, given json.RawMessage) (acker.Carrier, error) {
	var pairs [][2]string
	if err := json.Unmarshal(given, &pairs); err != nil {
		return nil, err
	}
	return carrierOf(carrier, pairs), nil
}

func carrierOf(carrier string, pairs [][2]string) acker.Carrier {
	switch carrier {
	case "amqp":
		table := map[string]any{}
		for _, each := range pairs {
			table[each[0]] = each[1]
		}
		return acker.AMQP(table)
	case "kafka":
		var headers []kafkaHeader
		for _, each := range pairs {
			headers = append(headers, kafkaHeader{Key: each[0], Value: []byte(each[1])})
		}
		return acker.Kafka(&headers)
	default:
		header := http.Header{}
		for _, each := range pairs {
			header[each[0]] = append(header[each[0]], each[1])
		}
		return acker.HTTP(header)
	}
}

func (d *driver) writeHeader(given command) (any, error) {
	var listed []string
	if err := json.Unmarshal(given.Anchors, &listed); err != nil {
		return nil, err
	}
	anchors, err := acker.NewAnchors(*given.Topology, listed)
	if err != nil {
		return nil, err
	}
	headers := carrierOf(given.Carrier, given.Others)
	anchors.SetOn(headers)
	pairs := [][2]string{}
	for name, value := range headers.All() {
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, nil
}

func (d *driver) deriveEdge(given command) (any, error) {
	return acker.DeriveEdge(given.Root, given.Parent, given.Component, *given.Key), nil
}

func (d *driver) deriveFromDigest(given command) (any, error) {
	digest, err := hex.DecodeString(given.Digest)
	return acker.EdgeOfDigest(given.Root, digest), err
}

func (d *driver) verifyWebhook(given command) (any, error) {
	var members map[string]string
	if err := json.Unmarshal(given.RawHeader, &members); err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range members {
		header.Set(name, value)
	}
	err := acker.VerifyWebhookAt(given.Secrets, header, []byte(given.Body), time.Unix(int64(given.Now), 0))
	if err != nil {
		return object{"refused": err.Error()}, nil
	}
	return object{"accepted": true}, nil
}

func (d *driver) signAnchors(given command) (any, error) {
	var anchors string
	err := json.Unmarshal(given.Anchors, &anchors)
	return acker.WriteSignature(*given.Secret, anchors, time.Unix(int64(given.Now), 0)), err
}

func (d *driver) checkSignature(given command) (any, error) {
	headers, err := carried("http", given.RawHeader)
	if err != nil {
		return nil, err
	}
	err = acker.CheckSignature(given.Secrets, headers, time.Unix(int64(given.Now), 0))
	return object{"accepted": true}, err
}

func (d *driver) decide(given command) (any, error) {
	asked, answer := given.Request, given.Answer
	var none error
	if answer == nil {
		answer, none = &decisionAnswer{}, errors.New("no answer")
	}
	found := acker.Decide(asked.Method, asked.Path, asked.Operations, answer.Status, answer.Body, answer.RetryAfter, none)
	if found.Err == nil {
		return object{"again": false}, nil
	}
	return object{"again": found.Again, "wait_ms": found.Wait.Milliseconds(), "error": described(found.Err, "lost")}, nil
}

func (d *driver) backoff(given command) (any, error) {
	var milliseconds []float64
	for _, pause := range acker.Pauses(given.Attempts, given.Jitter) {
		milliseconds = append(milliseconds, float64(pause)/float64(time.Millisecond))
	}
	return milliseconds, nil
}

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
		options = append(options, acker.WithOnFull(acker.Refuse))
	}
	return options
}

func (c *command) duration(name string) (time.Duration, bool) {
	value, found := c.numbers[name]
	return time.Duration(value * float64(time.Millisecond)), found
}

func (d *driver) close(given command) (any, error) {
	client := d.clientOf(given)
	d.mutex.Lock()
	delete(d.clients, given.Client)
	d.mutex.Unlock()
	return object{}, client.Close(context.Background())
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
		options = append(options, acker.WithOnError(acker.LeaveOpen))
	}
	if given.Secret != nil {
		options = append(options, acker.WithProof(*given.Secret))
	}
	return options
}

func (d *driver) child(given command) (any, error) {
	anchors, err := d.tupleAt(given.Tuple).Child(keyed(given.Key)...)
	return object{"header": valueOrNull(anchors)}, err
}

func (d *driver) join(given command) (any, error) {
	var tuples []*acker.Tuple
	for _, handle := range given.Tuples {
		tuples = append(tuples, d.tupleAt(handle))
	}
	anchors, err := d.clientOf(given).Join(tuples, keyed(given.Key)...)
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
		options = append(options, acker.WithReadTimeout(timeout))
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
			anchors, err := parent.Child(keyed(key)...)
			if err != nil {
				return made, err
			}
			made = append(made, valueOrNull(anchors))
			continue
		}
		headers := acker.HTTP{}
		if err := acker.Inject(ctx, headers, acker.AsChild(keyed(key)...)); err != nil {
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
		"traceparent": orNull(completion.Traceparent),
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
