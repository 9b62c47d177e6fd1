package example.acker;

import jakarta.servlet.AsyncEvent;
import jakarta.servlet.AsyncListener;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Makes the servlets behind it a bolt: a request with anchors is a tuple, current in the servlet's
 * thread, and the answer ends it, as {@link Bolt} has it.
 *
 * <p>An answer breaks off where it is shorter than announced, or could not be written. That of an
 * asynchronous request ends its tuple when it is complete. Within another BoltFilter it asks for
 * proof only: that one ends the tuple.
 */
public final class BoltFilter implements Filter {
  private static final String WITHIN = BoltFilter.class.getName() + ".within";

  private final Acker acker;
  private final ReceiveOptions options;

  /** Makes a filter with these options. */
  public BoltFilter(Acker acker, ReceiveOptions options) {
    this.acker = acker;
    this.options = options;
  }

  /** Makes a filter for the bolt of this name. */
  public BoltFilter(Acker acker, String component) {
    this(acker, ReceiveOptions.of(component));
  }

  @Override
  public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
      throws IOException, ServletException {
    if (request instanceof HttpServletRequest asked
        && response instanceof HttpServletResponse answer) {
      receive(asked, answer, chain);
    } else {
      chain.doFilter(request, response);
    }
  }

  private void receive(HttpServletRequest asked, HttpServletResponse answer, FilterChain chain)
      throws IOException, ServletException {
    boolean isWithin = asked.getAttribute(WITHIN) != null;
    Carrier headers = Carrier.http(headersOf(asked));
    Tuple tuple;
    try {
      if (!options.secrets().isEmpty()) {
        Signatures.verify(headers, options.secrets());
      }
      tuple = isWithin ? null : acker.receive(headers, options);
    } catch (AckerException.InvalidHeader e) {
      answer.sendError(e instanceof AckerException.InvalidSignature ? 403 : 400, e.getMessage());
      return;
    }
    if (isWithin) {
      chain.doFilter(asked, answer);
      return;
    }
    asked.setAttribute(WITHIN, true);
    carryOut(new Exchange(asked, new WatchedResponse(answer, asked.getMethod()), tuple), chain);
  }

  private static Map<String, List<String>> headersOf(HttpServletRequest asked) {
    Map<String, List<String>> headers = new LinkedHashMap<>();
    for (String name : List.of(Anchors.HEADER, Signatures.HEADER)) {
      List<String> values = new ArrayList<>(Collections.list(asked.getHeaders(name)));
      if (!values.isEmpty()) {
        headers.put(name, values);
      }
    }
    return headers;
  }

  /** A request, its answer, and its tuple. */
  private record Exchange(HttpServletRequest asked, WatchedResponse answer, Tuple tuple) {
    @Override
    public String toString() {
      return asked.getMethod() + " " + asked.getRequestURI();
    }
  }

  private void carryOut(Exchange exchange, FilterChain chain) throws IOException, ServletException {
    try {
      acker.submitter().begin(exchange.tuple, options.onError());
    } catch (AckerException e) {
      log(exchange + " was not carried out", e);
      exchange.answer.sendError(500);
      return;
    }
    Propagate.Scope scope = Propagate.use(exchange.tuple);
    try {
      chain.doFilter(exchange.asked, exchange.answer);
      exchange.answer.finish();
    } catch (IOException | ServletException | RuntimeException | Error e) {
      scope.close();
      end(exchange, e);
      throw e;
    } finally {
      scope.close();
    }
    if (exchange.asked.isAsyncStarted()) {
      exchange.asked.getAsyncContext().addListener(new Ending(exchange));
    } else {
      end(exchange, null);
    }
  }

  /** Ends the tuple as the answer says, or what was thrown in its place. */
  private void end(Exchange exchange, Throwable thrown) {
    try {
      acker
          .submitter()
          .<Exception>end(
              exchange.tuple,
              of -> {
                if (thrown instanceof Exception own) {
                  throw own;
                }
                if (thrown != null) {
                  throw new IllegalStateException(thrown.toString(), thrown);
                }
                AnswerMeaning.check(exchange.answer.getStatus(), exchange.answer.isWhole());
              },
              options.onError());
    } catch (Exception e) {
      if (e != thrown && e instanceof AckerException || e.getSuppressed().length > 0) {
        log("the tuple of " + exchange + " was not ended", e);
      }
    }
  }

  private void log(String what, Throwable error) {
    acker
        .submitter()
        .session
        .settings
        .logger()
        .log(System.Logger.Level.WARNING, "acker: " + what, error);
  }

  /** Ends the tuple of an asynchronous request when its answer is complete. */
  private final class Ending implements AsyncListener {
    private final Exchange exchange;
    private Throwable thrown;

    Ending(Exchange exchange) {
      this.exchange = exchange;
    }

    @Override
    public void onComplete(AsyncEvent event) throws IOException {
      exchange.answer.finish();
      end(exchange, thrown);
    }

    @Override
    public void onError(AsyncEvent event) {
      thrown = event.getThrowable();
    }

    @Override
    public void onTimeout(AsyncEvent event) {
      thrown = AnswerMeaning.brokeOff();
    }

    @Override
    public void onStartAsync(AsyncEvent event) {
      event.getAsyncContext().addListener(this); // a new cycle has no listeners
    }
  }
}
