package example.acker;

/** What ends a root. */
public enum EndOn {
  /** Its first fail ends it. */
  FIRST_FAIL("first_fail"),
  /** It ends when all of its edges have ended, some of them perhaps failed. */
  ALL_ENDED("all_ended");

  private final String text;

  EndOn(String text) {
    this.text = text;
  }

  /** Returns the word of the acker's JSON, such as "all_ended". */
  @Override
  public String toString() {
    return text;
  }
}
