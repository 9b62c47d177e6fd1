package acker

import (
	"strconv"
	"strings"
)

// AnchorsHeader is the name of the header; a reader takes it in upper or lower case.
const AnchorsHeader = "Acker-Anchors"

const (
	maxAnchors    = 64
	headerVersion = "00"
	anchorLength  = 2*idDigits + 1
)

// anchor is one edge of one root.
type anchor struct {
	root, edge id
}

// Anchors are those of one message for one consumer; none if it is not tracked.
type Anchors struct {
	topology string
	anchors  []anchor
}

// Topology returns that of the message.
func (a Anchors) Topology() string { return a.topology }

// Len returns how many anchors there are.
func (a Anchors) Len() int { return len(a.anchors) }

// Header returns the value of the header Acker-Anchors; empty without anchors: then send no header.
func (a Anchors) Header() string {
	if len(a.anchors) == 0 {
		return ""
	}
	size := len(headerVersion) + 1 + len(a.topology) + len(a.anchors)*(anchorLength+1)
	written := make([]byte, 0, size)
	written = append(append(append(append(written, headerVersion...), ' '), a.topology...), ' ')
	return string(appendAnchors(written, a.anchors))
}

// SetOn sets the header on a message, in the place of the anchors that it may have; without anchors it removes them.
func (a Anchors) SetOn(headers Carrier) {
	headers.Delete(AnchorsHeader)
	if value := a.Header(); value != "" {
		headers.Set(AnchorsHeader, value)
	}
}

func appendAnchors(to []byte, anchors []anchor) []byte {
	for at, each := range anchors {
		if at > 0 {
			to = append(to, ',')
		}
		to = each.edge.append(append(each.root.append(to), '-'))
	}
	return to
}

// checkCount refuses more anchors than one message can carry.
func checkCount(count int) error {
	if count > maxAnchors {
		return tooManyAnchorsKind.newError(
			"a message carries at most %d anchors, this one would carry %d", maxAnchors, count,
		)
	}
	return nil
}

// Extract reads the anchors of a message of any topology; false without the header. It returns ErrInvalidHeader.
func Extract(headers Carrier) (Anchors, bool, error) {
	value, found, err := headerValue(headers, AnchorsHeader)
	if err != nil || !found {
		return Anchors{}, false, err
	}
	anchors, err := parseAnchors(value)
	return anchors, err == nil, err
}

// readAnchors reads the anchors of a message of this topology; none without the header.
func readAnchors(headers Carrier, topology string) ([]anchor, error) {
	found, tracked, err := Extract(headers)
	if err != nil || !tracked {
		return nil, err
	}
	if found.topology != topology {
		return nil, invalidHeaderKind.newError(
			"%s is of topology %q, this client works for %q", AnchorsHeader, found.topology, topology,
		)
	}
	return found.anchors, nil
}

// headerValue returns the value of a header that a message carries once; false without it.
func headerValue(headers Carrier, name string) (string, bool, error) {
	values := headerValues(headers, name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, invalidHeaderKind.newError("%s is given %d times; a message carries it once", name, len(values))
	}
}

// headerValues returns the values of a header, whose name is given in upper or lower case.
func headerValues(headers Carrier, name string) []string {
	var values []string
	if headers == nil {
		return nil
	}
	for each, value := range headers.All() {
		if strings.EqualFold(each, name) {
			values = append(values, value)
		}
	}
	return values
}

// parseAnchors reads the value of the header.
func parseAnchors(value string) (Anchors, error) {
	words := strings.Split(strings.TrimSpace(value), " ")
	if words[0] != headerVersion {
		return Anchors{}, unreadable(value, "must begin with version "+headerVersion)
	}
	if len(words) != 3 || !isName(words[1]) {
		return Anchors{}, unreadable(value, "must be a version, a topology and 1 to 64 anchors")
	}
	anchors, why := splitAnchors(words[2])
	if why != "" {
		return Anchors{}, unreadable(value, why)
	}
	return Anchors{topology: words[1], anchors: anchors}, nil
}

// splitAnchors reads a list of anchors, and says what is wrong with one that cannot be.
func splitAnchors(listed string) ([]anchor, string) {
	const form = "must be a version, a topology and 1 to 64 anchors, of ids that are not zero"
	count := (len(listed) + 1) / (anchorLength + 1)
	if count < 1 || count > maxAnchors || len(listed) != count*(anchorLength+1)-1 {
		return nil, form
	}
	anchors := make([]anchor, 0, count)
	for each := range strings.SplitSeq(listed, ",") {
		if len(each) != anchorLength || each[idDigits] != '-' {
			return nil, form
		}
		root, isRoot := parseID(each[:idDigits])
		edge, isEdge := parseID(each[idDigits+1:])
		if !isRoot || !isEdge {
			return nil, form
		}
		anchors = append(anchors, anchor{root: root, edge: edge})
	}
	if hasTwice(anchors) {
		return nil, "must not name an anchor twice"
	}
	return anchors, ""
}

func hasTwice(anchors []anchor) bool {
	if len(anchors) == 1 {
		return false
	}
	seen := make(map[anchor]struct{}, len(anchors))
	for _, each := range anchors {
		seen[each] = struct{}{}
	}
	return len(seen) < len(anchors)
}

func unreadable(value, why string) error {
	return invalidHeaderKind.newError("%s %s: %s", AnchorsHeader, why, shown(value))
}

func quoted(text string) string { return strconv.Quote(text) }
