package example.acker;

import java.time.Duration;

/**
 * What a root is emitted with, besides its message id; null as the topology says.
 *
 * @param messageTimeout the root's message timeout
 * @param progressTimeout the root's progress timeout, zero for none
 * @param trace whether the acker keeps the root's tree, to explain it
 * @param traceparent W3C's header of that name, which the completion gives back
 * @param endOn what ends the root: its first fail, or that all of its edges have ended
 */
public record EmitOptions(
    Duration messageTimeout,
    Duration progressTimeout,
    boolean trace,
    String traceparent,
    EndOn endOn) {
  private static final EmitOptions DEFAULTS = new EmitOptions(null, null, false, null, null);

  /** Checks the options; throws {@link AckerException.Usage} for what the acker does not take. */
  public EmitOptions {
    if (messageTimeout != null) {
      Checks.timeout("the message timeout", messageTimeout);
    }
    if (progressTimeout != null && !progressTimeout.isZero()) {
      Checks.timeout("the progress timeout", progressTimeout);
    }
    if (traceparent != null) {
      Checks.traceparent(traceparent);
    }
  }

  /** Returns options that leave all to the topology. */
  public static EmitOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these with a message timeout. */
  public EmitOptions withMessageTimeout(Duration timeout) {
    return new EmitOptions(timeout, progressTimeout, trace, traceparent, endOn);
  }

  /** Returns these with a progress timeout, zero for none. */
  public EmitOptions withProgressTimeout(Duration timeout) {
    return new EmitOptions(messageTimeout, timeout, trace, traceparent, endOn);
  }

  /** Returns these for a root whose tree the acker keeps, to explain it. */
  public EmitOptions withTrace() {
    return new EmitOptions(messageTimeout, progressTimeout, true, traceparent, endOn);
  }

  /** Returns these with W3C's header of that name. */
  public EmitOptions withTraceparent(String value) {
    return new EmitOptions(messageTimeout, progressTimeout, trace, value, endOn);
  }

  /** Returns these with what ends the root. */
  public EmitOptions withEndOn(EndOn value) {
    return new EmitOptions(messageTimeout, progressTimeout, trace, traceparent, value);
  }
}
