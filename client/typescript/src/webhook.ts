/**
 * Receives the completions of a spout task by webhook, signed as Standard Webhooks has it.
 *
 * A secret is `whsec_` and the padded base64 of 24 to 64 bytes; a signature is `v1,` and the base64 of the HMAC-SHA256
 * over `id.timestamp.body`.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { headerValues, type IncomingHeaders } from "./anchors.js";
import { type Completion, dispatch, type MessageHandler, readCompletionList } from "./completions.js";
import { ServiceError, UsageError } from "./errors.js";

const PREFIX = "whsec_";
const SECRET_BYTES = { least: 24, most: 64 };
const TOLERANCE_S = 300;
/** More than 500 completions with the longest message ids and reasons take, as many as an acker sends at once. */
const MAX_BODY_BYTES = 8_388_608;
/** Less than the acker waits for a response (30 s). */
const TIMEOUT_MS = 20_000;
const NONE_FITS = "webhook-signature holds none that fits";
const NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature"];
/** Signatures of which one at least is the base64 of 32 bytes. */
const SIGNATURES = /^(?:.* )?v1,[A-Za-z0-9+/]{43}=(?: .*)?$/;
const TYPES: readonly unknown[] = ["completion.batch", "completion.test"];

export interface WebhookOptions {
  /** The secret of the webhook, or several while it is changed. */
  readonly secrets: string | readonly string[];
  /** Called with each completion, one after the other. One whose handler threw is asked for again. */
  readonly handler?: (completion: Completion) => unknown;
  /** Called with the message id, in the place of `handler`. */
  readonly onAck?: MessageHandler;
  readonly onFail?: MessageHandler;
  /** Completions that are not handled after so many milliseconds are asked for again: 20,000. */
  readonly timeout?: number;
  /** A body with more bytes is refused: 8,388,608. */
  readonly maxBodyBytes?: number;
  /** Called with what a handler threw; by default it goes to the console. */
  readonly onError?: (error: unknown, completion: Completion) => void;
}

/** What to answer. */
interface Answer {
  readonly status: number;
  readonly document: object;
}

/**
 * Accept a body that was signed with one of the secrets within five minutes; `now` is in Unix seconds.
 *
 * `headers` are those of node:http, or a `Headers` of fetch.
 * Throws a `ServiceError` with the code `unauthorized`, and `UsageError` for what is no secret. Signatures are compared
 * in constant time, each with each; those of other versions are ignored.
 */
export function verifyWebhook(
  secrets: string | readonly string[],
  headers: IncomingHeaders,
  body: string | Uint8Array,
  { now = Date.now() / 1_000 }: { readonly now?: number } = {},
): void {
  const keys = readSecrets(secrets);
  const { signed, signatures } = verifyHeaders(headers, now);
  const expected = keys.map((key) => createHmac("sha256", key).update(signed).update(body).digest("base64"));
  const fits = expected.flatMap((mac) => signatures.map((signature) => isEqual(`v1,${mac}`, signature)));
  if (!fits.includes(true)) {
    throw unauthorized(NONE_FITS);
  }
}

/** Check as much of a signature as can be checked without the body, and return what is signed before the body. */
function verifyHeaders(headers: IncomingHeaders, now: number): { signed: string; signatures: readonly string[] } {
  const [id, timestamp, signatures] = NAMES.map((name) => headerValues(headers, name).join());
  if (!(id && timestamp && signatures)) {
    throw unauthorized(`${NAMES.join(", ")} are needed`);
  }
  if (!/^[0-9]{1,12}$/.test(timestamp)) {
    throw unauthorized("webhook-timestamp must be in Unix seconds");
  }
  if (Math.abs(now - Number(timestamp)) > TOLERANCE_S) {
    throw unauthorized(`webhook-timestamp is more than ${TOLERANCE_S} s from now`);
  }
  if (!SIGNATURES.test(signatures)) {
    throw unauthorized(NONE_FITS);
  }
  return { signed: `${id}.${timestamp}.`, signatures: signatures.split(" ") };
}

