"""Classifies the response of a webhook's receiver.

=============================================  ===========================================================
2xx                                            done
2xx with ``{"retry": ["<id>", …]}``            part: retry these, the others are done; ids that the request
                                               did not hold are ignored, and an empty list means done
410                                            off: send nothing more until the webhook is resumed
429, 503 with ``Retry-After``                  wait: retry all, no sooner than asked for (clamped)
any other status, 3xx too;                     retry: retry all, by the schedule
no response, or an incomplete one
=============================================  ===========================================================
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

GONE = 410
BUSY = (429, 503)

_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


class ResultKind(StrEnum):
    """The outcome of one request, for its completions and for the webhook."""

    DONE = "done"
    PART = "part"
    RETRY = "retry"
    WAIT = "wait"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The result of one delivery."""

    kind: ResultKind
    retry_ids: tuple[str, ...] = ()
    """Completions that are still to be delivered, in the order of the request."""
    wait_s: float = 0.0
    """The least time until the next request; the delays of the schedule apply as well."""
    error: str | None = None
    """Why something failed, for the operator of the webhook; never quotes the response. None if all were taken."""
    status: int | None = None
    """The status of the response; None without a complete one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverResponse:
    """The response of a receiver."""

    status: int
    body: bytes = field(default=b"", repr=False)
    """Read for a 2xx only."""
    retry_after: str = ""
    delimited: bool = True
    """Whether HTTP framed the body; otherwise it ended with the connection and may be truncated."""


def classify(response: ReceiverResponse, ids: Sequence[str], *, now: float, wait_max_s: float) -> DeliveryResult:
    """Classify the response to a request with these completions; ``now`` is in Unix seconds."""
    if 200 <= response.status < 300:
        return _classify_success(response, tuple(ids))
    error = f"answered {response.status}"
    result = no_response(ids, error, status=response.status)
    if response.status == GONE:
        return replace(result, kind=ResultKind.OFF)
    if response.status in BUSY and (wait_s := retry_after_s(response.retry_after, now=now)) is not None:
        return replace(result, kind=ResultKind.WAIT, wait_s=min(wait_s, wait_max_s))
    return result


def no_response(ids: Sequence[str], error: str, *, status: int | None = None) -> DeliveryResult:
    """Return the result of a request without a complete or clear response: retry all."""
    return DeliveryResult(kind=ResultKind.RETRY, retry_ids=tuple(ids), error=error, status=status)


def retry_after_s(text: str, *, now: float) -> float | None:
    """Parse a ``Retry-After``, seconds or a date, as seconds from now, never negative. None if it is neither."""
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        # An HTTP date is in UTC, also in the obsolete formats that do not say so.
        return max(0.0, date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _classify_success(response: ReceiverResponse, ids: tuple[str, ...]) -> DeliveryResult:
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        document = None
        if not response.delimited and response.body.lstrip().startswith(b"{"):
            return no_response(ids, f"answered {response.status} with JSON that breaks off")
    requested = _retry_list(document)
    retry_ids = tuple(name for name in ids if name in requested)
    if not retry_ids:
        return DeliveryResult(kind=ResultKind.DONE, status=response.status)
    error = f"answered {response.status} and asked for these again"
    return DeliveryResult(kind=ResultKind.PART, retry_ids=retry_ids, error=error, status=response.status)


def _retry_list(document: Any) -> frozenset[str]:
    names = document.get("retry") if isinstance(document, dict) else None
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
