"""Knows what a topology says of itself that its clients go by."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_client import replies
from acker_client.errors import WrongAnswer

if TYPE_CHECKING:
    from acker_client.replies import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A topology's facts: for how long it remembers keys, whether it dedupes, its message timeout, its cap on roots."""

    window_ms: int
    dedupes: bool
    message_timeout_ms: int
    max_spout_pending: int | None

    @property
    def retry_s(self) -> float:
        """For how long a request may be sent again: half the time for which its key is remembered."""
        return self.window_ms / 2000


def read_facts(reply: "Reply") -> Facts:
    """Read the answer to a GET of a topology. Raises `WrongAnswer` for one without the window."""
    found = replies.document(reply)
    window = found.get("idempotency_window_ms")
    if not isinstance(window, int):
        raise WrongAnswer("a topology does not tell its idempotency_window_ms")
    return Facts(
        window_ms=window,
        dedupes=bool(found.get("dedupe_window_ms")),
        message_timeout_ms=found.get("message_timeout_ms", 30_000),
        max_spout_pending=found.get("max_spout_pending"),
    )
