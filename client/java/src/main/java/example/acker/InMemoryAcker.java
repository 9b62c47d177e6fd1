package example.acker;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/**
 * An acker with one topology, in memory, for tests of programs; time passes by {@link #advance}
 * only.
 *
 * <pre>{@code
 * InMemoryAcker memory = new InMemoryAcker();
 * Acker acker = memory.builder().linger(Duration.ZERO).build();
 * // … the program under test
 * memory.advance(Duration.ofSeconds(31));                      // roots that are not done time out
 * List<String> messageIds = memory.completions("orders");      // that are not released
 * }</pre>
 */
public final class InMemoryAcker {
  private static final Duration IDEMPOTENCY_WINDOW = Duration.ofMinutes(10);

  /** The status of the problems that this acker answers itself, or is asked to; 500 for others. */
  private static final Map<String, Integer> STATUSES =
      Map.ofEntries(
          Map.entry("invalid", 422),
          Map.entry("unauthorized", 401),
          Map.entry("forbidden", 403),
          Map.entry("unknown_topology", 404),
          Map.entry("unknown_root", 404),
          Map.entry("unknown_spout", 404),
          Map.entry("conflict", 409),
          Map.entry("topology_busy", 409),
          Map.entry("mailbox_owned", 409),
          Map.entry("max_spout_pending", 429),
          Map.entry("mailbox_full", 429),
          Map.entry("store_full", 503),
          Map.entry("overloaded", 503),
          Map.entry("store_unavailable", 503));

  private final Options options;
  private final Map<String, InMemoryTree> trees = new LinkedHashMap<>();
  private final Map<String, Outcome> finished = new HashMap<>();
  private final Map<String, List<Mail>> mailboxes = new HashMap<>();
  private final Map<String, Answered> answers = new HashMap<>();
  private final List<Received> requests = new ArrayList<>();
  private final Deque<Fault> faults = new ArrayDeque<>();
  private Duration now = Duration.ZERO;
  private int position;

  /**
   * The options of an acker in memory.
   *
   * @param topology its topology
   * @param messageTimeout that of the topology
   * @param dedupes whether an edge counts once, however often it is acked
   * @param maxSpoutPending how many roots of a spout task may be pending; null for any number
   * @param endOn what ends a root whose emit does not say
   */
  public record Options(
      String topology,
      Duration messageTimeout,
      boolean dedupes,
      Integer maxSpoutPending,
      EndOn endOn) {
    /**
     * Returns a topology "default", with a timeout of 30 s and a dedupe window, whose roots end on
     * the first fail.
     */
    public static Options defaults() {
      return new Options("default", Duration.ofSeconds(30), true, null, EndOn.FIRST_FAIL);
    }

    /** Returns these for another topology. */
    public Options withTopology(String value) {
      return new Options(value, messageTimeout, dedupes, maxSpoutPending, endOn);
    }

    /** Returns these with a message timeout. */
    public Options withMessageTimeout(Duration value) {
      return new Options(topology, value, dedupes, maxSpoutPending, endOn);
    }

    /** Returns these without a dedupe window: an edge that is acked twice counts twice. */
    public Options withoutDedupe() {
      return new Options(topology, messageTimeout, false, maxSpoutPending, endOn);
    }

    /** Returns these with a cap of the roots of a spout task that may be pending. */
    public Options withMaxSpoutPending(int roots) {
      return new Options(topology, messageTimeout, dedupes, roots, endOn);
    }

    /** Returns these with what ends a root whose emit does not say. */
    public Options withEndOn(EndOn value) {
      return new Options(topology, messageTimeout, dedupes, maxSpoutPending, value);
    }
  }

  /** What becomes of one request. */
  public sealed interface Fault {
    /** Lets a request through. */
    record Pass() implements Fault {}

    /** Loses a request before anything is applied. */
    record NoAnswer() implements Fault {}

    /** Loses the answer after the request was applied. */
    record LostAnswer() implements Fault {}

    /**
     * Answers a problem before anything is applied.
     *
     * @param code such as "store_full"
     */
    record Problem(String code) implements Fault {}
  }

  /**
   * A request that came.
   *
   * @param method that of HTTP
   * @param path with the query
   * @param key its idempotency key; null without one
   * @param body as text
   */
  public record Received(String method, String path, String key, String body) {}

  record Answered(int status, byte[] body) {}

  private record Mail(int position, Map<String, Object> document) {}

  /** Makes an acker whose topology is "default". */
  public InMemoryAcker() {
    this(Options.defaults());
  }

