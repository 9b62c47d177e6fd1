package example.acker;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * Receives the completions of a spout task, signed as Standard Webhooks has it, by the JDK's HTTP
 * server:
 *
 * <pre>{@code
 * server.createContext("/completions", new WebhookHandler(List.of(secret), completion -> …));
 * }</pre>
 *
 * <p>The function is called with one completion after the other; one for which it throws is asked
 * for again. It may get the same {@link Completion#id} twice. A request whose head shows that
 * nobody signed it, or that it is too long, is refused before its body is read. In another server,
 * {@link Webhooks#verify} and {@link Webhooks#parse} are its parts.
 */
public final class WebhookHandler implements HttpHandler {
  /**
   * More than 500 completions with the longest message ids and reasons take, as many as an acker
   * sends at once.
   */
  private static final int MAX_BODY_BYTES = 8 << 20;

  /** Less than the acker waits for a response (30 s). */
  private static final Duration HANDLING_TIMEOUT = Duration.ofSeconds(20);

  private static final int MOST_DRAINED = 64 << 10;

  private final List<byte[]> keys;
  private final Work<? super Completion, ?> handle;
  private final System.Logger logger;

  /**
   * Makes a receiver, with the logger "example.acker" of the platform for what the function throws.
   *
   * @param secrets "whsec_" and the padded base64 of 24 to 64 bytes each; several while a secret is
   *     changed
   * @throws AckerException.Usage for what is no secret
   */
  public WebhookHandler(List<String> secrets, Work<? super Completion, ?> handle) {
    this(secrets, handle, System.getLogger("example.acker"));
  }

  /** Makes a receiver with a logger. */
  public WebhookHandler(
      List<String> secrets, Work<? super Completion, ?> handle, System.Logger logger) {
    this.keys = Webhooks.keys(secrets);
    this.handle = Objects.requireNonNull(handle);
    this.logger = logger;
  }

  @Override
  public void handle(HttpExchange exchange) throws IOException {
    try {
      checkHead(exchange);
      InputStream given = exchange.getRequestBody();
      byte[] body = given.readNBytes(MAX_BODY_BYTES);
      // the byte behind it is looked at first: reading the last one of a chunk waits for the next
      // chunk
      if (body.length == MAX_BODY_BYTES && (given.available() > 0 || given.read() != -1)) {
        throw tooLarge();
      }
      Webhooks.verify(keys, Carrier.http(exchange.getRequestHeaders()), body, Instant.now());
      List<String> again = handleAll(Webhooks.parse(body));
      answer(exchange, 200, "application/json", Json.write(Map.of("retry", again)));
      exchange.close();
    } catch (AckerException.Service e) {
      refuse(exchange, e);
    }
  }

  /**
   * Refuses by its head a request that nobody signed, or that is too long: anybody could have it
   * read a long body.
   */
  private static void checkHead(HttpExchange exchange) {
    if (!exchange.getRequestMethod().equals("POST")) {
      throw Problems.error("method_not_allowed", "completions come by POST");
    }
    Webhooks.verifyHead(Carrier.http(exchange.getRequestHeaders()), Instant.now());
    String length = exchange.getRequestHeaders().getFirst("Content-Length");
    if (length != null && (length.length() > 10 || Long.parseLong(length) > MAX_BODY_BYTES)) {
      throw tooLarge();
    }
  }

  private static AckerException.Service tooLarge() {
    return Problems.error("too_large", "the body has more than " + MAX_BODY_BYTES + " bytes");
  }

  /**
   * Answers a problem, and lets the server close the connection, which else would wait for the rest
   * of the body.
   */
  private static void refuse(HttpExchange exchange, AckerException.Service error)
      throws IOException {
    exchange.getResponseHeaders().set("Connection", "close");
    if (error.status() == 405) {
      exchange.getResponseHeaders().set("Allow", "POST");
    }
    answer(exchange, error.status(), "application/problem+json", Problems.document(error));
    if (exchange.getRequestHeaders().containsKey("Content-Length")) {
      drain(exchange.getRequestBody());
    }
    throw new IOException("a webhook was refused: " + error.getMessage());
  }

  /**
   * Takes what has come of a body already: else the connection is reset, and the answer may be
   * lost.
   */
  private static void drain(InputStream rest) throws IOException {
    int drained = 0;
    while (drained < MOST_DRAINED && rest.available() > 0) {
      drained += rest.readNBytes(rest.available()).length;
    }
  }

  private static void answer(HttpExchange exchange, int status, String contentType, byte[] document)
      throws IOException {
    exchange.getResponseHeaders().set("Content-Type", contentType);
    exchange.sendResponseHeaders(status, document.length);
    exchange.getResponseBody().write(document);
    exchange.getResponseBody().flush();
  }

  /** Returns the ids of the completions to send again. */
  private List<String> handleAll(List<Completion> completions) {
    long begunNs = System.nanoTime();
    List<String> again = new ArrayList<>();
    for (Completion each : completions) {
      if (Session.ageNs(begunNs) >= HANDLING_TIMEOUT.toNanos() || !isHandled(each)) {
        again.add(each.id());
      }
    }
    return again;
  }

  private boolean isHandled(Completion completion) {
    try {
      handle.run(completion);
      return true;
    } catch (Exception | Error e) { // the server would not answer an Error, and might end by it
      if (e instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      logger.log(
          System.Logger.Level.WARNING,
          "acker: completion " + completion.id() + " was not handled",
          e);
      return false;
    }
  }
}
