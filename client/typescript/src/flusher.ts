/** Sends buffered acks: gathered for a moment, then sent together, one request after the other. */

import { unlessAborted } from "./cancel.js";
import { rewriteRefused } from "./delivery.js";
import { BufferFullError, ClientClosedError, OperationsLostError, ServiceError } from "./errors.js";
import { type AckForm, type Acks, FoldedOperations } from "./folding.js";
import { NOT_ADMITTED, type Operation } from "./operations.js";
import { backoffDelays, LONGEST_TIMER_MS } from "./options.js";
import { type Request, writeOperations } from "./requests.js";
import { type OperationResult, readResults, retryAfterMs } from "./responses.js";
import type { RetrySession } from "./retry.js";

/**
 * What waits for requests that were buffered or in flight at its call: until all are settled, or `once`, until each was
 * answered, although it was refused. One that waits so takes no failures: the next call raises them.
 */
interface Waiter {
  pending: number;
  readonly once: boolean;
  readonly failures: Failure[];
  readonly settled: Deferred;
}

interface Deferred {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

interface Failure {
  readonly operations: number;
  readonly error: unknown;
}

/**
 * A request that does not change any more.
 *
 * `since` is when it, or the one that was refused before it, was first sent; `due` is when a refused one may be sent
 * again, and `delays` are the pauses after each further refusal.
 */
interface Frozen {
  readonly request: Request;
  readonly waiters: Waiter[];
  since: number | null;
  readonly due: number;
  readonly delays: Generator<number, never>;
}

/**
 * The buffered acks of one client, and the one loop that sends them.
 *
 * Group commit: while a request is in flight, all acks and flushes that come gather for the next one. A request stays
 * here until it is answered or given up; what the acker refuses waits behind all else.
 */
export class Flusher {
  lost = 0;
  #folded = new FoldedOperations();
  #frozen: Frozen[] = [];
  #waiters: Waiter[] = []; // of what is not frozen yet
  #failures: Failure[] = [];
  #running = false;
  #urgent = false;
  #timer: NodeJS.Timeout | null = null;
  #wake: (() => void) | null = null;
  #spaceWanted: (() => void)[] = [];
  #closed = false;

  constructor(private readonly session: RetrySession) {}

  /** Operations that are buffered or being sent. */
  get inFlight(): number {
    return this.#frozen.reduce((sum, frozen) => sum + frozen.request.operations.length, this.#folded.size);
  }

  /** Whether there is no space for one more operation. */
  get isFull(): boolean {
    return this.inFlight >= this.session.settings.bufferSize;
  }

  /** Add the acks of one tuple, which are sent after the linger, or with a full batch. */
  add(acks: Acks, component: string, form: AckForm): void {
    this.#folded.addAcks(acks, component, form);
    const { linger, batchSize } = this.session.settings;
    if (this.#folded.size >= batchSize) {
      this.#sendSoon();
    } else if (this.#folded.size > 0) {
      this.#timer ??= setTimeout(() => this.#sendSoon(), Math.min(linger, LONGEST_TIMER_MS));
    }
  }

  /** How many acks wait for space, and how many flushes for the first request in flight; for tests. */
  get waiting(): { space: number; answers: number } {
    return { space: this.#spaceWanted.length, answers: this.#frozen[0]?.waiters.length ?? 0 };
  }

  /** Let no ack wait for space any more: what is there is all that a flush has to send. */
  close(): void {
    this.#closed = true;
    this.#wakeWaiting();
  }

  /**
   * Wait until there is space for an ack. Throws `BufferFullError` with `onFull: "throw"`, and `ClientClosedError` once
   * the client is closed.
   */
  async waitForSpace(): Promise<void> {
    while (this.isFull && !this.#closed) {
      if (this.session.settings.onFull === "throw") {
        throw new BufferFullError(`${this.inFlight} operations are in flight, and bufferSize allows no more`);
      }
      this.#sendSoon();
      await new Promise<void>((resolve) => this.#spaceWanted.push(resolve));
    }
    if (this.#closed) {
      throw new ClientClosedError("the client was closed before the ack was sent");
    }
  }

  /**
   * Send first what is buffered or in flight now for the roots of these operations, so that the order of one root is kept.
   *
   * What the acker has refused is not waited for: it may refuse it until these operations have come.
   */
  async flushConflicting(operations: readonly Operation[]): Promise<void> {
    const roots = new Set(operations.map((each) => each.root_id));
    const now = performance.now();
    const conflicting = this.#frozen.filter(
      ({ request, due }) => due <= now && request.operations.some((each) => roots.has(each.root_id)),
    );
    await this.#waitFor(
      conflicting,
      [...roots].some((root) => this.#folded.roots.has(root)),
      true,
    );
  }

  /**
   * Send all that is buffered now, and what is refused again until it is accepted. Throws `OperationsLostError`, and
   * `CanceledError` once the signal is aborted: sending goes on, and what is lost then is raised by the next call.
   */
  async flush(signal?: AbortSignal): Promise<void> {
    const waited = this.#waitFor(this.#frozen, this.#folded.size > 0, false);
    try {
      const waiter = await unlessAborted(() => "the flush", signal, waited);
      this.#failures.push(...waiter.failures);
    } catch (error) {
      void waited.then(({ failures }) => this.#failures.push(...failures));
      throw error;
    }
    this.raiseFailures();
  }

  /** Throw `OperationsLostError` for what was given up since the last call. */
  raiseFailures(): void {
    if (this.#failures.length > 0) {
      const failures = this.#failures;
      this.#failures = [];
      const operations = failures.reduce((sum, each) => sum + each.operations, 0);
      throw new OperationsLostError(operations, { cause: failures.at(-1)?.error });
    }
  }

  /** Wait for requests, and for what is `buffered` if there is something. */
  async #waitFor(requests: readonly Frozen[], buffered: boolean, once: boolean): Promise<Waiter> {
    const waiter: Waiter = { pending: 0, once, failures: [], settled: deferred() };
    for (const frozen of requests) {
      frozen.waiters.push(waiter);
      waiter.pending += 1;
    }
    if (buffered) {
      this.#waiters.push(waiter);
      waiter.pending += 1;
    }
    if (waiter.pending > 0) {
      this.#sendSoon();
      await waiter.settled.promise;
    }
    return waiter;
  }

  /** Send what is buffered as soon as the request in flight is answered. */
  #sendSoon(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
    this.#urgent = true;
    this.#wake?.();
    if (!this.#running) {
      this.#running = true;
      void this.#run();
    }
  }