/** Read the body of a webhook. Throws a `ServiceError` of status 400. */
export function parseWebhook(body: string | Uint8Array): Completion[] {
  try {
    const found = JSON.parse(Buffer.from(body).toString());
    if (!TYPES.includes(found.type)) {
      throw new TypeError("the body is no completion.batch");
    }
    return readCompletionList(found.data.completions);
  } catch (error) {
    throw new ServiceError("invalid", `the body holds no completions: ${(error as Error).message}`, { status: 400 });
  }
}

/**
 * Return a handler of node:http that receives completions at any path, which Express takes as well.
 *
 * ```ts
 * app.post("/completions", webhookReceiver({ secrets: SECRET, onAck: source.delete, onFail: source.putBack }));
 * ```
 *
 * The signature is over the bytes of the body: in Express let it stand before `express.json()`, or behind
 * `express.raw({ type: "*∕*" })`. A handler may get the same `Completion.id` twice.
 */
export function webhookReceiver(
  options: WebhookOptions,
): (request: IncomingMessage & { body?: unknown }, response: ServerResponse) => Promise<void> {
  const receive = receiver(options);
  return async (request, response) => {
    const { method, headers } = request;
    try {
      answer(request, response, await receive(method, headers, () => readBody(request, options.maxBodyBytes)));
    } catch (error) {
      if (!request.destroyed || request.readableEnded) {
        console.error("acker: a webhook could not be received", error);
        answer(request, response, refusal(new ServiceError("problem", "see the log of this server")));
      }
    }
  };
}

/** Answer a request; the connection is closed where its body is not read to the end. */
function answer(request: IncomingMessage, response: ServerResponse, { status, document }: Answer): void {
  const headers = {
    "Content-Type": typeOf(status),
    ...(status === 405 && { Allow: "POST" }),
    ...(!request.complete && { Connection: "close" }),
  };
  response.writeHead(status, headers).end(JSON.stringify(document));
}

/** What this needs of a Fastify instance. */
interface FastifyLike {
  addHook(
    hook: "onRequest",
    run: (request: FastifyRequestLike, reply: FastifyReplyLike, done: () => void) => void,
  ): unknown;
  removeAllContentTypeParsers(): unknown;
  addContentTypeParser(
    type: string,
    options: { parseAs: "buffer"; bodyLimit: number },
    parse: (request: unknown, body: Buffer, done: (error: null, body: Buffer) => void) => void,
  ): unknown;
  all(path: string, handler: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown>): unknown;
}

interface FastifyRequestLike {
  readonly method: string;
  readonly headers: IncomingHeaders;
  readonly body: unknown;
}

interface FastifyReplyLike {
  code(status: number): FastifyReplyLike;
  type(type: string): FastifyReplyLike;
  send(payload: string): unknown;
}

/** Return a plugin of Fastify: `app.register(fastifyWebhook({ secrets, handler }), { prefix: "/completions" })`. */
export function fastifyWebhook(options: WebhookOptions): (instance: FastifyLike) => Promise<void> {
  const receive = receiver(options);
  return (instance) => {
    const limits = { parseAs: "buffer", bodyLimit: options.maxBodyBytes ?? MAX_BODY_BYTES } as const;
    instance.addHook("onRequest", ({ method, headers }, reply, done) => {
      try {
        checkHead(method, headers, options.maxBodyBytes);
        done();
      } catch (error) {
        send(reply, refusal(error));
      }
    });
    instance.removeAllContentTypeParsers(); // of this plugin's scope: the signature is over the bytes
    instance.addContentTypeParser("*", limits, (_request, body, done) => done(null, body));
    instance.all("/", async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const answer = await receive(request.method, request.headers, () => Promise.resolve(body));
      return send(reply, answer);
    });
    return Promise.resolve();
  };
}

function send(reply: FastifyReplyLike, answer: Answer): unknown {
  return reply.code(answer.status).type(typeOf(answer.status)).send(JSON.stringify(answer.document));
}

function typeOf(status: number): string {
  return status < 400 ? "application/json" : "application/problem+json";
}

type Receive = (method: string | undefined, headers: IncomingHeaders, read: () => Promise<Buffer>) => Promise<Answer>;

