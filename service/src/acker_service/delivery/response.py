"""Knows what an answer to a post means for the completions in it.

=============================================  ===========================================================
2xx                                            done
2xx with ``{"retry": ["<id>", …]}``            part: these again, the others done; ids not in the post are
                                               passed over, and with none left it is done
410                                            off: no more posts until the webhook is resumed
429, 503 with ``Retry-After``                  wait: all again, not before so long (clamped)
all others, 3xx too; no answer, half of one    retry: all again, by the schedule
=============================================  ===========================================================
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

GONE = 410
BUSY = (429, 503)

_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


class ResultKind(StrEnum):
    """What becomes of a post, and of its webhook."""

    DONE = "done"
    PART = "part"
    RETRY = "retry"
    WAIT = "wait"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """What to do after a post. The completions ``again``, in the order of the post, are still to be delivered.

    ``wait_s`` is how long to leave the receiver alone at least; what the schedule says still holds. ``error`` is for
    those who look after the webhook, None where everything was taken; it never quotes what the receiver said.
    """

    kind: ResultKind
    retry_ids: tuple[str, ...] = ()
    wait_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverResponse:
    """What a receiver answered. ``body`` is needed of a 2xx only.

    ``delimited`` is whether HTTP told where the body ends; otherwise it ended with the connection, and may be half of
    what was meant.
    """

    status: int
    body: bytes = field(default=b"", repr=False)
    retry_after: str = ""
    delimited: bool = True


def classify(answer: ReceiverResponse, ids: Sequence[str], *, now: float, wait_max_s: float) -> DeliveryResult:
    """Say what an answer to the post of these completions means; ``now`` is in Unix seconds."""
    if 200 <= answer.status < 300:
        return _classify_success(answer, tuple(ids))
    error = f"answered {answer.status}"
    if answer.status == GONE:
        return DeliveryResult(kind=ResultKind.OFF, retry_ids=tuple(ids), error=error)
    if answer.status in BUSY and (wait_s := retry_after_s(answer.retry_after, now=now)) is not None:
        wait_s = min(wait_s, wait_max_s)
        return DeliveryResult(kind=ResultKind.WAIT, retry_ids=tuple(ids), wait_s=wait_s, error=error)
    return no_response(ids, error)


def no_response(ids: Sequence[str], error: str) -> DeliveryResult:
    """Say what it means that there was no answer, or half of one."""
    return DeliveryResult(kind=ResultKind.RETRY, retry_ids=tuple(ids), error=error)


def retry_after_s(text: str, *, now: float) -> float | None:
    """Read a ``Retry-After``, seconds or a date, as seconds from now; None if it is neither. Never negative."""
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        # An HTTP date is of UTC, also in its old forms that do not say so.
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _classify_success(answer: ReceiverResponse, ids: tuple[str, ...]) -> DeliveryResult:
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
        if not answer.delimited and answer.body.lstrip().startswith(b"{"):
            return no_response(ids, f"answered {answer.status} with JSON that breaks off")
    asked = _retry_list(found)
    again = tuple(name for name in ids if name in asked)
    if not again:
        return DeliveryResult(kind=ResultKind.DONE)
    return DeliveryResult(
        kind=ResultKind.PART, retry_ids=again, error=f"answered {answer.status} and asked for these again"
    )


def _retry_list(found: Any) -> frozenset[str]:
    asked = found.get("retry") if isinstance(found, dict) else None
    return frozenset(name for name in asked if isinstance(name, str)) if isinstance(asked, list) else frozenset()
