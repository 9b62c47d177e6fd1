"""What a client knows of its topology."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.tracing import is_marked, is_sampled

from acker_client._core import responses
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._core.responses import Response


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
