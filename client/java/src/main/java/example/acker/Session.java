package example.acker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/** Sends requests to one topology, each again until it is answered: the one retry loop. */
final class Session {
  /** After so long the topology is read again, since somebody may have changed it. */
  private static final long INFO_MAX_AGE_NS = Duration.ofMinutes(1).toNanos();

  private static final long MS = 1_000_000;

  final Settings settings;
  private final Transport transport;
  private final SharedCall reading = new SharedCall();

  private volatile TopologyInfo info; // null until it is first needed
  private long infoReadAtNs;
  private boolean everReached;
  private boolean failing;

  Session(Settings settings, Transport transport) {
    this.settings = settings;
    this.transport = transport;
  }

  String topology() {
    return settings.topology();
  }

  /**
   * Sends a request until it is answered. Throws the Service or InvalidResponse that ends it,
   * RetriesExhausted when its time is over, Canceled when the thread is interrupted, ClientClosed.
   */
  Answer send(Request asked) {
    return attempts(asked, System.nanoTime());
  }

  /** Sends a request again that was first sent at a time of {@link System#nanoTime}. */
  Answer sendAgain(Request asked, long sinceNs) {
    if (ageNs(sinceNs) > retryLimitNs()) {
      throw exhausted(asked, Answer.Failure.UNKNOWN);
    }
    return attempts(asked, sinceNs);
  }

  static long ageNs(long sinceNs) {
    return System.nanoTime() - sinceNs;
  }

  private Answer attempts(Request asked, long sinceNs) {
    Backoff pauses = new Backoff();
    while (true) {
      Answer given = transport.send(asked, settings.requestTimeout().plus(asked.pollTime()));
      Answer.Failure failed = given.failureOf(asked);
      noteAnswer(given, failed);
      if (failed == null) {
        return given;
      }
      if (!failed.retryable()) {
        throw (AckerException)
            failed.error(); // what came, and may not be asked for again, is an answer of the acker
      }
      backOff(asked, failed, sinceNs, pauses.nextNs());
    }
  }

  /** Notes whether a server was reached, and where an outage ends. */
  private synchronized void noteAnswer(Answer given, Answer.Failure failed) {
    everReached = everReached || given.refusedBy() == null;
    if (failed == null || !failed.retryable()) {
      failing = false;
    }
  }

  /**
   * Waits before the next attempt. None is made too late, since the acker might have forgotten the
   * key.
   */
  private void backOff(Request asked, Answer.Failure failed, long sinceNs, long delayNs) {
    long leftNs = limitNs() - ageNs(sinceNs);
    long ownNs = isStarting() && leftNs > 0 ? Math.max(0, Math.min(delayNs, leftNs - MS)) : delayNs;
    long pauseNs = Math.max(ownNs, failed.pause().toNanos());
    checkDeadline(asked, failed, ageNs(sinceNs) + pauseNs);
    warnOnce(asked, failed);
    Interrupts.sleep(pauseNs, asked + " waited to be sent again", asked.key() != null);
    if (asked.key() != null && info == null) {
      learnWindow(asked, sinceNs);
      checkDeadline(asked, failed, ageNs(sinceNs));
    }
  }

  /**
   * Reads the topology: for how long the acker remembers the key decides whether it may be sent
   * again.
   */
  private void learnWindow(Request asked, long sinceNs) {
    try {
      learn(attempts(Request.readTopology(topology()), sinceNs));
    } catch (AckerException.Canceled e) {
      throw e;
    } catch (AckerException e) {
      throw isStarting() ? e : exhausted(asked, new Answer.Failure(e, false, Duration.ZERO, null));
    }
  }

  /** Returns what the client follows of the topology; it is read the first time. */
  TopologyInfo topologyInfo() {
    if (info == null) {
      reading.run(
          () -> {
            if (info == null) {
              learn(send(Request.readTopology(topology())));
            }
          });
    }
    return info;
  }

  /** Reads the topology again if that was long ago; without an answer, what is known stays. */
  void refreshTopology() {
    synchronized (this) {
      if (info == null || ageNs(infoReadAtNs) < INFO_MAX_AGE_NS) {
        return;
      }
      infoReadAtNs = System.nanoTime();
    }
    Request asked = Request.readTopology(topology());
    Answer given = transport.send(asked, settings.requestTimeout());
    if (given.failureOf(asked) == null) {
      try {
        learn(given);
      } catch (AckerException.InvalidResponse e) {
        settings.logger().log(System.Logger.Level.WARNING, "acker: " + e.getMessage());
      }
    }
  }

  private synchronized void learn(Answer given) {
    info = TopologyInfo.read(given);
    infoReadAtNs = System.nanoTime();
  }

  /** Returns whether operations name the edges of a root, as far as the topology is known. */
  boolean isTraced(long root) {
    TopologyInfo known = info;
    return Tracing.isTraced(root, known == null ? 0 : known.trace());
  }

  /**
   * Returns the time after which a request is not sent again: half of that for which its key is
   * remembered, at most.
   */
  long retryLimitNs() {
    TopologyInfo known = info;
    long own = settings.retryTimeout().toNanos();
    return known == null ? own : Math.min(own, known.idempotencyWindow().toNanos() / 2);
  }

  /**
   * Returns whether no server was ever reached, so that nothing can have been applied, and that is
   * bounded.
   */
  private synchronized boolean isStarting() {
    return !everReached && settings.startupTimeout() != null;
  }

