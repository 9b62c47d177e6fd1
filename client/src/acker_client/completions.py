"""The completions that a spout task reads, and how they are read from responses, messages and webhooks."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import Outcome
from acker_protocol.signature import COMPLETION_BATCH, COMPLETION_TEST

from acker_client._core import responses
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.responses import Response


Handler = Callable[[str], Any]
"""A handler of a message id: Storm's ack(msgId) and fail(msgId)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The end of one root. It may come more than once, always with the same ``id``.

    ``complete_latency`` is the time from the root's first operation to its end, ``at`` the Unix time of its end, in
    seconds. The contract has both in whole milliseconds, as ``complete_latency_ms`` and ``at_ms``. ``traceparent`` is
    that of the emit. ``failures`` is how many edges failed, of a root that ends when all have ended; else None.
    ``dropped`` is how many of its tuples were acked by a `DropTuple`.

    ``last_component``, ``last_ack_at`` and ``outstanding`` say where a root hung that timed out: the component that
    acked last, the Unix time of that ack in seconds, and the number of edges that were sent and not acked. None of all
    others, where that is unknown, and in a topology without ``root_details``.
    """

    id: str
    root_id: str
    outcome: Outcome
    message_id: str | None
    reason: str | None
    component: str | None
    complete_latency: float
    at: float
    traceparent: str | None = None
    last_component: str | None = None
    last_ack_at: float | None = None
    outstanding: int | None = None
    failures: int | None = None
    dropped: int = 0

    @property
    def acked(self) -> bool:
        """Whether the whole tree was processed."""
        return self.outcome is Outcome.ACKED


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Completion):
    """A completion that could not be delivered, after so many ``attempts``; ``at`` is the Unix time of the last one.

    ``error`` says how that failed.
    """

    attempts: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Completions in their order, and the cursor behind the last; None if nothing was ever read.

    ``size`` is the page's length in bytes: a large one may end before its limit is reached.
    """

    completions: tuple[Completion, ...] = ()
    cursor: str | None = None
    size: int = 0


def read_page(response: "Response") -> Page:
    """Read a page; fields that this version does not know are ignored. Raises `InvalidResponse`."""
    found = responses.document(response)
    try:
        completions = tuple(_completion(item) for item in found["completions"])
        return Page(completions=completions, cursor=found["cursor"], size=len(response.body))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"an answer {response.status} holds no completions: {error!r}") from None


def read_dead_letters(response: "Response") -> tuple[tuple[DeadLetter, ...], str | None]:
    """Read a page of dead letters, and the cursor behind it; None behind the last. Raises `InvalidResponse`."""
    found = responses.document(response)
    try:
        return tuple(_dead_letter(item) for item in found["dead_letters"]), found["cursor"] if found["more"] else None
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"an answer {response.status} holds no dead letters: {error!r}") from None


def parse_message(body: bytes) -> tuple[Completion, ...]:
    """Read a message of a spout task's channel. Raises ``ValueError``."""
    try:
        return tuple(_completion(item) for item in json.loads(body)["completions"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"a message holds no completions: {error!r}") from None


def parse_webhook(body: bytes) -> tuple[Completion, ...]:
    """Read the body of a webhook; fields that this version does not know are ignored. Raises ``ValueError``."""
    try:
        found = json.loads(body)
        if found["type"] not in (COMPLETION_BATCH, COMPLETION_TEST):
            raise ValueError(f"the body is no {COMPLETION_BATCH}")
        return tuple(_completion(item) for item in found["data"]["completions"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the body holds no completions: {error!r}") from None


def dispatch(completion: Completion, *, on_ack: Handler | None, on_fail: Handler | None) -> Any:
    """Call the handler of this outcome with the message id, and give what it returns.

    A root without a message id is ignored: Storm's handlers take nothing else.
    """
    handler = on_ack if completion.acked else on_fail
    return None if handler is None or completion.message_id is None else handler(completion.message_id)


def _completion(item: dict[str, Any]) -> Completion:
    return Completion(
        id=item["id"],
        root_id=item["root_id"],
        outcome=Outcome(item["outcome"]),
        message_id=item["message_id"],
        reason=item["reason"],
        component=item["component"],
        complete_latency=item["complete_latency_ms"] / 1000,
        at=item["at_ms"] / 1000,
        traceparent=item.get("traceparent"),
        last_component=item.get("last_component"),
        last_ack_at=responses.seconds(item.get("last_ack_at_ms")),
        outstanding=item.get("outstanding"),
        failures=item.get("failures"),
        dropped=item.get("dropped", 0),
    )


def _dead_letter(item: dict[str, Any]) -> DeadLetter:
    completion = _completion(item)
    own = {field.name: getattr(completion, field.name) for field in fields(completion)}
    return DeadLetter(**own, attempts=item["attempts"], error=item["error"])
