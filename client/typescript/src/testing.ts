/** An acker in memory, for tests of programs that use the client. */
import { createHash } from "node:crypto";
import { Acker } from "./acker.js";
import { ServiceError } from "./errors.js";
import { format, high, low } from "./ids.js";
import type { Ack, EndOn, Fail, Init, Operation, OperationState, Outcome } from "./operations.js";
import { REFUSED } from "./operations.js";
import type { AckerOptions } from "./options.js";
import type { Request } from "./requests.js";
import type { NoResponse, Response } from "./responses.js";
import type { Transport } from "./transport.js";

const IDEMPOTENCY_WINDOW_MS = 600_000;

/** The topology of an acker in memory. Times are in milliseconds. */
export interface MemoryAckerOptions {
  readonly topology?: string;
  /** 30,000. */
  readonly messageTimeout?: number;
  /** Whether the topology has a dedupe window: an edge that is acked twice counts once. True. */
  readonly dedupes?: boolean;
  readonly maxSpoutPending?: number;
  /** What ends a root whose emit does not say: `"first_fail"`. */
  readonly endOn?: EndOn;
}

/**
 * What becomes of the next request: `"no_answer"` comes before anything is applied, `"lost_answer"` after that; an error
 * is the answer; null lets one through.
 */
export type Fault = "no_answer" | "lost_answer" | ServiceError | null;

/** An unfinished root: early without a spout task. */
interface Tree {
  upper: number;
  lower: number;
  init: Init | null;
  startedAt: number;
  deadline: number;
  timeout: number;
  endOn: EndOn | null;
  failure: { reason: string | null; component: string | null } | null;
  failures: number;
  dropped: number;
  readonly edges: Set<string>;
}

interface Mail {
  readonly position: number;
  readonly document: Readonly<Record<string, unknown>>;
}

/**
 * An acker with one topology, in memory.
 *
 * ```ts
 * const memory = new MemoryAcker();
 * const acker = memory.acker({ linger: 0 });
 * // … the program under test
 * memory.advance(31_000); // roots that are not done time out
 * assert.deepEqual(memory.completions("orders"), ["42"]); // message ids that are not released
 * ```
 *
 * Time passes only by `advance`. `requests` lists the requests that came, and `faults` hit the next ones.
 */
export class MemoryAcker implements Transport {
  readonly requests: Request[] = [];
  readonly faults: Fault[] = [];
  readonly #topology: string;
  readonly #messageTimeout: number;
  readonly #dedupes: boolean;
  readonly #maxSpoutPending: number | null;
  readonly #endOn: EndOn;
  readonly #trees = new Map<string, Tree>();
  readonly #finished = new Map<string, Outcome>();
  readonly #mailboxes = new Map<string, Mail[]>();
  readonly #answers = new Map<string, Response>();
  #now = 0;
  #position = 0;

  constructor(options: MemoryAckerOptions = {}) {
    this.#topology = options.topology ?? "default";
    this.#messageTimeout = options.messageTimeout ?? 30_000;
    this.#dedupes = options.dedupes ?? true;
    this.#maxSpoutPending = options.maxSpoutPending ?? null;
    this.#endOn = options.endOn ?? "first_fail";
  }

