package acker

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxOperations = 10_000
	// maxBodyBytes: the acker takes 16 MiB; what a text needs unpacked may be more than its bytes here.
	maxBodyBytes = 8 << 20
)

// request is frozen before the first attempt: every attempt sends the same bytes.
//
// Key is empty where a repeat changes nothing; wait is how long a long poll lets the acker wait.
type request struct {
	method     string
	path       string
	body       []byte
	key        string
	operations []*operation
	wait       time.Duration
}

// isBatch reports whether the answer holds one state for each operation, in a list.
func (r *request) isBatch() bool { return strings.HasSuffix(r.path, "/batch") }

// holds reports whether it has an operation on this root.
func (r *request) holds(root id) bool {
	return slices.ContainsFunc(r.operations, func(each *operation) bool { return each.RootID == root })
}

func (r *request) String() string { return r.method + " " + r.path }

// writeOperations freezes operations into requests, in order: one alone as a single call, more as batches.
func writeOperations(topology string, operations []*operation) []*request {
	if len(operations) == 1 {
		single := *operations[0]
		single.Op = ""
		return []*request{post(topologyPath(topology)+"/"+operations[0].Op, &single, operations)}
	}
	var requests []*request
	for len(operations) > 0 {
		count := min(maxOperations, len(operations))
		requests = append(requests, batches(topology, operations[:count])...)
		operations = operations[count:]
	}
	return requests
}

// batches halves a batch until its bytes are within the limit.
func batches(topology string, operations []*operation) []*request {
	document := map[string]any{"ops": operations}
	whole := post(topologyPath(topology)+"/batch", document, operations)
	if len(operations) <= 1 || len(whole.body) <= maxBodyBytes {
		return []*request{whole}
	}
	middle := len(operations) / 2
	return append(batches(topology, operations[:middle]), batches(topology, operations[middle:])...)
}

func readTopology(topology string) *request {
	return &request{method: http.MethodGet, path: topologyPath(topology)}
}

func readSpout(topology, spoutTask string) *request {
	return &request{method: http.MethodGet, path: spoutPath(topology, spoutTask)}
}

// makeEphemeral registers a spout task that the acker removes when it is no longer used; a repeat changes nothing.
func makeEphemeral(topology, spoutTask string) *request {
	return &request{method: http.MethodPut, path: spoutPath(topology, spoutTask), body: []byte(`{"ephemeral":true}`)}
}

// readCompletions reads completions after a cursor (empty: from the oldest that is not released).
func readCompletions(topology, spoutTask, after string, limit int, wait time.Duration) *request {
	query := url.Values{"limit": {strconv.Itoa(limit)}, "wait_ms": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	if after != "" {
		query.Set("after", after)
	}
	path := spoutPath(topology, spoutTask) + "/completions?" + query.Encode()
	return &request{method: http.MethodGet, path: path, wait: wait}
}

// releaseCompletions releases completions up to a cursor.
func releaseCompletions(topology, spoutTask, cursor string) *request {
	return post(spoutPath(topology, spoutTask)+"/completions/release", map[string]string{"cursor": cursor}, nil)
}

func post(path string, document any, operations []*operation) *request {
	body, err := json.Marshal(document)
	if err != nil {
		panic(err) // ids, numbers and texts: they cannot fail
	}
	return &request{method: http.MethodPost, path: path, body: body, key: drawUUID(), operations: operations}
}

func topologyPath(topology string) string { return "/v1/topologies/" + topology }

func spoutPath(topology, spoutTask string) string {
	return topologyPath(topology) + "/spouts/" + spoutTask
}
