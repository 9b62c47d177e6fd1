package example.acker;

import java.util.Optional;
import java.util.concurrent.Callable;

/**
 * The current tuple or root of a thread: {@link Acker#process} and {@link Spout#emit} make theirs
 * current while their function runs. Where the work goes on in another thread, {@link #wrap} takes
 * it along.
 */
public final class Propagate {
  private static final ThreadLocal<Parent> CURRENT = new ThreadLocal<>();

  private Propagate() {}

  /** Makes the tuple or root current that was so before. */
  public interface Scope extends AutoCloseable {
    @Override
    void close();
  }

  /** Returns the current tuple or root of this thread. */
  public static Optional<Parent> current() {
    return Optional.ofNullable(CURRENT.get());
  }

  /**
   * Returns the current tuple of this thread: that of the function of a bolt, or of a request
   * behind a {@link Bolt}.
   */
  public static Optional<Tuple> currentTuple() {
    return Optional.ofNullable(CURRENT.get() instanceof Tuple tuple ? tuple : null);
  }

  /**
   * Makes a tuple or root current in this thread until the scope is closed, for try-with-resources;
   * null: none.
   */
  public static Scope use(Parent parent) {
    Parent before = CURRENT.get();
    set(parent);
    return () -> set(before);
  }

  private static void set(Parent parent) {
    if (parent == null) {
      CURRENT.remove();
    } else {
      CURRENT.set(parent);
    }
  }

  /** Returns a task that runs, in any thread, with what is current here and now. */
  public static Runnable wrap(Runnable task) {
    Parent own = CURRENT.get();
    return () -> {
      Scope scope = use(own);
      try {
        task.run();
      } finally {
        scope.close();
      }
    };
  }

  /** Returns a task that runs, in any thread, with what is current here and now. */
  public static <T> Callable<T> wrap(Callable<T> task) {
    Parent own = CURRENT.get();
    return () -> {
      Scope scope = use(own);
      try {
        return task.call();
      } finally {
        scope.close();
      }
    };
  }

  /**
   * Anchors a child without a key to the current tuple or root, and sets its header on a message.
   * It does nothing without a current one, or where the message has anchors already.
   */
  public static void inject(Carrier headers) {
    inject(headers, null);
  }

  /** Likewise with a key for the child; null for none. */
  public static void inject(Carrier headers, String key) {
    Parent parent = CURRENT.get();
    if (parent == null || !Anchors.headerValues(headers, Anchors.HEADER).isEmpty()) {
      return;
    }
    Anchors child = parent.anchor(key);
    if (child.size() > 0) {
      headers.delete(Signatures.HEADER);
      child.setOn(headers);
    }
  }
}
