/** A spout task in this process: its registration, its free places, and its mailbox. */
import { setTimeout as sleep } from "node:timers/promises";
import { pause, unlessAborted } from "./cancel.js";
import { type Completion, type Page, readPage } from "./completions.js";
import { ServiceError } from "./errors.js";
import { backoffDelays } from "./options.js";
import { makeEphemeral, readCompletions, readSpout, release } from "./requests.js";
import { readObject } from "./responses.js";
import type { RetrySession } from "./retry.js";
import { integer, PAGE_SIZE, WAIT_MS } from "./validate.js";

/** Milliseconds between two polls when the first came back empty at once, as from an acker that is shutting down. */
const MIN_POLL_INTERVAL_MS = 100;

/** How completions are read. Times are in milliseconds. */
export interface ReadOptions {
  /** Reading ends before a poll when it is true. */
  readonly stop?: () => boolean;
  /** Reading ends before a poll after so long, but for the first poll. */
  readonly until?: number;
  /** Reading ends at once when it is aborted; what was not handled comes again. */
  readonly signal?: AbortSignal;
  /** Completions that a poll asks for: 100. */
  readonly pageSize?: number;
  /** How long a poll waits for the first completion: 30,000. */
  readonly pollTimeout?: number;
}

/** One spout task of one client; `own` is a name that no other process has. */
export class SpoutTask {
  registered: boolean;
  #free = 0;
  #uncommitted = 0;
  #registering: Promise<unknown> | null = null;

  constructor(
    readonly session: RetrySession,
    readonly name: string,
    readonly own: boolean,
  ) {
    this.registered = !own;
  }

  /** Let a root be emitted: wait for a free place where the topology has a cap. Throws `max_spout_pending`. */
  async admit(signal?: AbortSignal): Promise<void> {
    const what = () => `an emit of ${this.name}`;
    await unlessAborted(what, signal, this.#register());
    const since = performance.now();
    for (const delay of backoffDelays()) {
      if (await this.#tryAcquire(signal)) {
        return;
      }
      if (performance.now() - since >= this.session.settings.emitTimeout) {
        const words = `${this.name} has as many pending roots as max_spout_pending allows, and none has ended in time`;
        throw new ServiceError("max_spout_pending", words);
      }
      await pause(what, delay, signal);
    }
  }

  /** End the emit of a root: its init was sent, or it has none. */
  release(): void {
    this.#uncommitted = Math.max(0, this.#uncommitted - 1);
  }

  /** Register a name of its own as ephemeral, once: no process reads it after this one. */
  async #register(): Promise<void> {
    await this.session.topologyInfo();
    await this.session.refreshTopology();
    if (!this.registered) {
      this.#registering ??= this.session.send(makeEphemeral(this.session.topology, this.name)).finally(() => {
        this.#registering = null;
      });
      await this.#registering;
      this.registered = true;
    }
  }

  async #tryAcquire(signal: AbortSignal | undefined): Promise<boolean> {
    const { maxSpoutPending } = await this.session.topologyInfo();
    if (maxSpoutPending === null) {
      this.#uncommitted += 1;
      return true;
    }
    if (this.#free <= 0) {
      // roots that are being emitted are not pending yet and will be
      this.#free = maxSpoutPending - (await this.#countPending(signal)) - this.#uncommitted;
    }
    if (this.#free <= 0) {
      return false;
    }
    this.#free -= 1;
    this.#uncommitted += 1;
    return true;
  }

  async #countPending(signal: AbortSignal | undefined): Promise<number> {
    const request = readSpout(this.session.topology, this.name);
    try {
      const found = readObject(await this.session.send(signal === undefined ? request : { ...request, signal }));
      return Number(found.pending ?? 0);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "unknown_spout") {
        return 0;
      }
      throw error;
    }
  }
}

/** One reader of a mailbox: while it is open `read`, handle all that was read, `release`. */
export class MailboxReader {
  readonly #pageSize: number;
  readonly #pollTimeout: number;
  readonly #endsAt: number;
  #page: Page = { completions: [], cursor: null };
  #polled = false;

  /** Throws `UsageError`. */
  constructor(
    private readonly task: SpoutTask,
    private readonly options: ReadOptions,
  ) {
    this.#pageSize = integer("pageSize", options.pageSize ?? 100, PAGE_SIZE);
    this.#pollTimeout = integer("pollTimeout", options.pollTimeout ?? 30_000, WAIT_MS);
    this.#endsAt = performance.now() + (options.until ?? Number.POSITIVE_INFINITY);
  }

  /** Whether to go on reading. */
  get isOpen(): boolean {
    const { stop, signal } = this.options;
    return stop?.() !== true && signal?.aborted !== true && !(this.#polled && this.#leftMs <= 0);
  }

  /** Read the next page; it may be empty. */
  async read(): Promise<readonly Completion[]> {
    const polledAt = performance.now();
    this.#page = await this.#poll();
    this.#polled = true;
    const early = Math.min(polledAt + MIN_POLL_INTERVAL_MS - performance.now(), this.#leftMs);
    if (this.#page.completions.length === 0 && early > 0) {
      await sleep(early);
    }
    return this.#page.completions;
  }

  /** Release the page, now that each of its completions was handled. */
  async release(): Promise<void> {
    const { completions, cursor } = this.#page;
    if (completions.length === 0 || cursor === null) {
      return;
    }
    try {
      await this.task.session.send(release(this.task.session.topology, this.task.name, cursor));
    } catch (error) {
      if (!isLost(error)) {
        throw error;
      }
    }
  }

  async #poll(): Promise<Page> {
    const { signal } = this.options;
    const waitMs = Math.max(0, Math.floor(Math.min(this.#pollTimeout, this.#leftMs)));
    const wanted = { after: this.#page.cursor, limit: this.#pageSize, waitMs };
    const request = readCompletions(this.task.session.topology, this.task.name, wanted);
    try {
      return readPage(await this.task.session.send(signal === undefined ? request : { ...request, signal }));
    } catch (error) {
      if (signal?.aborted === true) {
        return { completions: [], cursor: null };
      }
      if (error instanceof ServiceError && error.code === "unknown_spout") {
        this.task.registered = !this.task.own; // nothing was emitted yet, or the store has lost it
        return { completions: [], cursor: null };
      }
      throw error;
    }
  }

  get #leftMs(): number {
    return this.#endsAt - performance.now();
  }
}

/** Whether the store has lost what is released: nothing is left to do. */
function isLost(error: unknown): boolean {
  return error instanceof ServiceError && ["unknown_spout", "unknown_topology"].includes(error.code);
}
