package acker_test

// The driver of the Go client, which plays the tests of tests/conformance; docs/clients.md has its commands.

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"

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
	queue    []acker.Carrier
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
		"enqueue": d.enqueue, "work_off": d.workOff, "internals": d.internals,
	}
	d.waits = map[string]bool{
		"close": true, "emit": true, "ack": true, "fail": true, "reset_timeout": true, "process": true, "flush": true,
		"completions": true, "work_off": true,
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
