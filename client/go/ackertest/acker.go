// Package ackertest has an acker in memory, for tests of programs that use the client.
package ackertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"acker.example/acker"
)

const idempotencyWindow = 10 * time.Minute

// Fault is what becomes of one request.
type Fault struct {
	fate string
	code string
}

var (
	// Pass lets a request through.
	Pass = Fault{}
	// NoAnswer loses a request before anything is applied.
	NoAnswer = Fault{fate: "no answer"}
	// LostAnswer loses the answer after the request was applied.
	LostAnswer = Fault{fate: "lost answer"}
)

// Answer answers a request with a problem of this code, such as "store_full", before anything is applied.
func Answer(code string) Fault { return Fault{fate: "answer", code: code} }

// Request is one that came.
type Request struct {
	Method, Path, Key string
	Body              []byte
}

// Acker is an acker with one topology, in memory; time passes by Advance only.
//
//	memory := ackertest.New()
//	client, err := memory.Client(acker.WithLinger(0))
//	// … the program under test
//	memory.Advance(31 * time.Second)                       // roots that are not done time out
//	messageIDs := memory.Completions("orders")             // that are not released
//
// It is the Transport of its clients' http.Client.
type Acker struct {
	topology        string
	messageTimeout  time.Duration
	dedupes         bool
	maxSpoutPending *int
	endOn           acker.EndOn

	mutex     sync.Mutex
	now       time.Duration
	position  int
	trees     map[string]*tree
	order     []string // the roots of trees, in the order in which they began
	finished  map[string]string
	mailboxes map[string][]mail
	answers   map[string]answered
	requests  []Request
	faults    []Fault
}

// Option is one of New.
type Option func(*Acker)

// WithTopology names the topology; "default" without it.
func WithTopology(name string) Option { return func(a *Acker) { a.topology = name } }

// WithMessageTimeout sets that of the topology; 30 s without it.
func WithMessageTimeout(timeout time.Duration) Option {
	return func(a *Acker) { a.messageTimeout = timeout }
}

// WithoutDedupe makes a topology without a dedupe window: an edge that is acked twice counts twice.
func WithoutDedupe() Option { return func(a *Acker) { a.dedupes = false } }

// WithMaxSpoutPending sets how many roots of a spout task may be pending; any number without it.
func WithMaxSpoutPending(roots int) Option { return func(a *Acker) { a.maxSpoutPending = &roots } }

// WithEndOn sets what ends a root whose emit does not say; acker.FirstFail without it.
func WithEndOn(endOn acker.EndOn) Option { return func(a *Acker) { a.endOn = endOn } }

// New makes an acker in memory.
func New(options ...Option) *Acker {
	a := &Acker{
		topology: "default", messageTimeout: 30 * time.Second, dedupes: true, endOn: acker.FirstFail,
		trees: make(map[string]*tree), finished: make(map[string]string),
		mailboxes: make(map[string][]mail), answers: make(map[string]answered),
	}
	for _, option := range options {
		option(a)
	}
	return a
}

// Client makes a client of this acker.
func (a *Acker) Client(options ...acker.Option) (*acker.Client, error) {
	own := []acker.Option{acker.WithTopology(a.topology), acker.WithHTTPClient(&http.Client{Transport: a})}
	return acker.New("http://acker.test", append(own, options...)...)
}

// Advance lets time pass: roots whose time is over end.
func (a *Acker) Advance(duration time.Duration) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.now += duration
	for _, root := range append([]string(nil), a.order...) {
		if found := a.trees[root]; found != nil && found.deadline <= a.now {
			a.end(root, found, string(acker.TimedOut))
		}
	}
}

// Outcome returns how a root ended, "pending" while it has not, and "" for one that is not known.
func (a *Acker) Outcome(rootID string) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if outcome := a.finished[rootID]; outcome != "" {
		return outcome
	}
	if a.trees[rootID] != nil {
		return "pending"
	}
	return ""
}

// Completions returns the message ids of the completions of a spout task that are not released.
func (a *Acker) Completions(spoutTask string) []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var messageIDs []string
	for _, each := range a.mailboxes[spoutTask] {
		if messageID := each.document.MessageID; messageID != nil {
			messageIDs = append(messageIDs, *messageID)
		}
	}
	return messageIDs
}

// Requests returns those that came.
func (a *Acker) Requests() []Request {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return append([]Request(nil), a.requests...)
}

// Fail lets these faults befall the next requests, one each.
func (a *Acker) Fail(faults ...Fault) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.faults = append(a.faults, faults...)
}