  /** Make a client of this acker. */
  acker(options: AckerOptions = {}): Acker {
    return new Acker("http://acker.test", { topology: this.#topology, ...options, transport: this });
  }

  /** Let time pass: roots whose time is over end. */
  advance(milliseconds: number): void {
    this.#now += milliseconds;
    for (const [rootId, tree] of [...this.#trees]) {
      if (tree.deadline <= this.#now) {
        this.#end(rootId, tree, "timed_out");
      }
    }
  }

  /** Return how a root ended, `"pending"` while it has not, null for one that is not known. */
  outcome(rootId: string): Outcome | "pending" | null {
    return this.#finished.get(rootId) ?? (this.#trees.has(rootId) ? "pending" : null);
  }

  /** Return the message ids of the completions of a spout task that are not released. */
  completions(spoutTask: string): unknown[] {
    return (this.#mailboxes.get(spoutTask) ?? []).map((mail) => mail.document.message_id);
  }

  /** Answer a request, as a transport of a client. */
  send(request: Request): Promise<Response | NoResponse> {
    this.requests.push(request);
    const fault = this.faults.shift() ?? null;
    if (fault instanceof ServiceError) {
      return Promise.resolve(problem(fault));
    }
    const answer = fault === "no_answer" ? null : this.#answerOnce(request);
    const lost = { error: new Error("the answer was lost"), refusedBy: "" };
    return Promise.resolve(answer === null || fault === "lost_answer" ? lost : answer);
  }

  close(): void {
    // a client that is closed leaves nothing open here
  }

  /** Answer a request, and each repeat with its key as the first time, but for what was refused alone. */
  #answerOnce(request: Request): Response {
    const known = request.key === undefined ? undefined : this.#answers.get(request.key);
    if (known !== undefined) {
      return known;
    }
    let answer: Response;
    try {
      answer = json(200, this.#answer(request));
    } catch (error) {
      if (!(error instanceof ServiceError)) {
        throw error;
      }
      return problem(error);
    }
    if (request.key !== undefined) {
      this.#answers.set(request.key, answer);
    }
    return answer;
  }

  #answer(request: Request): object {
    const [path = "", query] = request.path.split("?");
    const [topology, ...rest] = path.replace("/v1/topologies/", "").split("/");
    if (topology !== this.#topology) {
      throw new ServiceError("unknown_topology", `there is no topology ${topology}`);
    }
    const [what, spoutTask = "", mailbox, release] = rest;
    if (what === undefined) {
      return this.#document();
    }
    if (request.operations.length > 0) {
      return this.#apply(request);
    }
    if (what === "spouts" && release === "release") {
      return this.#release(spoutTask, JSON.parse(request.body ?? "{}").cursor);
    }
    if (what === "spouts" && mailbox === "completions") {
      return this.#read(spoutTask, new URLSearchParams(query));
    }
    return { spout_task: spoutTask, pending: this.#pending(spoutTask) };
  }

  #document(): object {
    return {
      topology: this.#topology,
      idempotency_window_ms: IDEMPOTENCY_WINDOW_MS,
      dedupe_window_ms: this.#dedupes ? this.#messageTimeout : 0,
      message_timeout_ms: this.#messageTimeout,
      max_spout_pending: this.#maxSpoutPending,
      end_on: this.#endOn,
      trace: 0,
    };
  }

  #apply(request: Request): object {
    const states = request.operations.map((operation) => this.#operate(operation));
    if (request.path.endsWith("/batch")) {
      return { accepted: states.filter((state) => !REFUSED.has(state)).length, results: states };
    }
    const [state] = states as [OperationState];
    if (REFUSED.has(state)) {
      throw new ServiceError(state, "refused");
    }
    return { root_id: request.operations[0]?.root_id, state };
  }

  #operate(operation: Operation): OperationState {
    const rootId = operation.root_id;
    if (this.#finished.has(rootId)) {
      return "finished";
    }
    if (operation.op === "reset-timeout") {
      return this.#resetTimeout(rootId);
    }
    if (operation.op === "init" && this.#isCapped(operation.spout_task)) {
      return "max_spout_pending";
    }
    const tree = this.#trees.get(rootId) ?? this.#begin(rootId);
    if (operation.op === "init") {
      this.#admit(tree, operation);
    } else if (!(operation.op === "ack" ? this.#ack(tree, operation) : this.#fail(tree, operation))) {
      return "duplicate";
    }
    return this.#settle(rootId, tree);
  }

  #begin(rootId: string): Tree {
    const tree: Tree = {
      upper: 0,
      lower: 0,
      init: null,
      startedAt: this.#now,
      deadline: this.#now + this.#messageTimeout,
      timeout: this.#messageTimeout,
      endOn: null,
      failure: null,
      failures: 0,
      dropped: 0,
      edges: new Set(),
    };
    this.#trees.set(rootId, tree);
    return tree;
  }

  #admit(tree: Tree, init: Init): void {
    if (tree.init !== null) {
      return;
    }
    tree.init = init;
    tree.endOn = init.end_on ?? this.#endOn;
    tree.timeout = init.message_timeout_ms ?? this.#messageTimeout;
    tree.deadline = this.#now + tree.timeout;
    fold(tree, init.edges ?? [init.ack_val ?? format(0, 0)]);
  }

  /** Count an ack; false for an edge that ended before. */
  #ack(tree: Tree, ack: Ack): boolean {
    const isNew = this.#endEdge(tree, ack);
    tree.dropped += Number(isNew && ack.dropped === true);
    return isNew;
  }

