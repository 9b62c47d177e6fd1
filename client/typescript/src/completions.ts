/** The completions that a spout task reads, and how they are read from responses and webhooks. */
import { InvalidResponseError } from "./errors.js";
import type { Outcome } from "./operations.js";
import { type Response, readObject } from "./responses.js";

/** The end of one root. It may come more than once, always with the same `id`. */
export interface Completion {
  readonly id: string;
  readonly rootId: string;
  readonly outcome: Outcome;
  /** The spout's own id of the message. */
  readonly messageId: string | null;
  readonly reason: string | null;
  readonly component: string | null;
  /** Milliseconds from the root's first operation to its end. */
  readonly completeLatency: number;
  /** When it ended. */
  readonly at: Date;
  /** That of the emit. */
  readonly traceparent: string | null;
  /** How many edges failed, of a root that ends when all have ended; null for any other. */
  readonly failures: number | null;
  /** How many of its tuples were acked by a `DropTuple`. */
  readonly dropped: number;
  /** Where a root hung that timed out: the component that acked last. Null where that is unknown, and for all others. */
  readonly lastComponent: string | null;
  /** Likewise, when that was. */
  readonly lastAckAt: Date | null;
  /** Likewise, how many edges were sent and not acked. */
  readonly outstanding: number | null;
}

/** Completions in their order, and the cursor behind the last; null if nothing was ever read. */
export interface Page {
  readonly completions: readonly Completion[];
  readonly cursor: string | null;
}

/** Called with a message id: Storm's ack(msgId) and fail(msgId). */
export type MessageHandler = (messageId: string) => unknown;

/** Read a page; members that this version does not know are ignored. Throws `InvalidResponseError`. */
export function readPage(response: Response): Page {
  const found = readObject(response);
  const { completions, cursor } = found;
  try {
    return { completions: readCompletionList(completions), cursor: nullOr(text, cursor, "cursor") };
  } catch (error) {
    throw new InvalidResponseError(`an answer ${response.status} holds no completions: ${(error as Error).message}`);
  }
}

/** Read the completions of a JSON document. Throws `TypeError`. */
export function readCompletionList(value: unknown): Completion[] {
  if (!Array.isArray(value)) {
    throw new TypeError("completions must be a list");
  }
  return value.map(readCompletion);
}

/**
 * Call the handler of this outcome with the message id, and return what it returns.
 *
 * A root without a message id is ignored: these handlers take nothing else.
 */
export function dispatch(
  completion: Completion,
  { onAck, onFail }: { onAck?: MessageHandler | undefined; onFail?: MessageHandler | undefined },
): unknown {
  const handler = completion.outcome === "acked" ? onAck : onFail;
  return completion.messageId === null ? undefined : handler?.(completion.messageId);
}

function readCompletion(item: Record<string, unknown>): Completion {
  const { outcome } = item;
  if (outcome !== "acked" && outcome !== "failed" && outcome !== "timed_out") {
    throw new TypeError(`outcome must not be ${JSON.stringify(outcome)}`);
  }
  return {
    id: text(item.id, "id"),
    rootId: text(item.root_id, "root_id"),
    outcome,
    messageId: nullOr(text, item.message_id, "message_id"),
    reason: nullOr(text, item.reason, "reason"),
    component: nullOr(text, item.component, "component"),
    completeLatency: number(item.complete_latency_ms, "complete_latency_ms"),
    at: date(item.at_ms, "at_ms"),
    traceparent: nullOr(text, item.traceparent ?? null, "traceparent"),
    failures: nullOr(number, item.failures ?? null, "failures"),
    dropped: number(item.dropped ?? 0, "dropped"),
    lastComponent: nullOr(text, item.last_component ?? null, "last_component"),
    lastAckAt: nullOr(date, item.last_ack_at_ms ?? null, "last_ack_at_ms"),
    outstanding: nullOr(number, item.outstanding ?? null, "outstanding"),
  };
}

function text(value: unknown, name: string): string {
  if (typeof value !== "string") {
    throw new TypeError(`${name} must be a string`);
  }
  return value;
}

function nullOr<T>(read: (value: unknown, name: string) => T, value: unknown, name: string): T | null {
  return value === null ? null : read(value, name);
}

function number(value: unknown, name: string): number {
  if (typeof value !== "number") {
    throw new TypeError(`${name} must be a number`);
  }
  return value;
}

function date(value: unknown, name: string): Date {
  return new Date(number(value, name));
}