  /** Makes an acker with these options. */
  public InMemoryAcker(Options options) {
    this.options = options;
  }

  /** Returns a builder of a client of this acker. */
  public Acker.Builder builder() {
    return Acker.builder("http://acker.test")
        .topology(options.topology)
        .httpClient(new InMemoryHttpClient(this));
  }

  /** Returns a client of this acker. */
  public Acker client() {
    return builder().build();
  }

  /** Lets time pass: roots whose time is over end. */
  public synchronized void advance(Duration duration) {
    now = now.plus(duration);
    for (String root : List.copyOf(trees.keySet())) {
      if (trees.get(root).deadline.compareTo(now) <= 0) {
        end(root, Outcome.TIMED_OUT);
      }
    }
  }

  /** Returns how a root ended; nothing while it has not, or where it is not known. */
  public synchronized Optional<Outcome> outcome(String rootId) {
    return Optional.ofNullable(finished.get(rootId));
  }

  /** Returns the message ids of the completions of a spout task that are not released. */
  public synchronized List<String> completions(String spoutTask) {
    List<String> messageIds = new ArrayList<>();
    for (Mail each : mailboxes.getOrDefault(spoutTask, List.of())) {
      messageIds.add((String) each.document.get("message_id"));
    }
    return messageIds;
  }

  /** Returns the requests that came. */
  public synchronized List<Received> requests() {
    return List.copyOf(requests);
  }

  /** Lets these faults befall the next requests, one each. */
  public synchronized void fail(Fault... next) {
    faults.addAll(Arrays.asList(next));
  }

  /** Answers a request; throws where the answer does not come. */
  synchronized Answered answer(String method, URI address, String key, byte[] body)
      throws IOException {
    String path =
        address.getRawPath() + (address.getRawQuery() == null ? "" : "?" + address.getRawQuery());
    requests.add(new Received(method, path, key, new String(body, StandardCharsets.UTF_8)));
    Fault fault = faults.isEmpty() ? new Fault.Pass() : faults.remove();
    if (fault instanceof Fault.NoAnswer) {
      throw new IOException("the request was lost");
    }
    if (fault instanceof Fault.Problem problem) {
      return problem(problem.code);
    }
    Answered given = answerOnce(address, key, body);
    if (fault instanceof Fault.LostAnswer) {
      throw new IOException("the answer was lost");
    }
    return given;
  }

  /**
   * Answers a request, and each repeat with its key as the first time, but for what was refused
   * alone.
   */
  private Answered answerOnce(URI address, String key, byte[] body) {
    if (key != null && answers.containsKey(key)) {
      return answers.get(key);
    }
    Answered given;
    try {
      given = answer(address, body);
    } catch (IOException | ClassCastException e) {
      given = problem("invalid");
    }
    if (key != null && given.status < 300) {
      answers.put(key, given);
    }
    return given;
  }

  private Answered answer(URI address, byte[] body) throws IOException {
    String[] words = address.getPath().replaceFirst("^/v1/topologies/", "").split("/");
    if (!words[0].equals(options.topology)) {
      return problem("unknown_topology");
    }
    if (words.length == 1) {
      return written(document());
    }
    if (!words[1].equals("spouts")) {
      return apply(words[1], body);
    }
    return switch (words.length) {
      case 5 -> release(words[2], (String) Json.readObject(body).get("cursor"));
      case 4 -> written(read(words[2], query(address)));
      default -> written(Map.of("spout_task", words[2], "pending", pending(words[2])));
    };
  }

  private static Map<String, String> query(URI address) {
    Map<String, String> found = new HashMap<>();
    for (String each : address.getQuery().split("&")) {
      String[] pair = each.split("=", 2);
      found.put(pair[0], pair[1]);
    }
    return found;
  }

  private Map<String, Object> document() {
    Map<String, Object> document = new LinkedHashMap<>();
    document.put("topology", options.topology);
    document.put("idempotency_window_ms", IDEMPOTENCY_WINDOW.toMillis());
    document.put("dedupe_window_ms", options.dedupes ? options.messageTimeout.toMillis() : 0L);
    document.put("message_timeout_ms", options.messageTimeout.toMillis());
    document.put("max_spout_pending", options.maxSpoutPending);
    document.put("trace", 0);
    document.put("end_on", options.endOn.toString());
    return document;
  }

  private int pending(String spoutTask) {
    return (int) trees.values().stream().filter(each -> spoutTask.equals(each.spoutTask)).count();
  }

