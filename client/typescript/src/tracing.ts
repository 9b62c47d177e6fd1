/** Which roots are traced: a share of them, chosen by their ids, so that every process chooses the same ones. */
import { format, high, low } from "./ids.js";

const MARK_MASK = 0xffff;
const SAMPLE_RANGE = 2 ** 32;
const SAMPLE_MULTIPLIER = 2_654_435_761;

/** Whether the acks of a root name their children: it may be traced by hand, or is in the share that is traced. */
export function isTraced(rootId: string, share: number): boolean {
  return (
    rootId.endsWith("0000") || (share > 0 && sample(rootId) < Math.min(SAMPLE_RANGE, Math.round(share * SAMPLE_RANGE)))
  );
}

/** Turn a drawn root id into one that says that its root is traced by hand. */
export function mark(rootId: string): string {
  const lower = low(rootId) & ~MARK_MASK;
  return high(rootId) === 0 && lower === 0 ? format(0, MARK_MASK + 1) : format(high(rootId), lower);
}

function sample(rootId: string): number {
  return Math.imul(high(rootId) ^ low(rootId), SAMPLE_MULTIPLIER) >>> 0;
}
