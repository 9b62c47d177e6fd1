/** Waits that an AbortSignal ends. */
import { setTimeout as sleep } from "node:timers/promises";
import { CanceledError } from "./errors.js";

/** What a call that waits takes. */
export interface WaitOptions {
  /** The call ends with a `CanceledError` when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** Return the error of a call whose signal was aborted. */
export function canceled(what: () => string, signal: AbortSignal, outcomeUnknown = false): CanceledError {
  return new CanceledError(`${what()} was given up: its signal was aborted`, outcomeUnknown, { cause: signal.reason });
}

/** Throw `CanceledError` if the signal was aborted. */
export function throwIfAborted(what: () => string, signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) {
    throw canceled(what, signal);
  }
}

/** Wait for what others may wait for, too: it goes on when the signal is aborted. */
export function unlessAborted<T>(what: () => string, signal: AbortSignal | undefined, promise: Promise<T>): Promise<T> {
  return signal === undefined ? promise : race(what, signal, promise);
}

async function race<T>(what: () => string, signal: AbortSignal, promise: Promise<T>): Promise<T> {
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(canceled(what, signal));
  });
  if (signal.aborted) {
    abort();
  }
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    promise.catch(() => undefined); // nobody waits for it any more
  }
}

/** Sleep. Throws `CanceledError`, which says of a write that it may have been applied if it was sent before. */
export async function pause(
  what: () => string,
  ms: number,
  signal: AbortSignal | undefined,
  outcomeUnknown = false,
): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    throw signal?.aborted === true ? canceled(what, signal, outcomeUnknown) : error;
  }
}
