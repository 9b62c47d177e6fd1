package example.acker;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.function.Supplier;

/** The commands of the scenarios. */
final class DriverScenarios {
  private final Map<String, Acker> clients = new ConcurrentHashMap<>();
  private final Map<String, Tuple> tuples = new ConcurrentHashMap<>();
  private final Map<String, CountDownLatch> gates = new ConcurrentHashMap<>();
  private final List<HttpServer> servers = new ArrayList<>();
  private List<Map<String, String>> queue = List.of();
  private final List<Object> handled = Collections.synchronizedList(new ArrayList<>());

  /** What a program's own code throws. */
  @SuppressWarnings("serial") // none is written anywhere
  private static final class Broken extends Exception {
    Broken(String reason) {
      super(reason);
    }
  }

  void addTo(Map<String, Driver.Command> commands) {
    commands.put("reset", this::reset);
    commands.put("open", this::open);
    commands.put("close", this::close);
    commands.put("emit", this::emit);
    commands.put("receive", this::receive);
    commands.put("child", given -> header(tuple(given.text("tuple")).anchor(given.text("key"))));
    commands.put("join", this::join);
    commands.put("ack", given -> done(() -> tuple(given.text("tuple")).ack()));
    commands.put(
        "fail", given -> done(() -> tuple(given.text("tuple")).fail(given.text("reason"))));
    commands.put("reset_timeout", given -> done(() -> tuple(given.text("tuple")).resetTimeout()));
    commands.put("process", this::process);
    commands.put("enqueue", this::enqueue);
    commands.put("work_off", this::workOff);
    commands.put("open_gate", given -> done(() -> gate(given.text("gate")).countDown()));
    commands.put("flush", given -> done(() -> client(given).flush()));
    commands.put("stats", this::stats);
    commands.put("internals", this::internals);
    commands.put("completions", this::completions);
    commands.put(
        "serve_bolt",
        given ->
            serve(new Bolt(client(given), receiveOptions(given), DriverScenarios::application)));
    commands.put("serve_webhook", this::serveWebhook);
    commands.put("webhook_handled", given -> Map.of("completions", List.copyOf(handled)));
  }

  private static Object done(Runnable call) {
    call.run();
    return Map.of();
  }

  private Acker client(Arguments given) {
    return clients.get(name(given));
  }

  private static String name(Arguments given) {
    return given.text("client") == null ? "main" : given.text("client");
  }

  private Tuple tuple(String handle) {
    return tuples.get(handle);
  }

  private CountDownLatch gate(String name) {
    return gates.computeIfAbsent(name, each -> new CountDownLatch(1));
  }

  private void passGate(Arguments given) throws InterruptedException {
    if (given.text("gate") != null) {
      gate(given.text("gate")).await();
    }
  }

  private Object reset(Arguments given) {
    gates.values().forEach(CountDownLatch::countDown);
    servers.forEach(each -> each.stop(0));
    servers.clear();
    clients.clear();
    tuples.clear();
    gates.clear();
    handled.clear();
    return Map.of();
  }

  private Object open(Arguments given) {
    Acker.Builder builder = Acker.builder(given.text("url"));
    given.duration("linger_ms").ifPresent(builder::linger);
    given.duration("retry_timeout_ms").ifPresent(builder::retryTimeout);
    given.duration("emit_timeout_ms").ifPresent(builder::emitTimeout);
    given.duration("request_timeout_ms").ifPresent(builder::requestTimeout);
    if (given.has("startup_timeout_ms")) {
      builder.startupTimeout(given.duration("startup_timeout_ms").orElse(null));
    }
    if (given.has("batch_size")) {
      builder.batchSize(given.number("batch_size", 0));
    }
    if (given.has("buffer_size")) {
      builder.bufferSize(given.number("buffer_size", 0));
    }
    if ("raise".equals(given.text("on_full"))) {
      builder.onFull(OnFull.THROW);
    }
    if (given.has("topology")) {
      builder.topology(given.text("topology"));
    }
    clients.put(name(given), builder.apiKey(given.text("api_key")).build());
    return Map.of();
  }

  private Object close(Arguments given) {
    client(given).close();
    return Map.of();
  }

  private Spout spout(Arguments given) {
    String name = given.text("spout");
    return given.flag("shared") ? client(given).sharedSpout(name) : client(given).spout(name);
  }

