/**
 * Makes a server a bolt: each request with anchors is a tuple, and its response ends it. For node:http, Express, Fastify.
 *
 * | the application | the tuple |
 * |---|---|
 * | answers 2xx, 304, 4xx other than below, also what it threw | acked |
 * | answers 301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429 | left open: the request comes again |
 * | answers 5xx, breaks off its answer; throws with `nodeBolt` | failed, or left open with `onError: "leave_open"` |
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Acker } from "./acker.js";
import { AckerError, InvalidHeaderError, InvalidSignatureError, LeftOpen } from "./errors.js";
import { checkSecrets, checkSignature, type Secrets } from "./signature.js";
import type { OnError } from "./submitter.js";
import type { Tuple } from "./tuple.js";
import { name, oneOf } from "./validate.js";

/** Statuses that leave the tuple open: the same request is to come again, here or elsewhere, with the same edge. */
export const RETRY_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308, 401, 407, 408, 421, 425, 429]);

export interface BoltOptions {
  readonly component: string;
  readonly onError?: OnError;
  /** The header needs proof that the caller has it too, as `inject` and `sign` give it; else the answer is 403. */
  readonly secret?: Secrets;
}

type Next = (error?: unknown) => void;

/**
 * What a request has of its tuple: `error` is what was thrown, in whose words a tuple fails.
 *
 * A framework may answer it as a refusal, as Fastify does where a body is not of its schema; then it is one. Nobody
 * answers what was thrown to `nodeBolt`: it `isUnanswered`, and ends the tuple whatever was sent before.
 */
interface Received {
  readonly tuple: Tuple;
  error: unknown;
  isUnanswered: boolean;
}

const received = new WeakMap<IncomingMessage, Received>();

/** Return the tuple of a request; null where no bolt has received one. */
export function tupleOf(request: IncomingMessage): Tuple | null {
  return received.get(request)?.tuple ?? null;
}

/** The code behind a bolt: a handler, or the middleware and routes that come next. */
interface Application {
  /** Carry out the request. */
  run(found: Received): unknown;
  /** Answer an error that came before the request was carried out. */
  fail(error: unknown): void;
  /** Leave the answer to the bolt, which refuses the request. */
  standBack?(): void;
}

/** Wrap a handler of node:http; what it throws or rejects with is logged, answered 500, and is the reason of the fail. */
export function nodeBolt(
  acker: Acker,
  options: BoltOptions,
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
  const receive = receiver(acker, options);
  return async (request, response) => {
    const fail = (error: unknown) => {
      acker.warn(`${request.method} ${request.url}: ${error instanceof Error ? error.stack : error}`);
      answerError(response);
    };
    const run = async (found: Received) => {
      try {
        await handler(request, response);
      } catch (error) {
        found.error = error;
        found.isUnanswered = true;
        fail(error);
      }
    };
    await receive(request, response, { run, fail });
  };
}

/** Return middleware of Express, or another that is called with request, response and next. See `expressErrors`. */
export function expressBolt(
  acker: Acker,
  options: BoltOptions,
): (request: IncomingMessage, response: ServerResponse, next: Next) => void {
  const receive = receiver(acker, options);
  return (request, response, next) => {
    void receive(request, response, { run: () => next(), fail: next });
  };
}

/** Return middleware of Express for errors, to stand behind the routes: then the fail has the words of the error. */
export function expressErrors(): (
  error: unknown,
  request: IncomingMessage,
  response: ServerResponse,
  next: Next,
) => void {
  return (error, request, _response, next) => {
    noteError(request, error);
    next(error);
  };
}

/** What this needs of a Fastify instance. */
interface FastifyLike {
  addHook(
    hook: "onRequest",
    run: (request: FastifyRequestLike, reply: FastifyReplyLike, done: (error?: Error) => void) => void,
  ): unknown;
  addHook(
    hook: "onError",
    run: (request: FastifyRequestLike, reply: FastifyReplyLike, error: unknown, done: () => void) => void,
  ): unknown;
}

interface FastifyRequestLike {
  readonly raw: IncomingMessage;
}

