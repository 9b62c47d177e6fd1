package example.acker;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * The end of one root. It may come more than once, always with the same id.
 *
 * @param id the same for each delivery of this completion
 * @param rootId the root's id: 16 hex digits
 * @param outcome how the root ended
 * @param messageId the spout's own id of the message
 * @param reason that of the fail
 * @param component the one that failed
 * @param completeLatency from the root's first operation to its end
 * @param at when it ended
 * @param traceparent that of the emit
 * @param endOn what ends the root
 * @param failures how many of its edges failed, with {@link EndOn#ALL_ENDED}; else 0
 * @param dropped how many of its tuples were acked by a {@link DropTuple}
 * @param lastComponent of a root that timed out: which component acked last
 * @param lastAckAt likewise, when
 * @param outstanding likewise, how many edges were sent and not acked
 */
public record Completion(
    String id,
    String rootId,
    Outcome outcome,
    Optional<String> messageId,
    Optional<String> reason,
    Optional<String> component,
    Duration completeLatency,
    Instant at,
    Optional<String> traceparent,
    EndOn endOn,
    int failures,
    int dropped,
    Optional<String> lastComponent,
    Optional<Instant> lastAckAt,
    OptionalInt outstanding) {

  /**
   * Returns a function for {@link Spout#listen} and {@link WebhookHandler} that calls one of these
   * with the message id: Storm's ack(msgId) and fail(msgId). A root without a message id is
   * ignored.
   */
  public static <E extends Exception> Work<Completion, E> byOutcome(
      Work<? super String, ? extends E> onAck, Work<? super String, ? extends E> onFail) {
    return completion -> {
      if (completion.messageId.isEmpty()) {
        return;
      }
      if (completion.outcome == Outcome.ACKED) {
        onAck.run(completion.messageId.get());
      } else {
        onFail.run(completion.messageId.get());
      }
    };
  }

  /** Completions in their order, and the cursor behind the last; null if nothing was ever read. */
  record Page(List<Completion> completions, String cursor) {
    static final Page EMPTY = new Page(List.of(), null);

    static Page read(Answer given) {
      try {
        Map<String, Object> found = Json.readObject(given.body());
        return new Page(readList(found.get("completions")), text(found, "cursor").orElse(null));
      } catch (IOException e) {
        throw new AckerException.InvalidResponse(
            "an answer " + given.status() + " holds no completions: " + e.getMessage());
      }
    }
  }

  static List<Completion> readList(Object documents) throws IOException {
    if (!(documents instanceof List<?> listed)) {
      throw new IOException("completions must be a list");
    }
    List<Completion> completions = new ArrayList<>(listed.size());
    for (Object each : listed) {
      if (!(each instanceof Map<?, ?> document)) {
        throw new IOException("a completion must be an object");
      }
      completions.add(read(document));
    }
    return completions;
  }

  private static Completion read(Map<?, ?> document) throws IOException {
    Outcome outcome = Outcome.of(document.get("outcome"));
    if (outcome == null) {
      throw new IOException("outcome must not be " + document.get("outcome"));
    }
    Optional<Number> failures = number(document, "failures");
    return new Completion(
        needed(text(document, "id"), "id"),
        needed(text(document, "root_id"), "root_id"),
        outcome,
        text(document, "message_id"),
        text(document, "reason"),
        text(document, "component"),
        Duration.ofNanos(
            (long)
                (needed(number(document, "complete_latency_ms"), "complete_latency_ms")
                        .doubleValue()
                    * 1e6)),
        Instant.ofEpochMilli(needed(number(document, "at_ms"), "at_ms").longValue()),
        text(document, "traceparent"),
        failures.isPresent() ? EndOn.ALL_ENDED : EndOn.FIRST_FAIL,
        failures.map(Number::intValue).orElse(0),
        number(document, "dropped").map(Number::intValue).orElse(0),
        text(document, "last_component"),
        number(document, "last_ack_at_ms").map(at -> Instant.ofEpochMilli(at.longValue())),
        number(document, "outstanding")
            .map(each -> OptionalInt.of(each.intValue()))
            .orElse(OptionalInt.empty()));
  }

  private static <T> T needed(Optional<T> found, String name) throws IOException {
    return found.orElseThrow(() -> new IOException(name + " is needed"));
  }

  private static Optional<String> text(Map<?, ?> document, String name) throws IOException {
    return member(document, name, String.class);
  }

  private static Optional<Number> number(Map<?, ?> document, String name) throws IOException {
    return member(document, name, Number.class);
  }

  private static <T> Optional<T> member(Map<?, ?> document, String name, Class<T> form)
      throws IOException {
    Object value = document.get(name);
    if (value != null && !form.isInstance(value)) {
      throw new IOException(name + " must not be " + value);
    }
    return Optional.ofNullable(form.cast(value));
  }
}
