package acker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Outcome is how a root ended.
type Outcome string

// The outcomes.
const (
	Acked    Outcome = "acked"
	Failed   Outcome = "failed"
	TimedOut Outcome = "timed_out"
)

// Completion is the end of one root. It may come more than once, always with the same ID.
type Completion struct {
	ID      string
	RootID  string
	Outcome Outcome
	// MessageID is the spout's own id of the message; HasMessageID is false where the root has none.
	MessageID    string
	HasMessageID bool
	// Reason and Component are those of the fail; empty without one.
	Reason    string
	Component string
	// CompleteLatency is from the root's first operation to its end.
	CompleteLatency time.Duration
	// At is when it ended.
	At time.Time
	// Traceparent is that of the emit; empty without one.
	Traceparent string
	// EndOn is what ends the root: with AllEnded, Failures is how many of its edges failed.
	EndOn    EndOn
	Failures int
	// Dropped is how many of its tuples were acked by a DropTuple.
	Dropped int
	// LastComponent, LastAckAt and Outstanding say where a root hung that timed out: which component acked last, when, and
	// how many edges were sent and not acked. They are zero for all others, and where that is unknown.
	LastComponent  string
	LastAckAt      time.Time
	Outstanding    int
	HasOutstanding bool
}

// ByOutcome returns a function for Listen and WebhookHandler that calls one of these with the message id: Storm's
// ack(msgId) and fail(msgId). Either may be nil. A root without a message id is ignored: they take nothing else.
func ByOutcome(onAck, onFail func(ctx context.Context, messageID string) error) func(context.Context, Completion) error {
	return func(ctx context.Context, completion Completion) error {
		handle := onFail
		if completion.Outcome == Acked {
			handle = onAck
		}
		if handle == nil || !completion.HasMessageID {
			return nil
		}
		return handle(ctx, completion.MessageID)
	}
}

// page are completions in their order, and the cursor behind the last; empty if nothing was ever read.
type page struct {
	completions []Completion
	cursor      string
}

// completionDocument is a completion as the acker's JSON has it; members that this version does not know are ignored.
type completionDocument struct {
	ID                *string  `json:"id"`
	RootID            *string  `json:"root_id"`
	Outcome           Outcome  `json:"outcome"`
	MessageID         *string  `json:"message_id"`
	Reason            *string  `json:"reason"`
	Component         *string  `json:"component"`
	CompleteLatencyMs *float64 `json:"complete_latency_ms"`
	AtMs              *float64 `json:"at_ms"`
	Traceparent       *string  `json:"traceparent"`
	Failures          *int     `json:"failures"`
	Dropped           int      `json:"dropped"`
	LastComponent     *string  `json:"last_component"`
	LastAckAtMs       *float64 `json:"last_ack_at_ms"`
	Outstanding       *int     `json:"outstanding"`
}

func readPage(given *answer) (page, error) {
	var found struct {
		Completions *[]completionDocument `json:"completions"`
		Cursor      *string               `json:"cursor"`
	}
	err := json.Unmarshal(given.body, &found)
	var completions []Completion
	if err == nil {
		completions, err = readCompletionList(found.Completions)
	}
	if err != nil {
		return page{}, invalidResponseKind.newError("an answer %d holds no completions: %v", given.status, err)
	}
	return page{completions: completions, cursor: valueOf(found.Cursor)}, nil
}

func readCompletionList(documents *[]completionDocument) ([]Completion, error) {
	if documents == nil {
		return nil, errors.New("completions must be a list")
	}
	completions := make([]Completion, 0, len(*documents))
	for _, each := range *documents {
		read, err := each.read()
		if err != nil {
			return nil, err
		}
		completions = append(completions, read)
	}
	return completions, nil
}

func (c *completionDocument) read() (Completion, error) {
	if c.Outcome != Acked && c.Outcome != Failed && c.Outcome != TimedOut {
		return Completion{}, fmt.Errorf("outcome must not be %q", string(c.Outcome))
	}
	if c.ID == nil || c.RootID == nil || c.CompleteLatencyMs == nil || c.AtMs == nil {
		return Completion{}, errors.New("id, root_id, complete_latency_ms and at_ms are needed")
	}
	found := Completion{
		ID: *c.ID, RootID: *c.RootID, Outcome: c.Outcome,
		MessageID: valueOf(c.MessageID), HasMessageID: c.MessageID != nil,
		Reason: valueOf(c.Reason), Component: valueOf(c.Component),
		CompleteLatency: time.Duration(*c.CompleteLatencyMs * float64(time.Millisecond)),
		At:              time.UnixMilli(int64(*c.AtMs)),
		Traceparent:     valueOf(c.Traceparent),
		EndOn:           FirstFail,
		Dropped:         c.Dropped,
		LastComponent:   valueOf(c.LastComponent),
	}
	if c.Failures != nil {
		found.EndOn, found.Failures = AllEnded, *c.Failures
	}
	if c.LastAckAtMs != nil {
		found.LastAckAt = time.UnixMilli(int64(*c.LastAckAtMs))
	}
	if c.Outstanding != nil {
		found.Outstanding, found.HasOutstanding = *c.Outstanding, true
	}
	return found, nil
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
