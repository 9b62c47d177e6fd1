package example.acker;

import java.nio.charset.StandardCharsets;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The headers of a message: this interface makes one of what a library has. */
public interface Carrier {
  /** Calls a function with each name and each of its values. */
  void forEach(BiConsumer<String, String> each);

  /** Adds a header. */
  void set(String name, String value);

  /** Removes a header, whose name is in upper or lower case. */
  void delete(String name);

  /**
   * Returns headers that are a map of one value each, or, to read alone, of lists, as those of
   * HTTP. Bytes are text in UTF-8.
   */
  static Carrier of(Map<String, String> headers) {
    return new MapCarrier<>(headers, value -> value);
  }

  /** Returns headers that are a map of lists, as those of HTTP and NATS. */
  static Carrier http(Map<String, List<String>> headers) {
    return new MapCarrier<>(headers, List::of);
  }

  /**
   * Returns headers of AMQP 0-9-1, as those of {@code BasicProperties.getHeaders()}; null, as a
   * message without headers has, can be read.
   */
  static Carrier amqp(Map<String, Object> headers) {
    return new MapCarrier<>(headers == null ? Map.of() : headers, value -> value);
  }

  /**
   * Returns headers of a Kafka record as a list of pairs. Those of kafka-clients: {@link
   * KafkaHeaders}.
   */
  static Carrier kafka(List<Map.Entry<String, byte[]>> headers) {
    return new PairCarrier(headers);
  }

  /**
   * Returns any map of headers, to read: its values are texts, bytes in UTF-8, lists of these, or
   * others.
   */
  static Carrier reading(Map<String, ?> headers) {
    return new MapCarrier<>(headers, MapCarrier::refuse);
  }

  /** Headers that are a map. */
  record MapCarrier<V>(Map<String, V> headers, Function<String, V> made) implements Carrier {
    @Override
    public void forEach(BiConsumer<String, String> each) {
      headers.forEach(
          (name, value) -> {
            if (value instanceof Iterable<?> values) {
              values.forEach(one -> each.accept(name, text(one)));
            } else {
              each.accept(name, text(value));
            }
          });
    }

    @Override
    public void set(String name, String value) {
      headers.put(name, made.apply(value));
    }

    @Override
    public void delete(String name) {
      headers.keySet().removeIf(name::equalsIgnoreCase);
    }

    private static <V> V refuse(String value) {
      throw new AckerException.Usage(
          "these headers are to be read; make others to write with Carrier.of");
    }
  }

  /** Headers that are a list of pairs, whose values are bytes. */
  record PairCarrier(List<Map.Entry<String, byte[]>> headers) implements Carrier {
    @Override
    public void forEach(BiConsumer<String, String> each) {
      headers.forEach(one -> each.accept(one.getKey(), text(one.getValue())));
    }

    @Override
    public void set(String name, String value) {
      headers.add(new SimpleImmutableEntry<>(name, value.getBytes(StandardCharsets.UTF_8)));
    }

    @Override
    public void delete(String name) {
      headers.removeIf(one -> name.equalsIgnoreCase(one.getKey()));
    }
  }

  private static String text(Object value) {
    return value instanceof byte[] bytes
        ? new String(bytes, StandardCharsets.UTF_8)
        : String.valueOf(value);
  }
}
