/**
 * All errors of the client, those of the acker included.
 *
 * ```text
 * AckerError                    code                 retryable
 * ├── UsageError                usage_error          no: the program asks for what cannot be; nothing is sent for it
 * │   ├── TupleClosedError      tuple_closed         no
 * │   ├── DuplicateKeyError     duplicate_key        no
 * │   ├── TooManyAnchorsError   too_many_anchors     no
 * │   └── ClientClosedError     client_closed        no
 * ├── InvalidHeaderError        invalid_header       no
 * │   └── InvalidSignatureError invalid_signature    no
 * ├── InvalidResponseError      invalid_response     no
 * ├── RetriesExhaustedError     retries_exhausted    no
 * ├── CanceledError             canceled             no: the call's AbortSignal was aborted first
 * ├── OperationsLostError       operations_lost      no
 * ├── BufferFullError           buffer_full          yes
 * └── ServiceError              that of the problem  as the problem says
 * ```
 */

/** The root of all errors: `code` is stable, `retryable` says whether a retry helps, `advice` what to do. */
export class AckerError extends Error {
  readonly code: string = "acker";
  readonly retryable: boolean = false;
  /** What to do about it, in a sentence; empty where the message says all. */
  readonly advice: string = "";

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The program asks for what cannot be; nothing is sent for it. */
export class UsageError extends AckerError {
  override readonly code: string = "usage_error";
  override readonly advice: string = "Correct the call.";
}

/** A tuple or root is used after it was acked, failed or emitted. */
export class TupleClosedError extends UsageError {
  override readonly code = "tuple_closed";
  override readonly advice = "Make children before the tuple is acked, and end it once.";
}

/** Two children of one parent have the same key: both would get the same edge id. */
export class DuplicateKeyError extends UsageError {
  override readonly code = "duplicate_key";
  override readonly advice = "Give each child of a tuple a key of its own, or none.";
}

/** A message would carry more anchors than its header holds. */
export class TooManyAnchorsError extends UsageError {
  override readonly code = "too_many_anchors";
  override readonly advice = "Hold the inputs unacked until the aggregate is done, and send it without anchors.";
}

/** The client has been closed; a request that was in flight at that moment may have arrived. */
export class ClientClosedError extends UsageError {
  override readonly code = "client_closed";
  override readonly advice = "Close the client after all else has ended.";
}

/** An anchors header cannot be read, or is of another topology. */
export class InvalidHeaderError extends AckerError {
  override readonly code: string = "invalid_header";
  override readonly advice: string = "Refuse the message (over HTTP, 400): its tree times out and is replayed.";
}

/** Anchors came over HTTP without proof that their sender has a secret, or with a wrong one, or a late one. */
export class InvalidSignatureError extends InvalidHeaderError {
  override readonly code = "invalid_signature";
  override readonly advice = "Refuse the request (403); the caller signs with a secret of this service.";
}

/** What answers at this address does not speak the contract. */
export class InvalidResponseError extends AckerError {
  override readonly code = "invalid_response";
  override readonly advice = "See what answers at the acker's address: perhaps a proxy, or another service.";
}

/**
 * A request was sent again for as long as is safe, and was not answered; `cause` is the last failure.
 *
 * `outcomeUnknown` is true for a write that may have been applied.
 */
export class RetriesExhaustedError extends AckerError {
  override readonly code = "retries_exhausted";
  override readonly advice =
    "Do not send an ack again in a new request: it could count twice. The root times out and is replayed.";

