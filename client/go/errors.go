package acker

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error is every error of this package, those of the acker included.
//
// Compare with errors.Is and the Err variables, which are a tree, or by Code, which is stable:
//
//	ErrUsage                usage_error          the program asks for what cannot be; nothing is sent for it
//	├── ErrTupleClosed      tuple_closed
//	├── ErrDuplicateKey     duplicate_key
//	├── ErrTooManyAnchors   too_many_anchors
//	└── ErrClientClosed     client_closed        a request that was in flight may have arrived
//	ErrInvalidHeader        invalid_header
//	└── ErrInvalidSignature invalid_signature
//	ErrInvalidResponse      invalid_response
//	ErrRetriesExhausted     retries_exhausted
//	ErrCanceled             canceled             the context ended first; errors.Is finds its error, too
//	ErrOperationsLost       operations_lost
//	ErrBufferFull           buffer_full          retryable
//	ErrService              that of the problem  the acker's answer; retryable as it says
type Error struct {
	Code    string
	Message string
	// Retryable says whether the same call may succeed later.
	Retryable bool
	// Advice says what to do, in a sentence; empty where the message says all.
	Advice string
	// Status is that of the HTTP answer; 0 where none came.
	Status int
	// OutcomeUnknown is true for a write that may have been applied.
	OutcomeUnknown bool
	// Operations is how many operations were lost.
	Operations int
	// Extra has the further members of the acker's problem document.
	Extra map[string]any

	kind  *kind
	cause error
}

// The kinds of errors, for errors.Is.
var (
	ErrUsage            error = usageKind
	ErrTupleClosed      error = tupleClosedKind
	ErrDuplicateKey     error = duplicateKeyKind
	ErrTooManyAnchors   error = tooManyAnchorsKind
	ErrClientClosed     error = clientClosedKind
	ErrInvalidHeader    error = invalidHeaderKind
	ErrInvalidSignature error = invalidSignatureKind
	ErrInvalidResponse  error = invalidResponseKind
	ErrRetriesExhausted error = retriesExhaustedKind
	ErrCanceled         error = canceledKind
	ErrOperationsLost   error = operationsLostKind
	ErrBufferFull       error = bufferFullKind
	ErrService          error = serviceKind
)

var (
	usageKind       = &kind{code: "usage_error", advice: "Correct the call."}
	tupleClosedKind = &kind{
		code: "tuple_closed", parent: usageKind,
		advice: "Make children before the tuple is acked, and end it once.",
	}
	duplicateKeyKind = &kind{
		code: "duplicate_key", parent: usageKind,
		advice: "Give each child of a tuple a key of its own, or none.",
	}
	tooManyAnchorsKind = &kind{
		code: "too_many_anchors", parent: usageKind,
		advice: "Hold the inputs unacked until the aggregate is done, and send it without anchors.",
	}
	clientClosedKind = &kind{
		code: "client_closed", parent: usageKind,
		advice: "Close the client after all else has ended.",
	}
	invalidHeaderKind = &kind{
		code:   "invalid_header",
		advice: "Refuse the message (over HTTP, 400): its tree times out and is replayed.",
	}
	invalidSignatureKind = &kind{
		code: "invalid_signature", parent: invalidHeaderKind,
		advice: "Refuse the request (403); the caller signs with a secret of this service.",
	}
	invalidResponseKind = &kind{
		code:   "invalid_response",
		advice: "See what answers at the acker's address: perhaps a proxy, or another service.",
	}
	retriesExhaustedKind = &kind{
		code:   "retries_exhausted",
		advice: "Do not send an ack again in a new request: it could count twice. The root times out and is replayed.",
	}
	canceledKind = &kind{
		code:   "canceled",
		advice: "What was sent before the context ended may have been applied; the root times out if it was not.",
	}
	operationsLostKind = &kind{
		code:   "operations_lost",
		advice: "The call that returned it has done nothing else, so make it again. What was lost times out and is replayed.",
	}
	bufferFullKind = &kind{
		code: "buffer_full", retryable: true,
		advice: "Ack again later, or let acks wait for space: WithOnFull(acker.OnFullBlock).",
	}
	serviceKind = &kind{code: "service"}
)

// kind is a node of the tree of errors.
type kind struct {
	code      string
	parent    *kind
	retryable bool
	advice    string
}

func (k *kind) Error() string { return "acker: " + k.code }

// newError returns an error of this kind.
func (k *kind) newError(format string, arguments ...any) *Error {
	return &Error{
		Code: k.code, Message: fmt.Sprintf(format, arguments...), Retryable: k.retryable, Advice: k.advice, kind: k,
	}
}

// Error returns the message.
func (e *Error) Error() string { return "acker: " + e.Message }

// Unwrap returns what caused it, if anything.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the kind of this error, or one above it.
func (e *Error) Is(target error) bool {
	for at := e.kind; at != nil; at = at.parent {
		if target == at {
			return true
		}
	}
	return false
}

