package acker

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// id is that of a root or an edge: 64 bits, not all zero; on the wire 16 lowercase hex digits. An ack val is the XOR
// of edge ids, and may be zero.
type id uint64

const idDigits = 16

// spoutEdge is the parent edge of an edge that a spout derives: a spout tuple has no parent.
const spoutEdge id = 0

func (i id) String() string { return string(i.append(nil)) }

// MarshalText writes the 16 hex digits.
func (i id) MarshalText() ([]byte, error) { return i.append(make([]byte, 0, idDigits)), nil }

func (i id) append(to []byte) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		to = append(to, digits[i>>shift&0xf])
	}
	return to
}

// parseID reads 16 lowercase hex digits; false for anything else, and for zero.
func parseID(text string) (id, bool) {
	if len(text) != idDigits {
		return 0, false
	}
	for at := range idDigits {
		if digit := text[at]; (digit < '0' || digit > '9') && (digit < 'a' || digit > 'f') {
			return 0, false
		}
	}
	found, err := strconv.ParseUint(text, 16, 64)
	return id(found), err == nil && found != 0
}

// random asks the system's source for 512 ids at once.
var random = struct {
	sync.Mutex
	source *bufio.Reader
}{source: bufio.NewReaderSize(rand.Reader, 4096)}

// drawID draws a new id from the system's cryptographic source.
func drawID() id {
	var drawn [8]byte
	random.Lock()
	defer random.Unlock()
	for {
		if _, err := io.ReadFull(random.source, drawn[:]); err != nil {
			panic(err) // as crypto/rand does: nothing is safe without it
		}
		if found := binary.BigEndian.Uint64(drawn[:]); found != 0 {
			return id(found)
		}
	}
}

// deriveEdge derives the edge id of a child, so that a re-run of the same work gives the same id.
//
// It is the first 8 bytes of HMAC-SHA256, keyed with the root id, over the parent's edge id (8 bytes, zero at a
// spout), the component, a zero byte and the key, both in UTF-8. See docs/anchors.md.
func deriveEdge(root, parent id, component, key string) id {
	text := binary.BigEndian.AppendUint64(make([]byte, 0, 9+len(component)+len(key)), uint64(parent))
	text = append(append(append(text, component...), 0), key...)
	return edgeOfDigest(root, rootHMAC(root, text))
}

// edgeOfDigest returns the first 8 bytes of a digest as an id; if they are zero, those of the HMAC of the whole digest.
func edgeOfDigest(root id, digest []byte) id {
	for {
		if found := binary.BigEndian.Uint64(digest); found != 0 {
			return id(found)
		}
		digest = rootHMAC(root, digest)
	}
}

func rootHMAC(root id, text []byte) []byte {
	mac := hmac.New(sha256.New, binary.BigEndian.AppendUint64(nil, uint64(root)))
	mac.Write(text)
	return mac.Sum(nil)
}

// drawUUID draws an idempotency key: a UUID of version 4.
func drawUUID() string {
	var drawn [16]byte
	_, _ = rand.Read(drawn[:]) // never returns an error
	drawn[6], drawn[8] = drawn[6]&0x0f|0x40, drawn[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", drawn[:4], drawn[4:6], drawn[6:8], drawn[8:10], drawn[10:])
}
