/** The anchors of a message and its header, `Acker-Anchors: 00 <topology> <root>-<edge>[,<root>-<edge>…]`. */
import { isUint8Array } from "node:util/types";
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

/** A `Headers` of fetch, a `Map`, or another store of headers that are set by name. */
export interface HeaderStore extends Iterable<readonly [string, unknown]> {
  set(name: string, value: string): unknown;
  delete(name: string): unknown;
}

/** Headers that an outgoing message has: an object, or a store of them. */
export type OutgoingHeaders = Readonly<Record<string, unknown>> | HeaderStore;

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
   * As a plain object, which libraries of HTTP, AMQP and Kafka take. The others stay as they are. Throws `UsageError`.
   */
  headers(others: OutgoingHeaders = {}): Record<string, unknown> {
    const kept = Object.entries(toObject(others)).filter(([name]) => !isNamed(name, LOWER_NAME));
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

/** Whether headers have anchors. */
export function hasAnchors(headers: OutgoingHeaders): boolean {
  return headerValues(headers, ANCHORS_HEADER).length > 0;
}

/** Whether headers are a store; throws `UsageError` where they are neither that nor an object. */
export function isStore(headers: OutgoingHeaders): headers is HeaderStore {
  if (typeof headers !== "object" || headers === null) {
    throw new UsageError(
      `headers must be an object, a Headers or a Map, not ${headers === null ? null : typeof headers}`,
    );
  }
  if (!(Symbol.iterator in headers)) {
    return false;
  }
  if (!("set" in headers && "delete" in headers)) {
    throw new UsageError("headers must be an object, a Headers or a Map, not an array or another iterable");
  }
  return true;
}

/** Return headers as an object of its own. Throws `UsageError`. */
export function toObject(headers: OutgoingHeaders): Record<string, unknown> {
  return isStore(headers) ? Object.fromEntries(headers) : { ...headers };
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

/** Take a value; one that is undefined is none, as libraries of HTTP have it. */
function take(value: unknown, found: string[]): void {
  if (value === undefined) {
    return;
  }
  if (Array.isArray(value)) {
    found.push(...value.map(text));
  } else {
    found.push(text(value));
  }
}

function text(value: unknown): string {
  return isUint8Array(value) ? Buffer.from(value).toString("latin1") : String(value);
}

function unreadable(why: string, value: string): InvalidHeaderError {
  const shown = value.length > 40 ? `${value.slice(0, 40)}…` : value;
  return new InvalidHeaderError(`${ANCHORS_HEADER} ${why}: ${JSON.stringify(shown)}`);
}
