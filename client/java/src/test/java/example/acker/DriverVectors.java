package example.acker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** The commands of the vectors. */
final class DriverVectors {
  private DriverVectors() {}

  static void addTo(Map<String, Driver.Command> commands) {
    commands.put("hello", given -> Map.of("language", "java"));
    commands.put("read_header", DriverVectors::readHeader);
    commands.put("write_header", DriverVectors::writeHeader);
    commands.put("derive_edge", DriverVectors::deriveEdge);
    commands.put("derive_from_digest", DriverVectors::deriveFromDigest);
    commands.put("verify_webhook", DriverVectors::verifyWebhook);
    commands.put(
        "sign_anchors",
        given -> Signatures.write(given.text("secret"), given.text("anchors"), given.now()));
    commands.put("check_signature", DriverVectors::checkSignature);
    commands.put("decide", DriverVectors::decide);
    commands.put("backoff", DriverVectors::backoff);
  }

  private static Object readHeader(Arguments given) {
    Carrier headers = carrier(given.text("carrier"), given.list("headers"));
    Optional<Anchors> found = Anchors.extract(headers);
    if (given.text("topology") != null) {
      try (Acker acker =
          Acker.builder("http://acker.test").topology(given.text("topology")).build()) {
        found = Optional.of(acker.receive(headers, "reader").anchors());
      }
    }
    if (found.isEmpty() || found.get().size() == 0) {
      return null;
    }
    List<String> anchors = found.get().list().stream().map(Anchor::toString).toList();
    return Map.of("topology", found.get().topology(), "anchors", anchors);
  }

  /** Returns headers as a library of the carrier gives them. */
  private static Carrier carrier(String name, List<List<String>> pairs) {
    switch (name) {
      case "amqp" -> {
        Map<String, Object> table = new LinkedHashMap<>();
        pairs.forEach(each -> table.put(each.get(0), each.get(1).getBytes(StandardCharsets.UTF_8)));
        return Carrier.amqp(table);
      }
      case "kafka" -> {
        RecordHeaders headers = new RecordHeaders();
        pairs.forEach(
            each -> headers.add(each.get(0), each.get(1).getBytes(StandardCharsets.UTF_8)));
        return new KafkaHeaders(headers);
      }
      default -> {
        Map<String, List<String>> headers = new HashMap<>();
        pairs.forEach(
            each -> headers.computeIfAbsent(each.get(0), of -> new ArrayList<>()).add(each.get(1)));
        return Carrier.http(headers);
      }
    }
  }

  private static Object writeHeader(Arguments given) {
    List<Anchor> anchors = new ArrayList<>();
    for (String each : given.<String>list("anchors")) {
      anchors.add(new Anchor(Ids.parse(each, 0), Ids.parse(each, Ids.DIGITS + 1)));
    }
    Anchors.checkCount(anchors.size());
    Carrier headers = carrier(given.text("carrier"), given.list("others"));
    new Anchors(given.text("topology"), anchors).setOn(headers);
    List<List<String>> pairs = new ArrayList<>();
    headers.forEach((name, value) -> pairs.add(List.of(name, value)));
    return pairs;
  }

  private static Object deriveEdge(Arguments given) {
    long root = Ids.parse(given.text("root"), 0);
    long parent = Ids.parse(given.text("parent"), 0);
    return Ids.text(Ids.derive(root, parent, given.text("component"), given.text("key")));
  }

  private static Object deriveFromDigest(Arguments given) {
    byte[] digest = HexFormat.of().parseHex(given.text("digest"));
    return Ids.text(Ids.ofDigest(Ids.parse(given.text("root"), 0), digest));
  }

  private static Object verifyWebhook(Arguments given) {
    Map<String, String> headers = new HashMap<>();
    given.object("headers").members().forEach((name, value) -> headers.put(name, (String) value));
    byte[] body = given.text("body").getBytes(StandardCharsets.UTF_8);
    try {
      Webhooks.verify(Webhooks.keys(given.list("secrets")), Carrier.of(headers), body, given.now());
      return Map.of("accepted", true);
    } catch (AckerException e) {
      return Map.of("refused", e.getMessage());
    }
  }

  private static Object checkSignature(Arguments given) {
    List<String> secrets = given.list("secrets");
    Signatures.checkSecrets(secrets);
    Signatures.check(secrets, carrier("http", given.list("headers")), given.now());
    return Map.of("accepted", true);
  }

  private static Object decide(Arguments given) {
    Arguments request = given.object("request");
    List<Operation> operations = new ArrayList<>();
    for (int at = 0; at < request.number("operations", 0); at++) {
      operations.add(new Operation(Operation.Kind.ACK, 1));
    }
    Request asked =
        new Request(request.text("method"), request.text("path"), null, null, operations, null);
    Arguments answered = given.object("answer");
    Answer answer =
        answered == null
            ? Answer.none(new IOException("no answer"), null)
            : new Answer(
                answered.number("status", 0),
                answered.text("body").getBytes(StandardCharsets.UTF_8),
                answered.text("retry_after"),
                null,
                null);
    Answer.Failure failed = answer.failureOf(asked);
    if (failed == null) {
      return Map.of("again", false);
    }
    return Map.of(
        "again", failed.retryable(),
        "wait_ms", failed.pause().toMillis(),
        "error", Driver.described(failed.error(), "lost"));
  }

  private static Object backoff(Arguments given) {
    double jitter = given.fraction("jitter");
    Backoff pauses = new Backoff(() -> jitter);
    List<Double> milliseconds = new ArrayList<>();
    for (int at = 0; at < given.number("attempts", 0); at++) {
      milliseconds.add(pauses.nextNs() / 1e6);
    }
    return milliseconds;
  }
}
