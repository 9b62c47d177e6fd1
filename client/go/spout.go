package acker

import (
	"context"
	"iter"
)

// Spout emits roots under the name of one spout task, and reads their completions. Client.Spout and Client.SharedSpout
// make one.
type Spout struct {
	task      *spoutTask
	submitter *submitter
}

// Name returns the spout task's name.
func (s *Spout) Name() string { return s.task.name }

// Emit emits a root: make one child for each consumer in run, and send it; the init is sent when run has returned nil.
//
//	err := spout.Emit(ctx, "42", func(ctx context.Context, root *acker.Root) error {
//		child, err := root.Anchor(acker.WithKey("greet"))
//		if err != nil {
//			return err
//		}
//		return publish(ctx, child.Header())
//	})
//
// messageID is the spout's own id of the message. The root is current in run's context. Emit waits for a free place
// before that, and returns ErrService for an init that stays refused (max_spout_pending, mailbox_full, store_full). If
// run returns an error, no init is sent, and Emit returns that error.
func (s *Spout) Emit(
	ctx context.Context, messageID string, run func(ctx context.Context, root *Root) error, options ...EmitOption,
) error {
	return s.emit(ctx, &messageID, run, options)
}

// EmitUntracked runs a function as Emit, with a root whose children have no anchors: nothing is sent for it.
func (s *Spout) EmitUntracked(ctx context.Context, run func(ctx context.Context, root *Root) error) error {
	return s.emit(ctx, nil, run, nil)
}

func (s *Spout) emit(
	ctx context.Context, messageID *string, run func(context.Context, *Root) error, options []EmitOption,
) error {
	if err := s.submitter.flusher.takeFailures(); err != nil {
		return err
	}
	root, err := newRoot(s.task.session.topology, s.task.name, messageID, options)
	if err != nil {
		return err
	}
	if root.Tracked() {
		if err := s.task.admit(ctx); err != nil {
			return err
		}
		defer s.task.release()
	}
	defer root.close()
	if run != nil {
		if err := run(Use(ctx, root), root); err != nil {
			return err
		}
	}
	root.close()
	if !root.Tracked() {
		return nil
	}
	return s.submitter.sendNow(ctx, []*operation{root.initOperation(s.task.session.isTraced)})
}

// Completions reads completions, by long polls. They are released after the loop's body for the last of a page ended:
//
//	for completion, err := range spout.Completions(ctx) {
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// The loop ends without an error when the context ends, or with WithStop or WithUntil; else after the first
// error. After a break or a return all completions of the page come again, which is logged.
func (s *Spout) Completions(ctx context.Context, options ...ReadOption) iter.Seq2[Completion, error] {
	return func(yield func(Completion, error) bool) {
		reader, err := newMailboxReader(s.task, options)
		if err != nil {
			yield(Completion{}, err)
			return
		}
		for reader.isOpen(ctx) {
			isHandled, err := s.readPage(ctx, reader, yield)
			if err != nil {
				yield(Completion{}, err)
			}
			if err != nil || !isHandled {
				return
			}
		}
	}
}

// readPage reads a page, lets its completions be handled, and releases them; false where that was broken off.
func (s *Spout) readPage(
	ctx context.Context, reader *mailboxReader, yield func(Completion, error) bool,
) (bool, error) {
	completions, err := reader.read(ctx)
	if err != nil {
		return false, err
	}
	isHandled := false
	defer func() {
		if !isHandled {
			s.warnUnreleased(ctx, len(completions))
		}
	}()
	for _, each := range completions {
		if !yield(each, nil) {
			return false, nil
		}
	}
	isHandled = true
	return true, reader.release(ctx)
}

// Listen calls a function with each completion, which is released after that returned nil. See ByOutcome.
//
// It returns nil when the context ends, or with WithStop or WithUntil; else the first error, also that of handle.
func (s *Spout) Listen(
	ctx context.Context, handle func(ctx context.Context, completion Completion) error, options ...ReadOption,
) error {
	for completion, err := range s.Completions(ctx, options...) {
		if err != nil {
			return err
		}
		if err := handle(ctx, completion); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spout) warnUnreleased(ctx context.Context, size int) {
	s.task.session.logger.WarnContext(ctx,
		"acker: the loop over completions was left within a page, which is not released and comes again",
		"spout_task", s.task.name, "completions", size)
}
