package example.acker;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongPredicate;

/** What a bolt has received: open until it is acked or failed. {@link Acker} makes it. */
public final class Tuple implements Parent {
  private static final int MAX_REASON = 1024;
  private static final AtomicLong MADE = new AtomicLong();

  private final Submitter submitter;
  private final String topology;
  private final String component;
  private final List<Anchor> anchors;
  private final boolean repeatable;
  private final long number =
      MADE.incrementAndGet(); // the order in which the locks of several are taken
  private final ReentrantLock lock = new ReentrantLock();

  // all with the lock
  private String end; // how it was ended; null while it is open
  private List<EdgeSet> edges; // null until a child is made
  private String keysNeeded;

  Tuple(Submitter submitter, String component, List<Anchor> anchors, boolean repeatable) {
    this.submitter = submitter;
    this.topology = submitter.session.topology();
    this.component = component;
    this.anchors = anchors;
    this.repeatable = repeatable;
  }

  @Override
  public boolean tracked() {
    return !anchors.isEmpty();
  }

  /** Returns whether it has been acked or failed. */
  public boolean closed() {
    lock.lock();
    try {
      return end != null;
    } finally {
      lock.unlock();
    }
  }

  /** Returns the name of the bolt. */
  public String component() {
    return component;
  }

  /** Returns the anchors of its message. */
  public Anchors anchors() {
    return new Anchors(topology, anchors);
  }

  boolean repeatable() {
    return repeatable;
  }

  @Override
  public String toString() {
    return "tuple of "
        + component
        + " ("
        + (tracked() ? Anchors.listed(anchors) : "without anchors")
        + ")";
  }

  @Override
  public Anchors anchor(String key) {
    return join(List.of(this), key);
  }

  /**
   * Acks the tuple with all its children; it is sent after the linger.
   *
   * @throws AckerException.OperationsLost for earlier acks; then this call has done nothing else
   */
  public void ack() {
    submitter.ack(this);
  }

  /**
   * Fails every root of the tuple, now; of a root that ends when all of its edges have ended, the
   * edge alone.
   *
   * @param reason what the completion tells; null for none
   */
  public void fail(String reason) {
    submitter.fail(this, reason);
  }

  /** Gives every root of the tuple its message timeout again, now. */
  public void resetTimeout() {
    submitter.resetTimeout(this);
  }

  /** Refuses children without a key from now on. */
  void requireKeys(String reason) {
    lock.lock();
    try {
      keysNeeded = reason;
    } finally {
      lock.unlock();
    }
  }

  /** Returns its edge sets as parents of a new child. It is called with the lock. */
  private List<EdgeSet> parents(String key) {
    checkOpen("anchored to");
    if (key == null && tracked() && keysNeeded != null) {
      throw new AckerException.Usage(this + " has a child without a key; " + keysNeeded);
    }
    return edgeSets();
  }

  /**
   * Returns those of its anchors, which are made when they are needed. It is called with the lock.
   */
  private List<EdgeSet> edgeSets() {
    if (edges == null) {
      edges = new ArrayList<>(anchors.size());
      for (Anchor each : anchors) {
        edges.add(new EdgeSet(each, component, repeatable));
      }
    }
    return edges;
  }

  /**
   * Closes the tuple, and returns what it acks. Closed first: an ack may be lost, and is never sent
   * twice.
   */
  FoldedOperations.Acks takeAcks() {
    lock.lock();
    try {
      checkOpen("acked");
      end = "acked";
      return new FoldedOperations.Acks(anchors, edges, component);
    } finally {
      lock.unlock();
    }
  }

  /**
   * Closes the tuple, and returns one fail for each edge, with the reason cut to what the contract
   * takes.
   *
   * <p>A fail carries the children so far, as an ack does: a root that ends when all have ended
   * waits for them. It names them if the root is traced.
   */
  List<Operation> failOperations(String reason, LongPredicate isTraced) {
    lock.lock();
    try {
      checkOpen("failed");
      end = "failed";
      List<Operation> operations = new ArrayList<>(anchors.size());
      for (EdgeSet each : edgeSets()) {
        long root = each.of().root();
        Operation fail =
            new Operation(Operation.Kind.FAIL, root).carrying(each, isTraced.test(root));
        fail.edge = each.of().edge();
        fail.reason = cut(reason);
        fail.component = component;
        operations.add(fail);
      }
      return operations;
    } finally {
      lock.unlock();
    }
  }

  /** Returns one reset of the timeout for each root; the tuple stays open. */
  List<Operation> resetOperations() {
    lock.lock();
    try {
      checkOpen("given more time");
    } finally {
      lock.unlock();
    }
    List<Operation> operations = new ArrayList<>();
    for (long root : EdgeSet.rootsOf(anchors)) {
      Operation reset = new Operation(Operation.Kind.RESET_TIMEOUT, root);
      reset.component = component;
      operations.add(reset);
    }
    return operations;
  }

  private void checkOpen(String use) {
    if (end != null) {
      throw new AckerException.TupleClosed(
          this + " was " + end + " and cannot be " + use + " any more");
    }
  }

  /** Anchors one child to all these tuples, an edge in each tree. */
  static Anchors join(List<Tuple> tuples, String key) {
    if (key != null) {
      Checks.text("the child's key", key);
    }
    String topology = tuples.get(0).topology;
    // each once, in an order that all threads keep
    List<Tuple> locked =
        tuples.stream().distinct().sorted(Comparator.comparingLong(each -> each.number)).toList();
    locked.forEach(each -> each.lock.lock());
    try {
      List<EdgeSet> parents = new ArrayList<>();
      for (Tuple each : tuples) {
        if (!each.topology.equals(topology)) {
          throw new AckerException.Usage("a child is anchored to tuples of the same topology");
        }
        parents.addAll(each.parents(key));
      }
      return new Anchors(topology, EdgeSet.addChild(parents, key));
    } finally {
      locked.forEach(each -> each.lock.unlock());
    }
  }

  /**
   * Returns a reason as the contract takes it, which counts code points, and has no half of a
   * surrogate pair.
   */
  private static String cut(String reason) {
    if (reason == null) {
      return null;
    }
    StringBuilder words = new StringBuilder();
    reason
        .codePoints()
        .limit(MAX_REASON)
        .map(
            point ->
                point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE
                    ? '\ufffd'
                    : point)
        .forEach(words::appendCodePoint);
    return words.toString();
  }
}
