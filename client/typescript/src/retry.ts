/** Sends a request again until it is answered: the one retry loop. */
import { canceled, pause } from "./cancel.js";
import { AckerError, InvalidResponseError, RetriesExhaustedError } from "./errors.js";
import { backoffDelays, type Settings } from "./options.js";
import { type Request, readTopology } from "./requests.js";
import { classify, type Failure, isResponse, type NoResponse, type Response, readObject } from "./responses.js";
import type { Transport } from "./transport.js";

/** After so long the topology is read again, since somebody may have changed it. */
const INFO_MAX_AGE_MS = 60_000;

/** What a client follows of its topology. */
export interface TopologyInfo {
  readonly idempotencyWindowMs: number;
  readonly dedupes: boolean;
  readonly maxSpoutPending: number | null;
  readonly trace: number;
}

/** Requests to one topology; `info` is what is known of it, read when it is first needed. */
export class RetrySession {
  info: TopologyInfo | null = null;
  #infoReadAt = 0;
  #reading: Promise<TopologyInfo> | null = null;
  #everReached = false;
  #failing = false;

  constructor(
    readonly topology: string,
    readonly settings: Settings,
    private readonly transport: Transport,
  ) {}

  /**
   * Send a request until it is answered; `since` is when it was first sent, if that was before.
   *
   * Throws the `ServiceError` or `InvalidResponseError` that ends it, or `RetriesExhaustedError` when its time is over.
   */
  send(request: Request, since?: number): Promise<Response> {
    const now = performance.now();
    if (since !== undefined && now - since > this.retryLimitMs) {
      return Promise.reject(exhausted(request));
    }
    return this.#attempts(request, since ?? now);
  }

  /** Return what the client follows of the topology; reads it the first time, once for all who ask meanwhile. */
  async topologyInfo(): Promise<TopologyInfo> {
    if (this.info !== null) {
      return this.info;
    }
    this.#reading ??= this.send(readTopology(this.topology))
      .then((response) => this.#learn(response))
      .finally(() => {
        this.#reading = null;
      });
    return await this.#reading;
  }

  /** Read the topology again if that was long ago; without an answer, what is known stays. */
  async refreshTopology(): Promise<void> {
    if (this.info === null || performance.now() - this.#infoReadAt < INFO_MAX_AGE_MS) {
      return;
    }
    this.#infoReadAt = performance.now();
    const request = readTopology(this.topology);
    const answer = await this.#attempt(request);
    if (isResponse(answer) && classify(request, answer) === null) {
      this.#learn(answer);
    }
  }

  /** The time after which a request is not sent again: half of that for which its key is remembered, at most. */
  get retryLimitMs(): number {
    const wanted = this.settings.retryTimeout;
    return this.info === null ? wanted : Math.min(wanted, this.info.idempotencyWindowMs / 2);
  }

  async #attempts(request: Request, since: number): Promise<Response> {
    for (const delay of backoffDelays()) {
      const answer = await this.#attempt(request);
      this.#everReached ||= isResponse(answer) || answer.refusedBy === "";
      const failure = classify(request, answer);
      if (failure === null) {
        this.#failing = false;
        return answer as Response;
      }
      if (!failure.retryable) {
        this.#failing = false;
        throw failure.error;
      }
      if (request.signal?.aborted === true) {
        throw canceled(() => named(request), request.signal, request.key !== undefined);
      }
      await this.#backOff(request, failure, since, delay);
    }
    throw new Error("the delays never end");
  }

  #attempt(request: Request): Promise<Response | NoResponse> {
    return this.transport.send(request, this.settings.requestTimeout + request.waitMs);
  }

  /** Wait before the next attempt. None is made too late, since the acker might have forgotten the key. */
  async #backOff(request: Request, failure: Failure, since: number, delay: number): Promise<void> {
    const leftMs = this.#limitMs - age(since) - 1;
    const waitMs = Math.max(this.#isStarting && leftMs > 0 ? Math.min(delay, leftMs) : delay, failure.waitMs);
    this.#checkDeadline(request, failure, age(since) + waitMs);
    this.#warnOnce(request, failure);
    await pause(() => named(request), waitMs, request.signal, request.key !== undefined);
    if (request.key !== undefined && this.info === null) {
      await this.#learnWindow(request, since);
      this.#checkDeadline(request, failure, age(since));
    }
  }

  /** Read the topology: for how long the acker remembers the key decides whether it may be sent again. */
  async #learnWindow(request: Request, since: number): Promise<void> {
    try {
      const signal = request.signal && { signal: request.signal };
      this.#learn(await this.#attempts({ ...readTopology(this.topology), ...signal }, since));
    } catch (error) {
      if (request.signal?.aborted === true) {
        throw canceled(() => named(request), request.signal, true);
      }
      if (error instanceof AckerError && !this.#isStarting) {
        throw exhausted(request, error);
      }
      throw error;
    }
  }

  #learn(response: Response): TopologyInfo {
    const found = readObject(response);
    const window = found.idempotency_window_ms;
    if (typeof window !== "number" || !Number.isInteger(window)) {
      throw new InvalidResponseError("the answer about a topology holds no idempotency_window_ms");
    }
    this.#infoReadAt = performance.now();
    this.info = {
      idempotencyWindowMs: window,
      dedupes: Boolean(found.dedupe_window_ms),
      maxSpoutPending: typeof found.max_spout_pending === "number" ? found.max_spout_pending : null,
      trace: numberOr(found.trace, 0),
    };
    return this.info;
  }

  /** Whether no server was ever reached, so that nothing can have been applied, and that is bounded. */
  get #isStarting(): boolean {
    return !this.#everReached && this.settings.startupTimeout !== null;
  }

  get #limitMs(): number {
    return this.#isStarting ? Math.min(this.retryLimitMs, this.settings.startupTimeout ?? 0) : this.retryLimitMs;
  }

  #checkDeadline(request: Request, failure: Failure, ageMs: number): void {
    if (ageMs > this.#limitMs) {
      throw this.#isStarting ? nobodyListens(failure) : exhausted(request, failure.error, failure.refusedBy);
    }
  }

  /** Log the first failure of an outage; the next answer ends it. */
  #warnOnce(request: Request, failure: Failure): void {
    if (!this.#failing) {
      this.#failing = true;
      const seconds = this.#limitMs / 1_000;
      const what = `${request.method} ${request.path} failed (${failure.error.message})`;
      this.settings.logger.warn(`acker: ${what}; it is sent again for up to ${seconds} s`);
    }
  }
}

function named(request: Request): string {
  return `${request.method} ${request.path}`;
}

function age(since: number): number {
  return performance.now() - since;
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}

function exhausted(request: Request, cause?: Error, refusedBy = ""): RetriesExhaustedError {
  const where = refusedBy === "" ? "" : `no acker answers at ${refusedBy}: `;
  const words = cause === undefined ? "" : ` (${where}${cause.message})`;
  return new RetriesExhaustedError(
    `the result of ${request.method} ${request.path} is not known, and it is too late to send it again${words}`,
    request.key !== undefined,
    { cause },
  );
}

function nobodyListens(failure: Failure): RetriesExhaustedError {
  return new RetriesExhaustedError(
    `no acker answers at ${failure.refusedBy}: ${failure.error.message || failure.error.name}. Start one ` +
      "(`acker serve`), or set the URL; startupTimeout says how long a client waits for the first answer",
    false,
    { cause: failure.error },
  );
}
