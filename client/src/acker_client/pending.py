"""Knows the roots that a spout has emitted and has not been told about, and when to ask what became of them."""

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.ids import completion_id, parse_id
from acker_protocol.operations import Outcome

from acker_client.completions import Done

if TYPE_CHECKING:
    from acker_client.roots import Root

GRACE_S = 5.0
"""So long after a root's deadline its completion may still be on its way."""

LOST = "the acker does not know this root any more"


@dataclass(slots=True, kw_only=True)
class Held:
    """A pending root. ``outcome`` is set once the service was asked and no completion was on its way."""

    message_id: str | None
    emitted_s: float
    timeout_s: float
    outcome: Outcome | None = None


class Pending:
    """The pending roots of one spout task in this process; seconds by the clock of the terms."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._due: list[tuple[float, str]] = []
        self._suspected: set[str] = set()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, root_id: str) -> bool:
        return root_id in self._held

    @property
    def suspected(self) -> bool:
        """Whether there are roots that have ended without having been told."""
        return bool(self._suspected)

    def hold(self, root: "Root", *, now_s: float, timeout_s: float) -> None:
        """Hold a root until it is told."""
        self._held[root.root_id] = Held(message_id=root.message_id, emitted_s=now_s, timeout_s=timeout_s)
        self.ask_again(root.root_id, at_s=now_s + timeout_s + GRACE_S)

    def drop(self, root_id: str) -> None:
        """Let a root go: it was told, or not emitted after all."""
        self._held.pop(root_id, None)
        self._suspected.discard(root_id)

    def overdue(self, now_s: float) -> str | None:
        """Give a root that nothing was told about in time, and ask about it no more."""
        while self._due and self._due[0][0] <= now_s:
            _, root_id = heapq.heappop(self._due)
            if root_id in self._held:
                return root_id
        return None

    def next_s(self) -> float:
        """When the next root may be overdue."""
        return self._due[0][0] if self._due else float("inf")

    def ask_again(self, root_id: str, *, at_s: float) -> None:
        """Ask about a root at this time, if it was not told by then."""
        heapq.heappush(self._due, (at_s, root_id))

    def moved(self, root_id: str, *, left_s: float, now_s: float) -> None:
        """Take a new deadline; it is never further away than the root's timeout, whatever the clocks say."""
        if root_id in self._held:
            left_s = min(max(left_s, 0.0), self._held[root_id].timeout_s)
            self.ask_again(root_id, at_s=now_s + left_s + GRACE_S)

    def suspect(self, root_id: str, outcome: Outcome) -> None:
        """Believe that a root has ended so, unless the mailbox still tells of it."""
        if root_id in self._held:
            self._held[root_id].outcome = outcome
            self._suspected.add(root_id)

    def untold(self, *, now_s: float, at_ms: int) -> tuple[Done, ...]:
        """Give what the mailbox, read to its end, did not tell. It stays until it is dropped."""
        roots = [(root_id, self._held[root_id]) for root_id in sorted(self._suspected)]
        return tuple(_done(root_id, held, now_s=now_s, at_ms=at_ms) for root_id, held in roots)


def _done(root_id: str, held: Held, *, now_s: float, at_ms: int) -> Done:
    assert held.outcome is not None
    return Done(
        id=completion_id(incarnation="", root_id=parse_id(root_id), started_ms=0, outcome=held.outcome),
        root_id=root_id,
        outcome=held.outcome,
        message_id=held.message_id,
        reason=LOST if held.outcome is Outcome.TIMED_OUT else None,
        component=None,
        complete_latency_ms=round((now_s - held.emitted_s) * 1000),
        at_ms=at_ms,
    )