  private Object emit(Arguments given) {
    Spout spout = spout(given);
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("spout_task", spout.name());
    found.put("headers", List.of());
    Work<Root, Exception> run =
        root -> {
          found.put("root_id", root.id());
          found.put("headers", makeChildren(root, given.list("children"), given.flag("ambient")));
          if (given.flag("raises")) {
            throw new Broken("broken");
          }
        };
    return noteBroken(
        found,
        () -> {
          if (given.text("message_id") == null) {
            spout.emitUntracked(run);
          } else {
            spout.emit(given.text("message_id"), emitOptions(given), run);
          }
        });
  }

  private static EmitOptions emitOptions(Arguments given) {
    EndOn endOn =
        Arrays.stream(EndOn.values())
            .filter(each -> each.toString().equals(given.text("end_on")))
            .findFirst()
            .orElse(null);
    return new EmitOptions(
        given.duration("message_timeout_ms").orElse(null),
        given.duration("progress_timeout_ms").orElse(null),
        false,
        given.text("traceparent"),
        endOn);
  }

  private Object receive(Arguments given) {
    Tuple tuple = client(given).receive(headers(given), receiveOptions(given));
    String handle = "tuple " + (tuples.size() + 1);
    tuples.put(handle, tuple);
    return Map.of("tuple", handle, "tracked", tuple.tracked(), "anchors", tuple.anchors().size());
  }

  private static ReceiveOptions receiveOptions(Arguments given) {
    ReceiveOptions options = ReceiveOptions.of(given.text("component"));
    options = given.flag("repeatable") ? options.asRepeatable() : options;
    options =
        "leave_open".equals(given.text("on_error"))
            ? options.withOnError(OnError.LEAVE_OPEN)
            : options;
    return given.text("secret") == null ? options : options.withProof(given.text("secret"));
  }

  private static Carrier headers(Arguments given) {
    return Carrier.of(
        given.text("header") == null ? Map.of() : Map.of(Anchors.HEADER, given.text("header")));
  }

  private Object join(Arguments given) {
    List<Tuple> joined = given.<String>list("tuples").stream().map(this::tuple).toList();
    return header(client(given).anchor(joined, given.text("key")));
  }

  private static Object header(Anchors anchors) {
    return Collections.singletonMap("header", anchors.header().orElse(null));
  }

  private Object process(Arguments given) {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("headers", List.of());
    try {
      return noteBroken(
          found,
          () ->
              client(given)
                  .<Exception>process(
                      headers(given),
                      receiveOptions(given),
                      tuple -> {
                        passGate(given);
                        found.put(
                            "headers",
                            makeChildren(tuple, given.list("children"), given.flag("ambient")));
                        end(tuple, given);
                      }));
    } finally {
      found.put("restored", Propagate.current().isEmpty());
    }
  }

  private Object enqueue(Arguments given) {
    queue =
        given.<String>list("headers").stream().map(each -> Map.of(Anchors.HEADER, each)).toList();
    return Map.of();
  }

  private Object workOff(Arguments given) {
    Acker acker = client(given);
    ReceiveOptions options = receiveOptions(given);
    int children = given.number("child_count", 0);
    for (Map<String, String> headers : queue) {
      if (children == 0) {
        acker.receive(Carrier.of(headers), options).ack();
        continue;
      }
      acker.process(
          Carrier.of(headers),
          options,
          tuple -> {
            for (int key = 0; key < children; key++) {
              tuple.headers(Integer.toString(key));
            }
          });
    }
    acker.flush();
    return Map.of();
  }

  private static void end(Tuple tuple, Arguments given) throws Broken {
    String reason = given.text("reason") == null ? "" : given.text("reason");
    switch (given.text("then") == null ? "return" : given.text("then")) {
      case "raise" -> throw new Broken(reason);
      case "fail_tuple" -> throw new FailTuple(reason);
      case "drop_tuple" -> throw new DropTuple(reason);
      case "ack" -> tuple.ack();
      case "fail" -> tuple.fail(reason.isEmpty() ? null : reason);
      default -> {}
    }
  }

  private static List<String> makeChildren(Parent parent, List<String> keys, boolean ambient) {
    List<String> made = new ArrayList<>();
    for (String key : keys) {
      if (ambient) {
        Map<String, String> headers = new HashMap<>();
        Propagate.inject(Carrier.of(headers), key);
        made.add(headers.get(Anchors.HEADER));
      } else {
        made.add(parent.anchor(key).header().orElse(null));
      }
    }
    return made;
  }

