package example.acker;

import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;

/**
 * One reader of a mailbox: while it is open it reads a page, lets all of it be handled, and
 * releases it.
 */
final class Completions implements Iterator<Completion> {
  /**
   * Lies between two polls when the first came back empty at once, as from an acker that shuts
   * down.
   */
  private static final long MIN_POLL_INTERVAL_NS = Duration.ofMillis(100).toNanos();

  private static final Set<String> LOST = Set.of("unknown_spout", "unknown_topology");

  private final SpoutTask task;
  private final Session session;
  private final ReadOptions options;
  private final long begunNs = System.nanoTime();
  private Completion.Page last = Completion.Page.EMPTY;
  private Iterator<Completion> left = List.<Completion>of().iterator();
  private boolean polled;
  private boolean isOver;

  Completions(SpoutTask task, ReadOptions options) {
    this.task = task;
    this.session = task.session;
    this.options = options;
  }

  /**
   * Returns whether there is a next one, for which it waits; first it releases those that were
   * handled.
   */
  @Override
  public boolean hasNext() {
    while (!left.hasNext() && !isOver) {
      Interrupts.masked(this::release);
      isOver = !isOpen();
      if (!isOver) {
        read();
      }
    }
    return left.hasNext();
  }

  @Override
  public Completion next() {
    if (!hasNext()) {
      throw new NoSuchElementException("reading of completions has ended");
    }
    return left.next();
  }

  private boolean isOpen() {
    boolean isStopped = options.stop().getAsBoolean() || Thread.currentThread().isInterrupted();
    return !isStopped && (!polled || leftNs() > 0);
  }

  private void read() {
    long polledAtNs = System.nanoTime();
    last = poll();
    polled = true;
    left = last.completions().iterator();
    long earlyNs = Math.min(MIN_POLL_INTERVAL_NS - Session.ageNs(polledAtNs), leftNs());
    if (last.completions().isEmpty() && earlyNs > 0 && !Thread.currentThread().isInterrupted()) {
      try {
        Interrupts.sleep(earlyNs, "reading waited for the next poll", false);
      } catch (AckerException.Canceled e) {
        // isOpen looks at the thread
      }
    }
  }

  private Completion.Page poll() {
    Duration own = Duration.ofNanos(Math.max(0, leftNs()));
    Duration wait = own.compareTo(options.pollTimeout()) < 0 ? own : options.pollTimeout();
    Completion.Page empty = new Completion.Page(List.of(), null);
    try {
      return Completion.Page.read(
          session.send(
              Request.readCompletions(
                  session.topology(), task.name, last.cursor(), options.pageSize(), wait)));
    } catch (AckerException.Canceled e) {
      return empty;
    } catch (AckerException.Service e) {
      if (!e.code().equals("unknown_spout")) {
        throw e;
      }
      task.forget(); // nothing was emitted yet, or the store has lost it
      return empty;
    }
  }

  /**
   * Releases the page, now that each of its completions was handled; also if the thread was
   * interrupted meanwhile.
   */
  private void release() {
    if (last.completions().isEmpty() || last.cursor() == null) {
      return;
    }
    try {
      session.send(Request.releaseCompletions(session.topology(), task.name, last.cursor()));
    } catch (AckerException.Service e) {
      if (!LOST.contains(e.code())) {
        throw e;
      } // else the store has lost what is released: nothing is left to do
    }
    last = new Completion.Page(List.of(), last.cursor());
  }

  /** Returns how long reading goes on. */
  private long leftNs() {
    return options.until() == null
        ? ReadOptions.MAX_POLL_TIMEOUT.toNanos()
        : options.until().toNanos() - Session.ageNs(begunNs);
  }
}
