package example.acker;

/**
 * Thrown by a bolt's function, it fails the tree at once, so that its spout emits the message
 * again, also with {@link OnError#LEAVE_OPEN}; of a root that ends when all have ended, the edge
 * alone. It does not leave {@link Acker#process}.
 */
@SuppressWarnings("serial") // none is written anywhere
public final class FailTuple extends TupleSignal {
  /** Makes one with the reason that the completion tells. */
  public FailTuple(String reason) {
    super(reason);
  }
}
