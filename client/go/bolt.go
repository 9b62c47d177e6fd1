package acker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
)

var errBrokeOff = errors.New("broke off its answer")

// Bolt makes an HTTP handler a bolt: a request with anchors is a tuple, current in its context, and the answer ends it.
//
//	the handler                                                     the tuple
//	answers 2xx, 304, 4xx other than below                          acked
//	answers 301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429   left open: the request comes again
//	answers 5xx, panics, breaks off its answer                      failed, or left open with OnErrorLeaveOpen
//
// An answer breaks off also where it is shorter than it has announced, and where its caller has gone before a whole one
// was written: a handler that returns early then, without a word, has not acked.
// A header that cannot be read is answered 400, one without the proof that WithProof asks for 403. A panic is logged
// and answered 500; so is a request that comes when acks were lost, and it is not carried out. The answer ends after its
// tuple was ended. Within another Bolt it asks for proof only: that one ends the tuple. Bolt returns ErrUsage for options
// that cannot be.
func (c *Client) Bolt(handler http.Handler, options ...ReceiveOption) (http.Handler, error) {
	own, err := readReceipt(options)
	if err != nil {
		return nil, err
	}
	return &bolt{client: c, handler: handler, own: own}, nil
}

// TupleOf returns the tuple of a request behind Bolt, or of the context of Process; nil without one.
func TupleOf(ctx context.Context) *Tuple {
	found, _ := Current(ctx).(*Tuple)
	return found
}

type bolt struct {
	client  *Client
	handler http.Handler
	own     receipt
}

// withinKey marks the context of a request that a bolt has received.
type withinKey struct{}

func (b *bolt) ServeHTTP(response http.ResponseWriter, asked *http.Request) {
	if err := b.verify(asked); err != nil {
		refuse(response, err)
		return
	}
	if asked.Context().Value(withinKey{}) != nil {
		b.handler.ServeHTTP(response, asked)
		return
	}
	tuple, err := b.client.receive(HTTP(asked.Header), b.own)
	if err != nil {
		refuse(response, err)
		return
	}
	b.end(&watchedResponse{ResponseWriter: response, method: asked.Method}, asked, tuple)
}

func (b *bolt) verify(asked *http.Request) error {
	if !b.own.needsProof {
		return nil
	}
	return Verify(HTTP(asked.Header), b.own.secrets...)
}

// end carries the request out, and ends its tuple as the answer says.
func (b *bolt) end(response *watchedResponse, asked *http.Request, tuple *Tuple) {
	isCarriedOut := false
	run := func(context.Context, *Tuple) error {
		isCarriedOut = true
		within := context.WithValue(Use(asked.Context(), tuple), withinKey{}, true)
		return b.serve(response, asked.WithContext(within))
	}
	// a caller that goes away cancels the request, and not what its answer means
	err := b.client.submitter.process(context.WithoutCancel(asked.Context()), tuple, run, b.own.onError)
	var own *Error
	if errors.As(err, &own) {
		b.client.session.logger.WarnContext(asked.Context(), "acker: the tuple of a request was not ended",
			"request", asked.Method+" "+asked.URL.Path, "carried_out", isCarriedOut, "error", err)
	}
	switch {
	case !isCarriedOut:
		answerError(response)
	case response.aborts:
		panic(http.ErrAbortHandler)
	}
}

// serve calls the handler, and returns what its answer means.
func (b *bolt) serve(response *watchedResponse, asked *http.Request) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = b.panicked(response, asked, thrown)
		}
	}()
	b.handler.ServeHTTP(response, asked)
	if asked.Context().Err() != nil && !response.isWhole() {
		return errBrokeOff // its caller has gone: the handler may have given up without a word
	}
	return response.meaning()
}

// panicked answers 500, if nothing was written yet; else the answer breaks off.
func (b *bolt) panicked(response *watchedResponse, asked *http.Request, thrown any) error {
	if thrown == http.ErrAbortHandler {
		response.aborts = true
		return errBrokeOff
	}
	b.client.session.logger.ErrorContext(asked.Context(), "acker: a handler panicked",
		"request", asked.Method+" "+asked.URL.Path, "panic", thrown, "stack", string(debug.Stack()))
	if response.status == 0 {
		answerError(response)
	} else {
		response.aborts = true
	}
	if err, is := thrown.(error); is {
		return err
	}
	return fmt.Errorf("%v", thrown)
}

func answerError(response http.ResponseWriter) {
	http.Error(response, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
}

func refuse(response http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if errors.Is(err, ErrInvalidSignature) {
		status = http.StatusForbidden
	}
	http.Error(response, err.Error(), status)
}

// isRetryStatus reports whether the same request is to come again, here or elsewhere, with the same edge.
func isRetryStatus(status int) bool {
	switch status {
	case 301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429:
		return true
	default:
		return false
	}
}

// watchedResponse notes the status, and whether all of the answer was written.
type watchedResponse struct {
	http.ResponseWriter
	method  string
	status  int // 0 until one was written
	written int64
	failed  bool
	aborts  bool
}

// WriteHeader notes the status; informational ones come before it.
func (w *watchedResponse) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedResponse) Write(body []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	count, err := w.ResponseWriter.Write(body)
	w.written += int64(count)
	w.failed = w.failed || err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	return count, err
}

// Flush sends what was written so far.
func (w *watchedResponse) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *watchedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// meaning returns what an answer means for its tuple: nil acks it.
func (w *watchedResponse) meaning() error {
	switch {
	case w.status >= http.StatusInternalServerError:
		return fmt.Errorf("answered %d", w.status)
	case w.failed || w.isShort():
		return errBrokeOff
	case isRetryStatus(w.status):
		return &signal{does: leaveOpen}
	default:
		return nil
	}
}

// isShort reports whether less was written than the answer has announced: net/http breaks it off then.
func (w *watchedResponse) isShort() bool {
	announced, found := w.announced()
	return found && w.hasBody() && w.written < announced
}

// isWhole reports whether all of the answer was written for certain; without an announced length none can tell.
func (w *watchedResponse) isWhole() bool {
	_, found := w.announced()
	return w.status != 0 && !w.failed && !w.isShort() && (found || !w.hasBody())
}

// announced returns the length that the answer has announced, if it has.
func (w *watchedResponse) announced() (int64, bool) {
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return length, err == nil
}

// hasBody reports whether a body belongs to the answer.
func (w *watchedResponse) hasBody() bool {
	switch w.status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return false
	default:
		return w.method != http.MethodHead
	}
}
