package example.acker;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;

/**
 * What a client follows of its topology.
 *
 * @param idempotencyWindow for how long the acker remembers keys
 * @param dedupes whether an edge counts once, however often it is acked
 * @param maxSpoutPending how many roots of a spout task may be pending; null for any number
 * @param trace the share of the roots that are traced
 */
record TopologyInfo(
    Duration idempotencyWindow, boolean dedupes, Integer maxSpoutPending, double trace) {
  static TopologyInfo read(Answer given) {
    try {
      Map<String, Object> found = Json.readObject(given.body());
      if (found.get("idempotency_window_ms") instanceof Number window) {
        return new TopologyInfo(
            Duration.ofMillis(window.longValue()),
            found.get("dedupe_window_ms") instanceof Number dedupe && dedupe.doubleValue() > 0,
            found.get("max_spout_pending") instanceof Number most ? most.intValue() : null,
            found.get("trace") instanceof Number share ? share.doubleValue() : 0);
      }
    } catch (IOException e) {
      // said below
    }
    throw new AckerException.InvalidResponse(
        "the answer about a topology holds no idempotency_window_ms");
  }
}
