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
	failed      bool
	reason      *string
	component   *string
	edges       map[string]bool
}

// operation is one on a root, as the acker's JSON has it.
type operation struct {
	Op               string   `json:"op"`
	RootID           string   `json:"root_id"`
	SpoutTask        string   `json:"spout_task"`
	EdgeID           string   `json:"edge_id"`
	AckVal           string   `json:"ack_val"`
	Edges            []string `json:"edges"`
	Children         []string `json:"children"`
	MessageID        *string  `json:"message_id"`
	MessageTimeoutMs *int64   `json:"message_timeout_ms"`
	Traceparent      string   `json:"traceparent"`
	Reason           *string  `json:"reason"`
	Component        *string  `json:"component"`
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
		a.treeOf(given.RootID).fail(given)
	default:
		if !a.count(a.treeOf(given.RootID), given) {
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
	begun.traceparent = init.Traceparent
	if init.MessageTimeoutMs != nil {
		begun.timeout = time.Duration(*init.MessageTimeoutMs) * time.Millisecond
	}
	begun.deadline = a.now + begun.timeout
	begun.fold(append([]string{init.AckVal}, init.Edges...)...)
}

func (t *tree) fail(given *operation) {
	if !t.failed {
		t.failed, t.reason, t.component = true, given.Reason, given.Component
	}
}

// count counts an ack; false for an edge that was acked before.
func (a *Acker) count(of *tree, ack *operation) bool {
	if a.dedupes && ack.EdgeID != "" {
		if of.edges[ack.EdgeID] {
			return false
		}
		of.edges[ack.EdgeID] = true
	}
	if ack.AckVal != "" {
		of.fold(ack.AckVal)
	} else {
		of.fold(append([]string{ack.EdgeID}, ack.Children...)...)
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
	outcome := ""
	switch {
	case !found.begun:
		return "early"
	case found.failed:
		outcome = string(acker.Failed)
	case found.ackVal == 0:
		outcome = string(acker.Acked)
	default:
		return "pending"
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
