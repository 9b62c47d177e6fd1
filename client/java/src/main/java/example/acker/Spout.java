package example.acker;

import java.util.List;

/**
 * Emits roots under the name of one spout task, and reads their completions. {@link Acker#spout}
 * and {@link Acker#sharedSpout} make it.
 */
public final class Spout {
  private final SpoutTask task;
  private final Submitter submitter;

  Spout(SpoutTask task, Submitter submitter) {
    this.task = task;
    this.submitter = submitter;
  }

  /** Returns the spout task's name. */
  public String name() {
    return task.name;
  }

  /**
   * Emits a root: make one child for each consumer in the function, and send it; the init is sent
   * when the function has returned.
   *
   * <pre>{@code
   * spout.emit("42", root -> publish(body, root.headers("greet")));
   * }</pre>
   *
   * <p>The root is current while the function runs. Emit waits for a free place before that. If the
   * function throws, no init is sent, and that leaves emit.
   *
   * @param messageId the spout's own id of the message
   * @throws AckerException.Service for an init that stays refused (max_spout_pending, mailbox_full,
   *     store_full)
   */
  public <E extends Exception> void emit(String messageId, Work<? super Root, E> run) throws E {
    emit(messageId, EmitOptions.defaults(), run);
  }

  /** Likewise with options. */
  public <E extends Exception> void emit(
      String messageId, EmitOptions options, Work<? super Root, E> run) throws E {
    Checks.messageId(messageId);
    run(new Root(task.session.topology(), task.name, messageId, options), run);
  }

  /**
   * Runs a function as emit, with a root whose children have no anchors: nothing is sent for it.
   */
  public <E extends Exception> void emitUntracked(Work<? super Root, E> run) throws E {
    run(new Root(task.session.topology(), task.name, null, EmitOptions.defaults()), run);
  }

  private <E extends Exception> void run(Root root, Work<? super Root, E> run) throws E {
    submitter.flusher.throwFailures();
    if (!root.tracked()) {
      runCurrent(root, run);
      return;
    }
    task.admit();
    try {
      runCurrent(root, run);
      submitter.sendNow(List.of(root.initOperation(task.session::isTraced)));
    } finally {
      task.release();
    }
  }

  private static <E extends Exception> void runCurrent(Root root, Work<? super Root, E> run)
      throws E {
    Propagate.Scope scope = Propagate.use(root);
    try {
      run.run(root);
    } finally {
      scope.close();
      root.close();
    }
  }

  /**
   * Returns the completions, which are read by long polls while one iterates. Those of a page are
   * released when the loop asks for the one after the last of them: after its body has ended for
   * each.
   *
   * <p>The loop ends when its thread is interrupted, or as the options say. After a break, a return
   * or an exception all completions of the page come again.
   */
  public Iterable<Completion> completions(ReadOptions options) {
    return () -> new Completions(task, options);
  }

  /** Returns the completions, read on and on. */
  public Iterable<Completion> completions() {
    return completions(ReadOptions.defaults());
  }

  /**
   * Calls a function with each completion, which is released after that has returned. See {@link
   * Completion#byOutcome}. What the function throws ends it.
   */
  public <E extends Exception> void listen(ReadOptions options, Work<? super Completion, E> handle)
      throws E {
    for (Completion each : completions(options)) {
      handle.run(each);
    }
  }

  /** Calls a function with each completion, until the thread is interrupted. */
  public <E extends Exception> void listen(Work<? super Completion, E> handle) throws E {
    listen(ReadOptions.defaults(), handle);
  }
}
