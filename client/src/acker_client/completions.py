"""Knows the completions as a spout task is told them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import Outcome

from acker_client import replies
from acker_client.errors import WrongAnswer

if TYPE_CHECKING:
    from acker_client.replies import Reply

BATCH = "completion.batch"

Handler = Callable[[str], Any]
"""Storm's ack(msgId) and fail(msgId)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One completion, with the fields of the contract; it may be told more than once, always with the same ``id``."""

    id: str
    root_id: str
    outcome: Outcome
    message_id: str | None
    reason: str | None
    component: str | None
    complete_latency_ms: int
    at_ms: int

    @property
    def acked(self) -> bool:
        """Whether everything that grew out of the message was processed."""
        return self.outcome is Outcome.ACKED


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Completions in the order told, and the position after the last; None before there is anything to read.

    ``size`` is what the page took in bytes: one that is large may end before its limit is reached.
    """

    done: tuple[Done, ...] = ()
    cursor: str | None = None
    size: int = 0


def read_page(reply: "Reply") -> Page:
    """Read a page; fields that this version does not know are passed over. Raises `WrongAnswer`."""
    found = replies.document(reply)
    try:
        done = tuple(_done(item) for item in found["completions"])
        return Page(done=done, cursor=found["cursor"], size=len(reply.body))
    except (KeyError, TypeError, ValueError) as fault:
        raise WrongAnswer(f"an answer {reply.status} holds no completions: {fault!r}") from None


def read_message(body: bytes) -> tuple[Done, ...]:
    """Read a message of a spout task's channel. Raises ``ValueError``."""
    try:
        return tuple(_done(item) for item in json.loads(body)["completions"])
    except (KeyError, TypeError, RecursionError) as fault:
        raise ValueError(f"a message holds no completions: {fault!r}") from None


def read_batch(body: bytes) -> tuple[Done, ...]:
    """Read the body of a webhook; fields that this version does not know are passed over. Raises ``ValueError``."""
    try:
        found = json.loads(body)
        if found["type"] != BATCH:
            raise ValueError(f"the body is no {BATCH}")
        return tuple(_done(item) for item in found["data"]["completions"])
    except (KeyError, TypeError, RecursionError) as fault:
        raise ValueError(f"the body holds no completions: {fault!r}") from None


def tell(done: Done, *, on_ack: Handler | None, on_fail: Handler | None) -> Any:
    """Call the handler for this outcome with the message id, and give what it returns.

    A root without a message id has nothing that Storm's handlers could be told, so it is passed over.
    """
    handler = on_ack if done.acked else on_fail
    return None if handler is None or done.message_id is None else handler(done.message_id)


def _done(item: dict[str, Any]) -> Done:
    members = {field.name: item[field.name] for field in fields(Done)}
    return Done(**members | {"outcome": Outcome(item["outcome"])})
