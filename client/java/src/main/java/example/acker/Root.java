package example.acker;

import java.util.List;
import java.util.function.LongPredicate;

/** What {@link Spout#emit} makes: open until its function ends. */
public final class Root implements Parent {
  private final String topology;
  private final String spoutTask;
  private final String messageId; // null: the root is not tracked, and nothing is sent
  private final EmitOptions options;
  private final long id;
  private final EdgeSet edges;
  private boolean open = true;

  Root(String topology, String spoutTask, String messageId, EmitOptions options) {
    this.topology = topology;
    this.spoutTask = spoutTask;
    this.messageId = messageId;
    this.options = options;
    long drawn = Ids.draw();
    this.id = options.trace() ? Tracing.mark(drawn) : drawn;
    this.edges = new EdgeSet(new Anchor(id, Ids.SPOUT_EDGE), spoutTask, false);
  }

  /** Returns the root id: 16 hex digits. */
  public String id() {
    return Ids.text(id);
  }

  @Override
  public boolean tracked() {
    return messageId != null;
  }

  @Override
  public String toString() {
    return "root " + id() + " of " + spoutTask;
  }

  @Override
  public synchronized Anchors anchor(String key) {
    if (key != null) {
      Checks.text("the child's key", key);
    }
    if (!open) {
      throw new AckerException.TupleClosed(
          this + " was emitted and cannot be anchored to any more");
    }
    return new Anchors(topology, tracked() ? EdgeSet.addChild(List.of(edges), key) : List.of());
  }

  /** Takes no more children. */
  synchronized void close() {
    open = false;
  }

  /** Returns the init, which names its edges if the root is traced. */
  Operation initOperation(LongPredicate isTraced) {
    Operation init = new Operation(Operation.Kind.INIT, id).carrying(edges, isTraced.test(id));
    init.spoutTask = spoutTask;
    init.messageId = messageId;
    init.options = options;
    return init;
  }
}