  async #run(): Promise<void> {
    await null; // what a program acks and flushes in one turn goes together
    while (this.#urgent || this.#frozen.length > 0) {
      this.#freeze();
      const next = this.#frozen.find((frozen) => frozen.due <= performance.now());
      if (next === undefined) {
        await this.#pauseForRefused();
      } else {
        await this.#sendOne(next);
      }
    }
    this.#running = false;
  }

  #freeze(): void {
    if (!this.#urgent) {
      return;
    }
    this.#urgent = false;
    if (this.#folded.size === 0) {
      return;
    }
    const written = writeOperations(this.session.topology, this.#folded.operations());
    const waiters = this.#waiters;
    for (const waiter of waiters) {
      waiter.pending += written.length - 1;
    }
    this.#frozen.push(...written.map((request) => this.#frozenOf(request, [...waiters])));
    this.#folded = new FoldedOperations();
    this.#waiters = [];
  }

  #frozenOf(request: Request, waiters: Waiter[]): Frozen {
    return { request, waiters, since: null, due: 0, delays: backoffDelays() };
  }

  async #sendOne(frozen: Frozen): Promise<void> {
    const { since } = frozen;
    frozen.since ??= performance.now();
    try {
      const response = await this.session.send(frozen.request, since ?? undefined);
      const refused = readResults(frozen.request, response).filter(({ state }) => NOT_ADMITTED.has(state));
      this.#settle(frozen, refused, retryAfterMs(response));
    } catch (error) {
      this.#giveUp(frozen, frozen.request.operations.length, error);
      return;
    }
    await this.session.refreshTopology().catch(() => undefined); // what is known stays
  }

  /** Remove a request that was answered, and requeue what it refused: nothing of that was applied. */
  #settle(frozen: Frozen, refused: readonly OperationResult[], askedMs: number): void {
    const [first] = refused;
    if (first === undefined) {
      this.#takeOut(frozen, []);
      return;
    }
    const due = performance.now() + Math.max(frozen.delays.next().value, askedMs);
    if (due - (frozen.since ?? due) > this.session.retryLimitMs) {
      const words = `${refused.length} operations were refused until their time was over`;
      this.#giveUp(frozen, refused.length, new ServiceError(first.state, words));
      return;
    }
    const operations = refused.map((result) => result.operation);
    const { since, delays, waiters } = frozen;
    const again = rewriteRefused(this.session.topology, [frozen.request], operations);
    const others = waiters.filter((waiter) => !waiter.once);
    this.#takeOut(
      frozen,
      again.map((request) => ({ request, waiters: [...others], since, due, delays })),
    );
  }

  /** Remove a request that cannot be delivered. Flushes that wait for it raise the error, or else the next call. */
  #giveUp(frozen: Frozen, operations: number, error: unknown): void {
    this.lost += operations;
    const flushes = frozen.waiters.filter((waiter) => !waiter.once);
    const takers = flushes.length > 0 ? flushes.map((waiter) => waiter.failures) : [this.#failures];
    for (const failures of takers) {
      failures.push({ operations, error });
    }
    this.#takeOut(frozen, []);
  }

  /** Replace a request by others, behind all the rest, and wake who waits for it, or for space. */
  #takeOut(frozen: Frozen, others: readonly Frozen[]): void {
    this.#frozen = [...this.#frozen.filter((each) => each !== frozen), ...others];
    for (const waiter of frozen.waiters) {
      waiter.pending += (waiter.once ? 0 : others.length) - 1;
      if (waiter.pending === 0) {
        waiter.settled.resolve();
      }
    }
    this.#wakeWaiting();
  }

  #wakeWaiting(): void {
    for (const wake of this.#spaceWanted.splice(0)) {
      wake();
    }
  }

  /** Wait until a refused request may be sent again, or something else is to be sent. */
  async #pauseForRefused(): Promise<void> {
    const due = Math.min(...this.#frozen.map((frozen) => frozen.due));
    const { promise, resolve } = deferred();
    this.#wake = resolve;
    const timer = setTimeout(resolve, Math.min(Math.max(0, due - performance.now()), LONGEST_TIMER_MS));
    await promise;
    clearTimeout(timer);
    this.#wake = null;
  }
}

function deferred(): Deferred {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
