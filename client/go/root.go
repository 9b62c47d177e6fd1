package acker

import (
	"sync"
	"time"
)

// EmitOption is one of Spout.Emit.
type EmitOption func(*emit)

// emit is what a root is emitted with, besides its message id.
type emit struct {
	messageTimeout  *time.Duration
	progressTimeout *time.Duration
	trace           bool
	traceparent     string
	endOn           EndOn // empty: as the topology says
}

// WithMessageTimeout sets the root's message timeout; the topology's without it.
func WithMessageTimeout(timeout time.Duration) EmitOption {
	return func(e *emit) { e.messageTimeout = &timeout }
}

// WithProgressTimeout sets the root's progress timeout, 0 for none; the topology's without it.
func WithProgressTimeout(timeout time.Duration) EmitOption {
	return func(e *emit) { e.progressTimeout = &timeout }
}

// WithTrace lets the acker keep the root's tree, to explain it.
func WithTrace() EmitOption { return func(e *emit) { e.trace = true } }

// WithTraceparent sets W3C's header of that name, which the completion gives back.
func WithTraceparent(value string) EmitOption { return func(e *emit) { e.traceparent = value } }

// WithEndOn sets what ends the root: its first fail, or that all of its edges have ended; then the completion says how
// many failed. As the topology says without it.
func WithEndOn(endOn EndOn) EmitOption { return func(e *emit) { e.endOn = endOn } }

// Root is what Spout.Emit makes: open until its function ends.
type Root struct {
	topology  string
	spoutTask string
	messageID *string // nil: the root is not tracked, and nothing is sent
	options   emit
	root      id

	mutex sync.Mutex
	edges *edgeSet
	open  bool
}

func newRoot(topology, spoutTask string, messageID *string, options []EmitOption) (*Root, error) {
	made := &Root{topology: topology, spoutTask: spoutTask, messageID: messageID, root: drawID(), open: true}
	for _, option := range options {
		option(&made.options)
	}
	if err := made.check(); err != nil {
		return nil, err
	}
	if made.options.trace {
		made.root = mark(made.root)
	}
	made.edges = newEdgeSet(anchor{root: made.root, edge: spoutEdge}, spoutTask, false)
	return made, nil
}

func (r *Root) check() error {
	if r.messageID != nil {
		if err := checkMessageID(*r.messageID); err != nil {
			return err
		}
	}
	if timeout := r.options.messageTimeout; timeout != nil {
		if err := checkTimeout("the message timeout", *timeout); err != nil {
			return err
		}
	}
	if timeout := r.options.progressTimeout; timeout != nil && *timeout != 0 {
		if err := checkTimeout("the progress timeout", *timeout); err != nil {
			return err
		}
	}
	if r.options.traceparent != "" {
		if err := checkTraceparent(r.options.traceparent); err != nil {
			return err
		}
	}
	return checkEndOn(r.options.endOn)
}

// ID returns the root id: 16 hex digits.
func (r *Root) ID() string { return r.root.String() }

// Tracked reports whether it has a message id.
func (r *Root) Tracked() bool { return r.messageID != nil }

func (r *Root) String() string { return "root " + r.ID() + " of " + r.spoutTask }

// Anchor anchors a message for one consumer: with a key (WithKey) its edge is derived from the root id and the key,
// else it is random. It returns ErrDuplicateKey, ErrTupleClosed.
func (r *Root) Anchor(options ...ChildOption) (Anchors, error) {
	own, err := readChild(options)
	if err != nil {
		return Anchors{}, err
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.open {
		return Anchors{}, tupleClosedKind.newError("%v was emitted and cannot be anchored to any more", r)
	}
	if !r.Tracked() {
		return Anchors{topology: r.topology}, nil
	}
	anchors, err := addChild([]*edgeSet{r.edges}, own.key)
	return Anchors{topology: r.topology, anchors: anchors}, err
}

// close takes no more children.
func (r *Root) close() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.open = false
}

// initOperation returns the init, which names its edges if the root is traced.
func (r *Root) initOperation(isTraced func(id) bool) *operation {
	written := &operation{
		Op: opInit, RootID: r.root, SpoutTask: r.spoutTask, MessageID: r.messageID,
		Trace: r.options.trace, Traceparent: r.options.traceparent, EndOn: r.options.endOn,
	}
	if isTraced(r.root) {
		written.Edges = r.edges.childrenOrNone()
	} else {
		written.AckVal, written.Outstanding = &r.edges.ackVal, &r.edges.outstanding
	}
	if timeout := r.options.messageTimeout; timeout != nil {
		written.MessageTimeoutMs = milliseconds(*timeout)
	}
	if timeout := r.options.progressTimeout; timeout != nil {
		written.ProgressTimeoutMs = milliseconds(*timeout)
	}
	return written
}
