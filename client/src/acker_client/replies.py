"""Knows what a reply means: the words it holds, or what is wrong and whether trying again helps."""

import json
from dataclasses import dataclass
from typing import Any

from acker_protocol.errors import ServiceError, from_document
from acker_protocol.operations import NOT_ADMITTED, OperationState

from acker_client.calls import Answer, Call
from acker_client.errors import WrongAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply as it came."""

    status: int
    body: bytes
    retry_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """No reply came, and whether the request arrived is not known; not ``again`` where none can ever come.

    ``nobody_at`` is the address at which there was nobody to connect to.
    """

    error: Exception
    again: bool = True
    nobody_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong, whether the same request may be tried again, and after how many seconds at the earliest."""

    error: Exception
    again: bool
    wait_s: float = 0.0
    nobody_at: str = ""


def fault_in(call: Call, reply: Reply | Lost) -> Fault | None:
    """Find the fault, None where the reply is an answer: also that an operation was not admitted, so not applied."""
    if isinstance(reply, Lost):
        return Fault(error=reply.error, again=reply.again, nobody_at=reply.nobody_at)
    problem = _problem_in(reply)
    if reply.status < 300 or _not_admitted(call, problem):
        return None
    again = reply.status in (408, 429) or reply.status >= 500
    if problem is None:
        error = WrongAnswer(f"{call.method} {call.path} was answered {reply.status}, which tells of no problem")
        return Fault(error=error, again=again, wait_s=wait_s(reply))
    return Fault(error=problem, again=again and problem.retryable, wait_s=wait_s(reply))


def read_answers(call: Call, reply: Reply) -> list[Answer]:
    """Read one word per operation. Raises `WrongAnswer`."""
    found = document(reply)
    words = found.get("results") if call.path.endswith("/batch") else [found.get("state", found.get("code"))]
    try:
        pairs = zip(call.messages, words or (), strict=True)
        return [Answer(message=message, word=OperationState(word)) for message, word in pairs]
    except (TypeError, ValueError):
        raise WrongAnswer(f"{call.path} was not answered with one known word per operation") from None


def document(reply: Reply) -> dict[str, Any]:
    """Read the JSON object of a reply. Raises `WrongAnswer`."""
    try:
        found = json.loads(reply.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WrongAnswer(f"an answer {reply.status} holds no JSON object")
    return found


def wait_s(reply: Reply) -> float:
    """Read how long the service asks to wait, 0 where it does not say (or gives a date, which no acker does)."""
    return float(reply.retry_after) if reply.retry_after.isascii() and reply.retry_after.isdigit() else 0.0


def _not_admitted(call: Call, problem: ServiceError | None) -> bool:
    return len(call.messages) == 1 and problem is not None and problem.code in NOT_ADMITTED


def _problem_in(reply: Reply) -> ServiceError | None:
    """Read the problem document of a refusal; None where there is none, as from a proxy in between."""
    if reply.status < 400:
        return None
    try:
        found = document(reply)
    except WrongAnswer:
        return None
    return from_document(found) if "code" in found else None