  private Map<String, Object> read(String spoutTask, Map<String, String> query) {
    int after = Integer.parseInt(query.getOrDefault("after", "0"));
    int limit = Integer.parseInt(query.getOrDefault("limit", "100"));
    List<Object> completions = new ArrayList<>();
    String cursor = query.get("after");
    for (Mail each : mailboxes.getOrDefault(spoutTask, List.of())) {
      if (each.position > after && completions.size() < limit) {
        completions.add(each.document);
        cursor = Integer.toString(each.position);
      }
    }
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("completions", completions);
    found.put("cursor", cursor);
    return found;
  }

  private Answered release(String spoutTask, String cursor) {
    int last = Integer.parseInt(cursor);
    mailboxes.getOrDefault(spoutTask, new ArrayList<>()).removeIf(each -> each.position <= last);
    return written(Map.of());
  }

  /** Applies the operations of a request: a batch, or one that is named by the address. */
  private Answered apply(String what, byte[] body) throws IOException {
    Map<String, Object> document = Json.readObject(body);
    if (!what.equals("batch")) {
      String state = operate(what, document);
      return state.equals(States.MAX_SPOUT_PENDING)
          ? problem(state)
          : written(Map.of("root_id", document.get("root_id"), "state", state));
    }
    List<String> states = new ArrayList<>();
    for (Object each : (List<?>) document.get("ops")) {
      @SuppressWarnings("unchecked") // members are named by texts
      Map<String, Object> operation = (Map<String, Object>) each;
      states.add(operate((String) operation.get("op"), operation));
    }
    long refused = states.stream().filter(States::isRefused).count();
    return written(Map.of("accepted", states.size() - refused, "results", states));
  }

  /** Applies one operation, and returns its state. */
  private String operate(String what, Map<String, Object> given) {
    String root = (String) given.get("root_id");
    if (finished.containsKey(root)) {
      return "finished";
    }
    switch (what) {
      case "reset-timeout" -> {
        return resetTimeout(root);
      }
      case "init" -> {
        Integer most = options.maxSpoutPending;
        if (most != null && pending((String) given.get("spout_task")) >= most) {
          return States.MAX_SPOUT_PENDING;
        }
        tree(root).begin(given, options.endOn, now);
      }
      case "fail" -> {
        if (!tree(root).fail(given)) {
          return "duplicate";
        }
      }
      default -> {
        if (!tree(root).ack(given)) {
          return "duplicate";
        }
      }
    }
    return settle(root);
  }

  private InMemoryTree tree(String root) {
    return trees.computeIfAbsent(
        root, each -> new InMemoryTree(now, options.messageTimeout, options.dedupes));
  }

  private String settle(String root) {
    InMemoryTree tree = trees.get(root);
    if (tree.spoutTask == null) {
      return "early";
    }
    boolean hasFailed = tree.failed && tree.endOn == EndOn.FIRST_FAIL;
    if (!hasFailed && tree.ackVal != 0) {
      return "pending";
    }
    Outcome outcome = hasFailed || tree.failures > 0 ? Outcome.FAILED : Outcome.ACKED;
    end(root, outcome);
    return outcome.toString();
  }

  private String resetTimeout(String root) {
    InMemoryTree tree = trees.get(root);
    if (tree == null || tree.spoutTask == null) {
      return "unknown";
    }
    tree.deadline = now.plus(tree.timeout);
    return "pending";
  }

  /** Ends a root; its completion goes into the mailbox of its spout task. */
  private void end(String root, Outcome outcome) {
    InMemoryTree tree = trees.remove(root);
    if (tree.spoutTask == null) {
      return;
    }
    finished.put(root, outcome);
    position++;
    String id =
        UUID.nameUUIDFromBytes((root + " " + outcome).getBytes(StandardCharsets.UTF_8)).toString();
    Map<String, Object> document = tree.completion(outcome, now);
    document.put("id", id.replace("-", ""));
    document.put("root_id", root);
    mailboxes
        .computeIfAbsent(tree.spoutTask, each -> new ArrayList<>())
        .add(new Mail(position, document));
  }

  private static Answered written(Map<String, Object> document) {
    return new Answered(200, Json.write(document));
  }

  private static Answered problem(String code) {
    int status = STATUSES.getOrDefault(code, 500);
    Map<String, Object> document = new LinkedHashMap<>();
    document.put("type", "urn:acker:problem:" + code);
    document.put("title", code);
    document.put("status", status);
    document.put("detail", "the acker in memory said so");
    document.put("code", code);
    document.put("retryable", status == 429 || status == 503);
    return new Answered(status, Json.write(document));
  }
}
