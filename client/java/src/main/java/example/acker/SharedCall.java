package example.acker;

import java.util.concurrent.CountDownLatch;

/** A call that many threads need at once: one of them makes it, the others wait for its result. */
final class SharedCall {
  private Running running; // null while nobody makes it

  private static final class Running {
    final CountDownLatch ended = new CountDownLatch(1);
    volatile RuntimeException error;
  }

  /**
   * Makes the call, or waits for the one that is made. If the thread of its caller is interrupted,
   * another makes it.
   */
  void run(Runnable call) {
    while (true) {
      Running own = new Running();
      Running found = join(own);
      if (found == own) {
        make(call, own);
        return;
      }
      try {
        found.ended.await();
      } catch (InterruptedException e) {
        throw Interrupts.canceled("a call waited for the same one of another thread", false);
      }
      if (found.error == null) {
        return;
      }
      if (!(found.error instanceof AckerException.Canceled)) {
        throw found.error;
      }
    }
  }

  private synchronized Running join(Running own) {
    if (running == null) {
      running = own;
    }
    return running;
  }

  private void make(Runnable call, Running own) {
    try {
      call.run();
    } catch (RuntimeException e) {
      own.error = e;
      throw e;
    } finally {
      leave();
      own.ended.countDown();
    }
  }

  private synchronized void leave() {
    running = null;
  }
}
