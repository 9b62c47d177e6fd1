package example.acker;

/** How a root ended. */
public enum Outcome {
  /** Every edge was acked. */
  ACKED("acked"),
  /** An edge failed. */
  FAILED("failed"),
  /** Its time was over. */
  TIMED_OUT("timed_out");

  private final String text;

  Outcome(String text) {
    this.text = text;
  }

  /** Returns the word of the acker's JSON, such as "timed_out". */
  @Override
  public String toString() {
    return text;
  }

  /** Returns the outcome of a word; null for another. */
  static Outcome of(Object word) {
    for (Outcome each : values()) {
      if (each.text.equals(word)) {
        return each;
      }
    }
    return null;
  }
}
