package example.acker;

import java.io.IOException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** What the tests with an acker in memory share. */
final class Memory {
  /** Does nothing with what it gets. */
  static final Work<Object, RuntimeException> NOTHING = given -> {};

  private Memory() {}

  /** A root that was emitted, and the headers of its children. */
  record Emitted(String rootId, List<Map<String, String>> children) {}

  static Emitted emit(Acker acker, String messageId, String... keys) {
    return emit(acker, messageId, EmitOptions.defaults(), keys);
  }

  static Emitted emit(Acker acker, String messageId, EmitOptions options, String... keys) {
    List<Map<String, String>> children = new ArrayList<>();
    String[] rootId = {null};
    acker
        .sharedSpout("orders")
        .emit(
            messageId,
            options,
            root -> {
              rootId[0] = root.id();
              for (String key : keys) {
                children.add(root.headers(key));
              }
            });
    return new Emitted(rootId[0], children);
  }

  /** Waits for something that other threads do. */
  static void until(BooleanSupplier isDone) {
    while (!isDone.getAsBoolean()) {
      Thread.onSpinWait();
    }
  }

  /** Sends a request before, or instead of, an acker in memory. */
  interface Sender {
    /** Returns whether the acker in memory gets it. */
    boolean send(HttpRequest asked) throws IOException;
  }

  /** Returns a client of an acker in memory, whose requests pass a function. */
  static InMemoryHttpClient through(InMemoryAcker memory, Sender sender) {
    return new InMemoryHttpClient(memory) {
      @Override
      public <T> HttpResponse<T> send(HttpRequest asked, HttpResponse.BodyHandler<T> handler)
          throws IOException {
        if (!sender.send(asked)) {
          throw new IOException("the request was lost");
        }
        return super.send(asked, handler);
      }
    };
  }

  static boolean isAck(HttpRequest asked) {
    return asked.uri().getPath().endsWith("/ack") || asked.uri().getPath().endsWith("/batch");
  }
}
