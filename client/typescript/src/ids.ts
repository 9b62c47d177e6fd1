/**
 * The 64-bit ids of roots and edges: 16 lowercase hex digits, not all zero.
 *
 * An *ack val* is the XOR of edge ids, and may be zero. JavaScript has no 64-bit integers that are cheap, so it is
 * two of 32 bits.
 */
import { createHmac, type Hmac, randomFillSync } from "node:crypto";

const BYTES = 8;

/** The parent edge of an edge that a spout derives: a spout tuple has no parent. */
export const SPOUT_EDGE = "0".repeat(16);

const pool = Buffer.alloc(BYTES * 512);
let drawn = pool.length;

/** Draw a new id from the system's cryptographic source, which is asked for 512 at once. */
export function drawId(): string {
  for (;;) {
    if (drawn === pool.length) {
      randomFillSync(pool);
      drawn = 0;
    }
    const id = pool.toString("hex", drawn, drawn + BYTES);
    drawn += BYTES;
    if (id !== SPOUT_EDGE) {
      return id;
    }
  }
}

/** Whether this is an id: 16 lowercase hex digits, not all zero. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{16}$/.test(text) && text !== SPOUT_EDGE;
}

/**
 * Derive the edge id of a child, so that a re-run of the same work gives the same id.
 *
 * The first 8 bytes of HMAC-SHA256, keyed with the root id, over the parent's edge id (8 bytes, zero at a spout), the
 * component, a zero byte and the key, both in UTF-8. See docs/anchors.md.
 */
export function deriveEdge(rootId: string, parentEdge: string, component: string, key: string): string {
  return edgeOfDigest(rootId, hmac(rootId).update(parentEdge, "hex").update(`${component}\0${key}`).digest());
}

/** Return the first 8 bytes of a digest as an id; if they are zero, those of the HMAC of the whole digest, and so on. */
export function edgeOfDigest(rootId: string, digest: Buffer): string {
  const found = digest.toString("hex", 0, BYTES);
  return found === SPOUT_EDGE ? edgeOfDigest(rootId, hmac(rootId).update(digest).digest()) : found;
}

function hmac(rootId: string): Hmac {
  return createHmac("sha256", Buffer.from(rootId, "hex"));
}

/** The upper 32 bits of an id. */
export function high(id: string): number {
  return Number.parseInt(id.slice(0, 8), 16);
}

/** The lower 32 bits of an id. */
export function low(id: string): number {
  return Number.parseInt(id.slice(8), 16);
}

/** Write two halves as 16 hex digits. */
export function format(upper: number, lower: number): string {
  return (upper >>> 0).toString(16).padStart(8, "0") + (lower >>> 0).toString(16).padStart(8, "0");
}
