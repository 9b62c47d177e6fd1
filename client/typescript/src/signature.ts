/**
 * The proof that anchors come from somebody who has a secret, `Acker-Anchors-Signature: 00 <time> <mac>`, over HTTP.
 *
 * The time is in Unix seconds. The MAC is the HMAC-SHA256 of `00 <time> <anchors>` in hex digits; the key is the secret
 * in UTF-8. See docs/public-bolts.md.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { ANCHORS_HEADER, headerValue, headerValues, type IncomingHeaders } from "./anchors.js";
import { InvalidSignatureError, UsageError } from "./errors.js";

export const SIGNATURE_HEADER = "Acker-Anchors-Signature";

const VERSION = "00";
const TOLERANCE_S = 300;
const MIN_SECRET_CHARACTERS = 16;
const FORM = /^00 (0|[1-9][0-9]{0,11}) ([0-9a-f]{64})$/;

/** One secret, or several of which the newest is first: it signs, and any is accepted. */
export type Secrets = string | readonly string[];

/** Return the secrets as a list. Throws `UsageError`, which does not show them. */
export function checkSecrets(secrets: Secrets): readonly string[] {
  const listed = typeof secrets === "string" ? [secrets] : [...secrets];
  if (
    listed.length === 0 ||
    !listed.every((each) => typeof each === "string" && [...each].length >= MIN_SECRET_CHARACTERS)
  ) {
    throw new UsageError(`secret must have ${MIN_SECRET_CHARACTERS} characters at least; draw it, do not invent it`);
  }
  return listed;
}

/** Return the signature of the value of the anchors' header, made with the first secret. */
export function writeSignature(secrets: readonly string[], anchors: string, nowS: number): string {
  const time = String(Math.floor(nowS));
  return `${VERSION} ${time} ${mac(secrets[0] as string, time, anchors).toString("hex")}`;
}

/**
 * Accept headers without anchors, and those whose anchors were signed with one of the secrets within five minutes.
 *
 * MACs are compared in constant time, with each secret. Throws `InvalidSignatureError`, and `InvalidHeaderError` for
 * several anchors' headers.
 */
export function checkSignature(secrets: readonly string[], headers: IncomingHeaders, nowS: number): void {
  const anchors = headerValue(headers, ANCHORS_HEADER);
  if (anchors === null) {
    return;
  }
  const signatures = headerValues(headers, SIGNATURE_HEADER);
  if (signatures.length !== 1) {
    throw new InvalidSignatureError(
      `${ANCHORS_HEADER} needs one ${SIGNATURE_HEADER} here, and has ${signatures.length}`,
    );
  }
  const [, time, given] = FORM.exec((signatures[0] as string).trim()) ?? [];
  if (time === undefined || given === undefined) {
    throw new InvalidSignatureError(`${SIGNATURE_HEADER} must be ${VERSION}, a time in Unix seconds and 64 hex digits`);
  }
  const theirs = Buffer.from(given, "hex");
  const fits = secrets.map((secret) => timingSafeEqual(mac(secret, time, anchors), theirs));
  if (!fits.includes(true)) {
    throw new InvalidSignatureError(`${SIGNATURE_HEADER} was made with another secret, or for other anchors`);
  }
  if (Math.abs(nowS - Number(time)) > TOLERANCE_S) {
    throw new InvalidSignatureError(`${SIGNATURE_HEADER} is more than ${TOLERANCE_S} s from now`);
  }
}

function mac(secret: string, time: string, anchors: string): Buffer {
  return createHmac("sha256", secret).update(`${VERSION} ${time} ${anchors.trim()}`).digest();
}
