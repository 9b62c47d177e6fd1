"""What a client knows of its topology, and the document that it writes of one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from acker_protocol.tracing import is_marked, is_sampled
from acker_protocol.wire import fields

from acker_client._core import responses, validate
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from acker_client._core.responses import Response

DedupeWindow = float | Literal["automatic"]
"""Seconds for which an acked edge is remembered, 0 for none; automatic: as long as the message timeout."""

AUTOMATIC_WINDOW = {"dedupe_window_ms": None}
"""The part of a topology's document that asks for an automatic dedupe window."""

_DAYS_MS = range(fields.TIMEOUT_MS.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyInfo:
    """The part of a topology's configuration that its clients follow; durations in milliseconds, ``trace`` a share."""

    idempotency_window_ms: int
    dedupes: bool
    message_timeout_ms: int
    max_spout_pending: int | None
    trace: float = 0

    def is_traced(self, root_id: int) -> bool:
        """Whether the acks of a root name their edges: it may be traced by hand, or is in the share that is traced."""
        return is_marked(root_id) or (self.trace > 0 and is_sampled(root_id, self.trace))

    @property
    def retry_limit_s(self) -> float:
        """How long a request may be sent again: half the time for which its key is remembered."""
        return self.idempotency_window_ms / 2000


def read_topology_info(response: "Response") -> TopologyInfo:
    """Read the answer to a GET of a topology. Raises `InvalidResponse` for one without the window."""
    found = responses.document(response)
    window = found.get("idempotency_window_ms")
    if not isinstance(window, int):
        raise InvalidResponse("the answer about a topology holds no idempotency_window_ms")
    return TopologyInfo(
        idempotency_window_ms=window,
        dedupes=bool(found.get("dedupe_window_ms")),
        message_timeout_ms=found.get("message_timeout_ms", 30_000),
        max_spout_pending=found.get("max_spout_pending"),
        trace=found.get("trace", 0),
    )


def topology_document(
    *,
    ackers: int | None,
    message_timeout: float | None,
    progress_timeout: float | None,
    max_spout_pending: int | None,
    dedupe_window: DedupeWindow | None,
    retention: float | None,
    root_details: bool | None,
    trace: float | None,
    end_on: str | None,
    grace: float | None,
) -> dict[str, Any]:
    """Write a topology's configuration; None is left out, and 0 for a cap is none.

    Raises `UsageError` for what is no number in its range.
    """
    for name, value in (("ackers", ackers), ("max_spout_pending", max_spout_pending)):
        if value is not None:
            validate.integer(name, value)
    is_automatic = dedupe_window == "automatic"
    milliseconds = {
        "message_timeout": (message_timeout, fields.TIMEOUT_MS),
        "progress_timeout": (progress_timeout, _DAYS_MS),
        "dedupe_window": (None if is_automatic else dedupe_window, _DAYS_MS),
        "retention": (retention, fields.RETENTION_MS),
        "grace": (grace, fields.GRACE_MS),
    }
    document: dict[str, Any] = {
        "ackers": ackers,
        "max_spout_pending": max_spout_pending,
        "root_details": validate.checked("root_details", fields.boolean, root_details),
        "trace": validate.checked("trace", fields.share, trace),
        "end_on": validate.checked("end_on", fields.end_on, end_on),
    }
    for name, (seconds, allowed) in milliseconds.items():
        document[f"{name}_ms"] = validate.milliseconds(name, seconds, allowed)
    return given_fields(document, is_automatic=is_automatic)


def given_fields(document: "Mapping[str, Any]", *, is_automatic: bool) -> dict[str, Any]:
    """Leave out what is None, and write as null what the contract has no value for: no cap, and an automatic window."""
    given = {name: value for name, value in document.items() if value is not None}
    if given.get("max_spout_pending") == 0:
        given["max_spout_pending"] = None
    return given | AUTOMATIC_WINDOW if is_automatic else given
