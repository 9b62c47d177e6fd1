package example.acker;

/** Which roots are traced: their operations name their edges. */
final class Tracing {
  private static final long MARK_MASK = 0xffff;
  private static final int SAMPLE_MULTIPLIER = (int) 2_654_435_761L;
  private static final double ALL = 0x1p32;

  private Tracing() {}

  /**
   * Returns whether the acks of a root name their children: it may be traced by hand, or is in the
   * share that every process traces, chosen by its id.
   */
  static boolean isTraced(long root, double share) {
    if ((root & MARK_MASK) == 0) {
      return true;
    }
    long sample = Integer.toUnsignedLong((int) (root ^ root >>> 32) * SAMPLE_MULTIPLIER);
    return share > 0 && sample < Math.min(ALL, Math.rint(share * ALL));
  }

  /** Turns a drawn root id into one that says that its root is traced by hand. */
  static long mark(long root) {
    long marked = root & ~MARK_MASK;
    return marked == 0 ? MARK_MASK + 1 : marked;
  }
}
