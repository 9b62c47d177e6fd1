/**
 * The client of an acker, which tells the sender of a message when everything that the message set
 * off is done, or that a piece of it failed or took too long.
 *
 * <p>A spout emits a root with the first messages; a bolt receives a message, makes children and
 * acks it:
 *
 * <pre>{@code
 * try (Acker acker = Acker.builder("http://127.0.0.1:8700").topology("orders").build()) {
 *   acker.process(headers, "split", tuple -> send(word, tuple.headers("word-1")));
 * }
 * }</pre>
 *
 * <p>Acks wait for a moment ({@link example.acker.Acker.Builder#linger}) and are sent together in
 * the background: close the client before the program ends. All methods may be called by many
 * threads at once. An interrupted thread stops waiting. All exceptions are {@link
 * example.acker.AckerException}, but those of your own functions.
 */
package example.acker;
