package example.acker;

import java.util.List;

/**
 * How a tuple is received, and its function run.
 *
 * @param component the name of the bolt
 * @param repeatable whether a re-run makes the same children in the same order: then children
 *     without a key have the same edges again
 * @param onError what happens to a tuple whose function throws
 * @param secrets a {@link Bolt} answers 403 to anchors that nobody signed who has one of these;
 *     empty: it asks for no proof
 */
public record ReceiveOptions(
    String component, boolean repeatable, OnError onError, List<String> secrets) {
  /** Checks the options; throws {@link AckerException.Usage} for what cannot be. */
  public ReceiveOptions {
    Checks.name("the component", component);
    secrets = List.copyOf(secrets);
    if (!secrets.isEmpty()) {
      Signatures.checkSecrets(secrets);
    }
  }

  /** Returns the options of a bolt of this name: its tuples fail where its function throws. */
  public static ReceiveOptions of(String component) {
    return new ReceiveOptions(component, false, OnError.FAIL, List.of());
  }

  /** Returns these for work whose re-run makes the same children in the same order. */
  public ReceiveOptions asRepeatable() {
    return new ReceiveOptions(component, true, onError, secrets);
  }

  /** Returns these with what happens to a tuple whose function throws. */
  public ReceiveOptions withOnError(OnError value) {
    return new ReceiveOptions(component, repeatable, value, secrets);
  }

  /** Returns these for a {@link Bolt} that asks for proof by one of these secrets. */
  public ReceiveOptions withProof(String... values) {
    Signatures.checkSecrets(List.of(values));
    return new ReceiveOptions(component, repeatable, onError, List.of(values));
  }
}
