/** The client of an acker, for one topology. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { type Anchors, type IncomingHeaders, readAnchors } from "./anchors.js";
import type { WaitOptions } from "./cancel.js";
import type { Key } from "./edges.js";
import { type AckerOptions, readSettings, type Settings } from "./options.js";
import { RetrySession } from "./retry.js";
import { Spout } from "./spout.js";
import { SpoutTask } from "./spout-task.js";
import { type OnError, Submitter } from "./submitter.js";
import { checkUrl, HttpTransport, type Transport } from "./transport.js";
import { anchorToAll, Tuple } from "./tuple.js";
import { name, oneOf } from "./validate.js";

const DEFAULT_URL = "http://127.0.0.1:8700";
const NAME_LENGTH = 128;
/** Tells this process from one in another container with its host name and process id: each reads its own. */
const PROCESS = `-${process.pid}-${randomBytes(4).toString("hex")}`;

/** How a tuple is received. */
export interface ReceiveOptions {
  /** A re-run makes the same children in the same order: then children without a key have the same edges again. */
  readonly repeatable?: boolean;
}

/** How a bolt's function is run. */
export interface ProcessOptions extends ReceiveOptions {
  /** `"fail"` fails the tree when the function throws; `"leave_open"` sends nothing: the message is delivered again. */
  readonly onError?: OnError;
  /** When it is aborted the wait before the function ends; if the function throws after that its tuple stays open. */
  readonly signal?: AbortSignal;
}

/** What a client has counted. */
export interface Stats {
  /** Operations that are buffered or being sent now. */
  readonly inFlight: number;
  /** Operations that could not be delivered. */
  readonly lost: number;
  /** Tuples that were acked by a `DropTuple`. */
  readonly droppedTuples: number;
  /** Tuples that came without an anchors header. */
  readonly untrackedTuples: number;
}

/**
 * The acker at `url`, for one topology.
 *
 * ```ts
 * const acker = new Acker("http://127.0.0.1:8700", { topology: "orders" });
 * await acker.process(headers, "split", async (tuple) => {
 *   await queue.send(word, { headers: tuple.headers("word-1") });
 * });
 * await acker.close();
 * ```
 *
 * Acks wait for `linger` and are sent together in the background. Await `close()` before the process ends.
 */
export class Acker {
  readonly topology: string;
  readonly #settings: Settings;
  readonly #transport: Transport;
  readonly #session: RetrySession;
  readonly #submitter: Submitter;
  readonly #tasks = new Map<string, SpoutTask>();

  /** Throws `UsageError` for an option or address that cannot be. */
  constructor(url: string = DEFAULT_URL, options: AckerOptions = {}) {
    this.#settings = readSettings(options);
    this.topology = this.#settings.topology;
    this.#transport = options.transport ?? new HttpTransport(checkUrl(url), options.apiKey);
    this.#session = new RetrySession(this.topology, this.#settings, this.#transport);
    this.#submitter = new Submitter(
      this.#session,
      options.onDrop ?? ((tuple, drop) => this.#settings.logger.warn(`acker: ${tuple} was dropped: ${drop.message}`)),
    );
  }

  /** Make a client of `ACKER_URL` (default http://127.0.0.1:8700), `ACKER_TOPOLOGY` and `ACKER_API_KEY`. */
  static fromEnv(options: AckerOptions = {}): Acker {
    const { ACKER_URL, ACKER_TOPOLOGY, ACKER_API_KEY } = process.env;
    return new Acker(ACKER_URL || DEFAULT_URL, {
      topology: ACKER_TOPOLOGY || "default",
      apiKey: ACKER_API_KEY || undefined,
      ...options,
    });
  }

  /** Return a spout task of this process alone; the acker removes it some time after the process has ended. */
  spout(spoutName: string): Spout {
    const readable = `${name("the spout's name", spoutName)}-${hostname()}`.replaceAll(/[^A-Za-z0-9._-]/g, "-");
    return this.#spout(readable.slice(0, NAME_LENGTH - PROCESS.length) + PROCESS, true);
  }

  /** Return the spout task of exactly this name, which many processes may use while one of them reads. */
  sharedSpout(spoutName: string): Spout {
    return this.#spout(name("the spout's name", spoutName), false);
  }

  /**
   * Return the tuple of a received message, which has to be acked or failed; without the header it is not tracked.
   *
   * `headers` are those of the message, as libraries of HTTP, AMQP and Kafka give them. Throws `InvalidHeaderError`,
   * also for a header of another topology, and `UsageError`.
   */
  receive(headers: IncomingHeaders, component: string, { repeatable = false }: ReceiveOptions = {}): Tuple {
    const anchors = readAnchors(headers, this.topology);
    name("component", component);
    if (anchors.length === 0) {
      this.#submitter.untrackedTuples += 1;
    }
    return new Tuple(this.#submitter, this.topology, anchors, component, repeatable);
  }

  /**
   * Run a bolt's function with the tuple of a received message, which is current while it runs, and ack it then.
   *
   * If the function throws, the tuple is failed, or left open as `onError` says, and the error is thrown on;
   * `FailTuple` and `DropTuple` end the tuple and are not. Returns what the function returns, undefined after a signal.
   */
  async process<T>(
    headers: IncomingHeaders,
    component: string,
    run: (tuple: Tuple) => T | Promise<T>,
    { onError = "fail", signal, ...options }: ProcessOptions = {},
  ): Promise<T | undefined> {
    return await this.processTuple(this.receive(headers, component, options), run, onError, signal);
  }

  /** As `process`, with a tuple that was received. */
  processTuple<T>(
    tuple: Tuple,
    run: (tuple: Tuple) => T | Promise<T>,
    onError: OnError = "fail",
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    return this.#submitter.process(tuple, run, oneOf("onError", onError, "fail", "leave_open"), signal);
  }

  /** @internal Log a warning. */
  warn(message: string): void {
    this.#settings.logger.warn(`acker: ${message}`);
  }

  /** Anchor one child to all these tuples, an edge in each tree. Throws `DuplicateKeyError`, `TooManyAnchorsError`. */
  anchor(tuples: readonly Tuple[], key?: Key): Anchors {
    return anchorToAll(tuples, key);
  }

  /** Return what this client has counted. */
  stats(): Stats {
    const { flusher, droppedTuples, untrackedTuples } = this.#submitter;
    return { inFlight: flusher.inFlight, lost: flusher.lost, droppedTuples, untrackedTuples };
  }

  /** @internal Return how many acks wait for space, how many flushes for answers, and whether `close` was called. */
  internals(): { space: number; answers: number; closing: boolean } {
    const { flusher, isClosing: closing } = this.#submitter;
    return { ...flusher.waiting, closing };
  }

  /** Send what is buffered, and return when all of it is answered. Throws `OperationsLostError`. */
  flush({ signal }: WaitOptions = {}): Promise<void> {
    return this.#submitter.flusher.flush(signal);
  }

  /**
   * Flush, and close the connections. Throws `OperationsLostError`. An ack that waits for space then throws
   * `ClientClosedError`, and its tuple is unchanged.
   */
  async close(wait: WaitOptions = {}): Promise<void> {
    this.#submitter.stop();
    try {
      await this.flush(wait);
    } finally {
      this.#transport.close();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #spout(taskName: string, own: boolean): Spout {
    const task = this.#tasks.get(taskName) ?? new SpoutTask(this.#session, taskName, own);
    this.#tasks.set(taskName, task);
    return new Spout(task, this.#submitter);
  }
}
