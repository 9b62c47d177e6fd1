package example.acker;

/** Ends the tuple of a bolt's function that throws it, and does not leave {@link Acker#process}. */
@SuppressWarnings("serial") // none is written anywhere
abstract sealed class TupleSignal extends RuntimeException
    permits FailTuple, DropTuple, TupleSignal.LeaveOpen {
  TupleSignal(String reason) {
    super(reason);
  }

  String reason() {
    return getMessage() == null ? "" : getMessage();
  }

  /** Leaves the tuple open: its message comes again. */
  static final class LeaveOpen extends TupleSignal {
    LeaveOpen() {
      super("left open");
    }
  }
}
