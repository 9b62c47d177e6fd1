package example.acker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The buffered acks of one client, and the one thread that sends them.
 *
 * <p>Group commit: while a request is in flight, all acks and flushes that come gather for the next
 * one. A request stays here until it is answered or given up; what the acker refuses waits behind
 * all else.
 */
final class Flusher {
  /** A thread that has nothing to send for so long ends; the next ack starts another. */
  private static final long IDLE_NS = Duration.ofSeconds(5).toNanos();

  private final Session session;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition wake = lock.newCondition(); // of the thread
  private final Condition space = lock.newCondition();
  private final Condition settled = lock.newCondition();

  // all with the lock
  private int lost;
  private FoldedOperations folded = new FoldedOperations();
  private List<Frozen> frozen = new ArrayList<>();
  private List<Waiter> waiters = new ArrayList<>(); // of what is not frozen yet
  private List<Lost> failures = new ArrayList<>();
  private boolean closed; // nothing is added any more
  private boolean running;
  private boolean urgent;
  private boolean lingers;
  private long lingersUntilNs;

  Flusher(Session session) {
    this.session = session;
  }

  /**
   * Waits until all that was buffered or in flight at its call is settled; or, with roots, until
   * each request that holds one of them was answered once.
   */
  private static final class Waiter {
    final Set<Long> roots; // null for a flush, which throws what failed
    final List<Lost> failures = new ArrayList<>();
    int pending;
    boolean abandoned; // its thread was interrupted: what fails is for the next call

    Waiter(Set<Long> roots) {
      this.roots = roots;
    }

    boolean isFlush() {
      return roots == null;
    }

    boolean isFor(Frozen each) {
      return isFlush() || !each.isRefused && roots.stream().anyMatch(each.request::holds);
    }

    boolean isFor(FoldedOperations folded) {
      return isFlush() || roots.stream().anyMatch(folded::holds);
    }
  }

  /** Operations that were given up, and why. */
  private record Lost(int count, AckerException error) {}

  /** A request that does not change any more. */
  private static final class Frozen {
    final Request request;
    final Backoff pauses; // after each further refusal
    final List<Waiter> waiters = new ArrayList<>();
    boolean isRefused; // the acker has refused it: it is due later
    long dueNs;
    boolean isSent; // it, or the one that was refused before it
    long sinceNs; // when it was first sent

    Frozen(Request request, Backoff pauses) {
      this.request = request;
      this.pauses = pauses;
    }
  }

  /** How many operations are in flight, and how many were lost. */
  record Counts(int inFlight, int lost) {}

  Counts counts() {
    lock.lock();
    try {
      return new Counts(inFlight(), lost);
    } finally {
      lock.unlock();
    }
  }

  /** Returns how many calls wait for the first request in flight; for tests. */
  int waiting() {
    lock.lock();
    try {
      return frozen.isEmpty() ? 0 : frozen.get(0).waiters.size();
    } finally {
      lock.unlock();
    }
  }

  /** Returns how many acks wait for space; for tests. */
  int waitingForSpace() {
    lock.lock();
    try {
      return lock.getWaitQueueLength(space);
    } finally {
      lock.unlock();
    }
  }

  private int inFlight() {
    int count = folded.size();
    for (Frozen each : frozen) {
      count += each.request.operations().size();
    }
    return count;
  }