/** Return what verifies, reads and handles a request. Throws `UsageError` for what is no secret. */
function receiver(options: WebhookOptions): Receive {
  const { secrets, onAck, onFail, timeout = TIMEOUT_MS } = options;
  readSecrets(secrets);
  if ((options.handler === undefined) === (onAck === undefined && onFail === undefined)) {
    throw new UsageError("a receiver of webhooks takes either a handler, or onAck and onFail");
  }
  const handle = options.handler ?? ((completion: Completion) => dispatch(completion, { onAck, onFail }));
  const onError = options.onError ?? logError;
  return async (method, headers, read) => {
    try {
      checkHead(method, headers, options.maxBodyBytes);
      const body = await read();
      verifyWebhook(secrets, headers, body);
      return { status: 200, document: { retry: await handleAll(parseWebhook(body), handle, timeout, onError) } };
    } catch (error) {
      return refusal(error);
    }
  };
}

/** Refuse by its head a request that nobody signed, or that is too long: anybody could have it read a long body. */
function checkHead(method: string | undefined, headers: IncomingHeaders, maxBytes = MAX_BODY_BYTES): void {
  if (method !== "POST") {
    throw new ServiceError("method_not_allowed", "completions come by POST");
  }
  verifyHeaders(headers, Date.now() / 1_000);
  if (Number(headerValues(headers, "content-length").join()) > maxBytes) {
    throw tooLarge(maxBytes);
  }
}

/** Return the answer that refuses a request; throw what is no refusal. */
function refusal(error: unknown): Answer {
  if (error instanceof ServiceError) {
    return { status: error.status, document: error.document() };
  }
  throw error;
}

/** Call the handler with each completion, and return the ids of those to send again. */
async function handleAll(
  completions: readonly Completion[],
  handle: (completion: Completion) => unknown,
  timeoutMs: number,
  onError: (error: unknown, completion: Completion) => void,
): Promise<string[]> {
  const until = performance.now() + timeoutMs;
  const again: string[] = [];
  for (const completion of completions) {
    try {
      if (performance.now() >= until) {
        again.push(completion.id);
      } else {
        await handle(completion);
      }
    } catch (error) {
      onError(error, completion);
      again.push(completion.id);
    }
  }
  return again;
}

function logError(error: unknown, completion: Completion): void {
  console.error(`acker: the handler of completion ${completion.id} (message id ${completion.messageId}) threw`, error);
}

/** Read the bytes of a body, which a parser that stands before may have read. */
async function readBody(request: IncomingMessage & { body?: unknown }, maxBytes = MAX_BODY_BYTES): Promise<Buffer> {
  if (typeof request.body === "string" || request.body instanceof Uint8Array) {
    return Buffer.from(request.body as string);
  }
  if (request.readableEnded) {
    throw new UsageError(
      "the body was parsed already, and the signature is over its bytes: receive before express.json()",
    );
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += chunk.length;
    if (size > maxBytes) {
      throw tooLarge(maxBytes);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Return the bytes of each secret. Throws `UsageError`, which does not show them. */
function readSecrets(secrets: string | readonly string[]): Buffer[] {
  const listed = typeof secrets === "string" ? [secrets] : secrets;
  const keys = listed.map((secret) => Buffer.from(secret.slice(PREFIX.length), "base64"));
  const isWritten = (key: Buffer, at: number) =>
    listed[at] === PREFIX + key.toString("base64") &&
    key.length >= SECRET_BYTES.least &&
    key.length <= SECRET_BYTES.most;
  if (keys.length === 0 || !keys.every(isWritten)) {
    throw new UsageError(
      `the secret of a webhook must be ${PREFIX} and the base64 of ${SECRET_BYTES.least} to ${SECRET_BYTES.most} ` +
        "bytes, padded with = to a multiple of four characters",
    );
  }
  return keys;
}

function isEqual(one: string, other: string): boolean {
  const [ours, theirs] = [Buffer.from(one), Buffer.from(other)];
  return ours.length === theirs.length && timingSafeEqual(ours, theirs);
}

function tooLarge(maxBytes: number): ServiceError {
  return new ServiceError("too_large", `the body has more than ${maxBytes} bytes`);
}

function unauthorized(detail: string): ServiceError {
  return new ServiceError("unauthorized", detail);
}