// RoundTrip answers a request.
func (a *Acker) RoundTrip(asked *http.Request) (*http.Response, error) {
	var body []byte
	if asked.Body != nil {
		var err error
		if body, err = io.ReadAll(asked.Body); err != nil {
			return nil, err
		}
		_ = asked.Body.Close() // all of it was read
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key := asked.Header.Get("Idempotency-Key")
	a.requests = append(a.requests, Request{Method: asked.Method, Path: asked.URL.RequestURI(), Key: key, Body: body})
	fault := a.nextFault()
	switch fault.fate {
	case "no answer":
		return nil, errors.New("the request was lost")
	case "answer":
		return responseOf(asked, problemOf(fault.code)), nil
	}
	given := a.answerOnce(asked.URL, key, body)
	if fault == LostAnswer {
		return nil, errors.New("the answer was lost")
	}
	return responseOf(asked, given), nil
}

func (a *Acker) nextFault() Fault {
	if len(a.faults) == 0 {
		return Pass
	}
	next := a.faults[0]
	a.faults = a.faults[1:]
	return next
}

// answered is the answer of a request.
type answered struct {
	status int
	body   []byte
}

// answerOnce answers a request, and each repeat with its key as the first time, but for what was refused alone.
func (a *Acker) answerOnce(address *url.URL, key string, body []byte) answered {
	if known, found := a.answers[key]; found && key != "" {
		return known
	}
	given := a.answer(address, body)
	if key != "" && given.status < http.StatusMultipleChoices {
		a.answers[key] = given
	}
	return given
}

func (a *Acker) answer(address *url.URL, body []byte) answered {
	words := strings.Split(strings.TrimPrefix(address.Path, "/v1/topologies/"), "/")
	if words[0] != a.topology {
		return problemOf("unknown_topology")
	}
	switch {
	case len(words) == 1:
		return written(a.document())
	case words[1] != "spouts":
		return a.apply(words[1], body)
	case len(words) == 5:
		return a.release(words[2], body)
	case len(words) == 4:
		return written(a.read(words[2], address.Query()))
	default:
		return written(map[string]any{"spout_task": words[2], "pending": a.pending(words[2])})
	}
}

func (a *Acker) document() map[string]any {
	window := int64(0)
	if a.dedupes {
		window = a.messageTimeout.Milliseconds()
	}
	return map[string]any{
		"topology": a.topology, "idempotency_window_ms": idempotencyWindow.Milliseconds(), "dedupe_window_ms": window,
		"message_timeout_ms": a.messageTimeout.Milliseconds(), "max_spout_pending": a.maxSpoutPending, "trace": 0,
		"end_on": a.endOn,
	}
}

func (a *Acker) pending(spoutTask string) int {
	count := 0
	for _, each := range a.trees {
		if each.spoutTask == spoutTask {
			count++
		}
	}
	return count
}

// mail is a completion that is not released.
type mail struct {
	position int
	document completion
}

// completion is as the acker's JSON has it.
type completion struct {
	ID                string  `json:"id"`
	RootID            string  `json:"root_id"`
	Outcome           string  `json:"outcome"`
	MessageID         *string `json:"message_id"`
	Reason            *string `json:"reason"`
	Component         *string `json:"component"`
	CompleteLatencyMs int64   `json:"complete_latency_ms"`
	AtMs              int64   `json:"at_ms"`
	Traceparent       string  `json:"traceparent,omitempty"`
	Failures          *int    `json:"failures,omitempty"`
	Dropped           int     `json:"dropped,omitempty"`
}

func (a *Acker) read(spoutTask string, query url.Values) map[string]any {
	after, _ := strconv.Atoi(query.Get("after")) // empty: from the first
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		limit = 100
	}
	completions := []completion{}
	var cursor *string
	if query.Has("after") {
		last := query.Get("after")
		cursor = &last
	}
	for _, each := range a.mailboxes[spoutTask] {
		if each.position > after && len(completions) < limit {
			completions = append(completions, each.document)
			last := strconv.Itoa(each.position)
			cursor = &last
		}
	}
	return map[string]any{"completions": completions, "cursor": cursor}
}

func (a *Acker) release(spoutTask string, body []byte) answered {
	var asked struct {
		Cursor string `json:"cursor"`
	}
	if json.Unmarshal(body, &asked) != nil {
		return problemOf("invalid")
	}
	last, err := strconv.Atoi(asked.Cursor)
	if err != nil {
		return problemOf("invalid")
	}
	var left []mail
	for _, each := range a.mailboxes[spoutTask] {
		if each.position > last {
			left = append(left, each)
		}
	}
	a.mailboxes[spoutTask] = left
	return written(map[string]any{})
}

// end ends a root; its completion goes into the mailbox of its spout task.
func (a *Acker) end(root string, ended *tree, outcome string) {
	delete(a.trees, root)
	if !ended.begun {
		return
	}
	a.finished[root] = outcome
	a.position++
	document := completion{
		ID:     fmt.Sprintf("%x", sha256.Sum256([]byte(root+" "+outcome)))[:32],
		RootID: root, Outcome: outcome, MessageID: ended.messageID,
		CompleteLatencyMs: (a.now - ended.startedAt).Milliseconds(), AtMs: a.now.Milliseconds(),
		Traceparent: ended.traceparent, Dropped: ended.dropped,
	}
	if outcome == string(acker.Failed) {
		document.Reason, document.Component = ended.reason, ended.component
	}
	if ended.endOn == acker.AllEnded {
		document.Failures = &ended.failures
	}
	a.mailboxes[ended.spoutTask] = append(a.mailboxes[ended.spoutTask], mail{position: a.position, document: document})
}

func written(document any) answered {
	body, err := json.Marshal(document)
	if err != nil {
		panic(err) // texts and numbers: they cannot fail
	}
	return answered{status: http.StatusOK, body: body}
}

// statuses are those of the problems that this acker answers itself, or is asked to.
var statuses = map[string]int{
	"invalid": 422, "unauthorized": 401, "forbidden": 403, "unknown_topology": 404, "unknown_root": 404,
	"unknown_spout": 404, "conflict": 409, "topology_busy": 409, "mailbox_owned": 409, "max_spout_pending": 429,
	"mailbox_full": 429, "store_full": 503, "overloaded": 503, "store_unavailable": 503,
}

func problemOf(code string) answered {
	status, found := statuses[code]
	if !found {
		status = http.StatusInternalServerError
	}
	given := written(map[string]any{
		"type": "urn:acker:problem:" + code, "title": code, "status": status, "detail": "the acker in memory said so",
		"code": code, "retryable": status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable,
	})
	given.status = status
	return given
}

func responseOf(asked *http.Request, given answered) *http.Response {
	return &http.Response{
		StatusCode: given.status, Status: http.StatusText(given.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(given.body)),
		ContentLength: int64(len(given.body)), Request: asked,
	}
}
