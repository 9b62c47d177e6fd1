package example.acker;

import java.util.concurrent.TimeUnit;

/** Waits that an interrupt ends, and calls that a former one does not. */
final class Interrupts {
  private Interrupts() {}

  /** Returns the error of a wait that was interrupted; the thread is interrupted still. */
  static AckerException canceled(String what, boolean outcomeUnknown) {
    Thread.currentThread().interrupt();
    return new AckerException.Canceled(what + ", and its thread was interrupted", outcomeUnknown);
  }

  /**
   * Throws Canceled in a thread that is interrupted. What is refused so has changed nothing: it can
   * be done later.
   */
  static void refuse(String what) {
    if (Thread.currentThread().isInterrupted()) {
      throw canceled(what, false);
    }
  }

  static void sleep(long ns, String what, boolean outcomeUnknown) {
    try {
      TimeUnit.NANOSECONDS.sleep(ns);
    } catch (InterruptedException e) {
      throw canceled(what, outcomeUnknown);
    }
  }

  /**
   * Makes a call as if the thread had not been interrupted before; it is again after that. What was
   * done, or has failed, is told also then.
   */
  static void masked(Runnable call) {
    boolean wasInterrupted = Thread.interrupted();
    try {
      call.run();
    } finally {
      if (wasInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
