/** The way to an acker: one attempt of a request, over connections that are kept open. */
import * as http from "node:http";
import * as https from "node:https";
import { ClientClosedError, UsageError } from "./errors.js";
import type { Request } from "./requests.js";
import type { NoResponse, Response } from "./responses.js";

const MAX_CONNECTIONS = 100;
const IDLE_MS = 5_000;

/** Codes of errors that come before a connection is made, so that nothing can have arrived. */
const NO_CONNECTION = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** Sends one attempt of a request, and never throws for what the network does. */
export interface Transport {
  send(request: Request, timeoutMs: number): Promise<Response | NoResponse>;
  close(): void;
}

/** Check the address of an acker. Throws `UsageError`. */
export function checkUrl(url: string): URL {
  const found = URL.canParse(url) ? new URL(url) : null;
  if (found === null || !["http:", "https:"].includes(found.protocol) || found.hostname === "") {
    throw new UsageError(`the acker's address must be an http or https URL, not ${JSON.stringify(url)}`);
  }
  return found;
}

/** Sends requests by node:http. */
export class HttpTransport implements Transport {
  readonly #agent: http.Agent;
  readonly #client: typeof http | typeof https;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #base: string;
  #closed = false;

  constructor(
    private readonly url: URL,
    apiKey: string | undefined,
  ) {
    this.#client = url.protocol === "https:" ? https : http;
    this.#agent = new this.#client.Agent({ keepAlive: true, maxSockets: MAX_CONNECTIONS, timeout: IDLE_MS });
    this.#headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    this.#base = url.pathname.replace(/\/+$/, "");
  }

  send(request: Request, timeoutMs: number): Promise<Response | NoResponse> {
    if (this.#closed) {
      return Promise.reject(new ClientClosedError("the acker is closed"));
    }
    return new Promise((resolve) => {
      const outgoing = this.#client.request(this.url, {
        agent: this.#agent,
        method: request.method,
        path: this.#base + request.path,
        headers: this.#headersOf(request),
        signal: request.signal,
      });
      const timer = setTimeout(() => outgoing.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      const settle = (answer: Response | NoResponse) => {
        clearTimeout(timer);
        resolve(answer);
      };
      outgoing.on("error", (error) => settle(this.#noResponse(error)));
      outgoing.on("response", (incoming) => readResponse(incoming, (error) => this.#noResponse(error), settle));
      outgoing.end(request.body);
    });
  }

  close(): void {
    this.#closed = true;
    this.#agent.destroy();
  }

  #headersOf(request: Request): Record<string, string | number> {
    return {
      ...this.#headers,
      ...(request.body !== undefined && {
        "Content-Type": "application/json",
        "Content-Length": Buffer.byteLength(request.body),
      }),
      ...(request.key !== undefined && { "Idempotency-Key": request.key }),
    };
  }

  #noResponse(error: NodeJS.ErrnoException): NoResponse {
    return { error, refusedBy: NO_CONNECTION.has(codeOf(error)) ? this.url.origin : "" };
  }
}

function readResponse(
  incoming: http.IncomingMessage,
  noResponse: (error: Error) => NoResponse,
  settle: (answer: Response | NoResponse) => void,
): void {
  const chunks: Buffer[] = [];
  incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
  incoming.on("error", (error) => settle(noResponse(error)));
  incoming.on("end", () => {
    if (!incoming.complete) {
      settle(noResponse(new Error("the answer was cut off")));
      return;
    }
    const retryAfter = incoming.headers["retry-after"] ?? "";
    settle({ status: incoming.statusCode ?? 0, body: Buffer.concat(chunks).toString(), retryAfter });
  });
}

/** Return the code of an error; where several addresses of a host were tried, that of the first. */
function codeOf(error: NodeJS.ErrnoException): string {
  const inner = error instanceof AggregateError ? (error.errors[0] as NodeJS.ErrnoException | undefined) : error;
  return inner?.code ?? "";
}
