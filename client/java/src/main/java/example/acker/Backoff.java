package example.acker;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.DoubleSupplier;

/**
 * The pauses before each further attempt: from 50 ms, doubling up to 5 s, the upper half of each
 * random.
 */
final class Backoff {
  private static final long FIRST_NS = Duration.ofMillis(50).toNanos();
  private static final long MOST_NS = Duration.ofSeconds(5).toNanos();

  private final DoubleSupplier jitter;
  private long spanNs = FIRST_NS;

  Backoff(DoubleSupplier jitter) {
    this.jitter = jitter;
  }

  Backoff() {
    this(() -> ThreadLocalRandom.current().nextDouble());
  }

  long nextNs() {
    long pause = (long) (spanNs * (1 + jitter.getAsDouble()) / 2);
    spanNs = Math.min(2 * spanNs, MOST_NS);
    return pause;
  }
}
