/** The current tuple or root, whose anchors outgoing messages carry: that of the running function and what it calls. */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  ANCHORS_HEADER,
  type Anchors,
  findAnchors,
  hasAnchors,
  headerValue,
  type IncomingHeaders,
  isNamed,
  isStore,
  type OutgoingHeaders,
  toObject,
} from "./anchors.js";
import type { Key } from "./edges.js";
import { checkSecrets, checkSignature, type Secrets, SIGNATURE_HEADER, writeSignature } from "./signature.js";

/** What children are anchored to: a tuple or a root. */
export interface AnchorParent {
  /** Anchor a child. */
  anchor(key?: Key): Anchors;
  /** Anchor a child, and return its header. */
  headers(key?: Key): Record<string, string>;
}

const storage = new AsyncLocalStorage<AnchorParent | null>();

/** Return the current tuple or root, null outside of any. */
export function current(): AnchorParent | null {
  return storage.getStore() ?? null;
}

/** Make a tuple or root current while a function runs, and in all that it awaits; null: none is. */
export function use<T>(parent: AnchorParent | null, run: () => T): T {
  return storage.run(parent, run);
}

/**
 * Anchor a child to the current tuple or root, and add its header to `headers`; with a `secret` it is signed.
 *
 * `headers` are an object, a `Headers` of fetch or a `Map`. Does nothing without a current one, or where `headers` have
 * anchors already. Returns `headers`. Throws `UsageError`, and then no child is made.
 */
export function inject<T extends OutgoingHeaders>(headers: T, key?: Key, { secret }: { secret?: Secrets } = {}): T {
  const isInStore = isStore(headers);
  const parent = current();
  if (parent === null || hasAnchors(headers)) {
    return headers;
  }
  const own = parent.headers(key);
  if (Object.keys(own).length > 0) {
    removeSignature(headers);
  }
  const added = secret === undefined ? own : sign(own, secret);
  if (!isInStore) {
    return Object.assign(headers, added);
  }
  for (const [name, value] of Object.entries(added)) {
    headers.set(name, String(value));
  }
  return headers;
}

/** Read the anchors of a message, of any topology; null without the header. Throws `InvalidHeaderError`. */
export function extract(headers: IncomingHeaders): Anchors | null {
  return findAnchors(headers);
}

/**
 * Return the headers of an HTTP request with a signature of their anchors; as they are, if they have none.
 *
 * The signature holds for five minutes from now, and replaces one that they have.
 */
export function sign(headers: OutgoingHeaders, secret: Secrets): Record<string, unknown> {
  const secrets = checkSecrets(secret);
  const others = toObject(headers);
  removeSignature(others);
  const anchors = headerValue(headers, ANCHORS_HEADER);
  return anchors === null
    ? others
    : { ...others, [SIGNATURE_HEADER]: writeSignature(secrets, anchors, Date.now() / 1_000) };
}

/**
 * Check that a holder of the secret signed the anchors of an HTTP request within the last five minutes.
 *
 * Headers without anchors are accepted. Throws `InvalidSignatureError`, `InvalidHeaderError`, `UsageError`.
 */
export function verify(headers: IncomingHeaders, secret: Secrets): void {
  checkSignature(checkSecrets(secret), headers, Date.now() / 1_000);
}

function removeSignature(headers: OutgoingHeaders): void {
  const lower = SIGNATURE_HEADER.toLowerCase();
  if (isStore(headers)) {
    for (const [name] of [...headers].filter(([name]) => isNamed(name, lower))) {
      headers.delete(name);
    }
    return;
  }
  for (const name of Object.keys(headers).filter((name) => isNamed(name, lower))) {
    delete (headers as Record<string, unknown>)[name];
  }
}
