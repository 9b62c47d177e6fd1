package acker

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// answer is a response as it came, or why none came: the request may have arrived then.
type answer struct {
	status     int
	body       []byte
	retryAfter string
	// err is set where no response came.
	err error
	// refusedBy is where no connection could be made, so that nothing can have arrived; else empty.
	refusedBy string
}

// failure is what failed, whether the same request may be sent again, and after how long at the earliest.
type failure struct {
	err       error
	retryable bool
	wait      time.Duration
	refusedBy string
}

// result is one operation, and the state that the acker answered.
type result struct {
	operation *operation
	state     string
}

// classify finds the failure; nil for an answer. That an operation was not admitted, and so not applied, is an answer.
func classify(asked *request, given *answer) *failure {
	if given.err != nil {
		return &failure{err: given.err, retryable: true, refusedBy: given.refusedBy}
	}
	found := readProblem(given.status, given.body)
	if given.status < http.StatusMultipleChoices || isAnswer(asked, found) {
		return nil
	}
	passes := given.status == http.StatusRequestTimeout || given.status == http.StatusTooManyRequests ||
		given.status >= http.StatusInternalServerError
	if found == nil {
		unknown := invalidResponseKind.newError("%v was answered %d without a problem", asked, given.status)
		return &failure{err: unknown, retryable: passes, wait: given.askedWait()}
	}
	return &failure{err: found, retryable: passes && found.Retryable, wait: given.askedWait()}
}

func isAnswer(asked *request, found *Error) bool {
	return len(asked.operations) == 1 && found != nil && isNotAdmitted(found.Code)
}

// longestWait is longer than any request is sent again.
const longestWait = 100 * 365 * 24 * time.Hour

// askedWait returns for how long the acker asks to wait; 0 without a number (an acker never gives a date).
func (a *answer) askedWait() time.Duration {
	seconds, err := strconv.ParseUint(a.retryAfter, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(min(seconds, uint64(longestWait/time.Second))) * time.Second
}

// readResults reads one state for each operation.
func readResults(asked *request, given *answer) ([]result, error) {
	var found struct {
		Results []string `json:"results"`
		State   string   `json:"state"`
		Code    string   `json:"code"`
	}
	err := json.Unmarshal(given.body, &found)
	states := found.Results
	if !asked.isBatch() {
		states = []string{found.State}
		if found.State == "" {
			states[0] = found.Code
		}
	}
	if err != nil || len(states) != len(asked.operations) {
		return nil, unknownStates(asked)
	}
	results := make([]result, len(states))
	for at, state := range states {
		if !isState(state) {
			return nil, unknownStates(asked)
		}
		results[at] = result{operation: asked.operations[at], state: state}
	}
	return results, nil
}

func unknownStates(asked *request) error {
	return invalidResponseKind.newError("%s was not answered with one known state for each operation", asked.path)
}
