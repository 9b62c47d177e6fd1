/** The way to an acker: one attempt of a request, over connections that are kept open. */
import * as http from "node:http";
import * as https from "node:https";
import { TLSSocket } from "node:tls";
import { ClientClosedError, UsageError } from "./errors.js";
import { LONGEST_TIMER_MS } from "./options.js";
import type { Request } from "./requests.js";
import type { NoResponse, Response } from "./responses.js";

const MAX_CONNECTIONS = 100;
const IDLE_MS = 5_000;

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
    if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new UsageError("apiKey must be visible characters of ASCII, without spaces and line breaks");
    }
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
      const limitMs = Math.min(timeoutMs, LONGEST_TIMER_MS);
      const timer = setTimeout(() => outgoing.destroy(new Error(`no answer within ${limitMs} ms`)), limitMs);
      let isConnected = false;
      whenConnected(outgoing, () => {
        isConnected = true;
      });
      const settle = (answer: Response | NoResponse) => {
        clearTimeout(timer);
        resolve(answer);
      };
      outgoing.on("error", (error) => settle({ error, refusedBy: isConnected ? "" : this.url.origin }));
      outgoing.on("response", (incoming) => readResponse(incoming, settle));
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
}

/** Call a function once a request has a connection, over TLS one that trusts it: before that nothing can arrive. */
function whenConnected(outgoing: http.ClientRequest, run: () => void): void {
  outgoing.once("socket", (socket) => {
    if (socket.connecting) {
      socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", run);
    } else {
      run(); // another request has used it
    }
  });
}

function readResponse(incoming: http.IncomingMessage, settle: (answer: Response | NoResponse) => void): void {
  const noResponse = (error: Error) => ({ error, refusedBy: "" });
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