  /** Fail a root, or end an edge where all have to end; false for one that ended before. An early root may be of either kind. */
  #fail(tree: Tree, fail: Fail): boolean {
    const isNew = tree.endOn === "first_fail" || this.#endEdge(tree, fail);
    if (!isNew && tree.endOn === "all_ended") {
      return false;
    }
    tree.failure ??= { reason: fail.reason ?? null, component: fail.component ?? null };
    tree.failures += Number(isNew);
    return true;
  }

  /** End an edge; false for one that ended before. */
  #endEdge(tree: Tree, ended: Ack | Fail): boolean {
    if (this.#dedupes && ended.edge_id !== undefined) {
      if (tree.edges.has(ended.edge_id)) {
        return false;
      }
      tree.edges.add(ended.edge_id);
    }
    fold(tree, ended.ack_val === undefined ? [ended.edge_id as string, ...(ended.children ?? [])] : [ended.ack_val]);
    return true;
  }

  #settle(rootId: string, tree: Tree): OperationState {
    if (tree.init === null) {
      return "early";
    }
    const hasFailed = tree.failure !== null && tree.endOn === "first_fail";
    if (!hasFailed && (tree.upper !== 0 || tree.lower !== 0)) {
      return "pending";
    }
    const outcome = hasFailed || tree.failures > 0 ? "failed" : "acked";
    this.#end(rootId, tree, outcome);
    return outcome;
  }

  #resetTimeout(rootId: string): OperationState {
    const tree = this.#trees.get(rootId);
    if (tree === undefined || tree.init === null) {
      return "unknown";
    }
    tree.deadline = this.#now + tree.timeout;
    return "pending";
  }

  #end(rootId: string, tree: Tree, outcome: Outcome): void {
    this.#trees.delete(rootId);
    if (tree.init === null) {
      return;
    }
    this.#finished.set(rootId, outcome);
    this.#position += 1;
    const failure = outcome === "failed" ? tree.failure : null;
    const document = {
      id: createHash("sha256").update(`${rootId} ${outcome}`).digest("hex").slice(0, 32),
      root_id: rootId,
      outcome,
      message_id: tree.init.message_id ?? null,
      reason: failure?.reason ?? null,
      component: failure?.component ?? null,
      complete_latency_ms: this.#now - tree.startedAt,
      at_ms: this.#now,
      ...(tree.init.traceparent !== undefined && { traceparent: tree.init.traceparent }),
      ...(tree.endOn === "all_ended" && { failures: tree.failures }),
      ...(tree.dropped > 0 && { dropped: tree.dropped }),
    };
    const mailbox = this.#mailboxes.get(tree.init.spout_task) ?? [];
    this.#mailboxes.set(tree.init.spout_task, [...mailbox, { position: this.#position, document }]);
  }

  #read(spoutTask: string, query: URLSearchParams): object {
    const after = Number(query.get("after") ?? 0);
    const found = (this.#mailboxes.get(spoutTask) ?? []).filter((mail) => mail.position > after);
    const page = found.slice(0, Number(query.get("limit") ?? 100));
    const cursor = page.at(-1)?.position ?? (query.has("after") ? after : null);
    return { completions: page.map((mail) => mail.document), cursor: cursor === null ? null : String(cursor) };
  }

  #release(spoutTask: string, cursor: string): object {
    const left = (this.#mailboxes.get(spoutTask) ?? []).filter((mail) => mail.position > Number(cursor));
    this.#mailboxes.set(spoutTask, left);
    return {};
  }

  #isCapped(spoutTask: string): boolean {
    return this.#maxSpoutPending !== null && this.#pending(spoutTask) >= this.#maxSpoutPending;
  }

  #pending(spoutTask: string): number {
    return [...this.#trees.values()].filter((tree) => tree.init?.spout_task === spoutTask).length;
  }
}

function fold(tree: Tree, ids: readonly string[]): void {
  for (const id of ids) {
    tree.upper ^= high(id);
    tree.lower ^= low(id);
  }
}

function json(status: number, document: object): Response {
  return { status, body: JSON.stringify(document), retryAfter: "" };
}

function problem(error: ServiceError): Response {
  return json(error.status, error.document());
}
