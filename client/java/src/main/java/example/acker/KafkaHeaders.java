package example.acker;

import java.nio.charset.StandardCharsets;
import java.util.function.BiConsumer;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** The headers of a record of kafka-clients: {@code new KafkaHeaders(record.headers())}. */
public record KafkaHeaders(Headers headers) implements Carrier {
  @Override
  public void forEach(BiConsumer<String, String> each) {
    for (Header one : headers) {
      byte[] value = one.value() == null ? new byte[0] : one.value();
      each.accept(one.key(), new String(value, StandardCharsets.UTF_8));
    }
  }

  @Override
  public void set(String name, String value) {
    headers.add(name, value.getBytes(StandardCharsets.UTF_8));
  }

  @Override
  public void delete(String name) {
    for (Header one : headers.toArray()) {
      if (name.equalsIgnoreCase(one.key())) {
        headers.remove(one.key());
      }
    }
  }
}
