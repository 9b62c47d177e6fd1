package example.acker;

import java.net.http.HttpClient;
import java.time.Duration;
import java.util.function.BiConsumer;

/** The options of one client, complete; {@link Acker.Builder} says what each means. */
record Settings(
    String topology,
    String apiKey,
    Duration retryTimeout,
    Duration emitTimeout,
    Duration requestTimeout,
    Duration startupTimeout,
    Duration linger,
    int batchSize,
    int bufferSize,
    OnFull onFull,
    BiConsumer<Tuple, String> onDrop,
    System.Logger logger,
    HttpClient httpClient) {

  Settings {
    Checks.name("the topology", topology);
    if (apiKey != null && !apiKey.chars().allMatch(Settings::isOfHeader)) {
      throw new AckerException.Usage(
          "the API key must be one line of Latin-1 without control characters"); // it is not shown
    }
    boolean isNegative =
        retryTimeout.isNegative()
            || emitTimeout.isNegative()
            || linger.isNegative()
            || startupTimeout != null && startupTimeout.isNegative();
    if (isNegative || requestTimeout.isNegative() || requestTimeout.isZero()) {
      throw new AckerException.Usage(
          "timeouts must not be negative, and the request timeout more than 0");
    }
    if (batchSize < 1 || bufferSize < batchSize) {
      throw new AckerException.Usage(
          "the batch size must be 1 or more, and the buffer size at least as large");
    }
  }

  /** Returns whether a header can hold a character. */
  private static boolean isOfHeader(int character) {
    return character <= 0xff && !Character.isISOControl(character);
  }
}
