/** The driver of the client for TypeScript, which plays the tests of tests/conformance; docs/clients.md has its commands. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { ANCHORS_HEADER, Anchors, findAnchors, type IncomingHeaders, readAnchors } from "../src/anchors.js";
import type { Completion } from "../src/completions.js";
import { nodeBolt, tupleOf } from "../src/http.js";
import { deriveEdge, edgeOfDigest } from "../src/ids.js";
import {
  Acker,
  AckerError,
  type AckerOptions,
  current,
  DropTuple,
  FailTuple,
  inject,
  type OnError,
  type Root,
  type Tuple,
} from "../src/index.js";
import type { Operation } from "../src/operations.js";
import { backoffDelays } from "../src/options.js";
import { classify, type NoResponse, type Response } from "../src/responses.js";
import { checkSecrets, checkSignature, writeSignature } from "../src/signature.js";
import { verifyWebhook, webhookReceiver } from "../src/webhook.js";

type Command = Record<string, unknown>;
type Key = string | null;

/** What a program's own code throws. */
class Broken extends Error {}

/** Members of the protocol, and the options of the client. */
const OPTIONS: Readonly<Record<string, string>> = {
  topology: "topology",
  api_key: "apiKey",
  linger_ms: "linger",
  batch_size: "batchSize",
  buffer_size: "bufferSize",
  retry_timeout_ms: "retryTimeout",
  emit_timeout_ms: "emitTimeout",
  request_timeout_ms: "requestTimeout",
  startup_timeout_ms: "startupTimeout",
  message_timeout_ms: "messageTimeout",
  progress_timeout_ms: "progressTimeout",
  traceparent: "traceparent",
  end_on: "endOn",
  page_size: "pageSize",
  poll_timeout_ms: "pollTimeout",
  until_ms: "until",
  component: "component",
  on_error: "onError",
  secret: "secret",
  repeatable: "repeatable",
};

const logger = { warn: (message: string) => process.stderr.write(`${message}\n`) };
const clients = new Map<string, Acker>();
const tuples = new Map<string, Tuple>();
const servers: Server[] = [];
let gates = new Map<string, { promise: Promise<void>; open: () => void }>();
let handled: Command[] = [];
let queue: Record<string, string>[] = [];

