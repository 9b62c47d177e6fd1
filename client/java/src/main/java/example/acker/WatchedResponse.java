package example.acker;

import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;

/** A response of a servlet that notes whether all of it was written. */
final class WatchedResponse extends HttpServletResponseWrapper {
  private final String method;
  private long announced = -1;
  private long written;
  private boolean isBroken;
  private ServletOutputStream stream;
  private PrintWriter writer;

  WatchedResponse(HttpServletResponse inner, String method) {
    super(inner);
    this.method = method;
  }

  /** Writes what a writer has gathered. */
  void finish() throws IOException {
    if (writer != null) {
      writer.flush();
      isBroken = isBroken || writer.checkError();
    }
  }

  boolean isWhole() {
    boolean isWithoutBody = getStatus() == 204 || getStatus() == 304 || method.equals("HEAD");
    return !isBroken && (isWithoutBody || written >= announced);
  }

  @Override
  public void setContentLength(int length) {
    announced = length;
    super.setContentLength(length);
  }

  @Override
  public void setContentLengthLong(long length) {
    announced = length;
    super.setContentLengthLong(length);
  }

  @Override
  public void setHeader(String name, String value) {
    note(name, value);
    super.setHeader(name, value);
  }

  @Override
  public void addHeader(String name, String value) {
    note(name, value);
    super.addHeader(name, value);
  }

  @Override
  public void setIntHeader(String name, int value) {
    note(name, Integer.toString(value));
    super.setIntHeader(name, value);
  }

  private void note(String name, String value) {
    if (name.equalsIgnoreCase("Content-Length")) {
      announced = value == null ? -1 : Long.parseLong(value);
    }
  }

  @Override
  public void reset() {
    super.reset();
    announced = -1;
    resetWritten();
  }

  @Override
  public void resetBuffer() {
    super.resetBuffer();
    resetWritten();
  }

  @Override
  public void sendError(int status) throws IOException {
    super.sendError(status);
    announced = -1; // the server writes another body
  }

  @Override
  public void sendError(int status, String words) throws IOException {
    super.sendError(status, words);
    announced = -1; // the server writes another body
  }

  private void resetWritten() {
    written = 0;
    writer = null;
    stream = null;
  }

  @Override
  public ServletOutputStream getOutputStream() throws IOException {
    if (stream == null) {
      stream = new Watched(super.getOutputStream());
    }
    return stream;
  }

  @Override
  public PrintWriter getWriter() throws IOException {
    if (writer == null) {
      writer = new PrintWriter(new OutputStreamWriter(getOutputStream(), getCharacterEncoding()));
    }
    return writer;
  }

  private final class Watched extends ServletOutputStream {
    private final ServletOutputStream inner;

    Watched(ServletOutputStream inner) {
      this.inner = inner;
    }

    /** Something that may fail. */
    private interface Call {
      void run() throws IOException;
    }

    private void watch(Call call) throws IOException {
      try {
        call.run();
      } catch (IOException e) {
        isBroken = true;
        throw e;
      }
    }

    @Override
    public void write(int one) throws IOException {
      written++;
      watch(() -> inner.write(one));
    }

    @Override
    public void write(byte[] bytes, int from, int length) throws IOException {
      written += length;
      watch(() -> inner.write(bytes, from, length));
    }

    @Override
    public void flush() throws IOException {
      watch(inner::flush);
    }

    @Override
    public void close() throws IOException {
      watch(inner::close);
    }

    @Override
    public boolean isReady() {
      return inner.isReady();
    }

    @Override
    public void setWriteListener(WriteListener listener) {
      inner.setWriteListener(listener);
    }
  }
}