  /**
   * Adds the acks of a tuple, which are sent after the linger or with a full batch, once there is
   * space for them.
   *
   * <p>The tuple is closed only when nothing can go wrong any more before its acks are in flight.
   */
  void add(Tuple tuple, FoldedOperations.Form form) {
    lock.lock();
    try {
      waitForSpace();
      folded.add(tuple.takeAcks(), form, session::isTraced);
      if (folded.size() >= session.settings.batchSize()) {
        sendSoon();
      } else if (!lingers) {
        lingers = true;
        lingersUntilNs = System.nanoTime() + session.settings.linger().toNanos();
        start();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Waits, without the lock, until something was taken out. */
  private void waitForSpace() {
    while (closed || inFlight() >= session.settings.bufferSize()) {
      if (closed) {
        throw new AckerException.ClientClosed("the client was closed before the ack was sent");
      }
      if (session.settings.onFull() == OnFull.THROW) {
        throw new AckerException.BufferFull(
            inFlight() + " operations are in flight, and the buffer size allows no more");
      }
      sendSoon();
      try {
        space.await();
      } catch (InterruptedException e) {
        throw Interrupts.canceled("the ack waited for space", false);
      }
    }
  }

  /**
   * Lets nothing be added any more, and wakes what waits for space: what is there is all that a
   * flush has to send.
   */
  void close() {
    lock.lock();
    try {
      closed = true;
      space.signalAll();
    } finally {
      lock.unlock();
    }
  }

  boolean isClosed() {
    lock.lock();
    try {
      return closed;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Sends first what is in flight now for the roots of these operations: the order of one root is
   * kept.
   *
   * <p>It does not wait for what the acker has refused: that may be accepted only after these
   * operations.
   */
  void flushConflicting(List<Operation> operations) {
    Set<Long> roots = new HashSet<>();
    operations.forEach(each -> roots.add(each.root));
    waitFor(new Waiter(roots));
  }

  /**
   * Sends all that is buffered now, and what is refused again until it is accepted. Throws
   * OperationsLost.
   */
  void flush() {
    Waiter waiter = new Waiter(null);
    waitFor(waiter);
    throwFailures(waiter.failures);
  }

  /** Throws OperationsLost for what was given up since the last call. */
  void throwFailures() {
    throwFailures(List.of());
  }

  private void throwFailures(List<Lost> waited) {
    List<Lost> found;
    lock.lock();
    try {
      if (failures.isEmpty() && waited.isEmpty()) {
        return;
      }
      found = failures;
      found.addAll(waited);
      failures = new ArrayList<>();
    } finally {
      lock.unlock();
    }
    int count = found.stream().mapToInt(Lost::count).sum();
    AckerException cause = found.get(found.size() - 1).error;
    throw new AckerException.OperationsLost(
        count + " operations sent in the background could not be delivered: " + cause.getMessage(),
        count,
        cause);
  }

  /**
   * Waits until all is settled. If the thread is interrupted first, the next call throws what
   * fails.
   */
  private void waitFor(Waiter waiter) {
    lock.lock();
    try {
      join(waiter);
      while (waiter.pending > 0) {
        settled.await();
      }
    } catch (InterruptedException e) {
      if (waiter.pending > 0) {
        waiter.abandoned = true;
        failures.addAll(waiter.failures);
        throw Interrupts.canceled("the flush waited for answers", false);
      }
      Thread.currentThread().interrupt();
    } finally {
      lock.unlock();
    }
  }

  /** Lets a waiter wait for all that is here, or for what holds its roots. */
  private void join(Waiter waiter) {
    for (Frozen each : frozen) {
      if (waiter.isFor(each)) {
        each.waiters.add(waiter);
        waiter.pending++;
      }
    }
    if (folded.size() > 0 && waiter.isFor(folded)) {
      waiters.add(waiter);
      waiter.pending++;
    }
    if (waiter.pending > 0) {
      sendSoon();
    }
  }

  /** Lets what is buffered be sent as soon as the request in flight is answered. */
  private void sendSoon() {
    urgent = true;
    start();
  }

  private void start() {
    wake.signal();
    if (!running) {
      Thread thread = new Thread(this::run, "acker-flusher");
      thread.setDaemon(true);
      thread.start();
      running = true; // where no thread can be started, the next call tries it again
    }
  }

  /** Sends until nothing is left: one request after the other. */
  private void run() {
    while (true) {
      Frozen next;
      lock.lock();
      try {
        next = next();
        if (next == null) {
          running = false;
          return;
        }
      } finally {
        lock.unlock();
      }
      sendOne(next);
    }
  }

  /**
   * Freezes what is to be sent, and returns the first request that is due, once there is one; null
   * after idleness.
   */
  private Frozen next() {
    long idleSinceNs = System.nanoTime();
    while (true) {
      long nowNs = System.nanoTime();
      if (lingers && lingersUntilNs - nowNs <= 0) {
        urgent = true;
      }
      freeze();
      long pauseNs = lingers ? lingersUntilNs - nowNs : Long.MAX_VALUE;
      for (Frozen each : frozen) {
        if (!each.isRefused || each.dueNs - nowNs <= 0) {
          return each;
        }
        pauseNs = Math.min(pauseNs, each.dueNs - nowNs);
      }
      if (frozen.isEmpty() && !lingers) {
        pauseNs = IDLE_NS - (nowNs - idleSinceNs);
        if (closed || pauseNs <= 0) {
          return null;
        }
      }
      try {
        wake.awaitNanos(pauseNs);
      } catch (InterruptedException e) {
        // nobody has a reason to interrupt this thread: it goes on, since acks may be buffered
      }
    }
  }

  private void freeze() {
    boolean isUrgent = urgent;
    urgent = false;
    if (!isUrgent || folded.size() == 0) {
      return;
    }
    lingers = false;
    List<Frozen> added = new ArrayList<>();
    for (Request each : Request.write(session.topology(), folded.operations())) {
      added.add(new Frozen(each, new Backoff()));
    }
    frozen.addAll(added);
    for (Waiter waiter : waiters) {
      waiter.pending--;
      joinAll(waiter, added);
    }
    folded = new FoldedOperations();
    waiters = new ArrayList<>();
  }

  private static void joinAll(Waiter waiter, List<Frozen> added) {
    for (Frozen each : added) {
      if (waiter.isFor(each)) {
        each.waiters.add(waiter);
        waiter.pending++;
      }
    }
  }

  private void sendOne(Frozen sent) {
    try {
      Answer given;
      if (sent.isSent) {
        given = session.sendAgain(sent.request, sent.sinceNs);
      } else {
        sent.isSent = true;
        sent.sinceNs = System.nanoTime();
        given = session.send(sent.request);
      }
      settle(sent, given.results(sent.request), given.askedWait());
      session.refreshTopology();
    } catch (AckerException e) {
      giveUp(sent, sent.request.operations().size(), e);
    } catch (RuntimeException | Error e) { // such as a lack of memory: the thread goes on
      giveUp(
          sent, sent.request.operations().size(), new AckerException.InvalidResponse(e.toString()));
    }
  }

  /**
   * Removes a request that was answered, and queues again what it refused: nothing of that was
   * applied.
   */
  private void settle(Frozen sent, List<Answer.Result> results, Duration asked) {
    List<Operation> refused = new ArrayList<>();
    String state = "";
    for (Answer.Result each : results) {
      if (States.isNotAdmitted(each.state())) {
        refused.add(each.operation());
        state = each.state();
      }
    }
    if (refused.isEmpty()) {
      takeOut(sent, List.of());
      return;
    }
    long dueNs = System.nanoTime() + Math.max(sent.pauses.nextNs(), asked.toNanos());
    if (dueNs - sent.sinceNs > session.retryLimitNs()) {
      giveUp(
          sent,
          refused.size(),
          Problems.error(state, "they were refused until their time was over"));
      return;
    }
    List<Frozen> again = new ArrayList<>();
    for (Request each :
        Session.rewriteRefused(session.topology(), List.of(sent.request), refused)) {
      Frozen next = new Frozen(each, sent.pauses);
      next.isRefused = true;
      next.dueNs = dueNs;
      next.isSent = true;
      next.sinceNs = sent.sinceNs;
      again.add(next);
    }
    takeOut(sent, again);
  }

  /**
   * Removes a request that cannot be delivered. The flushes that wait for it throw the error, or
   * else the next call.
   */
  private void giveUp(Frozen sent, int operations, AckerException error) {
    lock.lock();
    try {
      if (!frozen.contains(sent)) {
        return; // it was answered; what came after that has failed
      }
      Lost found = new Lost(operations, error);
      lost += operations;
      boolean isTaken = false;
      for (Waiter each : sent.waiters) {
        if (each.isFlush() && !each.abandoned) {
          each.failures.add(found);
          isTaken = true;
        }
      }
      if (!isTaken) {
        failures.add(found);
      }
    } finally {
      lock.unlock();
    }
    takeOut(sent, List.of());
  }

  /**
   * Replaces a request by others, behind all the rest, and wakes who waits. Flushes go on to wait
   * for the others.
   */
  private void takeOut(Frozen sent, List<Frozen> others) {
    lock.lock();
    try {
      List<Frozen> left = new ArrayList<>(frozen);
      left.remove(sent);
      left.addAll(others);
      frozen = left;
      for (Waiter waiter : sent.waiters) {
        waiter.pending--;
        joinAll(waiter, others);
      }
      settled.signalAll();
      space.signalAll();
    } finally {
      lock.unlock();
    }
  }
}
