package example.acker;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The arguments of a command of the driver. */
record Arguments(Map<String, Object> members) {
  Object get(String name) {
    return members.get(name);
  }

  /** Returns whether it is given, perhaps as null. */
  boolean has(String name) {
    return members.containsKey(name);
  }

  String text(String name) {
    return (String) members.get(name);
  }

  boolean flag(String name) {
    return Boolean.TRUE.equals(members.get(name));
  }

  int number(String name, int other) {
    return members.get(name) instanceof Number found ? found.intValue() : other;
  }

  double fraction(String name) {
    return ((Number) members.get(name)).doubleValue();
  }

  Optional<Duration> duration(String name) {
    return members.get(name) instanceof Number found
        ? Optional.of(Duration.ofNanos(Math.round(found.doubleValue() * 1e6)))
        : Optional.empty();
  }

  Instant now() {
    return Instant.ofEpochSecond((long) Math.floor(fraction("now")));
  }

  @SuppressWarnings("unchecked") // the command has them so
  <T> List<T> list(String name) {
    return members.get(name) == null ? List.of() : (List<T>) members.get(name);
  }

  @SuppressWarnings("unchecked") // the command has them so
  Arguments object(String name) {
    return members.get(name) == null
        ? null
        : new Arguments((Map<String, Object>) members.get(name));
  }
}
