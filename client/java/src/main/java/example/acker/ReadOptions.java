package example.acker;

import java.time.Duration;
import java.util.function.BooleanSupplier;

/**
 * How completions are read.
 *
 * @param stop ends reading before a poll where it returns true
 * @param until ends reading before a poll after so long, but for the first poll; null: never
 * @param pageSize how many completions a poll asks for
 * @param pollTimeout how long a poll waits for the first completion
 */
public record ReadOptions(
    BooleanSupplier stop, Duration until, int pageSize, Duration pollTimeout) {
  static final Duration MAX_POLL_TIMEOUT = Duration.ofMinutes(1);
  private static final int MAX_PAGE_SIZE = 10_000;
  private static final ReadOptions DEFAULTS =
      new ReadOptions(() -> false, null, 100, Duration.ofSeconds(30));

  /** Checks the options; throws {@link AckerException.Usage} for what the acker does not take. */
  public ReadOptions {
    if (pageSize < 1 || pageSize > MAX_PAGE_SIZE) {
      throw new AckerException.Usage(
          "the page size must be from 1 to " + MAX_PAGE_SIZE + ", not " + pageSize);
    }
    if (pollTimeout.isNegative() || pollTimeout.compareTo(MAX_POLL_TIMEOUT) > 0) {
      throw new AckerException.Usage(
          "the poll timeout must be from 0 to " + MAX_POLL_TIMEOUT + ", not " + pollTimeout);
    }
  }

  /** Returns options that read on and on: 100 completions a poll, which waits 30 s. */
  public static ReadOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these with what ends reading before a poll. */
  public ReadOptions withStop(BooleanSupplier value) {
    return new ReadOptions(value, until, pageSize, pollTimeout);
  }

  /** Returns these with an end of reading after so long. */
  public ReadOptions withUntil(Duration value) {
    return new ReadOptions(stop, value, pageSize, pollTimeout);
  }

  /** Returns these with a page size. */
  public ReadOptions withPageSize(int completions) {
    return new ReadOptions(stop, until, completions, pollTimeout);
  }

  /** Returns these with a poll timeout. */
  public ReadOptions withPollTimeout(Duration value) {
    return new ReadOptions(stop, until, pageSize, value);
  }
}
