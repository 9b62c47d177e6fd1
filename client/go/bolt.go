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
//	answers 5xx, panics, breaks off its answer                      failed, or left open with WithOnError(LeaveOpen)
//
// A header that cannot be read is answered 400, one without the proof that WithProof asks for 403. A panic is logged
// and answered 500. The answer ends after its tuple was ended. Bolt returns ErrUsage for options that cannot be.
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

func (b *bolt) ServeHTTP(response http.ResponseWriter, asked *http.Request) {
	tuple, err := b.receive(asked)
	if err != nil {
		refuse(response, err)
		return
	}
	watched := &watchedResponse{ResponseWriter: response}
	run := func(ctx context.Context, _ *Tuple) error { return b.serve(watched, asked.WithContext(ctx)) }
	// a caller that goes away cancels the request, and not what its answer means
	ctx := context.WithoutCancel(asked.Context())
	if err := b.client.submitter.process(ctx, tuple, run, b.own.onError); err != nil {
		b.noteUnended(asked, err)
	}
	if watched.aborts {
		panic(http.ErrAbortHandler)
	}
}

func (b *bolt) receive(asked *http.Request) (*Tuple, error) {
	if b.own.needsProof {
		if err := Verify(HTTP(asked.Header), b.own.secrets...); err != nil {
			return nil, err
		}
	}
	return b.client.receive(HTTP(asked.Header), b.own)
}

// serve calls the handler, and returns what its answer means.
func (b *bolt) serve(response *watchedResponse, asked *http.Request) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = b.panicked(response, asked, thrown)
		}
	}()
	// the handler's own context ends with the request
	ctx, cancel := context.WithCancel(asked.Context())
	defer cancel()
	b.handler.ServeHTTP(response, asked.WithContext(ctx))
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
		http.Error(response, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	} else {
		response.aborts = true
	}
	if err, is := thrown.(error); is {
		return err
	}
	return fmt.Errorf("%v", thrown)
}

// noteUnended logs that a request was answered and its tuple could not be ended.
func (b *bolt) noteUnended(asked *http.Request, err error) {
	var own *Error
	if errors.As(err, &own) {
		b.client.session.logger.WarnContext(asked.Context(), "acker: a request was answered, and its tuple not ended",
			"request", asked.Method+" "+asked.URL.Path, "error", err)
	}
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

// isShort reports whether less was written than the answer has announced.
func (w *watchedResponse) isShort() bool {
	announced, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return err == nil && w.written > 0 && w.written < announced
}
