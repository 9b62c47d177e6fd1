package acker

// The operations on a root.
const (
	opInit         = "init"
	opAck          = "ack"
	opFail         = "fail"
	opResetTimeout = "reset-timeout"
)

// The states of an operation that was not admitted, and of one that conflicts.
const (
	stateMaxSpoutPending = "max_spout_pending"
	stateMailboxFull     = "mailbox_full"
	stateStoreFull       = "store_full"
	stateConflict        = "conflict"
)

// EndOn is what ends a root.
type EndOn string

const (
	// FirstFail ends it at its first fail.
	FirstFail EndOn = "first_fail"
	// AllEnded ends it when all of its edges have ended, some of them perhaps failed.
	AllEnded EndOn = "all_ended"
)

// operation is one operation on one root, as the acker's JSON has it. Each uses a part of the members.
//
// An ack and a fail have an ack val and a count, or the children by name.
type operation struct {
	Op                string  `json:"op,omitempty"`
	RootID            id      `json:"root_id"`
	SpoutTask         string  `json:"spout_task,omitempty"`
	EdgeID            id      `json:"edge_id,omitzero"`
	AckVal            *id     `json:"ack_val,omitempty"`
	Outstanding       *int    `json:"outstanding,omitempty"`
	Edges             []id    `json:"edges,omitzero"`
	Children          []id    `json:"children,omitzero"`
	MessageID         *string `json:"message_id,omitempty"`
	MessageTimeoutMs  *int64  `json:"message_timeout_ms,omitempty"`
	ProgressTimeoutMs *int64  `json:"progress_timeout_ms,omitempty"`
	Trace             bool    `json:"trace,omitempty"`
	Traceparent       string  `json:"traceparent,omitempty"`
	EndOn             EndOn   `json:"end_on,omitempty"`
	Reason            *string `json:"reason,omitempty"`
	Component         string  `json:"component,omitempty"`
	Dropped           bool    `json:"dropped,omitempty"`
}

// isState reports whether the contract has this state.
func isState(state string) bool {
	switch state {
	case "pending", "acked", "failed", "early", "finished", "duplicate", "unknown":
		return true
	default:
		return isRefused(state)
	}
}

// isNotAdmitted reports whether an operation changed nothing, and may be sent again in a new request.
func isNotAdmitted(state string) bool {
	return state == stateMaxSpoutPending || state == stateMailboxFull || state == stateStoreFull
}

// isRefused reports whether an operation was not accepted.
func isRefused(state string) bool {
	return state == stateConflict || isNotAdmitted(state)
}
