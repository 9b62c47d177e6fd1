/** The options of a client, checked and complete. */
import type { DropTuple } from "./errors.js";
import { UsageError } from "./errors.js";
import type { Transport } from "./transport.js";
import type { Tuple } from "./tuple.js";
import { duration, integer, name, oneOf } from "./validate.js";

const FIRST_DELAY_MS = 50;
const MAX_DELAY_MS = 5_000;
/** Timers of Node.js that are longer go off at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What a client is made with. All times are in milliseconds. */
export interface AckerOptions {
  /** The topology; `default` if it is left out. */
  readonly topology?: string;
  /** Sent as a bearer token. */
  readonly apiKey?: string | undefined;
  /** A request that fails is sent again for so long, at most half the time for which the acker remembers keys: 60,000. */
  readonly retryTimeout?: number;
  /** A refused init is sent again for so long, and an emit waits so long for a free place: 30,000. */
  readonly emitTimeout?: number;
  /** The time limit of one attempt of a request: 10,000. */
  readonly requestTimeout?: number;
  /** While no server listens and none ever answered, a request is sent again for so long; null: as always. 5,000. */
  readonly startupTimeout?: number | null;
  /** Acks wait so long, or until `batchSize` are buffered, and are sent together; 0: each by itself. 5. */
  readonly linger?: number;
  /** 1,000. */
  readonly batchSize?: number;
  /** Operations that may be in flight: 10,000. */
  readonly bufferSize?: number;
  /** What an ack does when the buffer is full: it waits for space, or throws `BufferFullError`. */
  readonly onFull?: "block" | "throw";
  /** Called with a tuple that was dropped; by default that is a warning. */
  readonly onDrop?: (tuple: Tuple, drop: DropTuple) => unknown;
  /** Where warnings go; the console if it is left out. */
  readonly logger?: Logger;
  /** What sends requests, in the place of node:http. */
  readonly transport?: Transport;
}

export interface Logger {
  warn(message: string): void;
}

/** The options of one client, complete. */
export type Settings = Required<Omit<AckerOptions, "apiKey" | "transport" | "onDrop">>;

/** Complete the options, and check them. Throws `UsageError`. */
export function readSettings(options: AckerOptions): Settings {
  const startup = options.startupTimeout === undefined ? 5_000 : options.startupTimeout;
  const settings = {
    topology: name("topology", options.topology ?? "default"),
    retryTimeout: duration("retryTimeout", options.retryTimeout ?? 60_000),
    emitTimeout: duration("emitTimeout", options.emitTimeout ?? 30_000),
    requestTimeout: duration("requestTimeout", options.requestTimeout ?? 10_000),
    startupTimeout: startup === null ? null : duration("startupTimeout", startup),
    linger: duration("linger", options.linger ?? 5),
    batchSize: integer("batchSize", options.batchSize ?? 1_000, { least: 1, most: 1_000_000 }),
    bufferSize: integer("bufferSize", options.bufferSize ?? 10_000, { least: 1, most: 10_000_000 }),
    onFull: oneOf("onFull", options.onFull ?? "block", "block", "throw"),
    logger: options.logger ?? console,
  };
  if (settings.requestTimeout === 0 || settings.batchSize > settings.bufferSize) {
    throw new UsageError("requestTimeout must be more than 0, and batchSize at most bufferSize");
  }
  return settings;
}

/** Yield the pauses before each further attempt: doubling up to 5 s, the upper half of each random. */
export function* backoffDelays(random: () => number = Math.random): Generator<number, never> {
  for (let span = FIRST_DELAY_MS; ; span = Math.min(2 * span, MAX_DELAY_MS)) {
    yield (span * (1 + random())) / 2;
  }
}
