package example.acker;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.time.Duration;

/**
 * One operation on one root, as the acker's JSON has it. Each uses a part of the members.
 *
 * <p>An ack and a fail have an ack val and a count, or the children by name.
 */
final class Operation {
  /** The operations on a root. */
  enum Kind {
    INIT("init"),
    ACK("ack"),
    FAIL("fail"),
    RESET_TIMEOUT("reset-timeout");

    final String text;

    Kind(String text) {
      this.text = text;
    }
  }

  final Kind kind;
  final long root;
  String spoutTask;
  String messageId;
  EmitOptions options;
  long edge;
  boolean counts;
  long ackVal;
  int outstanding;
  long[] children;
  String reason;
  String component;
  boolean dropped;

  Operation(Kind kind, long root) {
    this.kind = kind;
    this.root = root;
  }

  /** Lets it carry an ack val and a count. */
  Operation counting(long ackVal, int outstanding) {
    this.counts = true;
    this.ackVal = ackVal;
    this.outstanding = outstanding;
    return this;
  }

  /** Lets it carry the children of an edge: by name, or as an ack val and a count. */
  Operation carrying(EdgeSet edges, boolean byName) {
    if (byName) {
      children = edges.children();
      return this;
    }
    return counting(edges.ackVal(), edges.outstanding());
  }

  void write(JsonGenerator to, boolean named) throws IOException {
    to.writeStartObject();
    if (named) {
      to.writeStringField("op", kind.text);
    }
    to.writeStringField("root_id", Ids.text(root));
    writeText(to, "spout_task", spoutTask);
    if (edge != 0) {
      to.writeStringField("edge_id", Ids.text(edge));
    }
    if (counts) {
      to.writeStringField("ack_val", Ids.text(ackVal));
      to.writeNumberField("outstanding", outstanding);
    }
    if (children != null) {
      to.writeArrayFieldStart(kind == Kind.INIT ? "edges" : "children");
      for (long each : children) {
        to.writeString(Ids.text(each));
      }
      to.writeEndArray();
    }
    writeText(to, "message_id", messageId);
    if (options != null) {
      writeOptions(to);
    }
    writeText(to, "reason", reason);
    writeText(to, "component", component);
    if (dropped) {
      to.writeBooleanField("dropped", true);
    }
    to.writeEndObject();
  }

  private void writeOptions(JsonGenerator to) throws IOException {
    writeTimeout(to, "message_timeout_ms", options.messageTimeout());
    writeTimeout(to, "progress_timeout_ms", options.progressTimeout());
    if (options.trace()) {
      to.writeBooleanField("trace", true);
    }
    writeText(to, "traceparent", options.traceparent());
    writeText(to, "end_on", options.endOn() == null ? null : options.endOn().toString());
  }

  private static void writeText(JsonGenerator to, String name, String value) throws IOException {
    if (value != null) {
      to.writeStringField(name, value);
    }
  }

  private static void writeTimeout(JsonGenerator to, String name, Duration value)
      throws IOException {
    if (value != null) {
      to.writeNumberField(name, value.toMillis());
    }
  }
}
