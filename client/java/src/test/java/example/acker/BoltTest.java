package example.acker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Handlers of the JDK's HTTP server as bolts. */
class BoltTest {
  private final InMemoryAcker memory = new InMemoryAcker();
  private final Acker acker = memory.builder().linger(Duration.ZERO).build();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final HttpClient client = HttpClient.newHttpClient();
  private HttpServer server;

  @BeforeEach
  void start() throws IOException {
    server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(threads);
    server.start();
  }

  @AfterEach
  void stop() {
    server.stop(0);
    threads.shutdownNow();
  }

  private HttpResponse<String> ask(HttpHandler handler, String method, Map<String, String> headers)
      throws IOException, InterruptedException {
    server.createContext("/", handler);
    URI address = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
    HttpRequest.Builder asked =
        HttpRequest.newBuilder(address)
            .timeout(Duration.ofSeconds(30))
            .method(method, HttpRequest.BodyPublishers.noBody());
    headers.forEach(asked::header);
    return client.send(asked.build(), HttpResponse.BodyHandlers.ofString());
  }

  private static void answer(HttpExchange exchange, int status, String body) throws IOException {
    exchange.sendResponseHeaders(status, body.length());
    exchange.getResponseBody().write(body.getBytes());
    exchange.close();
  }

  private void endsAs(Outcome expected, HttpHandler handler, String method) throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    ask(new Bolt(acker, "bolt", handler), method, root.children().get(0));
    assertEquals(Optional.ofNullable(expected), memory.outcome(root.rootId()));
  }

  private void breaksOff(HttpHandler handler) {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    Bolt bolt = new Bolt(acker, "bolt", handler);
    assertThrows(IOException.class, () -> ask(bolt, "POST", root.children().get(0)));
    assertEquals(Optional.of(Outcome.FAILED), memory.outcome(root.rootId()));
  }

  @Test
  void aRequestIsAckedBeforeItsAnswerEnds() throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    Bolt bolt =
        new Bolt(
            acker,
            "bolt",
            exchange -> {
              assertEquals("bolt", Propagate.currentTuple().orElseThrow().component());
              answer(exchange, 200, "charged");
            });
    assertEquals("charged", ask(bolt, "POST", root.children().get(0)).body());
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void anAnswerWithoutABodyIsWhole() throws Exception {
    endsAs(Outcome.ACKED, exchange -> exchange.sendResponseHeaders(204, -1), "POST");
  }

  @Test
  void anAnswerOfAHeadIsWhole() throws Exception {
    endsAs(Outcome.ACKED, exchange -> exchange.sendResponseHeaders(200, -1), "HEAD");
  }

  @Test
  void anAnswerAfterWhichTheRequestComesAgainLeavesItOpen() throws Exception {
    endsAs(null, exchange -> answer(exchange, 429, "later"), "POST");
  }

  @Test
  void anAnswerOf503Fails() throws Exception {
    endsAs(Outcome.FAILED, exchange -> answer(exchange, 503, "no"), "POST");
  }

  @Test
  void aLongAnswerOfUnknownLengthIsWholeWhenItsBodyIsClosed() throws Exception {
    String body = "x".repeat(100_000);
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    Bolt bolt =
        new Bolt(
            acker,
            "bolt",
            exchange -> {
              exchange.sendResponseHeaders(200, 0);
              exchange.getResponseBody().write(body.getBytes());
              exchange.getResponseBody().close();
            });
    assertEquals(body, ask(bolt, "POST", root.children().get(0)).body());
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void aHandlerThatReturnsWithoutAnAnswerBreaksOff() {
    breaksOff(exchange -> {});
  }

  @Test
  void aHandlerThatAnnouncesMoreThanItWritesBreaksOff() {
    breaksOff(
        exchange -> {
          exchange.sendResponseHeaders(200, 100);
          exchange.getResponseBody().write("begun".getBytes());
          exchange.getResponseBody().flush();
        });
  }

  @Test
  void aHandlerThatThrowsIsAnswered500() throws Exception {
    isAnswered500(
        exchange -> {
          throw new IllegalStateException("out of stock");
        });
  }

  @Test
  void aHandlerThatThrowsAnErrorIsAnswered500() throws Exception {
    isAnswered500(
        exchange -> {
          throw new AssertionError("out of stock");
        });
  }

  private void isAnswered500(HttpHandler throwing) throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    assertEquals(
        500, ask(new Bolt(acker, "bolt", throwing), "POST", root.children().get(0)).statusCode());
    assertEquals(Optional.of(Outcome.FAILED), memory.outcome(root.rootId()));
  }

  @Test
  void aHeaderThatCannotBeReadIsAnswered400AndOneWithoutProof403() throws Exception {
    Bolt bolt = new Bolt(acker, "bolt", exchange -> answer(exchange, 200, "charged"));
    assertEquals(400, ask(bolt, "POST", Map.of("Acker-Anchors", "nonsense")).statusCode());
    server.removeContext("/");
    ReceiveOptions proved =
        ReceiveOptions.of("bolt").withProof("32 random characters, from a file");
    Bolt asking = new Bolt(acker, proved, exchange -> answer(exchange, 200, "charged"));
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    assertEquals(403, ask(asking, "POST", root.children().get(0)).statusCode());
    assertEquals(Optional.empty(), memory.outcome(root.rootId()));
  }

  @Test
  void ofTwoBoltsTheOuterEndsTheTuple() throws Exception {
    Memory.Emitted root = Memory.emit(acker, "42", "a");
    Bolt inner =
        new Bolt(
            acker,
            "inner",
            exchange -> {
              assertTrue(Propagate.currentTuple().orElseThrow().component().equals("outer"));
              answer(exchange, 200, "charged");
            });
    assertEquals(
        200, ask(new Bolt(acker, "outer", inner), "POST", root.children().get(0)).statusCode());
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
    assertEquals(0, acker.stats().untrackedTuples());
  }
}
