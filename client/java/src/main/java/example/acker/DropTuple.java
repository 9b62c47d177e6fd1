package example.acker;

/**
 * Thrown by a bolt's function: no retry would help, so the tuple is acked. It is counted, also in
 * the completion, and given to the function of {@link Acker.Builder#onDrop}. It does not leave
 * {@link Acker#process}.
 */
@SuppressWarnings("serial") // none is written anywhere
public final class DropTuple extends TupleSignal {
  /** Makes one with the reason that is logged. */
  public DropTuple(String reason) {
    super(reason);
  }
}
