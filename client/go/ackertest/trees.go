package ackertest

import (
	"encoding/json"
	"strconv"
	"time"

	"acker.example/acker"
)

// tree is an unfinished root: early until its init has come.
type tree struct {
	begun       bool
	spoutTask   string
	messageID   *string
	traceparent string
	ackVal      uint64
	startedAt   time.Duration
	deadline    time.Duration
	timeout     time.Duration
	endOn       acker.EndOn // empty while the root is early: it may be of either kind
	failed      bool
	reason      *string // of the first fail
	component   *string
	failures    int
	dropped     int
	edges       map[string]bool
}

// operation is one on a root, as the acker's JSON has it.
type operation struct {
	Op               string      `json:"op"`
	RootID           string      `json:"root_id"`
	SpoutTask        string      `json:"spout_task"`
	EdgeID           string      `json:"edge_id"`
	AckVal           string      `json:"ack_val"`
	Edges            []string    `json:"edges"`
	Children         []string    `json:"children"`
	MessageID        *string     `json:"message_id"`
	MessageTimeoutMs *int64      `json:"message_timeout_ms"`
	Traceparent      string      `json:"traceparent"`
	EndOn            acker.EndOn `json:"end_on"`
	Reason           *string     `json:"reason"`
	Component        *string     `json:"component"`
	Dropped          bool        `json:"dropped"`
}

// apply applies the operations of a request: a batch, or one that is named by the address.
func (a *Acker) apply(what string, body []byte) answered {
	if what == "batch" {
		return a.applyBatch(body)
	}
	var single operation
	if json.Unmarshal(body, &single) != nil {
		return problemOf("invalid")
	}
	single.Op = what
	state := a.operate(&single)
	if isRefused(state) {
		return problemOf(state)
	}
	return written(map[string]any{"root_id": single.RootID, "state": state})
}

func (a *Acker) applyBatch(body []byte) answered {
	var batch struct {
		Ops []operation `json:"ops"`
	}
	if json.Unmarshal(body, &batch) != nil {
		return problemOf("invalid")
	}
	states, accepted := make([]string, len(batch.Ops)), 0
	for at := range batch.Ops {
		states[at] = a.operate(&batch.Ops[at])
		if !isRefused(states[at]) {
			accepted++
		}
	}
	return written(map[string]any{"accepted": accepted, "results": states})
}

func isRefused(state string) bool { return state == "max_spout_pending" }

// operate applies one operation, and returns its state.
func (a *Acker) operate(given *operation) string {
	if a.finished[given.RootID] != "" {
		return "finished"
	}
	switch given.Op {
	case "reset-timeout":
		return a.resetTimeout(given.RootID)
	case "init":
		if a.maxSpoutPending != nil && a.pending(given.SpoutTask) >= *a.maxSpoutPending {
			return "max_spout_pending"
		}
		a.begin(a.treeOf(given.RootID), given)
	case "fail":
		if !a.fail(a.treeOf(given.RootID), given) {
			return "duplicate"
		}
	default:
		if !a.ack(a.treeOf(given.RootID), given) {
			return "duplicate"
		}
	}
	return a.settle(given.RootID)
}

func (a *Acker) treeOf(root string) *tree {
	found := a.trees[root]
	if found == nil {
		found = &tree{
			startedAt: a.now, timeout: a.messageTimeout, deadline: a.now + a.messageTimeout, edges: make(map[string]bool),
		}
		a.trees[root] = found
		a.order = append(a.order, root)
	}
	return found
}

func (a *Acker) begin(begun *tree, init *operation) {
	if begun.begun {
		return
	}
	begun.begun, begun.spoutTask, begun.messageID = true, init.SpoutTask, init.MessageID
	begun.traceparent, begun.endOn = init.Traceparent, a.endOn
	if init.EndOn != "" {
		begun.endOn = init.EndOn
	}
	if init.MessageTimeoutMs != nil {
		begun.timeout = time.Duration(*init.MessageTimeoutMs) * time.Millisecond
	}
	begun.deadline = a.now + begun.timeout
	begun.fold(append([]string{init.AckVal}, init.Edges...)...)
}

// ack counts an ack; false for an edge that ended before.
func (a *Acker) ack(of *tree, given *operation) bool {
	isNew := a.endEdge(of, given)
	if isNew && given.Dropped {
		of.dropped++
	}
	return isNew
}

// fail fails a root, or ends an edge where all have to end; false for one that ended before.
func (a *Acker) fail(of *tree, given *operation) bool {
	isNew := of.endOn == acker.FirstFail || a.endEdge(of, given)
	if !isNew && of.endOn == acker.AllEnded {
		return false
	}
	if !of.failed {
		of.failed, of.reason, of.component = true, given.Reason, given.Component
	}
	if isNew {
		of.failures++
	}
	return true
}

// endEdge ends an edge; false for one that ended before.
func (a *Acker) endEdge(of *tree, ended *operation) bool {
	if a.dedupes && ended.EdgeID != "" {
		if of.edges[ended.EdgeID] {
			return false
		}
		of.edges[ended.EdgeID] = true
	}
	if ended.AckVal != "" {
		of.fold(ended.AckVal)
	} else {
		of.fold(append([]string{ended.EdgeID}, ended.Children...)...)
	}
	return true
}

// fold XORs ids; empty ones are none.
func (t *tree) fold(ids ...string) {
	for _, each := range ids {
		if each == "" {
			continue
		}
		value, err := strconv.ParseUint(each, 16, 64)
		if err != nil {
			panic(err) // the client writes hex digits
		}
		t.ackVal ^= value
	}
}

func (a *Acker) settle(root string) string {
	found := a.trees[root]
	hasFailed := found.failed && found.endOn == acker.FirstFail
	switch {
	case !found.begun:
		return "early"
	case !hasFailed && found.ackVal != 0:
		return "pending"
	}
	outcome := string(acker.Acked)
	if hasFailed || found.failures > 0 {
		outcome = string(acker.Failed)
	}
	a.end(root, found, outcome)
	return outcome
}

func (a *Acker) resetTimeout(root string) string {
	found := a.trees[root]
	if found == nil || !found.begun {
		return "unknown"
	}
	found.deadline = a.now + found.timeout
	return "pending"
}
