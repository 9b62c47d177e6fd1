package example.acker;

/**
 * What a client has counted.
 *
 * @param inFlight operations that are buffered or being sent now
 * @param lost operations that could not be delivered
 * @param droppedTuples tuples that were acked by a {@link DropTuple}
 * @param untrackedTuples tuples that came without an anchors header
 */
public record Stats(int inFlight, int lost, int droppedTuples, int untrackedTuples) {}
