package example.acker;

/**
 * A function of the program, which may throw what it likes.
 *
 * @param <T> what it is called with
 * @param <E> what it throws
 */
@FunctionalInterface
public interface Work<T, E extends Exception> {
  /** Does the work. */
  void run(T given) throws E;
}
