package example.acker;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * Makes a handler of the JDK's HTTP server a bolt: a request with anchors is a tuple, current in
 * the handler's thread, and the answer ends it. For servlets there is {@link BoltFilter}.
 *
 * <pre>
 * the handler                                                      the tuple
 * answers 2xx, 304, 4xx other than below                           acked
 * answers 301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429    left open: the request comes again
 * answers 5xx, throws, breaks off its answer                       failed, or left open with OnError.LEAVE_OPEN
 * </pre>
 *
 * <p>A handler breaks off its answer where it returns without one, or before all of the announced
 * length was written; one of unknown length is whole when its body or the exchange was closed. A
 * header that cannot be read is answered 400, one without the proof that {@link
 * ReceiveOptions#withProof} asks for 403. What the handler throws is logged and answered 500; so is
 * a request that comes when acks were lost, and it is not carried out. The answer ends after its
 * tuple was ended. Within another Bolt it asks for proof only: that one ends the tuple.
 */
public final class Bolt implements HttpHandler {
  private static final byte[] INTERNAL_ERROR =
      "Internal Server Error".getBytes(StandardCharsets.UTF_8);

  private final Acker acker;
  private final HttpHandler handler;
  private final ReceiveOptions options;

  /** Makes the handler a bolt. */
  public Bolt(Acker acker, ReceiveOptions options, HttpHandler handler) {
    this.acker = acker;
    this.handler = handler;
    this.options = options;
  }

  /** Makes the handler the bolt of this name. */
  public Bolt(Acker acker, String component, HttpHandler handler) {
    this(acker, ReceiveOptions.of(component), handler);
  }

  @Override
  public void handle(HttpExchange exchange) throws IOException {
    boolean isWithin = exchange instanceof BoltExchange;
    Carrier headers = Carrier.http(exchange.getRequestHeaders());
    Tuple tuple;
    try {
      if (!options.secrets().isEmpty()) {
        Signatures.verify(headers, options.secrets());
      }
      tuple = isWithin ? null : acker.receive(headers, options);
    } catch (AckerException.InvalidHeader e) {
      int status = e instanceof AckerException.InvalidSignature ? 403 : 400;
      answer(exchange, status, e.getMessage().getBytes(StandardCharsets.UTF_8));
      return;
    }
    if (isWithin) {
      handler.handle(exchange);
    } else {
      end(new BoltExchange(exchange), tuple);
    }
  }

  /** Carries the request out, and ends its tuple as the answer says. */
  private void end(BoltExchange exchange, Tuple tuple) throws IOException {
    boolean[] isCarriedOut = {false};
    try {
      acker
          .submitter()
          .<Exception>process(
              tuple,
              of -> {
                isCarriedOut[0] = true;
                serve(exchange);
              },
              options.onError());
    } catch (Exception | Error e) { // of which the server answers none, and may end by the latter
      if (e instanceof AckerException || e.getSuppressed().length > 0) {
        log("the tuple of " + shown(exchange) + " was not ended", e);
      }
    }
    if (!isCarriedOut[0]) {
      exchange.replace(500, INTERNAL_ERROR);
    }
    exchange.finish();
  }

  /** Calls the handler, and throws what its answer means. */
  private void serve(BoltExchange exchange) throws IOException {
    try {
      handler.handle(exchange);
    } catch (IOException | RuntimeException | Error e) {
      log("the handler of " + shown(exchange) + " has thrown", e);
      exchange.replace(500, INTERNAL_ERROR);
      throw e;
    }
    AnswerMeaning.check(exchange.getResponseCode(), exchange.isWhole());
  }

  private static String shown(HttpExchange exchange) {
    return exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath();
  }

  private void log(String what, Throwable error) {
    acker
        .submitter()
        .session
        .settings
        .logger()
        .log(System.Logger.Level.WARNING, "acker: " + what, error);
  }

  private static void answer(HttpExchange exchange, int status, byte[] words) throws IOException {
    exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
    exchange.sendResponseHeaders(status, words.length);
    exchange.getResponseBody().write(words);
    exchange.close();
  }
}
