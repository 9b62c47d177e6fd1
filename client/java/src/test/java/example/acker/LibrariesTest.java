package example.acker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.impl.LongStringHelper;
import com.standardwebhooks.Webhook;
import java.net.http.HttpHeaders;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;

/** The client with the libraries that programs have beside it. */
class LibrariesTest {
  private static final String VALUE = "00 default 00000000000000a1-00000000000000b1";
  private static final String SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
  private static final String BODY =
      "{\"type\":\"completion.batch\",\"data\":{\"completions\":[{\"id\":\"c1\",\"root_id\":\"00000000000000a1\","
          + "\"outcome\":\"acked\",\"message_id\":\"1\",\"reason\":null,\"component\":null,"
          + "\"complete_latency_ms\":5,\"at_ms\":1790000000000}]}}";

  /** Reads the anchors of a message, and sets them on another. */
  private static void readAndWrite(Carrier from, Carrier to) {
    Anchors.extract(from).orElseThrow().setOn(to);
  }

  @Test
  void headersOfAmqpClientAreReadAndWritten() {
    LongString given = LongStringHelper.asLongString(VALUE); // as it comes from the broker
    AMQP.BasicProperties received =
        new AMQP.BasicProperties.Builder()
            .headers(Map.of("acker-anchors", given, "x-death", List.of()))
            .build();
    Map<String, Object> sent = new HashMap<>(Map.of("acker-anchors", "stale", "trace", "1"));
    readAndWrite(Carrier.amqp(received.getHeaders()), Carrier.amqp(sent));
    assertEquals(Map.of(Anchors.HEADER, VALUE, "trace", "1"), sent);
  }

  @Test
  void aMessageOfAmqpClientMayHaveNoHeaders() {
    AMQP.BasicProperties received = new AMQP.BasicProperties.Builder().build();
    assertEquals(
        List.of(), Anchors.headerValues(Carrier.amqp(received.getHeaders()), Anchors.HEADER));
  }

  @Test
  void headersOfKafkaClientsAreReadAndWritten() {
    ProducerRecord<String, String> received = new ProducerRecord<>("words", "to");
    received.headers().add("acker-anchors", VALUE.getBytes(StandardCharsets.UTF_8));
    ProducerRecord<String, String> sent = new ProducerRecord<>("counts", "to");
    sent.headers()
        .add("ACKER-ANCHORS", "stale".getBytes(StandardCharsets.UTF_8))
        .add("trace", null);
    readAndWrite(new KafkaHeaders(received.headers()), new KafkaHeaders(sent.headers()));
    assertEquals(2, sent.headers().toArray().length);
    assertArrayEquals(
        VALUE.getBytes(StandardCharsets.UTF_8), sent.headers().lastHeader(Anchors.HEADER).value());
  }

  @Test
  void theVerifierAcceptsWhatTheLibraryOfStandardWebhooksDoesAndTheOtherWayRound()
      throws Exception {
    Webhook library = new Webhook(SECRET);
    long now = Instant.now().getEpochSecond();
    Map<String, String> headers = new HashMap<>();
    headers.put("webhook-id", "msg_1");
    headers.put("webhook-timestamp", Long.toString(now));
    headers.put("webhook-signature", library.sign("msg_1", now, BODY));
    byte[] body = BODY.getBytes(StandardCharsets.UTF_8);
    assertDoesNotThrow(() -> Webhooks.verify(List.of(SECRET), Carrier.of(headers), body));
    assertDoesNotThrow(() -> library.verify(BODY, theirs(headers)));
    assertEquals(Outcome.ACKED, Webhooks.parse(body).get(0).outcome());
    headers.put("webhook-id", "msg_2");
    assertThrows(
        AckerException.Service.class,
        () -> Webhooks.verify(List.of(SECRET), Carrier.of(headers), body));
    assertThrows(Exception.class, () -> library.verify(BODY, theirs(headers)));
  }

  private static HttpHeaders theirs(Map<String, String> headers) {
    return HttpHeaders.of(
        headers.entrySet().stream()
            .collect(Collectors.toMap(Map.Entry::getKey, each -> List.of(each.getValue()))),
        (name, value) -> true);
  }
}
