/** A tuple that a bolt has received: its anchors, its children, and the operations that end it. */
import { type Anchor, Anchors, writeHeader } from "./anchors.js";
import type { WaitOptions } from "./cancel.js";
import { addChild, EdgeSet, type Key } from "./edges.js";
import { TupleClosedError, UsageError } from "./errors.js";
import type { Acks } from "./folding.js";
import type { Fail, ResetTimeout } from "./operations.js";
import type { AnchorParent } from "./propagate.js";
import type { Submitter } from "./submitter.js";
import { text } from "./validate.js";

const REASON_CHARACTERS = 1_024;

/** Open until it is acked or failed. */
export class Tuple implements AnchorParent {
  #end: "" | "acked" | "failed" = "";
  #edges: EdgeSet[] | null = null;
  #keysNeeded = "";

  /** Programs get tuples of `Acker.receive`. */
  constructor(
    private readonly submitter: Submitter,
    /** The topology that its message belongs to. */
    readonly topology: string,
    /** The anchors of its message. */
    readonly anchors: readonly Anchor[],
    readonly component: string,
    /** @internal Whether a re-run makes the same children in the same order. */
    readonly isRepeatable: boolean,
  ) {}

  /** Whether it has anchors. */
  get tracked(): boolean {
    return this.anchors.length > 0;
  }

  /** Whether it has been acked or failed. */
  get closed(): boolean {
    return this.#end !== "";
  }

  toString(): string {
    const listed = this.anchors.map(({ rootId, edgeId }) => `${rootId}-${edgeId}`).join() || "without anchors";
    return `tuple of ${this.component} (${listed})`;
  }

  /**
   * Anchor a child: a message for one consumer. Throws `DuplicateKeyError` and `TupleClosedError`.
   *
   * With a `key`, a business key of the child within this tuple, a re-run of the bolt gives the child the same edge.
   * Without one its edge is random; in a repeatable tuple its number is its key.
   */
  anchor(key?: Key): Anchors {
    return new Anchors(this.topology, addChild(this.parents(key), key));
  }

  /** Anchor a child, and return the header for its message; empty if the tuple is not tracked. */
  headers(key?: Key): Record<string, string> {
    return writeHeader(this.topology, addChild(this.parents(key), key));
  }

  /** Ack the tuple with all its children; sent after the linger. Throws `OperationsLostError` for earlier acks. */
  ack(wait?: WaitOptions): Promise<void> {
    return this.submitter.ack(this, wait);
  }

  /** Fail every root of the tuple, now; of a root that ends when all of its edges have ended, the edge alone. */
  fail(reason?: string | null, wait?: WaitOptions): Promise<void> {
    return this.submitter.fail(this, reason ?? null, wait);
  }

  /** Give every root of the tuple its message timeout again, now. */
  resetTimeout(wait?: WaitOptions): Promise<void> {
    return this.submitter.resetTimeout(this, wait);
  }

  /** @internal Refuse children without a key from now on. */
  requireKeys(reason: string): void {
    this.#keysNeeded = reason;
  }

  /** @internal Return its edge sets as parents of a new child. */
  parents(key: Key): readonly EdgeSet[] {
    this.#checkOpen("anchored to");
    if (key !== null && key !== undefined) {
      text("the child's key", key);
    } else if (this.tracked && this.#keysNeeded !== "") {
      throw new UsageError(`${this} has a child without a key; ${this.#keysNeeded}`);
    }
    return this.#edgeSets();
  }

  /** @internal Close the tuple, and return what it acks. Closed first: an ack may be lost, and is never sent twice. */
  takeAcks(): Acks {
    this.#checkOpen("acked");
    this.#end = "acked";
    return { anchors: this.anchors, edges: this.#edges };
  }

  /**
   * @internal Close the tuple, and return one fail for each edge, with the reason cut to what the contract takes.
   *
   * A fail carries the children so far, as an ack does: a root that ends when all have ended waits for them.
   */
  failOperations(reason: string | null, isTraced: (rootId: string) => boolean): Fail[] {
    this.#checkOpen("failed");
    this.#end = "failed";
    const words = reason === null ? {} : { reason: cut(reason.toWellFormed()) };
    return this.#edgeSets().map(({ rootId, edgeId, children, ackVal, outstanding }) => ({
      op: "fail",
      root_id: rootId,
      edge_id: edgeId,
      ...(isTraced(rootId) ? { children } : { ack_val: ackVal, outstanding }),
      ...words,
      component: this.component,
    }));
  }

  /** @internal Return one reset of the timeout for each root; the tuple stays open. */
  resetOperations(): ResetTimeout[] {
    this.#checkOpen("given more time");
    const roots = [...new Set(this.anchors.map((anchor) => anchor.rootId))];
    return roots.map((rootId) => ({ op: "reset-timeout", root_id: rootId, component: this.component }));
  }

  #edgeSets(): EdgeSet[] {
    this.#edges ??= this.anchors.map(
      ({ rootId, edgeId }) => new EdgeSet(rootId, edgeId, this.component, this.isRepeatable),
    );
    return this.#edges;
  }

  #checkOpen(use: string): void {
    if (this.closed) {
      throw new TupleClosedError(`${this} was ${this.#end} and cannot be ${use} any more`);
    }
  }
}

/** Anchor one child to all these tuples, an edge in each tree. */
export function anchorToAll(tuples: readonly Tuple[], key: Key): Anchors {
  const topologies = new Set(tuples.map((tuple) => tuple.topology));
  const [topology] = topologies;
  if (topology === undefined || topologies.size > 1) {
    throw new UsageError("a child is anchored to one tuple or more, all of the same topology");
  }
  return new Anchors(
    topology,
    addChild(
      tuples.flatMap((tuple) => tuple.parents(key)),
      key,
    ),
  );
}

/** Cut to what the contract takes, which counts code points. */
function cut(reason: string): string {
  return reason.length <= REASON_CHARACTERS ? reason : [...reason].slice(0, REASON_CHARACTERS).join("");
}
