package acker

import (
	"slices"
	"strconv"
)

// edgeSet is an anchor and its children so far: as an operation reports them.
//
// Its ack val is its own edge id XOR those of all children, outstanding the children less the edge itself; the spout's
// edge, which is zero, stands for no edge. If numbered, children without a key get their number as key.
type edgeSet struct {
	root, edge  id
	component   string
	numbered    bool
	ackVal      id
	outstanding int
	children    []id
	unkeyed     int
	keys        map[string]struct{}
}

func newEdgeSet(of anchor, component string, numbered bool) *edgeSet {
	outstanding := -1
	if of.edge == spoutEdge {
		outstanding = 0
	}
	return &edgeSet{
		root: of.root, edge: of.edge, component: component, numbered: numbered,
		ackVal: of.edge, outstanding: outstanding,
	}
}

// childKey is what the edge of a child is derived from; a random edge has none.
type childKey struct {
	text  string
	given bool // by the program
	drawn bool // random, without a key
}

// choose returns a child's key: its own, else its number if children are numbered.
func (e *edgeSet) choose(key *string, ahead int) childKey {
	switch {
	case key != nil:
		return childKey{text: *key, given: true}
	case e.numbered:
		return childKey{text: "#" + strconv.Itoa(e.unkeyed+ahead)}
	default:
		return childKey{drawn: true}
	}
}

func (e *edgeSet) has(key string) bool {
	_, found := e.keys[key]
	return found
}

// edgeOf chooses a child's edge id: derived from its key, so that a re-run gives the same; random without one.
func (e *edgeSet) edgeOf(key childKey) id {
	if key.drawn {
		return drawID()
	}
	return deriveEdge(e.root, e.edge, e.component, key.text)
}

func (e *edgeSet) add(edge id, key childKey) {
	e.ackVal ^= edge
	e.outstanding++
	e.children = append(e.children, edge)
	if !key.given {
		e.unkeyed++
	}
	if !key.drawn {
		if e.keys == nil {
			e.keys = make(map[string]struct{})
		}
		e.keys[key.text] = struct{}{}
	}
}

// addChild anchors one child to all these parents. The same parent twice gives two edges.
//
// After ErrDuplicateKey or ErrTooManyAnchors no parent has a new child.
func addChild(parents []*edgeSet, key *string) ([]anchor, error) {
	anchors := make([]anchor, len(parents))
	keys := make([]childKey, len(parents))
	for at, parent := range parents {
		ahead := countOf(parents[:at], parent)
		keys[at] = parent.choose(key, ahead)
		if err := refuseDuplicate(parent, keys[at], ahead); err != nil {
			return nil, err
		}
		anchors[at] = anchor{root: parent.root, edge: parent.edgeOf(keys[at])}
	}
	if err := checkCount(len(anchors)); err != nil {
		return nil, err
	}
	for at, parent := range parents {
		parent.add(anchors[at].edge, keys[at])
	}
	return anchors, nil
}

func countOf(parents []*edgeSet, wanted *edgeSet) int {
	count := 0
	for _, each := range parents {
		if each == wanted {
			count++
		}
	}
	return count
}

// refuseDuplicate: a derived id depends on nothing but parent, component and key; twice the same would cancel in the XOR.
func refuseDuplicate(parent *edgeSet, key childKey, ahead int) error {
	if key.drawn {
		return nil
	}
	if parent.has(key.text) {
		return duplicateKeyKind.newError("a child with the key %q exists already; each needs a key of its own", key.text)
	}
	if ahead > 0 && key.given {
		return duplicateKeyKind.newError("a child with the key %q is anchored to one tuple twice; leave it out", key.text)
	}
	return nil
}

// rootsOf returns the distinct roots of anchors, in their order.
func rootsOf(anchors []anchor) []id {
	roots := make([]id, 0, len(anchors))
	for _, each := range anchors {
		if !slices.Contains(roots, each.root) {
			roots = append(roots, each.root)
		}
	}
	return roots
}
