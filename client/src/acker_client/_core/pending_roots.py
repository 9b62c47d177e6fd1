"""The roots that a spout has emitted and whose completion has not come, and when to ask the service about them."""

import heapq
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.ids import completion_id, parse_id
from acker_protocol.operations import Outcome

from acker_client.completions import Completion

if TYPE_CHECKING:
    from acker_client.root import Root

GRACE_S = 5.0
"""Seconds after a root's deadline in which its completion may still arrive."""

SPARE_CHECKS = 1_000
"""So many checks of roots whose completions came may be left, besides as many as there are pending roots."""

UNKNOWN_TO_SERVICE = "the acker does not know this root any more"


@dataclass(slots=True, kw_only=True)
class PendingRoot:
    """A pending root. ``outcome`` is set once the service has answered that it ended, without a completion.

    ``has_begun`` says that its init was answered: before, the service may not know the root yet.
    """

    message_id: str | None
    emitted_s: float
    timeout_s: float
    has_begun: bool = False
    outcome: Outcome | None = None
    traceparent: str | None = None


class PendingRoots:
    """The pending roots of one spout task in this process; seconds by the monotonic clock.

    For one thread that reads completions, and any number that emit.
    """

    def __init__(self) -> None:
        self._roots: dict[str, PendingRoot] = {}
        self._due: list[tuple[float, str]] = []
        self._lock = threading.Lock()  # of the checks that are due
        self._ended: set[str] = set()

    def __len__(self) -> int:
        return len(self._roots)

    def __contains__(self, root_id: str) -> bool:
        return root_id in self._roots

    @property
    def has_ended(self) -> bool:
        """Whether some roots have ended without a completion."""
        return bool(self._ended)

    def add(self, root: "Root", *, now_s: float, timeout_s: float) -> None:
        """Follow a root until its completion comes."""
        self._roots[root.root_id] = PendingRoot(
            message_id=root.message_id, emitted_s=now_s, timeout_s=timeout_s, traceparent=root.traceparent
        )
        self.check_at(root.root_id, at_s=now_s + timeout_s + GRACE_S)

    def begin(self, root_id: str) -> None:
        """Note that the init of a root was answered; its completion may have come before."""
        if (root := self._roots.get(root_id)) is not None:
            root.has_begun = True

    def may_begin(self, root_id: str, *, since_s: float) -> bool:
        """Whether the init of a root, which was emitted after this time, may still be on its way to the service."""
        root = self._roots.get(root_id)
        return root is not None and not root.has_begun and root.emitted_s > since_s

    def drop(self, root_id: str) -> None:
        """Forget a root: its completion came, or it was not emitted."""
        self._roots.pop(root_id, None)
        self._ended.discard(root_id)

    def pop_overdue(self, now_s: float) -> str | None:
        """Return a root without a completion in time; it is given once."""
        with self._lock:
            while self._due and self._due[0][0] <= now_s:
                _, root_id = heapq.heappop(self._due)
                if root_id in self._roots:
                    return root_id
        return None

    def next_s(self) -> float:
        """When the next root may be overdue."""
        with self._lock:
            return self._due[0][0] if self._due else float("inf")

    def check_at(self, root_id: str, *, at_s: float) -> None:
        """Ask about a root at this time, if its completion has not come by then.

        Checks of roots whose completions came are dropped together: kept until their time, those of long timeouts would
        fill the memory.
        """
        with self._lock:
            heapq.heappush(self._due, (at_s, root_id))
            if len(self._due) > 2 * len(self._roots) + SPARE_CHECKS:
                self._due = [check for check in self._due if check[1] in self._roots]
                heapq.heapify(self._due)

    def extend(self, root_id: str, *, left_s: float, now_s: float) -> None:
        """Take a new deadline; it is never further away than the root's timeout, whatever the clocks say."""
        if root_id in self._roots:
            left_s = min(max(left_s, 0.0), self._roots[root_id].timeout_s)
            self.check_at(root_id, at_s=now_s + left_s + GRACE_S)

    def mark_ended(self, root_id: str, outcome: Outcome) -> None:
        """Note how a root ended, unless its completion still comes."""
        if root_id in self._roots:
            self._roots[root_id].outcome = outcome
            self._ended.add(root_id)

    def unreported(self, *, now_s: float, at: float) -> tuple[Completion, ...]:
        """Return the completions that the mailbox, read to its end, did not hold. They stay until they are dropped."""
        roots = [(root_id, self._roots[root_id]) for root_id in sorted(self._ended)]
        return tuple(_completion(root_id, root, now_s=now_s, at=at) for root_id, root in roots)


def _completion(root_id: str, root: PendingRoot, *, now_s: float, at: float) -> Completion:
    assert root.outcome is not None
    return Completion(
        id=completion_id(incarnation="", root_id=parse_id(root_id), started_ms=0, outcome=root.outcome),
        root_id=root_id,
        outcome=root.outcome,
        message_id=root.message_id,
        reason=UNKNOWN_TO_SERVICE if root.outcome is Outcome.TIMED_OUT else None,
        component=None,
        complete_latency=round(now_s - root.emitted_s, 3),
        at=at,
        traceparent=root.traceparent,
    )
