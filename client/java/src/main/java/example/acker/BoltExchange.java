package example.acker;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpPrincipal;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URI;

/**
 * An exchange whose answer ends only when its tuple was ended: what the handler writes is passed
 * on, but for the end.
 *
 * <p>An announced length is -1 for no body, and 0 for one of unknown length, as the JDK has it.
 */
final class BoltExchange extends HttpExchange {
  private static final int MOST_BUFFERED = 8192;

  private final HttpExchange inner;
  private final OutputStream body = new Body();
  private final ByteArrayOutputStream buffered = new ByteArrayOutputStream();
  private int status = -1; // until the handler gives one
  private long announced;
  private long written;
  private boolean isEnded; // by the handler
  private boolean isBegun; // the head was sent
  private boolean isBroken;

  BoltExchange(HttpExchange inner) {
    this.inner = inner;
  }

  /** Returns whether the handler has given all of its answer. */
  boolean isWhole() {
    if (status == -1 || isBroken) {
      return false;
    }
    return !hasBody() || (announced == 0 ? isEnded : written == announced);
  }

  private boolean hasBody() {
    boolean isWithout = status == 204 || status == 304 || "HEAD".equals(getRequestMethod());
    return announced >= 0 && !isWithout;
  }

  /** Answers something else, where nothing was sent yet; else the answer breaks off. */
  void replace(int otherStatus, byte[] words) {
    if (isBegun) {
      isBroken = true;
      return;
    }
    getResponseHeaders().clear();
    getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
    status = otherStatus;
    announced = words.length;
    written = words.length;
    buffered.reset();
    buffered.writeBytes(words);
  }

  /**
   * Ends the answer; one that is not whole breaks off: the server closes the connection after an
   * exception.
   */
  void finish() throws IOException {
    if (!isWhole()) {
      throw new IOException("the answer broke off");
    }
    begin();
    if (hasBody()) {
      buffered.writeTo(inner.getResponseBody());
    }
    inner.close();
  }

  private void begin() throws IOException {
    if (!isBegun) {
      isBegun = true;
      inner.sendResponseHeaders(status, announced);
    }
  }

  /**
   * Passes on what was written, but for the last byte of a body of a known length, which would end
   * it.
   */
  private void passOn() throws IOException {
    try {
      begin();
      byte[] bytes = buffered.toByteArray();
      int kept = announced > 0 && written == announced && bytes.length > 0 ? 1 : 0;
      inner.getResponseBody().write(bytes, 0, bytes.length - kept);
      inner.getResponseBody().flush();
      buffered.reset();
      buffered.write(bytes, bytes.length - kept, kept);
    } catch (IOException e) {
      isBroken = true;
      throw e;
    }
  }

  private final class Body extends OutputStream {
    @Override
    public void write(int one) throws IOException {
      write(new byte[] {(byte) one}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
      if (status == -1) {
        throw new IOException("the body is written after the head: call sendResponseHeaders first");
      }
      boolean isTooLong = announced == -1 || announced > 0 && written + length > announced;
      if (isEnded || isTooLong) {
        throw new IOException(
            "the body is longer than " + Math.max(0, announced) + " bytes, or has ended");
      }
      written += length;
      if (!hasBody()) {
        return;
      }
      buffered.write(bytes, from, length);
      if (buffered.size() > MOST_BUFFERED) {
        passOn();
      }
    }

    @Override
    public void flush() throws IOException {
      if (status != -1 && hasBody()) {
        passOn();
      }
    }

    @Override
    public void close() {
      isEnded = true;
    }
  }

  @Override
  public void sendResponseHeaders(int given, long length) throws IOException {
    if (status != -1) {
      throw new IOException("the head of the answer was sent already");
    }
    status = given;
    announced = length;
  }

  @Override
  public void close() {
    isEnded = true;
  }

  @Override
  public OutputStream getResponseBody() {
    return body;
  }

  @Override
  public int getResponseCode() {
    return status;
  }

  @Override
  public Headers getRequestHeaders() {
    return inner.getRequestHeaders();
  }

  @Override
  public Headers getResponseHeaders() {
    return inner.getResponseHeaders();
  }

  @Override
  public URI getRequestURI() {
    return inner.getRequestURI();
  }

  @Override
  public String getRequestMethod() {
    return inner.getRequestMethod();
  }

  @Override
  public HttpContext getHttpContext() {
    return inner.getHttpContext();
  }

  @Override
  public InputStream getRequestBody() {
    return inner.getRequestBody();
  }

  @Override
  public InetSocketAddress getRemoteAddress() {
    return inner.getRemoteAddress();
  }

  @Override
  public InetSocketAddress getLocalAddress() {
    return inner.getLocalAddress();
  }

  @Override
  public String getProtocol() {
    return inner.getProtocol();
  }

  @Override
  public Object getAttribute(String name) {
    return inner.getAttribute(name);
  }

  @Override
  public void setAttribute(String name, Object value) {
    inner.setAttribute(name, value);
  }

  @Override
  public void setStreams(InputStream in, OutputStream out) {
    throw new UnsupportedOperationException(
        "filters that replace streams stand before a Bolt, not behind it");
  }

  @Override
  public HttpPrincipal getPrincipal() {
    return inner.getPrincipal();
  }
}
