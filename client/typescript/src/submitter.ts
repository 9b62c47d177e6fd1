/** The operations of a client: ack, fail and reset the timeout of tuples, run bolts, send inits. */
import { throwIfAborted, unlessAborted, type WaitOptions } from "./cancel.js";
import { deliver } from "./delivery.js";
import { DropTuple, LeftOpen, TupleSignal } from "./errors.js";
import { Flusher } from "./flusher.js";
import { type AckForm, FoldedOperations } from "./folding.js";
import type { Operation } from "./operations.js";
import { use } from "./propagate.js";
import type { RetrySession } from "./retry.js";
import { isTraced } from "./tracing.js";
import type { Tuple } from "./tuple.js";

/** What happens to a tuple when its function throws: the tree fails, or the edge stays open for a redelivery. */
export type OnError = "fail" | "leave_open";

const DONE = Promise.resolve();
const NEEDS_KEYS =
  'with onError "leave_open" a redelivery would give it another edge, and the topology has no dedupe window: ' +
  "give it a key, or receive it as repeatable";

/** Sends operations of one topology; acks are buffered. */
export class Submitter {
  readonly flusher: Flusher;
  droppedTuples = 0;
  untrackedTuples = 0;
  isClosing = false;
  #lingers: boolean;
  readonly #folded: AckForm = { fold: true, isTraced: (rootId) => this.isTraced(rootId) };
  readonly #unfolded: AckForm = { ...this.#folded, fold: false };
  readonly #dropped: AckForm = { ...this.#unfolded, dropped: true };

  constructor(
    readonly session: RetrySession,
    private readonly onDrop: (tuple: Tuple, drop: DropTuple) => unknown,
  ) {
    this.flusher = new Flusher(session);
    this.#lingers = session.settings.linger > 0;
  }

  /** Let no ack linger or wait for space any more: the client is closed. */
  stop(): void {
    this.isClosing = true;
    this.#lingers = false;
    this.flusher.close();
  }

  /**
   * Ack a tuple. Nearly every ack is folded into the buffer here, and nothing is left to do.
   *
   * The tuple is closed only when nothing can go wrong any more before its acks are in flight.
   */
  ack(tuple: Tuple, wait?: WaitOptions): Promise<void> {
    try {
      this.flusher.raiseFailures();
      return this.#ack(tuple, undefined, wait?.signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Fail every root of a tuple, or its edge alone where the root ends when all have ended. */
  async fail(tuple: Tuple, reason: string | null, wait: WaitOptions = {}): Promise<void> {
    this.flusher.raiseFailures();
    throwIfAborted(() => `the fail of ${tuple}`, wait.signal);
    await this.#fail(tuple, reason, wait);
  }

  /** Give every root of a tuple its message timeout again. */
  async resetTimeout(tuple: Tuple, wait: WaitOptions = {}): Promise<void> {
    await this.sendNow(tuple.resetOperations(), wait);
  }

  /** Send operations now, after what is in flight for their roots. */
  async sendNow(operations: readonly Operation[], { signal }: WaitOptions = {}): Promise<void> {
    await unlessAborted(() => `the ${operations[0]?.op}`, signal, this.flusher.flushConflicting(operations));
    if (operations.length > 0) {
      await deliver(this.session, operations, signal);
    }
  }

  /** Run a bolt's function with its tuple current, then ack it; or end it as what the function throws says. */
  async process<T>(
    tuple: Tuple,
    run: (tuple: Tuple) => T | Promise<T>,
    onError: OnError,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    await unlessAborted(() => `the work on ${tuple}`, signal, this.#begin(tuple, onError));
    let result: T;
    try {
      result = await use(tuple, async () => await run(tuple));
    } catch (error) {
      if (error instanceof TupleSignal) {
        await this.#interrupt(tuple, error, onError);
        return undefined;
      }
      await this.#interrupt(tuple, error, signal?.aborted === true ? "leave_open" : onError).catch((second) =>
        this.#warnUnfailed(tuple, second),
      );
      throw error;
    }
    await this.#complete(tuple);
    return result;
  }

  /** Whether operations name the edges of a root, as far as the topology is known. */
  isTraced(rootId: string): boolean {
    return isTraced(rootId, this.session.info?.trace ?? 0);
  }

  /**
   * Begin the function of a tuple.
   *
   * With `onError: "leave_open"` a redelivered message gives a child without a key another edge. Without a dedupe window
   * such a child is refused, so the topology is read first.
   */
  async #begin(tuple: Tuple, onError: OnError): Promise<void> {
    this.flusher.raiseFailures();
    if (onError === "leave_open" && tuple.tracked && !tuple.isRepeatable) {
      const info = await this.session.topologyInfo();
      if (!info.dedupes) {
        tuple.requireKeys(NEEDS_KEYS);
      }
    }
  }

  #complete(tuple: Tuple, form?: AckForm): Promise<void> {
    return tuple.closed ? DONE : this.#ack(tuple, form);
  }

  async #interrupt(tuple: Tuple, error: unknown, onError: OnError): Promise<void> {
    if (error instanceof DropTuple) {
      this.droppedTuples += 1;
      await this.onDrop(tuple, error);
      await this.#complete(tuple, this.#dropped);
    } else if (!(tuple.closed || error instanceof LeftOpen) && (error instanceof TupleSignal || onError === "fail")) {
      await this.#fail(tuple, wordsOf(error));
    }
  }

  #warnUnfailed(tuple: Tuple, error: unknown): void {
    this.session.settings.logger.warn(`acker: ${tuple} could not be failed: ${wordsOf(error)}`);
  }

  #fail(tuple: Tuple, reason: string | null, wait?: WaitOptions): Promise<void> {
    return this.sendNow(tuple.failOperations(reason, this.#folded.isTraced), wait);
  }

  /** Ack a tuple in this form; without one, as its topology takes it. */
  #ack(tuple: Tuple, form?: AckForm, signal?: AbortSignal): Promise<void> {
    const { info } = this.session;
    if (!tuple.tracked) {
      tuple.takeAcks();
      return DONE;
    }
    if (info === null || !this.#lingers || this.flusher.isFull) {
      return this.#lingers ? this.#ackWhenPossible(tuple, form, signal) : this.#ackNow(tuple, form, signal);
    }
    this.flusher.add(tuple.takeAcks(), tuple.component, form ?? (info.dedupes ? this.#unfolded : this.#folded));
    return DONE;
  }

  /** Ack a tuple once the topology was read and the buffer has space. */
  async #ackWhenPossible(tuple: Tuple, form?: AckForm, signal?: AbortSignal): Promise<void> {
    const what = () => `the ack of ${tuple}`;
    await unlessAborted(what, signal, this.session.topologyInfo());
    await unlessAborted(what, signal, this.flusher.waitForSpace());
    await this.#ack(tuple, form, signal);
  }

  /** Ack a tuple whose acks do not linger, by a request of their own. */
  async #ackNow(tuple: Tuple, form = this.#unfolded, signal?: AbortSignal): Promise<void> {
    throwIfAborted(() => `the ack of ${tuple}`, signal);
    const acks = new FoldedOperations();
    acks.addAcks(tuple.takeAcks(), tuple.component, form);
    await deliver(this.session, acks.operations(), signal);
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
