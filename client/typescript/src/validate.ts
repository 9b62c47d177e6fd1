/** Checks the arguments of a program, and says in words what is wrong with them. */
import { UsageError } from "./errors.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
const MAX_MESSAGE_ID_BYTES = 1_024;
const DAY_MS = 86_400_000;

/** Milliseconds that a timeout may have. */
export const TIMEOUT_MS = { least: 100, most: 7 * DAY_MS } as const;
/** Milliseconds that a long poll may wait. */
export const WAIT_MS = { least: 0, most: 60_000 } as const;
/** Completions that a page may have. */
export const PAGE_SIZE = { least: 1, most: 10_000 } as const;

/** Whether this is a name of the contract. */
export function isName(value: unknown): value is string {
  return typeof value === "string" && NAME.test(value);
}

/** Return a name of the contract. */
export function name(what: string, value: unknown): string {
  if (!isName(value)) {
    const words = "a name: a letter or digit, then up to 127 letters, digits, dots, dashes, underscores";
    throw wrong(what, words, value);
  }
  return value;
}

/** Return text that is valid Unicode, without a lone surrogate. */
export function text(what: string, value: unknown): string {
  if (typeof value !== "string" || !value.isWellFormed()) {
    throw wrong(what, "a string of valid Unicode", value);
  }
  return value;
}

/** Return the spout's own id of a message. */
export function messageId(value: unknown): string {
  const found = text("messageId", value);
  if (Buffer.byteLength(found) > MAX_MESSAGE_ID_BYTES) {
    throw new UsageError(`messageId must be at most ${MAX_MESSAGE_ID_BYTES} bytes of UTF-8`);
  }
  return found;
}

/** Return a W3C traceparent of version 00. */
export function traceparent(value: unknown): string {
  if (typeof value !== "string" || !TRACEPARENT.test(value)) {
    throw wrong("traceparent", "a W3C traceparent of version 00", value);
  }
  return value;
}

/** Return a whole number within bounds; `zero` is allowed too where it is said so. */
export function integer(
  what: string,
  value: unknown,
  bounds: { readonly least: number; readonly most: number },
  { zero = false } = {},
): number {
  const fits = typeof value === "number" && Number.isInteger(value) && value >= bounds.least && value <= bounds.most;
  if (!fits && !(zero && value === 0)) {
    throw wrong(what, `a whole number from ${bounds.least} to ${bounds.most}${zero ? ", or 0" : ""}`, value);
  }
  return value as number;
}

/** Return a number that is not negative. */
export function duration(what: string, value: unknown): number {
  if (typeof value !== "number" || !(value >= 0)) {
    throw wrong(what, "a number of milliseconds that is not negative", value);
  }
  return value;
}

/** Return one of the values that are allowed. */
export function oneOf<T extends string>(what: string, value: unknown, ...allowed: readonly T[]): T {
  if (!allowed.includes(value as T)) {
    throw wrong(what, allowed.map((each) => `"${each}"`).join(" or "), value);
  }
  return value as T;
}

/** Return the error for a value that is not what the words name. */
export function wrong(what: string, words: string, value: unknown): UsageError {
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  return new UsageError(`${what} must be ${words}, not ${shown.length > 40 ? `${shown.slice(0, 40)}…` : shown}`);
}
