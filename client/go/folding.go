package acker

import "math"

// acks are what a tuple acks: its anchors, and their edge sets if children were made.
type acks struct {
	anchors   []anchor
	edges     []*edgeSet
	component string
}

// ackForm is how acks are written: folded with others of their root, or each with its edge.
type ackForm struct {
	folds   bool
	dropped bool // their tuple was not processed: the acker counts them, so they are not folded
}

// fold holds the acks of one root; edges are those that are folded in it, nil for the first alone.
type fold struct {
	root        id
	ackVal      id
	outstanding int
	component   string // empty if it is not that of all
	first       id
	edges       map[id]struct{}
}

// record is an operation as it is, or a fold.
type record struct {
	fold *fold
	as   *operation
}

// foldedOperations are operations in the order in which the program gave them, with the acks of one root folded.
//
// Only acks of distinct edges fold: the same edge acked twice stays two operations. An ack that names its children, as
// those of traced roots and of dropped tuples do, does not fold. It closes its root's fold, so later acks stay behind it.
type foldedOperations struct {
	records []record
	folds   map[id]*fold
	roots   map[id]struct{}
}

func newFoldedOperations() *foldedOperations {
	return &foldedOperations{folds: make(map[id]*fold), roots: make(map[id]struct{})}
}

func (f *foldedOperations) size() int { return len(f.records) }

func (f *foldedOperations) holds(root id) bool {
	_, found := f.roots[root]
	return found
}

// operations returns the operations so far.
func (f *foldedOperations) operations() []*operation {
	written := make([]*operation, len(f.records))
	for at, each := range f.records {
		written[at] = each.as
		if each.fold != nil {
			written[at] = each.fold.operation()
		}
	}
	return written
}

// add adds the acks of one tuple; those of traced roots and of dropped tuples name their children.
func (f *foldedOperations) add(given acks, form ackForm, isTraced func(id) bool) {
	for at, each := range given.anchors {
		own := given.edgeSet(at)
		f.roots[each.root] = struct{}{}
		switch {
		case form.dropped || isTraced(each.root):
			f.addAsItIs(&operation{
				Op: opAck, RootID: each.root, EdgeID: each.edge, Children: own.childrenOrNone(), Component: given.component,
				Dropped: form.dropped,
			})
		case form.folds:
			f.fold(each, own, given.component)
		default:
			ackVal, outstanding := own.ackOf(each)
			f.addAsItIs(&operation{
				Op: opAck, RootID: each.root, EdgeID: each.edge, AckVal: &ackVal, Outstanding: &outstanding,
				Component: given.component,
			})
		}
	}
}

func (f *foldedOperations) addAsItIs(ack *operation) {
	delete(f.folds, ack.RootID)
	f.records = append(f.records, record{as: ack})
}

func (f *foldedOperations) fold(each anchor, own *edgeSet, component string) {
	ackVal, outstanding := own.ackOf(each)
	if begun := f.folds[each.root]; begun != nil && begun.takes(each.edge, outstanding) {
		begun.add(each.edge, ackVal, outstanding, component)
		return
	}
	begun := &fold{root: each.root, ackVal: ackVal, outstanding: outstanding, component: component, first: each.edge}
	f.folds[each.root] = begun
	f.records = append(f.records, record{fold: begun})
}

// takes reports whether an ack joins a fold: not one of an edge that it has, nor one by which its count would leave its
// 32 bits.
func (f *fold) takes(edge id, outstanding int) bool {
	_, isThere := f.edges[edge]
	sum := f.outstanding + outstanding
	return !isThere && edge != f.first && sum <= math.MaxInt32 && sum >= -math.MaxInt32
}

func (f *fold) add(edge, ackVal id, outstanding int, component string) {
	f.ackVal ^= ackVal
	f.outstanding += outstanding
	if f.component != component {
		f.component = ""
	}
	if f.edges == nil {
		f.edges = make(map[id]struct{})
	}
	f.edges[edge] = struct{}{}
}

// operation writes a fold; it names its edge if it has but one, and its component if it is that of all.
func (f *fold) operation() *operation {
	written := &operation{
		Op: opAck, RootID: f.root, AckVal: &f.ackVal, Outstanding: &f.outstanding, Component: f.component,
	}
	if f.edges == nil {
		written.EdgeID = f.first
	}
	return written
}

func (a acks) edgeSet(at int) *edgeSet {
	if a.edges == nil {
		return nil
	}
	return a.edges[at]
}

// ackOf returns the ack val and the count of an anchor, whose edge set is nil without children.
func (e *edgeSet) ackOf(of anchor) (id, int) {
	if e == nil {
		return of.edge, -1
	}
	return e.ackVal, e.outstanding
}

// childrenOrNone returns the children as a list that is not nil, so that it is written.
func (e *edgeSet) childrenOrNone() []id {
	if e == nil || e.children == nil {
		return []id{}
	}
	return e.children
}
