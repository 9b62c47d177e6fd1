/** Folds acks of one root into one operation: the XOR of their ack vals, the sum of their counts. */
import type { Anchor } from "./anchors.js";
import type { EdgeSet } from "./edges.js";
import { format, high, low } from "./ids.js";
import type { Ack, Operation } from "./operations.js";

/** What a tuple acks: its anchors, and their edges if children were made. */
export interface Acks {
  readonly anchors: readonly Anchor[];
  readonly edges: readonly EdgeSet[] | null;
}

/** How acks are written: folded or with their edges; those of traced roots and dropped tuples name their children. */
export interface AckForm {
  readonly fold: boolean;
  readonly isTraced: (rootId: string) => boolean;
  readonly dropped?: boolean;
}

const MOST_OUTSTANDING = 2 ** 31 - 1;

/** The acks of one root; `edges` are those that are folded in it, null for the `first` alone. */
interface Fold {
  readonly rootId: string;
  upper: number;
  lower: number;
  outstanding: number;
  component: string | null;
  readonly first: string;
  edges: Set<string> | null;
}

/**
 * Operations in the order in which the program gave them, with the acks of one root folded.
 *
 * Only acks of distinct edges fold: the same edge acked twice stays two operations. An ack that names its edge or
 * children does not fold, and closes its root's fold, so later acks stay behind it.
 */
export class FoldedOperations {
  readonly #records: (Fold | Ack)[] = [];
  readonly #folds = new Map<string, Fold>();
  readonly #roots = new Set<string>();

  get size(): number {
    return this.#records.length;
  }

  /** The roots of the operations so far. */
  get roots(): ReadonlySet<string> {
    return this.#roots;
  }

  /** Return the operations so far. */
  operations(): Operation[] {
    return this.#records.map((record) => ("op" in record ? record : writeFold(record)));
  }

  /** Add the acks of one tuple. */
  addAcks({ anchors, edges }: Acks, component: string, { fold, isTraced, dropped = false }: AckForm): void {
    for (let at = 0; at < anchors.length; at += 1) {
      const anchor = anchors[at] as Anchor;
      const own = edges?.[at];
      this.#roots.add(anchor.rootId);
      if (dropped || isTraced(anchor.rootId)) {
        this.#addNamed(anchor, own, component, dropped);
      } else if (fold) {
        this.#fold(anchor, own, component);
      } else {
        this.#addAsItIs(anchor, own, component);
      }
    }
  }

  #addNamed({ rootId, edgeId }: Anchor, own: EdgeSet | undefined, component: string, dropped: boolean): void {
    const named: Ack = { op: "ack", root_id: rootId, edge_id: edgeId, children: own?.children ?? [], component };
    this.#folds.delete(rootId);
    this.#records.push(dropped ? { ...named, dropped } : named);
  }

  #addAsItIs({ rootId, edgeId }: Anchor, own: EdgeSet | undefined, component: string): void {
    const outstanding = own?.outstanding ?? -1;
    const ackVal = own?.ackVal ?? edgeId;
    this.#folds.delete(rootId);
    this.#records.push({ op: "ack", root_id: rootId, edge_id: edgeId, ack_val: ackVal, outstanding, component });
  }

  #fold({ rootId, edgeId }: Anchor, own: EdgeSet | undefined, component: string): void {
    const upper = own?.upper ?? high(edgeId);
    const lower = own?.lower ?? low(edgeId);
    const outstanding = own?.outstanding ?? -1;
    const fold = this.#folds.get(rootId);
    if (fold !== undefined && canFold(fold, edgeId, outstanding)) {
      fold.upper ^= upper;
      fold.lower ^= lower;
      fold.outstanding += outstanding;
      fold.component = fold.component === component ? component : null;
      fold.edges ??= new Set([fold.first]);
      fold.edges.add(edgeId);
      return;
    }
    const begun = { rootId, upper, lower, outstanding, component, first: edgeId, edges: null };
    this.#folds.set(rootId, begun);
    this.#records.push(begun);
  }
}

/** Whether an ack joins a fold: not one of an edge that it has, nor one by which its count would leave its 32 bits. */
function canFold(fold: Fold, edgeId: string, outstanding: number): boolean {
  const isThere = fold.edges === null ? fold.first === edgeId : fold.edges.has(edgeId);
  return !isThere && Math.abs(fold.outstanding + outstanding) <= MOST_OUTSTANDING;
}

/** Write a fold; it names its edge if it has but one, and its component if it is that of all. */
function writeFold(fold: Fold): Ack {
  return {
    op: "ack",
    root_id: fold.rootId,
    ack_val: format(fold.upper, fold.lower),
    outstanding: fold.outstanding,
    ...(fold.edges === null && { edge_id: fold.first }),
    ...(fold.component !== null && { component: fold.component }),
  };
}
