package example.acker;

import java.io.IOException;
import java.net.ConnectException;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLHandshakeException;

/** Makes one attempt of a request, over connections that are kept open. */
final class Transport {
  private final String base;
  private final String origin;
  private final String authorization;
  private final HttpClient client;
  private volatile boolean closed;

  /** Checks the address of an acker. */
  Transport(String address, Settings settings) {
    URI found = parse(address);
    origin = found.getScheme() + "://" + found.getRawAuthority();
    base = origin + found.getRawPath().replaceAll("/+$", "");
    authorization = settings.apiKey() == null ? null : "Bearer " + settings.apiKey();
    client =
        settings.httpClient() == null
            ? ownClient(settings.requestTimeout())
            : settings.httpClient();
  }

  private static URI parse(String address) {
    try {
      URI found = new URI(address);
      boolean isHttp =
          "http".equalsIgnoreCase(found.getScheme()) || "https".equalsIgnoreCase(found.getScheme());
      if (isHttp && found.getHost() != null) {
        return found;
      }
    } catch (URISyntaxException | NullPointerException e) {
      // said below
    }
    throw new AckerException.Usage(
        "the acker's address must be an http or https URL, not " + Checks.shown(address));
  }

  /**
   * A connection gets a little less time than the request, so that the error says that none was
   * made.
   */
  private static HttpClient ownClient(Duration requestTimeout) {
    HttpClient.Builder builder =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .connectTimeout(requestTimeout.multipliedBy(9).dividedBy(10).plusNanos(1));
    if (ProxySelector.getDefault() != null) {
      builder.proxy(ProxySelector.getDefault());
    }
    return builder.build();
  }

  /**
   * Makes one attempt. It throws for a client that is closed, and where the thread is interrupted.
   */
  Answer send(Request asked, Duration timeout) {
    if (closed) {
      throw new AckerException.ClientClosed("the client is closed");
    }
    if (Thread.currentThread().isInterrupted()) {
      throw Interrupts.canceled(asked + " was to be sent", false);
    }
    CompletableFuture<HttpResponse<byte[]>> coming =
        client.sendAsync(written(asked), HttpResponse.BodyHandlers.ofByteArray());
    try {
      HttpResponse<byte[]> response = coming.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
      String retryAfter = response.headers().firstValue("Retry-After").orElse(null);
      return new Answer(response.statusCode(), response.body(), retryAfter, null, null);
    } catch (InterruptedException e) {
      coming.cancel(true);
      throw Interrupts.canceled(asked + " was given up", asked.key() != null);
    } catch (TimeoutException e) {
      coming.cancel(true);
      return Answer.none(
          new HttpTimeoutException("no answer within " + timeout.toMillis() + " ms"), null);
    } catch (ExecutionException e) {
      return noAnswer(e.getCause());
    }
  }

  private HttpRequest written(Request asked) {
    HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(base + asked.path()));
    if (authorization != null) {
      builder.header("Authorization", authorization);
    }
    if (asked.key() != null) {
      builder.header("Idempotency-Key", asked.key());
    }
    if (asked.body() == null) {
      return builder.method(asked.method(), HttpRequest.BodyPublishers.noBody()).build();
    }
    builder.header("Content-Type", "application/json");
    return builder
        .method(asked.method(), HttpRequest.BodyPublishers.ofByteArray(asked.body()))
        .build();
  }

  private Answer noAnswer(Throwable cause) {
    Exception why = cause instanceof Exception known ? known : new IOException(cause);
    boolean isRefused =
        cause instanceof ConnectException
            || cause instanceof HttpConnectTimeoutException
            || cause instanceof SSLHandshakeException;
    return Answer.none(why, isRefused ? origin : null);
  }

  /** Refuses further requests. */
  void close() {
    closed = true;
  }
}
