package example.acker;

import java.io.IOException;
import java.math.BigInteger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A response as it came, or why none came: the request may have arrived then.
 *
 * @param status that of HTTP
 * @param body empty without one
 * @param retryAfter null without the header
 * @param missing why no response came; else null
 * @param refusedBy where no connection could be made, so that nothing can have arrived; else null
 */
record Answer(int status, byte[] body, String retryAfter, Exception missing, String refusedBy) {
  private static final Pattern SECONDS = Pattern.compile("[0-9]+");

  /** Longer than any request is sent again. */
  private static final long LONGEST_WAIT_S = Duration.ofDays(36_500).toSeconds();

  static Answer none(Exception why, String refusedBy) {
    return new Answer(0, new byte[0], null, why, refusedBy);
  }

  /** One operation, and the state that the acker answered. */
  record Result(Operation operation, String state) {}

  /**
   * What failed, whether the same request may be sent again, and after how long at the earliest.
   *
   * @param error what failed; null where that is not known
   * @param retryable whether the same request may be sent again
   * @param pause the least pause that the answer asks for
   * @param refusedBy that of the answer
   */
  record Failure(Exception error, boolean retryable, Duration pause, String refusedBy) {
    static final Failure UNKNOWN = new Failure(null, false, Duration.ZERO, null);
  }

  /**
   * Finds the failure; null for an answer. That an operation was not admitted, and so not applied,
   * is an answer.
   */
  Failure failureOf(Request asked) {
    if (missing != null) {
      return new Failure(missing, true, Duration.ZERO, refusedBy);
    }
    AckerException.Service found = Problems.read(status, body);
    if (status < 300 || isAnswer(asked, found)) {
      return null;
    }
    boolean passes = status == 408 || status == 429 || status >= 500;
    if (found == null) {
      AckerException unknown =
          new AckerException.InvalidResponse(
              asked + " was answered " + status + " without a problem");
      return new Failure(unknown, passes, askedWait(), null);
    }
    return new Failure(found, passes && found.retryable(), askedWait(), null);
  }

  private static boolean isAnswer(Request asked, AckerException found) {
    return asked.operations().size() == 1 && found != null && States.isNotAdmitted(found.code());
  }

  /**
   * Returns for how long the acker asks to wait; none without a number (an acker never gives a
   * date).
   */
  Duration askedWait() {
    if (retryAfter == null || !SECONDS.matcher(retryAfter).matches()) {
      return Duration.ZERO;
    }
    BigInteger seconds = new BigInteger(retryAfter);
    return Duration.ofSeconds(seconds.min(BigInteger.valueOf(LONGEST_WAIT_S)).longValue());
  }

  /** Reads one state for each operation. */
  List<Result> results(Request asked) {
    List<?> states = states(asked);
    if (states.size() != asked.operations().size()) {
      throw unknownStates(asked);
    }
    List<Result> results = new ArrayList<>(states.size());
    for (int at = 0; at < states.size(); at++) {
      if (!(states.get(at) instanceof String state) || !States.isKnown(state)) {
        throw unknownStates(asked);
      }
      results.add(new Result(asked.operations().get(at), state));
    }
    return results;
  }

  private List<?> states(Request asked) {
    Map<String, Object> found;
    try {
      found = Json.readObject(body);
    } catch (IOException e) {
      throw unknownStates(asked);
    }
    if (asked.isBatch()) {
      return found.get("results") instanceof List<?> listed ? listed : List.of();
    }
    Object state = found.getOrDefault("state", found.get("code"));
    return state == null ? List.of() : List.of(state);
  }

  private static AckerException unknownStates(Request asked) {
    return new AckerException.InvalidResponse(
        asked.path() + " was not answered with one known state for each operation");
  }
}
