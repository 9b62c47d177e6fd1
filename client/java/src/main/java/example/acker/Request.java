package example.acker;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * A request, frozen before the first attempt: every attempt sends the same bytes.
 *
 * @param method that of HTTP
 * @param path with the query
 * @param body null without one
 * @param key null where a repeat changes nothing
 * @param operations those in the body
 * @param pollTime how long a long poll lets the acker wait
 */
record Request(
    String method,
    String path,
    byte[] body,
    String key,
    List<Operation> operations,
    Duration pollTime) {
  private static final int MAX_OPERATIONS = 10_000;

  /** The acker takes 16 MiB; what a text needs unpacked may be more than its bytes here. */
  private static final int MAX_BODY_BYTES = 8 << 20;

  private static final byte[] EPHEMERAL = "{\"ephemeral\":true}".getBytes(StandardCharsets.UTF_8);

  /** Returns whether the answer holds one state for each operation, in a list. */
  boolean isBatch() {
    return path.endsWith("/batch");
  }

  /** Returns whether it has an operation on this root. */
  boolean holds(long root) {
    return operations.stream().anyMatch(each -> each.root == root);
  }

  @Override
  public String toString() {
    return method + " " + path;
  }

  /** Freezes operations into requests, in order: one alone as a single call, more as batches. */
  static List<Request> write(String topology, List<Operation> operations) {
    if (operations.size() == 1) {
      Operation single = operations.get(0);
      byte[] body = Json.write(to -> single.write(to, false));
      return List.of(post(topologyPath(topology) + "/" + single.kind.text, body, operations));
    }
    List<Request> requests = new ArrayList<>();
    for (int at = 0; at < operations.size(); at += MAX_OPERATIONS) {
      int end = Math.min(operations.size(), at + MAX_OPERATIONS);
      addBatches(requests, topology, List.copyOf(operations.subList(at, end)));
    }
    return requests;
  }

  /** Halves a batch until its bytes are within the limit. */
  private static void addBatches(List<Request> to, String topology, List<Operation> operations) {
    byte[] body =
        Json.write(
            generator -> {
              generator.writeStartObject();
              generator.writeArrayFieldStart("ops");
              for (Operation each : operations) {
                each.write(generator, true);
              }
              generator.writeEndArray();
              generator.writeEndObject();
            });
    if (operations.size() <= 1 || body.length <= MAX_BODY_BYTES) {
      to.add(post(topologyPath(topology) + "/batch", body, operations));
      return;
    }
    int middle = operations.size() / 2;
    addBatches(to, topology, operations.subList(0, middle));
    addBatches(to, topology, operations.subList(middle, operations.size()));
  }

  static Request readTopology(String topology) {
    return get(topologyPath(topology), Duration.ZERO);
  }

  static Request readSpout(String topology, String spoutTask) {
    return get(spoutPath(topology, spoutTask), Duration.ZERO);
  }

  /**
   * Registers a spout task that the acker removes when it is no longer used; a repeat changes
   * nothing.
   */
  static Request makeEphemeral(String topology, String spoutTask) {
    return new Request(
        "PUT", spoutPath(topology, spoutTask), EPHEMERAL, null, List.of(), Duration.ZERO);
  }

  /** Reads completions after a cursor (null: from the oldest that is not released). */
  static Request readCompletions(
      String topology, String spoutTask, String after, int limit, Duration wait) {
    String query = "?limit=" + limit + "&wait_ms=" + wait.toMillis();
    if (after != null) {
      query += "&after=" + URLEncoder.encode(after, StandardCharsets.UTF_8);
    }
    return get(spoutPath(topology, spoutTask) + "/completions" + query, wait);
  }

  /** Releases completions up to a cursor. */
  static Request releaseCompletions(String topology, String spoutTask, String cursor) {
    byte[] body = Json.write(Map.of("cursor", cursor));
    return post(spoutPath(topology, spoutTask) + "/completions/release", body, List.of());
  }

  private static Request get(String path, Duration wait) {
    return new Request("GET", path, null, null, List.of(), wait);
  }

  private static Request post(String path, byte[] body, List<Operation> operations) {
    return new Request("POST", path, body, UUID.randomUUID().toString(), operations, Duration.ZERO);
  }

  private static String topologyPath(String topology) {
    return "/v1/topologies/" + topology;
  }

  private static String spoutPath(String topology, String spoutTask) {
    return topologyPath(topology) + "/spouts/" + spoutTask;
  }
}
