/** The responses of the acker: the states in them, or what failed and whether a retry helps. */
import { type AckerError, fromDocument, InvalidResponseError, type ServiceError } from "./errors.js";
import { isState, NOT_ADMITTED, type Operation, type OperationState } from "./operations.js";
import { isBatch, type Request } from "./requests.js";

/** A response as it came. */
export interface Response {
  readonly status: number;
  readonly body: string;
  readonly retryAfter: string;
}

/** A request without a response, which may have arrived; `refusedBy` is where no connection could be made, else empty. */
export interface NoResponse {
  readonly error: Error;
  readonly refusedBy: string;
}

/** What failed, whether the same request may be sent again, and after how long at the earliest. */
export interface Failure {
  readonly error: Error;
  readonly retryable: boolean;
  readonly waitMs: number;
  readonly refusedBy: string;
}

/** One operation, and the state that the acker answered. */
export interface OperationResult {
  readonly operation: Operation;
  readonly state: OperationState;
}

/** Whether a response came. */
export function isResponse(answer: Response | NoResponse): answer is Response {
  return "status" in answer;
}

/** Find the failure; null for an answer. That an operation was not admitted, and so not applied, is an answer. */
export function classify(request: Request, answer: Response | NoResponse): Failure | null {
  if (!isResponse(answer)) {
    return { error: answer.error, retryable: true, waitMs: 0, refusedBy: answer.refusedBy };
  }
  const problem = readProblem(answer);
  if (answer.status < 300 || isNotAdmitted(request, problem)) {
    return null;
  }
  const passes = answer.status === 408 || answer.status === 429 || answer.status >= 500;
  const waitMs = retryAfterMs(answer);
  const retryable = passes && (problem === null || problem.retryable);
  return { error: problem ?? unknownAnswer(request, answer), retryable, waitMs, refusedBy: "" };
}

/** Read one state for each operation. Throws `InvalidResponseError`. */
export function readResults(request: Request, response: Response): OperationResult[] {
  const found = readObject(response);
  const states = isBatch(request) ? found.results : [found.state ?? found.code];
  if (!Array.isArray(states) || states.length !== request.operations.length || !states.every(isState)) {
    throw new InvalidResponseError(`${request.path} was not answered with one known state for each operation`);
  }
  return request.operations.map((operation, at) => ({ operation, state: states[at] as OperationState }));
}

/** Read the JSON object of a response. Throws `InvalidResponseError`. */
export function readObject(response: Response): Record<string, unknown> {
  const found = parse(response.body);
  if (!isObject(found)) {
    throw new InvalidResponseError(`an answer ${response.status} holds no JSON object`);
  }
  return found;
}

/** Read how long the acker asks to wait; 0 without a number (an acker never gives a date). */
export function retryAfterMs(response: Response): number {
  return /^[0-9]+$/.test(response.retryAfter) ? 1_000 * Number(response.retryAfter) : 0;
}

function isNotAdmitted(request: Request, problem: ServiceError | null): boolean {
  return request.operations.length === 1 && problem !== null && NOT_ADMITTED.has(problem.code);
}

/** Read the problem of a refusal; null without one, as from a proxy in between. */
function readProblem(response: Response): ServiceError | null {
  const found = response.status < 400 ? null : parse(response.body);
  return isObject(found) && "code" in found ? fromDocument({ status: response.status, ...found }) : null;
}

function unknownAnswer(request: Request, response: Response): AckerError {
  const { method, path } = request;
  return new InvalidResponseError(`${method} ${path} was answered ${response.status} without a problem`);
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