const commands: Readonly<Record<string, (command: Command) => unknown>> = {
  hello: () => ({ language: "typescript" }),

  read_header: ({ carrier, headers, topology }) => {
    const given = carried(carrier as string, headers as [string, string][]);
    const anchors = typeof topology === "string" ? readAnchors(given, topology) : (findAnchors(given)?.anchors ?? []);
    const listed = anchors.map((each) => `${each.rootId}-${each.edgeId}`);
    return listed.length === 0 ? null : { topology: findAnchors(given)?.topology, anchors: listed };
  },

  write_header: ({ topology, anchors, others }) => {
    const listed = (anchors as string[]).map((each) => ({ rootId: each.slice(0, 16), edgeId: each.slice(17) }));
    return Object.entries(
      new Anchors(topology as string, listed).headers(Object.fromEntries(others as [string, string][])),
    );
  },

  derive_edge: ({ root, parent, component, key }) =>
    deriveEdge(root as string, parent as string, component as string, key as string),

  derive_from_digest: ({ root, digest }) => edgeOfDigest(root as string, Buffer.from(digest as string, "hex")),

  verify_webhook: ({ secrets, headers, body, now }) => {
    try {
      verifyWebhook(secrets as string[], headers as Record<string, string>, body as string, { now: now as number });
    } catch (error) {
      return { refused: (error as Error).message };
    }
    return { accepted: true };
  },

  sign_anchors: ({ secret, anchors, now }) =>
    writeSignature(checkSecrets(secret as string), anchors as string, now as number),

  check_signature: ({ secrets, headers, now }) => {
    checkSignature(checkSecrets(secrets as string[]), headers as [string, string][], now as number);
    return { accepted: true };
  },

  decide: ({ request, answer }) => {
    const { method, path, operations = 0 } = request as { method: "GET"; path: string; operations?: number };
    const asked = { method, path, operations: Array<Operation>(operations).fill(null as never), waitMs: 0 };
    const failure = classify(asked, readAnswer(answer as Command | null));
    return failure === null
      ? { again: false }
      : { again: failure.retryable, wait_ms: failure.waitMs, error: described(failure.error) };
  },

  backoff: ({ attempts, jitter }) => {
    const delays = backoffDelays(() => jitter as number);
    return Array.from({ length: attempts as number }, () => delays.next().value);
  },

  reset: () => {
    for (const gate of gates.values()) {
      gate.open();
    }
    for (const server of servers.splice(0)) {
      server.close();
      server.closeAllConnections();
    }
    clients.clear();
    tuples.clear();
    gates = new Map();
    handled = [];
    return {};
  },

  open: ({ client = "main", url, on_full, ...options }) => {
    const onFull = on_full === "raise" ? { onFull: "throw" as const } : {};
    clients.set(
      client as string,
      new Acker(url as string, { ...(translated(options) as AckerOptions), ...onFull, logger }),
    );
    return {};
  },

  close: async ({ client }) => {
    await clientOf(client).close();
    return {};
  },

  emit: async ({ client, spout, shared, message_id = null, children = [], ambient, raises, ...options }) => {
    const task = spoutOf(client, spout, shared);
    const found: Command = { spout_task: task.name, headers: [], raised: false };
    try {
      await task.emit(
        message_id as string | null,
        (root) => {
          found.root_id = root.rootId;
          found.headers = makeChildren(root, children as Key[], ambient === true);
          if (raises === true) {
            throw new Broken();
          }
        },
        translated(options),
      );
    } catch (error) {
      noteBroken(error, found);
    }
    return found;
  },

  receive: ({ client, header, component, ...options }) => {
    const tuple = clientOf(client).receive(headersOf(header), component as string, translated(options));
    const handle = `tuple ${tuples.size + 1}`;
    tuples.set(handle, tuple);
    return { tuple: handle, tracked: tuple.tracked, anchors: tuple.anchors.length };
  },

  child: ({ tuple, key }) => ({ header: tupleAt(tuple).headers(key as Key)[ANCHORS_HEADER] ?? null }),

  join: ({ client, tuples: joined, key }) => {
    const anchors = clientOf(client).anchor((joined as string[]).map(tupleAt), key as Key);
    return { header: anchors.headers()[ANCHORS_HEADER] ?? null };
  },

  ack: async ({ tuple }) => {
    await tupleAt(tuple).ack();
    return {};
  },

  fail: async ({ tuple, reason }) => {
    await tupleAt(tuple).fail(reason as string | undefined);
    return {};
  },

  reset_timeout: async ({ tuple }) => {
    await tupleAt(tuple).resetTimeout();
    return {};
  },

  process: async (command) => {
    const { client, header, component, children = [], ambient, gate, then, reason, ...options } = command;
    const found: Command = { headers: [], raised: false };
    const before = current();
    try {
      await clientOf(client).process(
        headersOf(header),
        component as string,
        async (tuple) => {
          await passGate(gate);
          found.headers = makeChildren(tuple, children as Key[], ambient === true);
          await end(tuple, then as string | undefined, reason as string | undefined);
        },
        translated(options),
      );
    } catch (error) {
      noteBroken(error, found);
    }
    return { ...found, restored: current() === before };
  },

  enqueue: ({ headers }) => {
    queue = (headers as string[]).map(headersOf);
    return {};
  },

  work_off: async ({ client, component, child_count }) => {
    const acker = clientOf(client);
    for (const headers of queue) {
      if (child_count === 0) {
        await acker.receive(headers, component as string).ack();
        continue;
      }
      await acker.process(headers, component as string, (tuple) => {
        for (let key = 0; key < (child_count as number); key += 1) {
          tuple.headers(String(key));
        }
      });
    }
    await acker.flush();
    return {};
  },

  open_gate: ({ gate }) => {
    gateOf(gate as string).open();
    return {};
  },

  flush: async ({ client }) => {
    await clientOf(client).flush();
    return {};
  },

  stats: ({ client }) => {
    const { inFlight, lost, droppedTuples, untrackedTuples } = clientOf(client).stats();
    return { in_flight: inFlight, lost, dropped: droppedTuples, untracked: untrackedTuples };
  },

  internals: ({ client }) => {
    const { space, answers, closing } = clientOf(client).internals();
    return { waiting_for_space: space, waiting_for_answers: answers, closing };
  },

  completions: async ({ client, spout, shared, count, raise_at, gate, ...options }) => {
    const seen: Command[] = [];
    const found: Command = { completions: seen, raised: false };
    const stop = () => seen.length >= (count as number);
    try {
      for await (const completion of spoutOf(client, spout, shared).completions({ stop, ...translated(options) })) {
        seen.push(written(completion));
        await passGate(gate);
        if (seen.length === raise_at) {
          throw new Broken();
        }
      }
    } catch (error) {
      noteBroken(error, found);
    }
    return found;
  },

  serve_bolt: ({ client, ...options }) => {
    const bolt = translated(options) as unknown as { component: string; onError?: OnError; secret?: string };
    return serve(nodeBolt(clientOf(client), bolt, application));
  },

  serve_webhook: ({ secrets, raise_for = [] }) => {
    const left = [...(raise_for as string[])];
    const receive = webhookReceiver({
      secrets: secrets as string[],
      handler: (completion) => {
        const at = left.indexOf(completion.messageId ?? "");
        if (at >= 0) {
          left.splice(at, 1);
          throw new Broken();
        }
        handled.push(written(completion));
      },
    });
    return serve(receive);
  },

  webhook_handled: () => ({ completions: handled }),
};