interface FastifyReplyLike {
  readonly raw: ServerResponse;
  hijack(): unknown;
}

/** Return a plugin of Fastify: `app.register(fastifyBolt(acker, { component: "billing" }))`. */
export function fastifyBolt(acker: Acker, options: BoltOptions): (instance: FastifyLike) => Promise<void> {
  const receive = receiver(acker, options);
  const plugin = (instance: FastifyLike): Promise<void> => {
    instance.addHook("onRequest", (request, reply, done) => {
      const fail = (error: unknown) => done(error as Error);
      void receive(request.raw, reply.raw, { run: () => done(), fail, standBack: () => reply.hijack() });
    });
    instance.addHook("onError", (request, _reply, error, done) => {
      noteError(request.raw, error);
      done();
    });
    return Promise.resolve();
  };
  // the hooks are for the routes of the instance that registers it
  return Object.assign(plugin, { [Symbol.for("skip-override")]: true });
}

/**
 * Return what receives the tuple of a request, runs the application with it, and ends it as the response says.
 *
 * Within another bolt it asks for proof only: that one ends the tuple.
 */
function receiver(acker: Acker, { component, onError = "fail", secret }: BoltOptions) {
  name("component", component);
  oneOf("onError", onError, "fail", "leave_open");
  const secrets = secret === undefined ? null : checkSecrets(secret);
  return async (request: IncomingMessage, response: ServerResponse, application: Application): Promise<void> => {
    const around = received.get(request);
    let tuple: Tuple;
    try {
      if (secrets !== null) {
        checkSignature(secrets, request.headers, Date.now() / 1_000);
      }
      tuple = around?.tuple ?? acker.receive(request.headers, component);
    } catch (error) {
      application.standBack?.();
      refuse(response, error);
      return;
    }
    if (around !== undefined) {
      await application.run(around);
      return;
    }
    received.set(request, { tuple, error: null, isUnanswered: false });
    await endWithResponse(acker, request, response, application, onError);
  };
}

async function endWithResponse(
  acker: Acker,
  request: IncomingMessage,
  response: ServerResponse,
  application: Application,
  onError: OnError,
): Promise<void> {
  const found = received.get(request) as Received;
  let isCarriedOut = false;
  try {
    await acker.processTuple(
      found.tuple,
      async () => {
        isCarriedOut = true;
        const ended = endOf(response);
        await application.run(found);
        await ended;
        throwUnlessComplete(response, found);
      },
      onError,
    );
  } catch (error) {
    if (!isCarriedOut) {
      application.fail(error);
    } else if (error instanceof AckerError) {
      acker.warn(`${request.method} ${request.url} was answered, and its tuple could not be ended: ${error.message}`);
    }
  }
}

function answerError(response: ServerResponse): void {
  if (response.headersSent) {
    response.destroy();
  } else {
    response.writeHead(500, { "Content-Type": "text/plain; charset=utf-8" }).end("Internal Server Error");
  }
}

/** Wait until all of a response was handed over, or its connection is closed. */
function endOf(response: ServerResponse): Promise<void> {
  if (response.writableFinished || response.destroyed) {
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    response.once("finish", resolve);
    response.once("close", resolve);
  });
}

/** Throw what a response means that does not ack its tuple. */
function throwUnlessComplete(response: ServerResponse, { error, isUnanswered }: Received): void {
  if (isUnanswered) {
    throw error;
  }
  if (response.statusCode >= 500) {
    throw error ?? new Error(`answered ${response.statusCode}`);
  }
  if (!response.writableFinished) {
    throw error ?? new Error("broke off its answer");
  }
  if (RETRY_STATUSES.has(response.statusCode)) {
    throw new LeftOpen();
  }
}

function noteError(request: IncomingMessage, error: unknown): void {
  const found = received.get(request);
  if (found !== undefined) {
    found.error = error;
  }
}

function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof InvalidHeaderError)) {
    throw error;
  }
  const status = error instanceof InvalidSignatureError ? 403 : 400;
  response.writeHead(status, { "Content-Type": "text/plain; charset=utf-8" }).end(error.message);
}
