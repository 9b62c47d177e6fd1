package acker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// spoutTask is one spout task of one client; own is a name that no other process has.
type spoutTask struct {
	session *session
	name    string
	own     bool

	registering sharedCall

	mutex       sync.Mutex
	registered  bool
	free        int
	uncommitted int
}

// admit lets a root be emitted: it waits for a free place where the topology has a cap.
func (t *spoutTask) admit(ctx context.Context) error {
	if err := t.register(ctx); err != nil {
		return err
	}
	since := time.Now()
	pauses := delays()
	for {
		isAdmitted, err := t.tryAcquire(ctx)
		if err != nil || isAdmitted {
			return err
		}
		if time.Since(since) >= t.session.emitTimeout {
			return newServiceError(stateMaxSpoutPending,
				"%s has as many pending roots as max_spout_pending allows, and none has ended in time", t.name)
		}
		if err := sleep(ctx, pauses.next()); err != nil {
			return canceledWait(ctx, "the emit waited for a free place")
		}
	}
}

// release ends the emit of a root: its init was sent, or it has none.
func (t *spoutTask) release() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.uncommitted = max(0, t.uncommitted-1)
}

// register registers a name of its own as ephemeral, once: no process reads it after this one.
func (t *spoutTask) register(ctx context.Context) error {
	if _, err := t.session.topologyInfo(ctx); err != nil {
		return err
	}
	t.session.refreshTopology(ctx)
	if !t.own || t.isRegistered() {
		return nil
	}
	return t.registering.do(ctx, func() error {
		if t.isRegistered() {
			return nil
		}
		_, err := t.session.send(ctx, makeEphemeral(t.session.topology, t.name), time.Time{})
		if err == nil {
			t.setRegistered(true)
		}
		return err
	})
}

func (t *spoutTask) isRegistered() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.registered
}

func (t *spoutTask) setRegistered(registered bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.registered = registered
}

func (t *spoutTask) tryAcquire(ctx context.Context) (bool, error) {
	info, err := t.session.topologyInfo(ctx)
	if err != nil {
		return false, err
	}
	if info.maxSpoutPending == nil || t.take() {
		if info.maxSpoutPending == nil {
			t.begin()
		}
		return true, nil
	}
	pending, err := t.countPending(ctx)
	if err != nil {
		return false, err
	}
	t.mutex.Lock()
	// roots that are being emitted are not pending yet and will be
	t.free = *info.maxSpoutPending - pending - t.uncommitted
	t.mutex.Unlock()
	return t.take(), nil
}

// take takes a free place, if one is known.
func (t *spoutTask) take() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.free <= 0 {
		return false
	}
	t.free--
	t.uncommitted++
	return true
}

func (t *spoutTask) begin() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.uncommitted++
}

func (t *spoutTask) countPending(ctx context.Context) (int, error) {
	given, err := t.session.send(ctx, readSpout(t.session.topology, t.name), time.Time{})
	if hasCode(err, "unknown_spout") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var found struct {
		Pending int `json:"pending"`
	}
	if json.Unmarshal(given.body, &found) != nil {
		return 0, invalidResponseKind.newError("the answer about a spout task holds no pending")
	}
	return found.Pending, nil
}

func hasCode(err error, codes ...string) bool {
	var found *Error
	if !errors.As(err, &found) {
		return false
	}
	for _, code := range codes {
		if found.Code == code {
			return true
		}
	}
	return false
}
