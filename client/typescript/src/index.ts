/** The client of Acker, which tells the sender of a message when everything that it set off is done. */
export { Acker, type ProcessOptions, type ReceiveOptions, type Stats } from "./acker.js";
export { ANCHORS_HEADER, type Anchor, Anchors, type IncomingHeaders } from "./anchors.js";
export type { WaitOptions } from "./cancel.js";
export type { Completion, MessageHandler } from "./completions.js";
export type { Key } from "./edges.js";
export {
  AckerError,
  BufferFullError,
  CanceledError,
  ClientClosedError,
  DropTuple,
  DuplicateKeyError,
  FailTuple,
  InvalidHeaderError,
  InvalidResponseError,
  InvalidSignatureError,
  OperationsLostError,
  RetriesExhaustedError,
  ServiceError,
  TooManyAnchorsError,
  TupleClosedError,
  TupleSignal,
  UsageError,
} from "./errors.js";
export type { EndOn, Operation, OperationState, Outcome } from "./operations.js";
export type { AckerOptions, Logger } from "./options.js";
export { type AnchorParent, current, extract, inject, sign, use, verify } from "./propagate.js";
export type { Request } from "./requests.js";
export type { NoResponse, Response } from "./responses.js";
export type { EmitOptions, Root } from "./root.js";
export { type Secrets, SIGNATURE_HEADER } from "./signature.js";
export type { Spout } from "./spout.js";
export type { ReadOptions } from "./spout-task.js";
export type { OnError } from "./submitter.js";
export type { Transport } from "./transport.js";
export type { Tuple } from "./tuple.js";
