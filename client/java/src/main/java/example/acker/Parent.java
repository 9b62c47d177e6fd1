package example.acker;

import java.util.Map;

/** What children are anchored to: a {@link Tuple} or a {@link Root}. */
public sealed interface Parent permits Tuple, Root {
  /**
   * Anchors a child: a message for one consumer.
   *
   * @param key a business key within this parent, from which the edge is derived: a re-run of the
   *     same work makes the same child; null for none
   * @throws AckerException.DuplicateKey for a key that a child has
   * @throws AckerException.TupleClosed where this has ended
   */
  Anchors anchor(String key);

  /**
   * Anchors a child without a key: its edge is random, or of a repeatable tuple derived from its
   * number.
   */
  default Anchors anchor() {
    return anchor(null);
  }

  /** Anchors a child with a key, and returns its header: send it along with the message. */
  default Map<String, String> headers(String key) {
    return anchor(key).headers();
  }

  /** Anchors a child without a key, and returns its header. */
  default Map<String, String> headers() {
    return anchor(null).headers();
  }

  /** Returns whether its children have anchors. */
  boolean tracked();
}
