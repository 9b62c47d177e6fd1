package example.acker;

import java.util.Map;

/**
 * Every error of this package, those of the acker included. Catch one of its kinds, which are a
 * tree, or compare {@link #code}, which is stable.
 *
 * <pre>
 * Usage                usage_error          the program asks for what cannot be; nothing is sent for it
 *   TupleClosed        tuple_closed
 *   DuplicateKey       duplicate_key
 *   TooManyAnchors     too_many_anchors
 *   ClientClosed       client_closed
 * InvalidHeader        invalid_header
 *   InvalidSignature   invalid_signature
 * InvalidResponse      invalid_response
 * RetriesExhausted     retries_exhausted
 * Canceled             canceled             the thread was interrupted first; it still is
 * OperationsLost       operations_lost
 * BufferFull           buffer_full          retryable
 * Service              that of the problem  the acker's answer; retryable as it says
 * </pre>
 */
@SuppressWarnings("serial") // none is written anywhere
public abstract sealed class AckerException extends RuntimeException {
  private final String code;
  private final boolean retryable;
  private final String advice;

  private AckerException(
      String code, boolean retryable, String advice, String message, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.retryable = retryable;
    this.advice = advice;
  }

  /** Returns the code of this error, which does not change from version to version. */
  public String code() {
    return code;
  }

  /** Returns whether the same call may succeed later. */
  public boolean retryable() {
    return retryable;
  }

  /** Returns what to do, in a sentence; empty where the message says all. */
  public String advice() {
    return advice;
  }

  /** Returns the status of the HTTP answer; 0 where none came. */
  public int status() {
    return 0;
  }

  /** Returns true for a write that may have been applied. */
  public boolean outcomeUnknown() {
    return false;
  }

  /** Returns how many operations were lost. */
  public int operations() {
    return 0;
  }

  /** The program asks for what cannot be; nothing was sent for it. */
  public static sealed class Usage extends AckerException {
    Usage(String message) {
      this("usage_error", "Correct the call.", message);
    }

    private Usage(String code, String advice, String message) {
      super(code, false, advice, message, null);
    }
  }

  /** The tuple or root has ended. */
  public static final class TupleClosed extends Usage {
    TupleClosed(String message) {
      super("tuple_closed", "Make children before the tuple is acked, and end it once.", message);
    }
  }

  /** A tuple or root has a child with this key. */
  public static final class DuplicateKey extends Usage {
    DuplicateKey(String message) {
      super("duplicate_key", "Give each child of a tuple a key of its own, or none.", message);
    }
  }

  /** A message would carry more than 64 anchors. */
  public static final class TooManyAnchors extends Usage {
    TooManyAnchors(String message) {
      super(
          "too_many_anchors",
          "Hold the inputs unacked until the aggregate is done, and send it without anchors.",
          message);
    }
  }

  /** The client is closed; a request that was in flight at that moment may have arrived. */
  public static final class ClientClosed extends Usage {
    ClientClosed(String message) {
      super("client_closed", "Close the client after all else has ended.", message);
    }
  }

  /** A header cannot be read, or is of another topology. */
  public static sealed class InvalidHeader extends AckerException {
    InvalidHeader(String message) {
      this(
          "invalid_header",
          "Refuse the message (over HTTP, 400): its tree times out and is replayed.",
          message);
    }

    private InvalidHeader(String code, String advice, String message) {
      super(code, false, advice, message, null);
    }
  }

  /** The anchors of a request have no proof that holds. */
  public static final class InvalidSignature extends InvalidHeader {
    InvalidSignature(String message) {
      super(
          "invalid_signature",
          "Refuse the request (403); the caller signs with a secret of this service.",
          message);
    }
  }

  /** What answers at the acker's address does not answer as an acker. */
  public static final class InvalidResponse extends AckerException {
    InvalidResponse(String message) {
      super(
          "invalid_response",
          false,
          "See what answers at the acker's address: perhaps a proxy, or another service.",
          message,
          null);
    }
  }

  /** A request was sent again until its time was over. */
  public static final class RetriesExhausted extends AckerException {
    private final boolean outcomeUnknown;

    RetriesExhausted(String message, boolean outcomeUnknown, Throwable cause) {
      super(
          "retries_exhausted",
          false,
          "Do not send an ack again in a new request: it could count twice. The root times out and is"
              + " replayed.",
          message,
          cause);
      this.outcomeUnknown = outcomeUnknown;
    }

    @Override
    public boolean outcomeUnknown() {
      return outcomeUnknown;
    }
  }

  /** The thread was interrupted before the call was done; it still is. */
  public static final class Canceled extends AckerException {
    private final boolean outcomeUnknown;

    Canceled(String message, boolean outcomeUnknown) {
      super(
          "canceled",
          false,
          "What was sent before may have been applied; the root times out if it was not.",
          message,
          null);
      this.outcomeUnknown = outcomeUnknown;
    }

    @Override
    public boolean outcomeUnknown() {
      return outcomeUnknown;
    }
  }

  /** Operations that were sent in the background could not be delivered. */
  public static final class OperationsLost extends AckerException {
    private final int operations;

    OperationsLost(String message, int operations, Throwable cause) {
      super(
          "operations_lost",
          false,
          "The call that threw it has done nothing else, so make it again. What was lost times out and"
              + " is replayed.",
          message,
          cause);
      this.operations = operations;
    }

    @Override
    public int operations() {
      return operations;
    }
  }

  /** As many operations are in flight as the buffer size allows. */
  public static final class BufferFull extends AckerException {
    BufferFull(String message) {
      super(
          "buffer_full",
          true,
          "Ack again later, or let acks wait for space: onFull(OnFull.BLOCK).",
          message,
          null);
    }
  }

  /** The acker's answer is an error, with the code and the status of its problem document. */
  public static final class Service extends AckerException {
    private final int status;
    private final Map<String, Object> extra;

    Service(
        String code,
        int status,
        boolean retryable,
        String advice,
        String message,
        Map<String, Object> extra) {
      super(code, retryable, advice, message, null);
      this.status = status;
      this.extra = Map.copyOf(extra);
    }

    @Override
    public int status() {
      return status;
    }

    /** Returns the further members of the acker's problem document. */
    public Map<String, Object> extra() {
      return extra;
    }
  }
}
