package example.acker;

/** What happens to a tuple whose function throws. */
public enum OnError {
  /** The tree fails at once. */
  FAIL,
  /** Nothing is sent: the message is delivered again. */
  LEAVE_OPEN
}
