package example.acker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * An anchor and its children so far: as an operation reports them.
 *
 * <p>Its ack val is its own edge id XOR those of all children, outstanding the children less the
 * edge itself; the spout's edge, which is zero, stands for no edge. If numbered, children without a
 * key get their number as key.
 */
final class EdgeSet {
  private static final long[] NONE = {};

  private final Anchor of;
  private final String component;
  private final boolean numbered;
  private long ackVal;
  private int outstanding;
  private long[] children = NONE;
  private int count;
  private int unkeyed;
  private Set<String> keys = Set.of();

  EdgeSet(Anchor of, String component, boolean numbered) {
    this.of = of;
    this.component = component;
    this.numbered = numbered;
    this.ackVal = of.edge();
    this.outstanding = of.edge() == Ids.SPOUT_EDGE ? 0 : -1;
  }

  Anchor of() {
    return of;
  }

  long ackVal() {
    return ackVal;
  }

  int outstanding() {
    return outstanding;
  }

  long[] children() {
    return Arrays.copyOf(children, count);
  }

  /**
   * What the edge of a child is derived from.
   *
   * @param text null for a random edge
   * @param given whether the program gave it
   */
  private record Key(String text, boolean given) {}

  /** Returns a child's key: its own, else its number if children are numbered. */
  private Key choose(String key, int ahead) {
    if (key != null) {
      return new Key(key, true);
    }
    return new Key(numbered ? "#" + (unkeyed + ahead) : null, false);
  }

  /**
   * Chooses a child's edge id: derived from its key, so that a re-run gives the same; random
   * without one.
   */
  private long edgeOf(Key key) {
    return key.text == null ? Ids.draw() : Ids.derive(of.root(), of.edge(), component, key.text);
  }

  private void add(long edge, Key key) {
    ackVal ^= edge;
    outstanding++;
    if (count == children.length) {
      children = Arrays.copyOf(children, Math.max(2, 2 * count));
    }
    children[count++] = edge;
    if (!key.given) {
      unkeyed++;
    }
    if (key.text != null) {
      if (keys.isEmpty()) {
        keys = new HashSet<>(4);
      }
      keys.add(key.text);
    }
  }

  /**
   * Anchors one child to all these parents. The same parent twice gives two edges. After a
   * DuplicateKey or TooManyAnchors no parent has a new child.
   */
  static List<Anchor> addChild(List<EdgeSet> parents, String key) {
    List<Anchor> anchors = new ArrayList<>(parents.size());
    List<Key> keys = new ArrayList<>(parents.size());
    for (int at = 0; at < parents.size(); at++) {
      EdgeSet parent = parents.get(at);
      int ahead = countOf(parents.subList(0, at), parent);
      Key chosen = parent.choose(key, ahead);
      parent.refuseDuplicate(chosen, ahead);
      keys.add(chosen);
      anchors.add(new Anchor(parent.of.root(), parent.edgeOf(chosen)));
    }
    Anchors.checkCount(anchors.size());
    for (int at = 0; at < parents.size(); at++) {
      parents.get(at).add(anchors.get(at).edge(), keys.get(at));
    }
    return anchors;
  }

  private static int countOf(List<EdgeSet> parents, EdgeSet wanted) {
    int count = 0;
    for (EdgeSet each : parents) {
      count += each == wanted ? 1 : 0;
    }
    return count;
  }

  /**
   * A derived id depends on nothing but parent, component and key; twice the same would cancel in
   * the XOR.
   */
  private void refuseDuplicate(Key key, int ahead) {
    if (key.text == null) {
      return;
    }
    if (keys.contains(key.text)) {
      throw new AckerException.DuplicateKey(
          "a child with the key "
              + Checks.shown(key.text)
              + " exists already; each needs a key of its own");
    }
    if (ahead > 0 && key.given) {
      throw new AckerException.DuplicateKey(
          "a child with the key "
              + Checks.shown(key.text)
              + " is anchored to one tuple twice; leave it out");
    }
  }

  /** Returns the distinct roots of anchors, in their order. */
  static Set<Long> rootsOf(List<Anchor> anchors) {
    Set<Long> roots = new LinkedHashSet<>();
    anchors.forEach(each -> roots.add(each.root()));
    return roots;
  }
}
