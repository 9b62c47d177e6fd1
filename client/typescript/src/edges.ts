/** The edges of an anchor: its own and those of its children, as an operation reports them. */
import { type Anchor, checkCount } from "./anchors.js";
import { DuplicateKeyError } from "./errors.js";
import { deriveEdge, drawId, format, high, low, SPOUT_EDGE } from "./ids.js";

/** A key of a child within its parent; null or left out for a random edge. */
export type Key = string | null | undefined;

/**
 * An anchor and its children so far.
 *
 * Its ack val is its own edge id XOR those of all children, `outstanding` the children less the edge itself; the
 * spout's edge, which is zero, stands for no edge. With `numbered`, children without a key get their number as key.
 */
export class EdgeSet {
  readonly children: string[] = [];
  outstanding: number;
  /** The two halves of its ack val. */
  upper: number;
  lower: number;
  #unkeyed = 0;
  #keys: Set<string> | null = null; // of those that have one

  constructor(
    readonly rootId: string,
    readonly edgeId: string,
    private readonly component: string,
    private readonly numbered = false,
  ) {
    this.outstanding = edgeId === SPOUT_EDGE ? 0 : -1;
    this.upper = high(edgeId);
    this.lower = low(edgeId);
  }

  get ackVal(): string {
    return format(this.upper, this.lower);
  }

  /** Whether a child has this key already. */
  hasKey(key: string): boolean {
    return this.#keys?.has(key) === true;
  }

  /** Return a child's key: its own, else its number if children are numbered, else null. */
  chooseKey(key: Key, ahead: number): string | null {
    return key ?? (this.numbered ? `#${this.#unkeyed + ahead}` : null);
  }

  /** Choose a child's edge id: derived from its key, so that a re-run gives the same; random without one. */
  edge(key: string | null): string {
    return key === null ? drawId() : deriveEdge(this.rootId, this.edgeId, this.component, key);
  }

  /** Add a child; it is `keyed` unless its key is its number or null. */
  add(edge: string, key: string | null, keyed: boolean): void {
    this.upper ^= high(edge);
    this.lower ^= low(edge);
    this.outstanding += 1;
    this.children.push(edge);
    if (!keyed) {
      this.#unkeyed += 1;
    }
    if (key !== null) {
      this.#keys ??= new Set();
      this.#keys.add(key);
    }
  }
}

/**
 * Anchor one child to all these parents, and return its anchors. The same parent twice gives two edges.
 *
 * Throws `DuplicateKeyError` and `TooManyAnchorsError`, and then no parent has a new child.
 */
export function addChild(parents: readonly EdgeSet[], key: Key): Anchor[] {
  checkCount(parents.length);
  const born = parents.map((parent, at) => {
    const ahead = parents.length === 1 ? 0 : parents.slice(0, at).filter((other) => other === parent).length;
    const chosen = parent.chooseKey(key, ahead);
    refuseDuplicate(parents, at, chosen, ahead > 0 && typeof key === "string");
    return { parent, chosen, edge: parent.edge(chosen) };
  });
  for (const { parent, chosen, edge } of born) {
    parent.add(edge, chosen, typeof key === "string");
  }
  return born.map(({ parent, edge }) => ({ rootId: parent.rootId, edgeId: edge }));
}

/** A derived id depends on nothing but parent, component and key: twice the same would cancel in the XOR. */
function refuseDuplicate(parents: readonly EdgeSet[], at: number, key: string | null, isTwice: boolean): void {
  if (key === null) {
    return;
  }
  if (parents[at]?.hasKey(key)) {
    throw new DuplicateKeyError(
      `a child with the key ${JSON.stringify(key)} exists already; each needs a key of its own`,
    );
  }
  if (isTwice) {
    throw new DuplicateKeyError(
      `a child with the key ${JSON.stringify(key)} is anchored to one tuple twice; leave it out`,
    );
  }
}
