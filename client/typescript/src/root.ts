/** A root that is being emitted: its first edges, and its init. */
import { Anchors, writeHeader } from "./anchors.js";
import { addChild, EdgeSet, type Key } from "./edges.js";
import { TupleClosedError } from "./errors.js";
import { drawId, SPOUT_EDGE } from "./ids.js";
import type { EndOn, Init } from "./operations.js";
import type { AnchorParent } from "./propagate.js";
import { mark } from "./tracing.js";
import { integer, messageId, oneOf, TIMEOUT_MS, text, traceparent } from "./validate.js";

/** What a root is emitted with, besides its message id. Times are in milliseconds. */
export interface EmitOptions {
  /** The topology's if it is left out. */
  readonly messageTimeout?: number;
  /** The topology's if it is left out, 0 for none. */
  readonly progressTimeout?: number;
  /** The acker keeps the root's tree, to explain it. */
  readonly trace?: boolean;
  /** W3C's header of that name, which the completion gives back. */
  readonly traceparent?: string;
  /**
   * What ends the root: `"first_fail"`, or `"all_ended"`: that all of its edges have ended, and then the completion says
   * how many failed. What the topology says if it is left out.
   */
  readonly endOn?: EndOn;
  /** The emit ends when it is aborted: no init is sent any more, and one that was sent may have been applied. */
  readonly signal?: AbortSignal;
}

/** Open until its function ends. */
export class Root implements AnchorParent {
  readonly rootId: string;
  /** The spout's own id of the message; null: the root is not tracked, and nothing is sent. */
  readonly messageId: string | null;
  readonly #edges: EdgeSet;
  readonly #members: Partial<Init>;
  #open = true;

  /** Programs get roots of `Spout.emit`. */
  constructor(
    readonly topology: string,
    readonly spoutTask: string,
    id: string | null | undefined,
    options: EmitOptions,
  ) {
    this.messageId = id === null || id === undefined ? null : messageId(id);
    this.#members = initMembers(this.messageId, options);
    this.rootId = options.trace === true ? mark(drawId()) : drawId();
    this.#edges = new EdgeSet(this.rootId, SPOUT_EDGE, spoutTask);
  }

  /** Whether it has a message id. */
  get tracked(): boolean {
    return this.messageId !== null;
  }

  toString(): string {
    return `root ${this.rootId} of ${this.spoutTask} (message id ${JSON.stringify(this.messageId)})`;
  }

  /**
   * Anchor a message for one consumer. Throws `DuplicateKeyError` and `TupleClosedError`.
   *
   * With a `key` its edge id is derived from the root id and the key, else it is random.
   */
  anchor(key?: Key): Anchors {
    return new Anchors(this.topology, addChild(this.#parents(key), key));
  }

  /** Anchor a message for one consumer, and return its header; empty for a root that is not tracked. */
  headers(key?: Key): Record<string, string> {
    return writeHeader(this.topology, addChild(this.#parents(key), key));
  }

  /** @internal Take no more children. */
  close(): void {
    this.#open = false;
  }

  /** @internal Return the init, which names its edges if the root is traced. */
  initOperation(isTraced: (rootId: string) => boolean): Init {
    const edges = this.#edges;
    return {
      op: "init",
      root_id: this.rootId,
      spout_task: this.spoutTask,
      ...(isTraced(this.rootId)
        ? { edges: edges.children }
        : { ack_val: edges.ackVal, outstanding: edges.outstanding }),
      ...this.#members,
    };
  }

  #parents(key: Key): readonly EdgeSet[] {
    if (!this.#open) {
      throw new TupleClosedError(`${this} was emitted and cannot be anchored to any more`);
    }
    if (key !== null && key !== undefined) {
      text("the child's key", key);
    }
    return this.tracked ? [this.#edges] : [];
  }
}

function initMembers(id: string | null, options: EmitOptions): Partial<Init> {
  const { messageTimeout, progressTimeout } = options;
  return {
    ...(id !== null && { message_id: id }),
    ...(messageTimeout !== undefined && {
      message_timeout_ms: integer("messageTimeout", messageTimeout, TIMEOUT_MS),
    }),
    ...(progressTimeout !== undefined && {
      progress_timeout_ms: integer("progressTimeout", progressTimeout, TIMEOUT_MS, { zero: true }),
    }),
    ...(options.trace === true && { trace: true as const }),
    ...(options.traceparent !== undefined && { traceparent: traceparent(options.traceparent) }),
    ...(options.endOn !== undefined && { end_on: oneOf("endOn", options.endOn, "first_fail", "all_ended") }),
  };
}