/** The application behind the middleware: the body of a request says what it does. */
async function application(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = "";
  for await (const chunk of request) {
    text += chunk;
  }
  const wanted = JSON.parse(text || "{}") as Command;
  const tuple = tupleOf(request) as Tuple;
  const headers = makeChildren(tuple, (wanted.children ?? []) as Key[], true);
  await end(tuple, wanted.then as string | undefined, wanted.reason as string | undefined);
  if (wanted.gives_up === true) {
    if (!response.closed) {
      await new Promise((resolve) => response.once("close", resolve));
    }
    return;
  }
  response.writeHead((wanted.status as number | undefined) ?? 200);
  if (wanted.breaks_off === true) {
    response.write("begun", () => response.destroy());
  } else {
    response.end(JSON.stringify({ headers }));
  }
}

async function end(tuple: Tuple, then = "return", reason = ""): Promise<void> {
  switch (then) {
    case "raise":
      throw new Broken(reason);
    case "fail_tuple":
      throw new FailTuple(reason);
    case "drop_tuple":
      throw new DropTuple(reason);
    case "ack":
      return await tuple.ack();
    case "fail":
      return await tuple.fail(reason);
    default:
  }
}

function makeChildren(parent: Tuple | Root, keys: readonly Key[], ambient: boolean): (string | null)[] {
  return keys.map((key) => {
    const headers = ambient ? inject<Record<string, unknown>>({}, key) : parent.headers(key);
    return (headers[ANCHORS_HEADER] as string | undefined) ?? null;
  });
}

/** Return headers as a library of the carrier gives them. */
function carried(carrier: string, headers: readonly [string, string][]): IncomingHeaders {
  if (carrier === "amqp") {
    return Object.fromEntries(headers);
  }
  if (carrier === "kafka") {
    return headers.map(([name, value]) => ({ [name]: Buffer.from(value) }));
  }
  return headers;
}

async function serve(handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Promise<Command> {
  const server = createServer((request, response) => void handler(request, response));
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function gateOf(name: string): { promise: Promise<void>; open: () => void } {
  let open: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => {
    open = resolve;
  });
  const gate = gates.get(name) ?? { promise, open };
  gates.set(name, gate);
  return gate;
}

async function passGate(name: unknown): Promise<void> {
  if (typeof name === "string") {
    await gateOf(name).promise;
  }
}

function clientOf(name: unknown): Acker {
  return clients.get((name as string | undefined) ?? "main") as Acker;
}

function spoutOf(client: unknown, name: unknown, shared: unknown) {
  const acker = clientOf(client);
  return shared === true ? acker.sharedSpout(name as string) : acker.spout(name as string);
}

function tupleAt(handle: unknown): Tuple {
  return tuples.get(handle as string) as Tuple;
}

function headersOf(header: unknown): Record<string, string> {
  return typeof header === "string" ? { [ANCHORS_HEADER]: header } : {};
}

function translated(options: Command): Record<string, never> {
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [OPTIONS[name] ?? name, value as never]));
}

function readAnswer(answer: Command | null): Response | NoResponse {
  if (answer === null) {
    return { error: new Error("no answer"), refusedBy: "" };
  }
  const { status, body, retry_after = "" } = answer as { status: number; body: string; retry_after?: string };
  return { status, body, retryAfter: retry_after };
}

function written(completion: Completion): Command {
  const { id, rootId, outcome, messageId, reason, component, traceparent, failures, dropped } = completion;
  const end = {
    id,
    root_id: rootId,
    outcome,
    message_id: messageId,
    reason,
    component,
    traceparent,
    failures,
    dropped,
  };
  const { lastComponent, lastAckAt, outstanding } = completion;
  return { ...end, last_component: lastComponent, last_ack_at_ms: lastAckAt?.getTime() ?? null, outstanding };
}

function noteBroken(error: unknown, found: Command): void {
  if (!(error instanceof Broken)) {
    throw error;
  }
  found.raised = true;
}

function described(error: unknown): Command {
  if (!(error instanceof AckerError)) {
    return { code: "lost", message: String(error), retryable: true };
  }
  const { code, retryable, message } = error;
  const { status, outcomeUnknown, operations } = error as {
    status?: number;
    outcomeUnknown?: boolean;
    operations?: number;
  };
  return { code, retryable, message, status, outcome_unknown: outcomeUnknown, operations };
}

async function answer(line: string): Promise<void> {
  const { id, do: wanted, ...command } = JSON.parse(line) as Command;
  let found: Command;
  try {
    const run = commands[wanted as string];
    if (run === undefined) {
      throw new Error(`there is no command ${wanted}`);
    }
    found = { id, ok: await run(command) };
  } catch (error) {
    const isOurs = error instanceof AckerError;
    found = { id, error: isOurs ? described(error) : { code: "driver", message: String((error as Error).stack) } };
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void answer(line));
lines.on("close", () => process.exit(0));
