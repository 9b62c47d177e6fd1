/** The anchors of a message and its header, `Acker-Anchors: 00 <topology> <root>-<edge>[,<root>-<edge>…]`. */
import { InvalidHeaderError, TooManyAnchorsError, UsageError } from "./errors.js";
import { SPOUT_EDGE } from "./ids.js";

/** The name of the header; a reader takes it in upper or lower case. */
export const ANCHORS_HEADER = "Acker-Anchors";
export const MAX_ANCHORS = 64;

const VERSION = "00";
const LOWER_NAME = ANCHORS_HEADER.toLowerCase();
const FORM = /^00 ([A-Za-z0-9][A-Za-z0-9._-]{0,127}) ([0-9a-f]{16}-[0-9a-f]{16}(?:,[0-9a-f]{16}-[0-9a-f]{16}){0,63})$/;
const ID_LENGTH = 16;
const ANCHOR_LENGTH = 2 * ID_LENGTH + 1;

/** One edge of one root; both are 16 lowercase hex digits. */
export interface Anchor {
  readonly rootId: string;
  readonly edgeId: string;
}

/**
 * Headers as libraries give them: a plain object or `Map` (node:http, amqplib, kafkajs), a `Headers` of fetch, or an
 * array of pairs or of objects. Values are text, bytes or arrays of these.
 */
export type IncomingHeaders =
  | Readonly<Record<string, unknown>>
  | Iterable<readonly [unknown, unknown]>
  | Iterable<Readonly<Record<string, unknown>>>
  | null
  | undefined;

/** The anchors of one message for one consumer; none if it is not tracked. */
export class Anchors {
  constructor(
    readonly topology: string,
    readonly anchors: readonly Anchor[],
  ) {
    checkCount(anchors.length);
  }

  /**
   * Return the headers of the message: these others, without the anchors that they may have, and the own ones.
   *
   * As a plain object, which libraries of HTTP, AMQP and Kafka take. The others stay as they are.
   */
  headers(others: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
    const kept = Object.entries(others).filter(([name]) => !isNamed(name, LOWER_NAME));
    return { ...Object.fromEntries(kept), ...writeHeader(this.topology, this.anchors) };
  }
}

/** Return the header alone as an object; empty without anchors. */
export function writeHeader(topology: string, anchors: readonly Anchor[]): Record<string, string> {
  if (anchors.length === 0) {
    return {};
  }
  return {
    [ANCHORS_HEADER]: `${VERSION} ${topology} ${anchors.map((each) => `${each.rootId}-${each.edgeId}`).join()}`,
  };
}

/** Refuse more anchors than one message can carry. */
export function checkCount(anchors: number): void {
  if (anchors > MAX_ANCHORS) {
    throw new TooManyAnchorsError(`a message carries at most ${MAX_ANCHORS} anchors, this one would carry ${anchors}`);
  }
}

/** Read the anchors of a message of this topology; none without the header. Throws `InvalidHeaderError`. */
export function readAnchors(headers: IncomingHeaders, topology: string): readonly Anchor[] {
  const found = findAnchors(headers);
  if (found === null) {
    return [];
  }
  if (found.topology !== topology) {
    const words = `${ANCHORS_HEADER} is of topology "${found.topology}", this acker works for "${topology}"`;
    throw new InvalidHeaderError(words);
  }
  return found.anchors;
}

/** Read the anchors of a message of any topology, null without the header. Throws `InvalidHeaderError`. */
export function findAnchors(headers: IncomingHeaders): Anchors | null {
  const value = headerValue(headers, ANCHORS_HEADER);
  return value === null ? null : parseAnchors(value);
}

/** Read the value of the header. Throws `InvalidHeaderError`. */
export function parseAnchors(value: string): Anchors {
  const [, topology, listed] = FORM.exec(value.trim()) ?? [];
  if (topology === undefined || listed === undefined) {
    throw unreadable(`must be version ${VERSION}, a topology and 1 to ${MAX_ANCHORS} anchors`, value);
  }
  return new Anchors(topology, splitAnchors(listed, value));
}

function splitAnchors(listed: string, value: string): Anchor[] {
  const anchors: Anchor[] = [];
  for (let at = 0; at < listed.length; at += ANCHOR_LENGTH + 1) {
    const rootId = listed.slice(at, at + ID_LENGTH);
    const edgeId = listed.slice(at + ID_LENGTH + 1, at + ANCHOR_LENGTH);
    if (rootId === SPOUT_EDGE || edgeId === SPOUT_EDGE) {
      throw unreadable("must not have an id of zero", value);
    }
    anchors.push({ rootId, edgeId });
  }
  if (anchors.length > 1 && new Set(listed.split(",")).size < anchors.length) {
    throw unreadable("must not name an anchor twice", value);
  }
  return anchors;
}

/** Return the value of a header that a message carries once, null without it. Throws `InvalidHeaderError`. */
export function headerValue(headers: IncomingHeaders, name: string): string | null {
  const values = headerValues(headers, name);
  if (values.length > 1) {
    throw new InvalidHeaderError(`${name} is given ${values.length} times; a message carries it once`);
  }
  return values[0] ?? null;
}

/** Return the values of a header, whose name is given in upper or lower case. */
export function headerValues(headers: IncomingHeaders, name: string): string[] {
  const found: string[] = [];
  if (headers === null || headers === undefined) {
    return found;
  }
  if (typeof headers !== "object") {
    throw new UsageError(`headers must be an object or pairs, not ${typeof headers}`);
  }
  const lower = name.toLowerCase();
  if (Symbol.iterator in headers) {
    for (const item of headers as Iterable<unknown>) {
      takeItem(item, lower, found);
    }
  } else {
    takeMembers(headers, lower, found);
  }
  return found;
}

/** Whether an object of headers has anchors. */
export function hasAnchors(headers: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(headers).some((name) => isNamed(name, LOWER_NAME));
}

/** Whether this is a header's name; `lower` is that in lower case. */
export function isNamed(name: unknown, lower: string): boolean {
  const words = typeof name === "string" ? name : text(name);
  return words.length === lower.length && words.toLowerCase() === lower;
}

/** Take the value of a pair, or of the members of an object, if it has the name. */
function takeItem(item: unknown, lower: string, found: string[]): void {
  if (Array.isArray(item) && item.length === 2) {
    if (isNamed(item[0], lower)) {
      take(item[1], found);
    }
  } else if (typeof item === "object" && item !== null && !Array.isArray(item)) {
    takeMembers(item as Readonly<Record<string, unknown>>, lower, found);
  } else {
    throw new UsageError("headers must be an object, pairs or an array of objects");
  }
}

function takeMembers(headers: Readonly<Record<string, unknown>>, lower: string, found: string[]): void {
  for (const name of Object.keys(headers)) {
    if (isNamed(name, lower)) {
      take(headers[name], found);
    }
  }
}

function take(value: unknown, found: string[]): void {
  if (Array.isArray(value)) {
    found.push(...value.map(text));
  } else {
    found.push(text(value));
  }
}

function text(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value);
}

function unreadable(why: string, value: string): InvalidHeaderError {
  const shown = value.length > 40 ? `${value.slice(0, 40)}…` : value;
  return new InvalidHeaderError(`${ANCHORS_HEADER} ${why}: ${JSON.stringify(shown)}`);
}
