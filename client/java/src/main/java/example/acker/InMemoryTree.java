package example.acker;

import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** An unfinished root of an {@link InMemoryAcker}: early until its init has come. */
final class InMemoryTree {
  final boolean dedupes;
  final Set<String> ended = new HashSet<>();
  Duration startedAt;
  Duration timeout;
  Duration deadline;
  String spoutTask; // null while it is early
  Object messageId;
  Object traceparent;
  EndOn endOn; // null while it is early: it may be of either kind
  long ackVal;
  boolean failed;
  Object reason; // of the first fail
  Object component;
  int failures;
  int dropped;

  InMemoryTree(Duration now, Duration timeout, boolean dedupes) {
    this.startedAt = now;
    this.timeout = timeout;
    this.deadline = now.plus(timeout);
    this.dedupes = dedupes;
  }

  void begin(Map<String, Object> init, EndOn other, Duration now) {
    if (spoutTask != null) {
      return;
    }
    spoutTask = (String) init.get("spout_task");
    messageId = init.get("message_id");
    traceparent = init.get("traceparent");
    endOn = init.get("end_on") == null ? other : endOn(init.get("end_on"));
    if (init.get("message_timeout_ms") instanceof Number given) {
      timeout = Duration.ofMillis(given.longValue());
    }
    deadline = now.plus(timeout);
    fold(init, "edges");
  }

  private static EndOn endOn(Object word) {
    return EndOn.ALL_ENDED.toString().equals(word) ? EndOn.ALL_ENDED : EndOn.FIRST_FAIL;
  }

  /** Counts an ack; false for an edge that ended before. */
  boolean ack(Map<String, Object> given) {
    boolean isNew = endEdge(given);
    if (isNew && Boolean.TRUE.equals(given.get("dropped"))) {
      dropped++;
    }
    return isNew;
  }

  /** Fails the root, or ends an edge where all have to end; false for one that ended before. */
  boolean fail(Map<String, Object> given) {
    boolean isNew = endOn == EndOn.FIRST_FAIL || endEdge(given);
    if (!isNew && endOn == EndOn.ALL_ENDED) {
      return false;
    }
    if (!failed) {
      failed = true;
      reason = given.get("reason");
      component = given.get("component");
    }
    failures += isNew ? 1 : 0;
    return true;
  }

  /** Ends an edge; false for one that ended before. */
  private boolean endEdge(Map<String, Object> given) {
    String edge = (String) given.get("edge_id");
    if (dedupes && edge != null && !ended.add(edge)) {
      return false;
    }
    if (given.get("ack_val") == null) {
      fold(edge);
    }
    fold(given, "children");
    return true;
  }

  private void fold(Map<String, Object> given, String listed) {
    fold((String) given.get("ack_val"));
    if (given.get(listed) instanceof List<?> ids) {
      ids.forEach(each -> fold((String) each));
    }
  }

  private void fold(String id) {
    if (id != null) {
      ackVal ^= Long.parseUnsignedLong(id, 16);
    }
  }

  /** Returns the completion, but for its ids. */
  Map<String, Object> completion(Outcome outcome, Duration now) {
    Map<String, Object> document = new LinkedHashMap<>();
    document.put("outcome", outcome.toString());
    document.put("message_id", messageId);
    document.put("reason", outcome == Outcome.FAILED ? reason : null);
    document.put("component", outcome == Outcome.FAILED ? component : null);
    document.put("complete_latency_ms", now.minus(startedAt).toMillis());
    document.put("at_ms", now.toMillis());
    document.put("traceparent", traceparent);
    document.put("dropped", dropped);
    if (endOn == EndOn.ALL_ENDED) {
      document.put("failures", failures);
    }
    return document;
  }
}
