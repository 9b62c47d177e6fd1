package acker

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxIdleConnections = 100
	idleTimeout        = 5 * time.Second
)

// transport makes one attempt of a request, over connections that are kept open.
type transport struct {
	base          string
	origin        string
	authorization string
	client        *http.Client
	own           bool
	closed        atomic.Bool
}

// newTransport checks the address of an acker.
func newTransport(address string, s *settings) (*transport, error) {
	found, err := url.Parse(address)
	if err != nil || found.Host == "" || (found.Scheme != "http" && found.Scheme != "https") {
		return nil, usageKind.newError("the acker's address must be an http or https URL, not %s", shown(address))
	}
	t := &transport{
		base:   found.Scheme + "://" + found.Host + strings.TrimRight(found.EscapedPath(), "/"),
		origin: found.Scheme + "://" + found.Host,
		own:    s.httpClient == nil,
	}
	if t.own {
		t.client = ownClient()
	} else {
		t.client = withoutRedirects(s.httpClient)
	}
	if s.apiKey != "" {
		t.authorization = "Bearer " + s.apiKey
	}
	return t, nil
}

func ownClient() *http.Client {
	connections := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if common, is := http.DefaultTransport.(*http.Transport); is { // else the program has put another in its place
		connections = common.Clone()
	}
	connections.MaxIdleConns = maxIdleConnections
	connections.MaxIdleConnsPerHost = maxIdleConnections
	connections.IdleConnTimeout = idleTimeout
	return withoutRedirects(&http.Client{Transport: connections})
}

// withoutRedirects returns a client that takes a redirect for an answer: the acker gives none.
func withoutRedirects(client *http.Client) *http.Client {
	copied := *client
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &copied
}

// send makes one attempt. It returns an error only for a client that is closed.
func (t *transport) send(ctx context.Context, asked *request, timeout time.Duration) (*answer, error) {
	if t.closed.Load() {
		return nil, clientClosedKind.newError("the client is closed")
	}
	var found connecting
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	outgoing, err := http.NewRequestWithContext(found.traced(ctx), asked.method, t.base+asked.path, bytes.NewReader(asked.body))
	if err != nil {
		return nil, usageKind.newError("%v", err)
	}
	t.addHeaders(outgoing, asked)
	outgoing.GetBody = nil // net/http repeats nothing by itself: pauses and time limits are the session's
	response, err := t.client.Do(outgoing)
	if err != nil {
		return t.noAnswer(ctx, err, found.isMissing()), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return t.noAnswer(ctx, fmt.Errorf("the answer was cut off: %w", err), false), nil
	}
	return &answer{status: response.StatusCode, body: body, retryAfter: response.Header.Get("Retry-After")}, nil
}

func (t *transport) addHeaders(outgoing *http.Request, asked *request) {
	if t.authorization != "" {
		outgoing.Header.Set("Authorization", t.authorization)
	}
	if asked.body != nil {
		outgoing.Header.Set("Content-Type", "application/json")
	}
	if asked.key != "" {
		outgoing.Header.Set("Idempotency-Key", asked.key)
	}
}

func (t *transport) noAnswer(ctx context.Context, err error, isMissing bool) *answer {
	found := &answer{err: err}
	if ended := context.Cause(ctx); ended != nil {
		found.err = ended
	}
	if isMissing || isNoConnection(err) {
		found.refusedBy = t.origin
	}
	return found
}

// connecting notes whether an attempt got a connection. Without one nothing can have arrived, also where no error says
// so: packets may be dropped.
type connecting struct {
	asked, got atomic.Bool
}

func (c *connecting) traced(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	})
}

// isMissing reports whether a connection was asked for, and none came; a transport of the program's own may not tell.
func (c *connecting) isMissing() bool { return c.asked.Load() && !c.got.Load() }

// isNoConnection reports whether an error comes before a connection is made, so that nothing can have arrived.
func isNoConnection(err error) bool {
	var dialed *net.OpError
	var unverified *tls.CertificateVerificationError
	return errors.As(err, &dialed) && dialed.Op == "dial" || errors.As(err, &unverified)
}

// close refuses further requests.
func (t *transport) close() {
	t.closed.Store(true)
	if t.own {
		t.client.CloseIdleConnections()
	}
}
