package example.acker;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Webhooks that come at the JDK's HTTP server. */
class WebhookHandlerTest {
  private static final byte[] KEY = new byte[32];
  private static final String SECRET = "whsec_" + Base64.getEncoder().encodeToString(KEY);
  private static final String COMPLETION =
      """
      {"id": "%s", "root_id": "00000000000000a1", "outcome": "acked", "message_id": "%s",
       "reason": null, "component": null, "complete_latency_ms": 5, "at_ms": 5}
      """;

  private final ExecutorService threads = Executors.newCachedThreadPool();
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

  private HttpResponse<String> post(String body) throws IOException, InterruptedException {
    String time = Long.toString(Instant.now().getEpochSecond());
    byte[] mac = Ids.hmac(KEY, ("msg_1." + time + "." + body).getBytes(StandardCharsets.UTF_8));
    HttpRequest asked =
        HttpRequest.newBuilder(
                URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/"))
            .timeout(Duration.ofSeconds(30))
            .header("webhook-id", "msg_1")
            .header("webhook-timestamp", time)
            .header("webhook-signature", "v1," + Base64.getEncoder().encodeToString(mac))
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
    return HttpClient.newHttpClient().send(asked, HttpResponse.BodyHandlers.ofString());
  }

  @Test
  void aCompletionWhoseHandlingThrowsAnErrorIsAskedForAgainAndTheOthersAreHandled()
      throws Exception {
    List<String> handled = new ArrayList<>();
    Work<Completion, RuntimeException> handle =
        completion -> {
          if (completion.id().equals("one")) {
            throw new AssertionError("no such order");
          }
          handled.add(completion.id());
        };
    server.createContext("/", new WebhookHandler(List.of(SECRET), handle));
    String listed = COMPLETION.formatted("one", "1") + "," + COMPLETION.formatted("two", "2");
    HttpResponse<String> answer =
        post("{\"type\": \"completion.batch\", \"data\": {\"completions\": [" + listed + "]}}");
    assertEquals(200, answer.statusCode());
    assertEquals("{\"retry\":[\"one\"]}", answer.body());
    assertEquals(List.of("two"), handled);
  }
}
