/** The requests of the client: path, bytes and idempotency key, frozen before the first attempt. */
import { randomUUID } from "node:crypto";
import type { Operation } from "./operations.js";

const MAX_OPERATIONS = 10_000;
/** The acker takes 16 MiB; what a text needs unpacked may be more than its bytes here. */
const MAX_BYTES = 8_388_608;

/**
 * One request. Every attempt sends the same bytes; `key` is left out where a repeat changes nothing.
 *
 * `operations` are those in `body`; `waitMs` is how long a long poll lets the acker wait, and `signal`
 * ends it.
 */
export interface Request {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly body?: string;
  readonly key?: string;
  readonly operations: readonly Operation[];
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/** Freeze operations into requests, in order: one alone as a single call, more as batches. */
export function writeOperations(topology: string, operations: readonly Operation[]): Request[] {
  const [first] = operations;
  if (first !== undefined && operations.length === 1) {
    const { op, ...document } = first;
    return [post(`${topologyPath(topology)}/${op}`, document, operations)];
  }
  const requests: Request[] = [];
  for (let at = 0; at < operations.length; at += MAX_OPERATIONS) {
    requests.push(...batches(topology, operations.slice(at, at + MAX_OPERATIONS)));
  }
  return requests;
}

/** Read a topology. */
export function readTopology(topology: string): Request {
  return { method: "GET", path: topologyPath(topology), operations: [], waitMs: 0 };
}

/** Read a spout task. */
export function readSpout(topology: string, spoutTask: string): Request {
  return { method: "GET", path: spoutPath(topology, spoutTask), operations: [], waitMs: 0 };
}

/** Register a spout task that the acker removes when it is no longer used; a repeat changes nothing. */
export function makeEphemeral(topology: string, spoutTask: string): Request {
  const body = JSON.stringify({ ephemeral: true });
  return { method: "PUT", path: spoutPath(topology, spoutTask), body, operations: [], waitMs: 0 };
}

/** Read completions after a cursor (null: from the oldest that is not released), waiting for the first. */
export function readCompletions(
  topology: string,
  spoutTask: string,
  { after, limit, waitMs }: { after: string | null; limit: number; waitMs: number },
): Request {
  const query = new URLSearchParams({
    limit: String(limit),
    wait_ms: String(waitMs),
    ...(after !== null && { after }),
  });
  return { method: "GET", path: `${spoutPath(topology, spoutTask)}/completions?${query}`, operations: [], waitMs };
}

/** Release completions up to a cursor. */
export function release(topology: string, spoutTask: string, cursor: string): Request {
  return post(`${spoutPath(topology, spoutTask)}/completions/release`, { cursor }, []);
}

/** Whether the answer of a request holds one state for each operation, in a list. */
export function isBatch(request: Request): boolean {
  return request.path.endsWith("/batch");
}

/** Halve a batch until its bytes are within the limit. */
function batches(topology: string, operations: readonly Operation[]): Request[] {
  const request = post(`${topologyPath(topology)}/batch`, { ops: operations }, operations);
  if (operations.length <= 1 || Buffer.byteLength(request.body as string) <= MAX_BYTES) {
    return [request];
  }
  const middle = operations.length >> 1;
  return [...batches(topology, operations.slice(0, middle)), ...batches(topology, operations.slice(middle))];
}

function post(path: string, document: object, operations: readonly Operation[]): Request {
  return { method: "POST", path, body: JSON.stringify(document), key: randomUUID(), operations, waitMs: 0 };
}

function topologyPath(topology: string): string {
  return `/v1/topologies/${topology}`;
}

function spoutPath(topology: string, spoutTask: string): string {
  return `${topologyPath(topology)}/spouts/${spoutTask}`;
}