// problem is what is known of a code of the acker.
type problem struct {
	status    int
	title     string
	retryable bool
	advice    string
}

const busy = "It passes: try again later."

// problems are those of the acker by their code; RFC 9457 has their form.
var problems = map[string]problem{
	"problem":                {status: 500, title: "Something went wrong"},
	"invalid":                {status: 422, title: "The request is not valid"},
	"unauthorized":           {status: 401, title: "A key is needed", advice: "Give the client the key of this acker: WithAPIKey."},
	"forbidden":              {status: 403, title: "The key does not allow this", advice: "Use a key with this scope and topology."},
	"forbidden_origin":       {status: 403, title: "The origin is not allowed"},
	"not_found":              {status: 404, title: "There is nothing here"},
	"unknown_topology":       {status: 404, title: "No such topology", advice: "Create the topology with PUT, or correct its name."},
	"unknown_root":           {status: 404, title: "No such root"},
	"unknown_spout":          {status: 404, title: "No such spout task"},
	"method_not_allowed":     {status: 405, title: "The method is not allowed here"},
	"conflict":               {status: 409, title: "The root is held by another emit"},
	"topology_busy":          {status: 409, title: "The topology is busy", retryable: true, advice: busy},
	"spout_busy":             {status: 409, title: "The spout task is busy", retryable: true, advice: busy},
	"ackers_fixed":           {status: 409, title: "The number of ackers is fixed"},
	"mailbox_owned":          {status: 409, title: "A webhook owns the mailbox", advice: "Remove the webhook, or receive by it."},
	"too_large":              {status: 413, title: "The request is too large"},
	"unsupported_media_type": {status: 415, title: "The content type is not supported"},
	"too_many_spouts":        {status: 422, title: "The topology has too many spout tasks"},
	"max_spout_pending":      {status: 429, title: "Too many roots are pending", retryable: true, advice: busy},
	"mailbox_full":           {status: 429, title: "The mailbox is full", retryable: true, advice: "Read and release completions."},
	"too_many_streams":       {status: 429, title: "Too many streams are open", retryable: true, advice: busy},
	"store_full":             {status: 503, title: "The store is full", retryable: true, advice: busy},
	"overloaded":             {status: 503, title: "The service is overloaded", retryable: true, advice: busy},
	"store_unavailable":      {status: 503, title: "The store is not available", retryable: true, advice: busy},
}

// newServiceError returns the error of a code of the acker, with what is known of it.
func newServiceError(code, format string, arguments ...any) *Error {
	known := problems[code]
	if known.status == 0 {
		known.status = 500
	}
	found := serviceKind.newError(format, arguments...)
	found.Code, found.Status, found.Retryable, found.Advice = code, known.status, known.retryable, known.advice
	return found
}

// readProblem reads the error of a problem document; nil for another body. One without retryable is not retryable.
func readProblem(status int, body []byte) *Error {
	var document map[string]any
	if status < 400 || json.Unmarshal(body, &document) != nil || document["code"] == nil {
		return nil
	}
	code := fmt.Sprint(document["code"])
	found := newServiceError(code, "%s", problemWords(document, code))
	found.Status = status
	if own, is := document["status"].(float64); is {
		found.Status = int(own)
	}
	found.Retryable = document["retryable"] == true
	for _, known := range []string{"code", "status", "detail", "title", "retryable", "type"} {
		delete(document, known)
	}
	found.Extra = document
	return found
}

func problemWords(document map[string]any, code string) string {
	for _, member := range []any{document["detail"], document["title"], problems[code].title} {
		if words, is := member.(string); is && words != "" {
			return words
		}
	}
	return "a problem without words"
}

// problemDocument writes an error as the acker would answer it.
func (e *Error) problemDocument() []byte {
	document := map[string]any{
		"type": "urn:acker:problem:" + e.Code, "title": problems[e.Code].title, "status": e.Status,
		"detail": e.Message, "code": e.Code, "retryable": e.Retryable,
	}
	written, _ := json.Marshal(document) // texts, a number and a boolean
	return written
}

// signal ends the tuple of a bolt's function that returns it, and does not leave Process.
type signal struct {
	does   string
	reason string
}

func (s *signal) Error() string { return s.reason }

const (
	failTuple = "fail"
	dropTuple = "drop"
	leaveOpen = "leave open"
)

// FailTuple returns an error for a bolt's function: it fails the tree at once, so that its spout emits the message
// again, also with OnErrorLeaveOpen; of a root that ends when all have ended, the edge alone. Process returns nil then.
func FailTuple(reason string) error { return &signal{does: failTuple, reason: reason} }

// DropTuple returns an error for a bolt's function: no retry would help, so the tuple is acked. It is counted, also in
// the completion, and given to the function of WithOnDrop. Process returns nil then.
func DropTuple(reason string) error { return &signal{does: dropTuple, reason: reason} }

// signalOf returns the signal in an error, or nil.
func signalOf(err error) *signal {
	var found *signal
	if errors.As(err, &found) {
		return found
	}
	return nil
}
