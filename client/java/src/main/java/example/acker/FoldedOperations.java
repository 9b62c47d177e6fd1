package example.acker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;

/**
 * Operations in the order in which the program gave them, with the acks of one root folded.
 *
 * <p>Only acks of distinct edges fold: the same edge acked twice stays two operations. An ack that
 * names its children, as those of traced roots and of dropped tuples do, does not fold. It closes
 * its root's fold, so later acks stay behind it.
 */
final class FoldedOperations {
  private final List<Object> records = new ArrayList<>(); // operations as they are, and folds
  private final Map<Long, Fold> folds = new HashMap<>();
  private final Set<Long> roots = new HashSet<>();

  /**
   * What a tuple acks.
   *
   * @param anchors its anchors
   * @param edges their edge sets; null if no children were made
   * @param component the bolt
   */
  record Acks(List<Anchor> anchors, List<EdgeSet> edges, String component) {}

  /**
   * How acks are written: folded with others of their root, or each with its edge.
   *
   * @param folds whether they fold
   * @param dropped whether their tuple was not processed: the acker counts them, so they do not
   *     fold
   */
  record Form(boolean folds, boolean dropped) {
    static final Form ALONE = new Form(false, false);
    static final Form DROPPED = new Form(false, true);
  }

  int size() {
    return records.size();
  }

  boolean holds(long root) {
    return roots.contains(root);
  }

  /** Returns the operations so far. */
  List<Operation> operations() {
    List<Operation> written = new ArrayList<>(records.size());
    for (Object each : records) {
      written.add(each instanceof Fold fold ? fold.operation() : (Operation) each);
    }
    return written;
  }

  /**
   * Adds the acks of one tuple; those of traced roots and of dropped tuples name their children.
   */
  void add(Acks given, Form form, LongPredicate isTraced) {
    for (int at = 0; at < given.anchors.size(); at++) {
      Anchor each = given.anchors.get(at);
      EdgeSet own =
          given.edges == null ? new EdgeSet(each, given.component, false) : given.edges.get(at);
      roots.add(each.root());
      boolean byName = form.dropped || isTraced.test(each.root());
      if (form.folds && !byName) {
        fold(each, own, given.component);
      } else {
        Operation ack = new Operation(Operation.Kind.ACK, each.root()).carrying(own, byName);
        ack.edge = each.edge();
        ack.component = given.component;
        ack.dropped = form.dropped;
        folds.remove(each.root());
        records.add(ack);
      }
    }
  }

  private void fold(Anchor of, EdgeSet own, String component) {
    Fold begun = folds.get(of.root());
    if (begun != null && begun.takes(of.edge(), own.outstanding())) {
      begun.add(of.edge(), own, component);
      return;
    }
    Fold made = new Fold(of, own, component);
    folds.put(of.root(), made);
    records.add(made);
  }

  /** The acks of one root, folded. */
  private static final class Fold {
    private final long root;
    private final long first;
    private long ackVal;
    private int outstanding;
    private String component; // null if it is not that of all
    private Set<Long> edges; // those folded in; null for the first alone

    Fold(Anchor of, EdgeSet own, String component) {
      this.root = of.root();
      this.first = of.edge();
      this.ackVal = own.ackVal();
      this.outstanding = own.outstanding();
      this.component = component;
    }

    /** Not an ack of an edge that it has, nor one by which its count would leave its 32 bits. */
    boolean takes(long edge, int more) {
      boolean isThere = edge == first || edges != null && edges.contains(edge);
      return !isThere && Math.abs((long) outstanding + more) <= Integer.MAX_VALUE;
    }

    void add(long edge, EdgeSet own, String of) {
      ackVal ^= own.ackVal();
      outstanding += own.outstanding();
      if (!of.equals(component)) {
        component = null;
      }
      if (edges == null) {
        edges = new HashSet<>();
      }
      edges.add(edge);
    }

    /** Writes it; it names its edge if it has but one, and its component if it is that of all. */
    Operation operation() {
      Operation ack = new Operation(Operation.Kind.ACK, root).counting(ackVal, outstanding);
      ack.edge = edges == null ? first : 0;
      ack.component = component;
      return ack;
    }
  }
}