  private Object stats(Arguments given) {
    Stats found = client(given).stats();
    return Map.of(
        "in_flight", found.inFlight(),
        "lost", found.lost(),
        "dropped", found.droppedTuples(),
        "untracked", found.untrackedTuples());
  }

  private Object internals(Arguments given) {
    Flusher flusher = client(given).submitter().flusher;
    return Map.of(
        "waiting_for_space", flusher.waitingForSpace(),
        "waiting_for_answers", flusher.waiting(),
        "closing", flusher.isClosed());
  }

  private Object completions(Arguments given) {
    List<Object> seen = new ArrayList<>();
    int count = given.number("count", 0);
    ReadOptions options = ReadOptions.defaults().withStop(() -> count > 0 && seen.size() >= count);
    options = options.withPageSize(given.number("page_size", options.pageSize()));
    options =
        options.withPollTimeout(given.duration("poll_timeout_ms").orElse(options.pollTimeout()));
    Iterable<Completion> completions =
        spout(given).completions(options.withUntil(given.duration("until_ms").orElse(null)));
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("completions", seen);
    return noteBroken(
        found,
        () -> {
          for (Completion each : completions) {
            seen.add(written(each));
            passGate(given);
            if (seen.size() == given.number("raise_at", 0)) {
              throw new Broken("broken");
            }
          }
        });
  }

  private static Map<String, Object> written(Completion completion) {
    Map<String, Object> written = new LinkedHashMap<>();
    written.put("id", completion.id());
    written.put("root_id", completion.rootId());
    written.put("outcome", completion.outcome().toString());
    written.put("message_id", completion.messageId().orElse(null));
    written.put("reason", completion.reason().orElse(null));
    written.put("component", completion.component().orElse(null));
    written.put("traceparent", completion.traceparent().orElse(null));
    written.put("failures", completion.endOn() == EndOn.ALL_ENDED ? completion.failures() : null);
    written.put("dropped", completion.dropped());
    written.put("last_component", completion.lastComponent().orElse(null));
    written.put("last_ack_at_ms", completion.lastAckAt().map(Instant::toEpochMilli).orElse(null));
    boolean isKnown = completion.outstanding().isPresent();
    written.put("outstanding", isKnown ? completion.outstanding().getAsInt() : null);
    return written;
  }

  /** Something that may throw what the program's own code throws. */
  private interface Call {
    void run() throws Exception;
  }

  private static Object noteBroken(Map<String, Object> found, Call call) {
    found.put("raised", false);
    try {
      call.run();
    } catch (Broken e) {
      found.put("raised", true);
    } catch (RuntimeException e) {
      throw e;
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
    return found;
  }

  private Object serve(HttpHandler handler) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(Executors.newCachedThreadPool(DriverScenarios::daemon));
    server.createContext("/", handler);
    server.start();
    servers.add(server);
    return Map.of("url", "http://127.0.0.1:" + server.getAddress().getPort());
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }

  /** What stands behind the middleware: the body of a request says what it does. */
  private static void application(HttpExchange exchange) throws IOException {
    Arguments wanted = new Arguments(Json.readObject(exchange.getRequestBody().readAllBytes()));
    Tuple tuple = Propagate.currentTuple().orElseThrow();
    List<String> headers = makeChildren(tuple, wanted.list("children"), true);
    try {
      end(tuple, wanted);
    } catch (Broken e) {
      throw new IllegalStateException(e.getMessage(), e);
    }
    if (wanted.flag("gives_up")) {
      return; // a handler of this server does not see that its caller has gone
    }
    byte[] answer = Json.write(Map.of("headers", headers));
    exchange.sendResponseHeaders(
        wanted.number("status", 200), wanted.flag("breaks_off") ? 0 : answer.length);
    exchange.getResponseBody().write(answer);
    if (wanted.flag("breaks_off")) {
      exchange.getResponseBody().flush();
      return; // without an end
    }
    exchange.close();
  }

  private Object serveWebhook(Arguments given) throws IOException {
    List<String> left =
        Collections.synchronizedList(new ArrayList<>(given.<String>list("raise_for")));
    Supplier<Broken> broken = () -> new Broken("broken");
    return serve(
        new WebhookHandler(
            given.list("secrets"),
            completion -> {
              if (left.remove(completion.messageId().orElse(""))) {
                throw broken.get();
              }
              handled.add(written(completion));
            }));
  }
}
