/** The operations on a root as the acker's JSON has them, and the states that answer them. */

/** What ends a root: its first fail, or that all of its edges have ended, some of them perhaps failed. */
export type EndOn = "first_fail" | "all_ended";

export interface Init {
  readonly op: "init";
  readonly root_id: string;
  readonly spout_task: string;
  readonly ack_val?: string;
  readonly outstanding?: number;
  readonly edges?: readonly string[];
  readonly message_id?: string;
  readonly message_timeout_ms?: number;
  readonly progress_timeout_ms?: number;
  readonly trace?: true;
  readonly traceparent?: string;
  readonly end_on?: EndOn;
}

/** An ack val and a count, or the children by name. */
interface EndedEdge {
  readonly root_id: string;
  readonly ack_val?: string;
  readonly outstanding?: number;
  readonly edge_id?: string;
  readonly children?: readonly string[];
  readonly component?: string;
}

export interface Ack extends EndedEdge {
  readonly op: "ack";
  /** The tuple was not processed, since no retry would help: the completion counts it. */
  readonly dropped?: true;
}

/** A fail of an edge: it ends the root, or the edge alone where the root ends when all have ended. */
export interface Fail extends EndedEdge {
  readonly op: "fail";
  readonly edge_id: string;
  readonly reason?: string;
}

export interface ResetTimeout {
  readonly op: "reset-timeout";
  readonly root_id: string;
  readonly component?: string;
}

/** One operation on one root. */
export type Operation = Init | Ack | Fail | ResetTimeout;

const STATES = [
  "pending",
  "acked",
  "failed",
  "early",
  "finished",
  "duplicate",
  "unknown",
  "conflict",
  "max_spout_pending",
  "mailbox_full",
  "store_full",
] as const;

/** The state that answers one operation. */
export type OperationState = (typeof STATES)[number];

/** How a root ended. */
export type Outcome = "acked" | "failed" | "timed_out";

/** States of an operation that was not admitted: it changed nothing, and may be sent again in a new request. */
export const NOT_ADMITTED: ReadonlySet<string> = new Set(["max_spout_pending", "mailbox_full", "store_full"]);
/** States of an operation that was not accepted. */
export const REFUSED: ReadonlySet<string> = new Set([...NOT_ADMITTED, "conflict"]);

/** Whether the contract has this state. */
export function isState(value: unknown): value is OperationState {
  return STATES.includes(value as OperationState);
}
