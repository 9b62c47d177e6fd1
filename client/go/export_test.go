package acker

import (
	"net/http"
	"time"
)

// What the conformance tests ask of the inside of the client.

// DeriveEdge is deriveEdge, on hex digits.
func DeriveEdge(root, parent, component, key string) string {
	rootID, _ := parseID(root)
	parentID, _ := parseID(parent)
	return deriveEdge(rootID, parentID, component, key).String()
}

// EdgeOfDigest is edgeOfDigest, on hex digits.
func EdgeOfDigest(root string, digest []byte) string {
	rootID, _ := parseID(root)
	return edgeOfDigest(rootID, digest).String()
}

// NewAnchors makes the anchors of pairs of hex digits, as a child has them.
func NewAnchors(topology string, listed []string) (Anchors, error) {
	anchors := Anchors{topology: topology}
	for _, each := range listed {
		root, _ := parseID(each[:idDigits])
		edge, _ := parseID(each[idDigits+1:])
		anchors.anchors = append(anchors.anchors, anchor{root: root, edge: edge})
	}
	return anchors, checkCount(len(listed))
}

// Listed returns each anchor.
func (a Anchors) Listed() []string {
	listed := make([]string, len(a.anchors))
	for at, each := range a.anchors {
		listed[at] = string(appendAnchors(nil, []anchor{each}))
	}
	return listed
}

// VerifyWebhookAt is VerifyWebhook at a time.
func VerifyWebhookAt(secrets []string, header http.Header, body []byte, now time.Time) error {
	keys, err := readWebhookSecrets(secrets)
	if err != nil {
		return err
	}
	return verifyWebhook(keys, header, body, now)
}

// WriteSignature is writeSignature.
func WriteSignature(secret, anchors string, now time.Time) string {
	return writeSignature([]string{secret}, anchors, now)
}

// CheckSignature is Verify at a time.
func CheckSignature(secrets []string, headers Carrier, now time.Time) error {
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	return checkSignature(secrets, headers, now)
}

// Decision is whether a request is sent again, after how long at the earliest, and what failed.
type Decision struct {
	Again bool
	Wait  time.Duration
	Err   error
}

// Decide is classify: err is why no answer came, if none did.
func Decide(method, path string, operations int, status int, body, retryAfter string, err error) Decision {
	asked := &request{method: method, path: path, operations: make([]*operation, operations)}
	failed := classify(asked, &answer{status: status, body: []byte(body), retryAfter: retryAfter, err: err})
	if failed == nil {
		return Decision{}
	}
	return Decision{Again: failed.retryable, Wait: failed.wait, Err: failed.err}
}

// Pauses returns the pauses before so many further attempts.
func Pauses(attempts int, jitter float64) []time.Duration {
	own := newBackoff(func() float64 { return jitter })
	pauses := make([]time.Duration, attempts)
	for at := range pauses {
		pauses[at] = own.next()
	}
	return pauses
}

// WaitingForSpace returns how many acks wait for space, and whether Close has begun.
func (c *Client) WaitingForSpace() (waiting int, isClosing bool) {
	f := c.submitter.flusher
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.spaceWaiters, f.closed
}

// Waiting returns how many calls wait for the first request in flight.
func (c *Client) Waiting() int {
	f := c.submitter.flusher
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.frozen) == 0 {
		return 0
	}
	return len(f.frozen[0].waiters)
}
