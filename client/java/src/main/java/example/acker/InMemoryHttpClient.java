package example.acker;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSession;

/** An HTTP client whose requests an {@link InMemoryAcker} answers, at once. */
class InMemoryHttpClient extends HttpClient {
  private static final HttpHeaders HEADERS =
      HttpHeaders.of(Map.of("Content-Type", List.of("application/json")), (name, value) -> true);

  private final InMemoryAcker acker;

  InMemoryHttpClient(InMemoryAcker acker) {
    this.acker = acker;
  }

  @Override
  public <T> HttpResponse<T> send(HttpRequest asked, HttpResponse.BodyHandler<T> handler)
      throws IOException {
    byte[] body = asked.bodyPublisher().map(InMemoryHttpClient::collect).orElse(new byte[0]);
    String key = asked.headers().firstValue("Idempotency-Key").orElse(null);
    InMemoryAcker.Answered given = acker.answer(asked.method(), asked.uri(), key, body);
    HttpResponse.BodySubscriber<T> subscriber = handler.apply(new Info(given.status()));
    subscriber.onSubscribe(new Silent());
    subscriber.onNext(List.of(ByteBuffer.wrap(given.body())));
    subscriber.onComplete();
    return new Response<>(asked, given.status(), subscriber.getBody().toCompletableFuture().join());
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest asked, HttpResponse.BodyHandler<T> handler) {
    try {
      return CompletableFuture.completedFuture(send(asked, handler));
    } catch (IOException e) {
      return CompletableFuture.failedFuture(e);
    }
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest asked,
      HttpResponse.BodyHandler<T> handler,
      HttpResponse.PushPromiseHandler<T> pushed) {
    return sendAsync(asked, handler);
  }

  private static byte[] collect(HttpRequest.BodyPublisher publisher) {
    ByteArrayOutputStream collected = new ByteArrayOutputStream();
    publisher.subscribe(
        new Flow.Subscriber<>() {
          @Override
          public void onSubscribe(Flow.Subscription subscription) {
            subscription.request(Long.MAX_VALUE);
          }

          @Override
          public void onNext(ByteBuffer part) {
            byte[] bytes = new byte[part.remaining()];
            part.get(bytes);
            collected.writeBytes(bytes);
          }

          @Override
          public void onError(Throwable error) {
            throw new IllegalStateException(error);
          }

          @Override
          public void onComplete() {
            // all was collected
          }
        });
    return collected.toByteArray();
  }

  /** A subscription to what comes at once. */
  private record Silent() implements Flow.Subscription {
    @Override
    public void request(long count) {
      // it comes unasked
    }

    @Override
    public void cancel() {
      // there is nothing to end
    }
  }

  private record Info(int statusCode) implements HttpResponse.ResponseInfo {
    @Override
    public HttpHeaders headers() {
      return HEADERS;
    }

    @Override
    public Version version() {
      return Version.HTTP_1_1;
    }
  }

  private record Response<T>(HttpRequest request, int statusCode, T body)
      implements HttpResponse<T> {
    @Override
    public Optional<HttpResponse<T>> previousResponse() {
      return Optional.empty();
    }

    @Override
    public HttpHeaders headers() {
      return HEADERS;
    }

    @Override
    public Optional<SSLSession> sslSession() {
      return Optional.empty();
    }

    @Override
    public URI uri() {
      return request.uri();
    }

    @Override
    public Version version() {
      return Version.HTTP_1_1;
    }
  }

  @Override
  public Optional<CookieHandler> cookieHandler() {
    return Optional.empty();
  }

  @Override
  public Optional<Duration> connectTimeout() {
    return Optional.empty();
  }

  @Override
  public Redirect followRedirects() {
    return Redirect.NEVER;
  }

  @Override
  public Optional<ProxySelector> proxy() {
    return Optional.empty();
  }

  @Override
  public SSLContext sslContext() {
    try {
      return SSLContext.getDefault();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public SSLParameters sslParameters() {
    return new SSLParameters();
  }

  @Override
  public Optional<Authenticator> authenticator() {
    return Optional.empty();
  }

  @Override
  public Version version() {
    return Version.HTTP_1_1;
  }

  @Override
  public Optional<Executor> executor() {
    return Optional.empty();
  }
}
