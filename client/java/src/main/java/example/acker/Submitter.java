package example.acker;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Sends operations of one topology; acks are buffered. */
final class Submitter {
  private static final String NEEDS_KEYS =
      "with OnError.LEAVE_OPEN a redelivery would give it another edge, and the topology has no dedupe window: give it a"
          + " key, or receive it as repeatable";

  final Session session;
  final Flusher flusher;
  final AtomicInteger dropped = new AtomicInteger();
  final AtomicInteger untracked = new AtomicInteger();

  Submitter(Session session) {
    this.session = session;
    this.flusher = new Flusher(session);
  }

  /** Acks a tuple. Nearly every ack is folded into the buffer, and nothing is left to do. */
  void ack(Tuple tuple) {
    flusher.throwFailures();
    complete(tuple, FoldedOperations.Form.ALONE);
  }

  /** Acks a tuple; whether its acks fold is the topology's. */
  private void complete(Tuple tuple, FoldedOperations.Form form) {
    if (!tuple.tracked()) {
      tuple.takeAcks();
    } else if (session.settings.linger().isZero() || flusher.isClosed()) {
      Interrupts.refuse("the ack was to be sent");
      FoldedOperations own = new FoldedOperations();
      own.add(tuple.takeAcks(), form, session::isTraced);
      session.deliver(own.operations());
    } else {
      boolean folds = !session.topologyInfo().dedupes();
      flusher.add(tuple, new FoldedOperations.Form(folds, form.dropped()));
    }
  }

  /** Fails every root of a tuple, or its edge alone where the root ends when all have ended. */
  void fail(Tuple tuple, String reason) {
    flusher.throwFailures();
    Interrupts.refuse("the fail was to be sent");
    sendNow(tuple.failOperations(reason, session::isTraced));
  }

  /** Gives every root of a tuple its message timeout again. */
  void resetTimeout(Tuple tuple) {
    sendNow(tuple.resetOperations());
  }

  /** Sends operations after what is in flight for their roots. */
  void sendNow(List<Operation> operations) {
    if (!operations.isEmpty()) {
      flusher.flushConflicting(operations);
      session.deliver(operations);
    }
  }

  /**
   * Runs a bolt's function with its tuple current, then acks it; or ends it as what the function
   * throws says.
   */
  <E extends Exception> void process(Tuple tuple, Work<? super Tuple, E> run, OnError onError)
      throws E {
    begin(tuple, onError);
    end(tuple, run, onError);
  }

  /** Does what {@link #process} does after the run was prepared. */
  <E extends Exception> void end(Tuple tuple, Work<? super Tuple, E> run, OnError onError)
      throws E {
    Propagate.Scope scope = Propagate.use(tuple);
    try {
      run.run(tuple);
    } catch (TupleSignal signal) {
      scope.close();
      Interrupts.masked(() -> obey(signal, tuple));
      return;
    } catch (Throwable thrown) {
      scope.close();
      failAfter(thrown, tuple, onError);
      throw thrown;
    } finally {
      scope.close();
    }
    Interrupts.masked(() -> completeUnlessClosed(tuple, FoldedOperations.Form.ALONE));
  }

  /**
   * Prepares the run of a function.
   *
   * <p>With LEAVE_OPEN a redelivered message gives a child without a key another edge. Without a
   * dedupe window such a child is refused, so the topology is read first.
   */
  void begin(Tuple tuple, OnError onError) {
    flusher.throwFailures();
    boolean asks = onError == OnError.LEAVE_OPEN && tuple.tracked() && !tuple.repeatable();
    if (asks && !session.topologyInfo().dedupes()) {
      tuple.requireKeys(NEEDS_KEYS);
    }
  }

  /** Ends a tuple as its function has said. */
  private void obey(TupleSignal signal, Tuple tuple) {
    if (signal instanceof DropTuple) {
      dropped.incrementAndGet();
      noteDrop(tuple, signal.reason());
      completeUnlessClosed(tuple, FoldedOperations.Form.DROPPED);
    } else if (signal instanceof FailTuple && !tuple.closed()) {
      sendNow(tuple.failOperations(signal.reason(), session::isTraced));
    }
  }

  /**
   * Fails a tuple whose function has thrown; what goes wrong with that is told with what it has
   * thrown.
   *
   * <p>Nothing is sent if the thread was interrupted: the function was stopped, and its message
   * comes again.
   */
  private void failAfter(Throwable thrown, Tuple tuple, OnError onError) {
    boolean wasStopped =
        thrown instanceof InterruptedException || Thread.currentThread().isInterrupted();
    if (wasStopped || onError == OnError.LEAVE_OPEN || tuple.closed()) {
      return;
    }
    String words = thrown.getMessage() == null ? thrown.toString() : thrown.getMessage();
    try {
      sendNow(tuple.failOperations(words, session::isTraced));
    } catch (RuntimeException e) {
      thrown.addSuppressed(e);
    }
  }

  private void noteDrop(Tuple tuple, String reason) {
    if (session.settings.onDrop() != null) {
      session.settings.onDrop().accept(tuple, reason);
    } else {
      session
          .settings
          .logger()
          .log(System.Logger.Level.WARNING, "acker: {0} was dropped: {1}", tuple, reason);
    }
  }

  private void completeUnlessClosed(Tuple tuple, FoldedOperations.Form form) {
    if (!tuple.closed()) {
      complete(tuple, form);
    }
  }
}
