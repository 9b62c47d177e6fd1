package acker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const maxReason = 1024

// Tuple is what a bolt has received: open until it is acked or failed. Client.Receive and Client.Process make one.
type Tuple struct {
	submitter  *submitter
	topology   string
	component  string
	anchors    []anchor
	repeatable bool
	number     uint64 // in the order in which tuples were made: the order of their locks

	mutex      sync.Mutex
	end        string // how it was ended; empty while it is open
	edges      []*edgeSet
	keysNeeded string
}

// ChildOption is one of Anchor.
type ChildOption func(*child)

type child struct {
	key *string
}

// WithKey gives a child a business key within its tuple or root: a re-run of the same work gives it the same edge.
func WithKey(key string) ChildOption { return func(c *child) { c.key = &key } }

func readChild(options []ChildOption) (child, error) {
	var found child
	for _, option := range options {
		option(&found)
	}
	if found.key != nil {
		return found, checkText("the child's key", *found.key)
	}
	return found, nil
}

// Tracked reports whether it has anchors.
func (t *Tuple) Tracked() bool { return len(t.anchors) > 0 }

// Closed reports whether it has been acked or failed.
func (t *Tuple) Closed() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.end != ""
}

// Component returns the name of the bolt.
func (t *Tuple) Component() string { return t.component }

// Anchors returns those of its message.
func (t *Tuple) Anchors() Anchors { return Anchors{topology: t.topology, anchors: t.anchors} }

func (t *Tuple) String() string {
	listed := "without anchors"
	if t.Tracked() {
		listed = string(appendAnchors(nil, t.anchors))
	}
	return "tuple of " + t.component + " (" + listed + ")"
}

// Anchor anchors a child: a message for one consumer. Its edge is derived from the key (WithKey), so a re-run of the
// bolt gives it the same; without one it is random, or in a repeatable tuple derived from its number.
//
// It returns ErrDuplicateKey, ErrTupleClosed.
func (t *Tuple) Anchor(options ...ChildOption) (Anchors, error) {
	return join([]*Tuple{t}, options)
}

// Ack acks the tuple with all its children; it is sent after the linger. It returns ErrOperationsLost for earlier acks,
// and has done nothing else then.
func (t *Tuple) Ack(ctx context.Context) error { return t.submitter.ack(ctx, t) }

// Fail fails every root of the tuple, now; of a root that ends when all of its edges have ended, the edge alone. An
// empty reason is none.
func (t *Tuple) Fail(ctx context.Context, reason string) error {
	if reason == "" {
		return t.submitter.fail(ctx, t, nil)
	}
	return t.submitter.fail(ctx, t, &reason)
}

// ResetTimeout gives every root of the tuple its message timeout again, now.
func (t *Tuple) ResetTimeout(ctx context.Context) error { return t.submitter.resetTimeout(ctx, t) }

// requireKeys refuses children without a key from now on.
func (t *Tuple) requireKeys(reason string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.keysNeeded = reason
}

// parents returns its edge sets as parents of a new child. It is called with the lock.
func (t *Tuple) parents(key *string) ([]*edgeSet, error) {
	if err := t.checkOpen("anchored to"); err != nil {
		return nil, err
	}
	if key == nil && t.Tracked() && t.keysNeeded != "" {
		return nil, usageKind.newError("%v has a child without a key; %s", t, t.keysNeeded)
	}
	return t.edgeSets(), nil
}

// edgeSets returns those of its anchors, which are made when they are needed. It is called with the lock.
func (t *Tuple) edgeSets() []*edgeSet {
	if t.edges == nil {
		for _, each := range t.anchors {
			t.edges = append(t.edges, newEdgeSet(each, t.component, t.repeatable))
		}
	}
	return t.edges
}

// takeAcks closes the tuple, and returns what it acks. Closed first: an ack may be lost, and is never sent twice.
func (t *Tuple) takeAcks() (acks, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.checkOpen("acked"); err != nil {
		return acks{}, err
	}
	t.end = "acked"
	return acks{anchors: t.anchors, edges: t.edges, component: t.component}, nil
}

// failOperations closes the tuple, and returns one fail for each edge, with the reason cut to what the contract takes.
//
// A fail carries the children so far, as an ack does: a root that ends when all have ended waits for them. It names
// them if the root is traced.
func (t *Tuple) failOperations(reason *string, isTraced func(id) bool) ([]*operation, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.checkOpen("failed"); err != nil {
		return nil, err
	}
	t.end = "failed"
	words := cut(reason)
	var operations []*operation
	for _, each := range t.edgeSets() {
		own := &operation{Op: opFail, RootID: each.root, EdgeID: each.edge, Reason: words, Component: t.component}
		if isTraced(each.root) {
			own.Children = each.childrenOrNone()
		} else {
			own.AckVal, own.Outstanding = &each.ackVal, &each.outstanding
		}
		operations = append(operations, own)
	}
	return operations, nil
}

// resetOperations returns one reset of the timeout for each root; the tuple stays open.
func (t *Tuple) resetOperations() ([]*operation, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.checkOpen("given more time"); err != nil {
		return nil, err
	}
	var operations []*operation
	for _, root := range rootsOf(t.anchors) {
		operations = append(operations, &operation{Op: opResetTimeout, RootID: root, Component: t.component})
	}
	return operations, nil
}

func (t *Tuple) checkOpen(use string) error {
	if t.end == "" {
		return nil
	}
	return tupleClosedKind.newError("%v was %s and cannot be %s any more", t, t.end, use)
}

// join anchors one child to all these tuples, an edge in each tree.
func join(tuples []*Tuple, options []ChildOption) (Anchors, error) {
	own, err := readChild(options)
	if err != nil {
		return Anchors{}, err
	}
	unlock := lockAll(tuples)
	defer unlock()
	var parents []*edgeSet
	for _, each := range tuples {
		if each.topology != tuples[0].topology {
			return Anchors{}, usageKind.newError("a child is anchored to tuples of the same topology")
		}
		found, err := each.parents(own.key)
		if err != nil {
			return Anchors{}, err
		}
		parents = append(parents, found...)
	}
	anchors, err := addChild(parents, own.key)
	return Anchors{topology: tuples[0].topology, anchors: anchors}, err
}

// tuplesMade numbers the tuples of this process.
var tuplesMade atomic.Uint64

// lockAll locks each of these tuples once, in an order that all goroutines keep, and returns what unlocks them.
func lockAll(tuples []*Tuple) (unlock func()) {
	own := slices.Clone(tuples)
	slices.SortFunc(own, func(one, other *Tuple) int { return cmp.Compare(one.number, other.number) })
	own = slices.Compact(own)
	for _, each := range own {
		each.mutex.Lock()
	}
	return func() {
		for _, each := range own {
			each.mutex.Unlock()
		}
	}
}

// cut returns a reason as the contract takes it, which counts code points.
func cut(reason *string) *string {
	if reason == nil {
		return nil
	}
	words := strings.ToValidUTF8(*reason, "\ufffd")
	if utf8.RuneCountInString(words) > maxReason {
		words = string([]rune(words)[:maxReason])
	}
	return &words
}
