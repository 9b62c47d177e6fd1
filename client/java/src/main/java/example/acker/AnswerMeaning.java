package example.acker;

import java.util.Set;

/** What an answer of HTTP means for the tuple of its request. */
final class AnswerMeaning {
  /** After these the same request comes again, here or elsewhere, with the same edge. */
  private static final Set<Integer> RETRIED =
      Set.of(301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429);

  private AnswerMeaning() {}

  /** Why a tuple fails whose answer is a failure. */
  @SuppressWarnings("serial") // none is written anywhere
  static final class AnswerFailed extends RuntimeException {
    AnswerFailed(String words) {
      super(words, null, false, false);
    }
  }

  static AnswerFailed brokeOff() {
    return new AnswerFailed("broke off its answer");
  }

  /** Throws what ends the tuple; returns for an answer that acks it. */
  static void check(int status, boolean isWhole) {
    if (status >= 500) {
      throw new AnswerFailed("answered " + status);
    }
    if (!isWhole) {
      throw brokeOff();
    }
    if (RETRIED.contains(status)) {
      throw new TupleSignal.LeaveOpen();
    }
  }
}
