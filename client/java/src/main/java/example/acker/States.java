package example.acker;

import java.util.Set;

/** The states that the acker answers for an operation. */
final class States {
  static final String MAX_SPOUT_PENDING = "max_spout_pending";
  private static final Set<String> ACCEPTED =
      Set.of("pending", "acked", "failed", "early", "finished", "duplicate", "unknown");
  private static final Set<String> NOT_ADMITTED =
      Set.of(MAX_SPOUT_PENDING, "mailbox_full", "store_full");

  private States() {}

  static boolean isKnown(String state) {
    return state != null && (ACCEPTED.contains(state) || isRefused(state));
  }

  /** Returns whether an operation changed nothing, and may be sent again in a new request. */
  static boolean isNotAdmitted(String state) {
    return state != null && NOT_ADMITTED.contains(state);
  }

  /** Returns whether an operation was not accepted. */
  static boolean isRefused(String state) {
    return "conflict".equals(state) || isNotAdmitted(state);
  }
}