  constructor(
    message: string,
    readonly outcomeUnknown: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/**
 * The `signal` of a call was aborted before it was done; `cause` is the signal's reason.
 *
 * `outcomeUnknown` is true for a write that may have been applied.
 */
export class CanceledError extends AckerError {
  override readonly code = "canceled";
  override readonly advice = "What was sent before may have been applied; the root times out if it was not.";

  constructor(
    message: string,
    readonly outcomeUnknown: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Acks that were sent in the background were given up: so many `operations`; `cause` is the last reason. */
export class OperationsLostError extends AckerError {
  override readonly code = "operations_lost";
  override readonly advice =
    "The call that raised it has done nothing else, so make it again. What was lost times out and is replayed.";

  constructor(
    readonly operations: number,
    options?: ErrorOptions,
  ) {
    super(`${operations} operations sent in the background could not be delivered`, options);
  }
}

/** The buffer holds `bufferSize` operations, and `onFull` is `"throw"`; the tuple is unchanged. */
export class BufferFullError extends AckerError {
  override readonly code = "buffer_full";
  override readonly retryable = true;
  override readonly advice = 'Ack again later, or let acks wait for space with onFull: "block".';
}

interface Problem {
  readonly status: number;
  readonly title: string;
  readonly retryable?: true;
  readonly advice?: string;
}

const BUSY = "It passes: try again later.";

/** The problems of the acker by their code; https://www.rfc-editor.org/rfc/rfc9457 has their form. */
const PROBLEMS: Readonly<Record<string, Problem>> = {
  problem: { status: 500, title: "Something went wrong" },
  invalid: { status: 422, title: "The request is not valid" },
  unauthorized: { status: 401, title: "A key is needed", advice: "Give the client the apiKey of this acker." },
  forbidden: { status: 403, title: "The key does not allow this", advice: "Use a key with this scope and topology." },
  forbidden_origin: { status: 403, title: "The origin is not allowed" },
  not_found: { status: 404, title: "There is nothing here" },
  unknown_topology: {
    status: 404,
    title: "No such topology",
    advice: "Create the topology with PUT, or correct its name.",
  },
  unknown_root: { status: 404, title: "No such root" },
  unknown_spout: { status: 404, title: "No such spout task" },
  method_not_allowed: { status: 405, title: "The method is not allowed here" },
  conflict: { status: 409, title: "The root is held by another emit" },
  topology_busy: { status: 409, title: "The topology is busy", retryable: true, advice: BUSY },
  spout_busy: { status: 409, title: "The spout task is busy", retryable: true, advice: BUSY },
  ackers_fixed: { status: 409, title: "The number of ackers is fixed" },
  mailbox_owned: { status: 409, title: "A webhook owns the mailbox", advice: "Remove the webhook, or receive by it." },
  too_large: { status: 413, title: "The request is too large" },
  unsupported_media_type: { status: 415, title: "The content type is not supported" },
  too_many_spouts: { status: 422, title: "The topology has too many spout tasks" },
  max_spout_pending: { status: 429, title: "Too many roots are pending", retryable: true, advice: BUSY },
  mailbox_full: { status: 429, title: "The mailbox is full", retryable: true, advice: "Read and release completions." },
  too_many_streams: { status: 429, title: "Too many streams are open", retryable: true, advice: BUSY },
  store_full: { status: 503, title: "The store is full", retryable: true, advice: BUSY },
  overloaded: { status: 503, title: "The service is overloaded", retryable: true, advice: BUSY },
  store_unavailable: { status: 503, title: "The store is not available", retryable: true, advice: BUSY },
};

/** An error that the acker answers: `code`, `status` and `retryable` are those of its problem, `extra` further members. */
export class ServiceError extends AckerError {
  override readonly code: string;
  override readonly retryable: boolean;
  override readonly advice: string;
  readonly status: number;
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(code: string, detail: string, members: { status?: number; retryable?: boolean; extra?: object } = {}) {
    super(detail);
    const known = PROBLEMS[code];
    this.code = code;
    this.status = members.status ?? known?.status ?? 500;
    this.retryable = members.retryable ?? known?.retryable ?? false;
    this.advice = known?.advice ?? "";
    this.extra = { ...members.extra };
  }

  /** Return the problem document, ready for JSON. */
  document(): Record<string, unknown> {
    const title = PROBLEMS[this.code]?.title ?? this.message;
    const { code, status, retryable, message: detail } = this;
    return { type: `urn:acker:problem:${code}`, title, status, detail, code, retryable, ...this.extra };
  }
}

/** Return the error of a problem document; one without a `retryable` is not retryable. */
export function fromDocument(document: Readonly<Record<string, unknown>>): ServiceError {
  const { code, status, detail, title, retryable, type: _, ...extra } = document;
  const words = detail ?? title ?? PROBLEMS[String(code)]?.title ?? "a problem without words";
  const given = typeof status === "number" ? { status } : {};
  return new ServiceError(String(code), String(words), { ...given, retryable: retryable === true, extra });
}

/** A bolt throws a signal to end its tuple; it does not leave `process`. */
export class TupleSignal extends Error {
  constructor(reason = "") {
    super(reason);
    this.name = new.target.name;
  }
}

/** @internal Leave the tuple open: its message is to come again. */
export class LeftOpen extends TupleSignal {}

/** Fail the tree at once, so that its spout emits the message again; also with `onError: "leave_open"`. */
export class FailTuple extends TupleSignal {}

/** Ack a tuple that no retry would help: `onDrop` is called with it, and it is counted. */
export class DropTuple extends TupleSignal {}