  private long limitNs() {
    return isStarting()
        ? Math.min(retryLimitNs(), settings.startupTimeout().toNanos())
        : retryLimitNs();
  }

  private void checkDeadline(Request asked, Answer.Failure failed, long ageNs) {
    if (ageNs <= limitNs()) {
      return;
    }
    throw isStarting() ? nobodyListens(failed) : exhausted(asked, failed);
  }

  /** Logs the first failure of an outage; the next answer ends it. */
  private void warnOnce(Request asked, Answer.Failure failed) {
    synchronized (this) {
      if (failing) {
        return;
      }
      failing = true;
    }
    settings
        .logger()
        .log(
            System.Logger.Level.WARNING,
            "acker: {0} failed; it is sent again for {1} ms: {2}",
            asked,
            limitNs() / MS,
            failed.error());
  }

  private static AckerException exhausted(Request asked, Answer.Failure failed) {
    String message =
        "the result of " + asked + " is not known, and it is too late to send it again";
    return new AckerException.RetriesExhausted(
        message + words(failed), asked.key() != null, failed.error());
  }

  private static String words(Answer.Failure failed) {
    if (failed.error() == null) {
      return "";
    }
    String where =
        failed.refusedBy() == null ? "" : "no acker answers at " + failed.refusedBy() + ": ";
    return " (" + where + text(failed.error()) + ")";
  }

  /** Returns the words of an error; those of java.net.http may have none. */
  private static String text(Exception error) {
    return error.getMessage() == null ? error.toString() : error.getMessage();
  }

  private static AckerException nobodyListens(Answer.Failure failed) {
    String message =
        "no acker answers at "
            + failed.refusedBy()
            + ": "
            + text(failed.error())
            + ". Start one (`acker serve`), or set the URL; startupTimeout says how long a client waits for the first"
            + " answer";
    return new AckerException.RetriesExhausted(message, false, failed.error());
  }

  /**
   * Sends operations until they are admitted or their time is over: those that were refused again
   * in new requests. The last attempt is made when it is over, and none where the acker asks to
   * wait for longer. Throws the error of the first that stays refused.
   */
  void deliver(List<Operation> operations) {
    long sinceNs = System.nanoTime();
    Backoff pauses = new Backoff();
    Map<Operation, String> states = new IdentityHashMap<>();
    List<Request> written = Request.write(topology(), operations);
    while (true) {
      long askedNs = sendAll(written, states);
      long ageNs = ageNs(sinceNs);
      List<Operation> left = retryable(operations, states, ageNs + Math.max(askedNs, MS));
      if (left.isEmpty()) {
        throwFirstRefused(operations, states);
        return;
      }
      long ownNs = Math.min(pauses.nextNs(), leastLimitNs(left) - ageNs);
      Interrupts.sleep(
          Math.max(ownNs, askedNs), "an operation that was refused waited to be sent again", false);
      written = rewriteRefused(topology(), written, left);
    }
  }

  /**
   * Sends requests, notes the state of each operation, and returns for how long the acker asks to
   * wait.
   */
  private long sendAll(List<Request> requests, Map<Operation, String> states) {
    long askedNs = 0;
    for (Request each : requests) {
      Answer given = send(each);
      for (Answer.Result found : given.results(each)) {
        states.put(found.operation(), found.state());
      }
      askedNs = Math.max(askedNs, given.askedWait().toNanos());
    }
    return askedNs;
  }

  /** Returns the operations that were not admitted, and may be sent again at this age. */
  private List<Operation> retryable(
      List<Operation> operations, Map<Operation, String> states, long ageNs) {
    List<Operation> left = new ArrayList<>();
    for (Operation each : operations) {
      if (States.isNotAdmitted(states.get(each)) && ageNs <= limitOf(each).toNanos()) {
        left.add(each);
      }
    }
    return left;
  }

  private long leastLimitNs(List<Operation> operations) {
    return operations.stream().mapToLong(each -> limitOf(each).toNanos()).min().orElse(0);
  }

  private Duration limitOf(Operation operation) {
    if (operation.kind != Operation.Kind.INIT) {
      return settings.retryTimeout();
    }
    Duration own = operation.options.messageTimeout();
    return own == null || own.compareTo(settings.emitTimeout()) > 0 ? settings.emitTimeout() : own;
  }

  /**
   * Writes operations again that were refused.
   *
   * <p>An ack or a fail that was alone in its request is sent with the same key: the acker does not
   * remember what it refused so. All others need a new key: under the old one it would repeat its
   * refusal.
   */
  static List<Request> rewriteRefused(
      String topology, List<Request> refused, List<Operation> operations) {
    boolean wasAlone = refused.size() == 1 && refused.get(0).operations().size() == 1;
    if (wasAlone && operations.get(0).kind != Operation.Kind.INIT) {
      return refused;
    }
    return Request.write(topology, operations);
  }

  private static void throwFirstRefused(List<Operation> operations, Map<Operation, String> states) {
    for (Operation each : operations) {
      String state = states.get(each);
      if (States.isRefused(state)) {
        String of = each.messageId == null ? "" : " of message id " + Checks.shown(each.messageId);
        throw Problems.error(
            state,
            "the "
                + each.kind.text
                + of
                + " of root "
                + Ids.text(each.root)
                + " was refused until its time was over");
      }
    }
  }

  /** Refuses further requests. */
  void close() {
    transport.close();
  }
}
