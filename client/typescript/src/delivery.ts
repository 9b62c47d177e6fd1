/** Applies operations now: sends them in frozen requests, and those that were refused again in new ones. */
import { pause, throwIfAborted } from "./cancel.js";
import { ServiceError } from "./errors.js";
import { NOT_ADMITTED, type Operation, REFUSED } from "./operations.js";
import { backoffDelays, LONGEST_TIMER_MS, type Settings } from "./options.js";
import { type Request, writeOperations } from "./requests.js";
import { type OperationResult, readResults, retryAfterMs } from "./responses.js";
import type { RetrySession } from "./retry.js";

/** What has less time left is not sent again. */
const SHORTEST_PAUSE_MS = 1;

/**
 * Send operations until they are admitted or their time is over: the last attempt is made then, and none where the
 * acker asks to wait for longer. Throws the error of the first that stays refused, and `CanceledError` once the signal
 * is aborted.
 */
export async function deliver(
  session: RetrySession,
  operations: readonly Operation[],
  signal?: AbortSignal,
): Promise<OperationResult[]> {
  const what = () => `the ${operations[0]?.op}`;
  throwIfAborted(what, signal);
  const since = performance.now();
  const delays = backoffDelays();
  const results = new Map<Operation, OperationResult>();
  let written = writeOperations(session.topology, operations);
  for (;;) {
    const askedMs = await send(session, written, results, signal);
    const left = retryable(operations, results, session.settings, { ageMs: performance.now() - since, askedMs });
    if (left.size === 0) {
      return operations.map((each) => accepted(results.get(each) as OperationResult));
    }
    const ownMs = Math.min(delays.next().value, ...left.values());
    await pause(what, Math.min(Math.max(ownMs, askedMs), LONGEST_TIMER_MS), signal); // nothing was applied
    written = rewriteRefused(session.topology, written, [...left.keys()]);
  }
}

/**
 * Write operations again that were refused.
 *
 * An ack or a fail that was alone in its request is sent with the same key: the acker does not remember what it
 * refused so. All others need a new key: under the old one it would repeat its refusal.
 */
export function rewriteRefused(topology: string, refused: Request[], operations: readonly Operation[]): Request[] {
  const [request] = refused;
  const isAlone = refused.length === 1 && request?.operations.length === 1 && operations[0]?.op !== "init";
  return isAlone ? refused : writeOperations(topology, operations);
}

/** Send requests, note the result of each operation, and return for how long the acker asks to wait. */
async function send(
  session: RetrySession,
  requests: readonly Request[],
  results: Map<Operation, OperationResult>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let askedMs = 0;
  for (const request of requests) {
    const response = await session.send(signal === undefined ? request : { ...request, signal });
    for (const result of readResults(request, response)) {
      results.set(result.operation, result);
    }
    askedMs = Math.max(askedMs, retryAfterMs(response));
  }
  return askedMs;
}

/** Return the operations that were not admitted and may be sent again, each with the milliseconds that it has left. */
function retryable(
  operations: readonly Operation[],
  results: ReadonlyMap<Operation, OperationResult>,
  settings: Settings,
  { ageMs, askedMs }: { ageMs: number; askedMs: number },
): Map<Operation, number> {
  const left = new Map<Operation, number>();
  for (const each of operations) {
    const state = results.get(each)?.state;
    const leftMs = limitMs(each, settings) - ageMs;
    if (state !== undefined && NOT_ADMITTED.has(state) && leftMs >= Math.max(askedMs, SHORTEST_PAUSE_MS)) {
      left.set(each, leftMs);
    }
  }
  return left;
}

function limitMs(operation: Operation, settings: Settings): number {
  if (operation.op !== "init") {
    return settings.retryTimeout;
  }
  return Math.min(settings.emitTimeout, operation.message_timeout_ms ?? Number.POSITIVE_INFINITY);
}

function accepted(result: OperationResult): OperationResult {
  const { operation, state } = result;
  if (REFUSED.has(state)) {
    const what = operation.op === "init" ? `init of message id ${JSON.stringify(operation.message_id)}` : operation.op;
    throw new ServiceError(state, `the ${what} of root ${operation.root_id} was refused until its time was over`);
  }
  return result;
}
