"""The four operations on a root, the states that answer them, and the completion that ends a root."""

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a root ended."""

    ACKED = "acked"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class EndOn(StrEnum):
    """What ends a root: its first fail, or that all of its edges have ended, some of them perhaps failed."""

    FIRST_FAIL = "first_fail"
    ALL_ENDED = "all_ended"


class OperationState(StrEnum):
    """The state that answers one operation."""

    PENDING = "pending"
    ACKED = "acked"
    FAILED = "failed"
    EARLY = "early"
    FINISHED = "finished"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    MAX_SPOUT_PENDING = "max_spout_pending"
    MAILBOX_FULL = "mailbox_full"
    STORE_FULL = "store_full"


NOT_ADMITTED = frozenset({OperationState.MAX_SPOUT_PENDING, OperationState.MAILBOX_FULL, OperationState.STORE_FULL})
"""States of an init that was not admitted: it changed nothing and may be sent again in a new request."""

REFUSED = NOT_ADMITTED | {OperationState.CONFLICT}
"""States of an operation that was not accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """A spout task emitted a root.

    ``ack_val`` is the XOR of its first edges, ``outstanding`` their number (None: unknown). Timeouts are in
    milliseconds. None: the topology's timeout. A progress timeout of 0: no progress timeout. ``trace``: the root is
    traced. ``edges`` are the first edges, if they are named; they only explain the root, so inits are equal without
    them. ``traceparent`` is W3C's header of that name; the completion gives it back. ``end_on`` is what ends the root
    (None: as the topology says).
    """

    root_id: int
    spout_task: str
    ack_val: int
    outstanding: int | None = None
    message_id: str | None = None
    message_timeout_ms: int | None = None
    progress_timeout_ms: int | None = None
    component: str | None = None
    trace: bool | None = None
    edges: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    traceparent: str | None = None
    end_on: EndOn | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """A tuple is done: ``ack_val`` is its own edge id XOR those of all children emitted while it was processed.

    ``outstanding`` is the number of children minus the number of edges acked (None: unknown). ``edge_id`` names the
    edge, so that a topology that dedupes applies the ack once. ``children`` are the edges of the children, if they are
    named; they only explain the root, so acks are equal without them. ``dropped``: the tuple was not processed, for no
    retry would help; the completion counts it.
    """

    root_id: int
    ack_val: int
    outstanding: int | None = None
    edge_id: int | None = None
    component: str | None = None
    children: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """A tuple failed, and with it the root, unless that ends when all of its edges have ended.

    ``ack_val``, ``outstanding``, ``edge_id`` and ``children`` are those of an `Ack`: the edge ends, as failed. A plain
    fail has no ``ack_val``, and ends any root.
    """

    root_id: int
    reason: str | None = None
    component: str | None = None
    ack_val: int | None = None
    outstanding: int | None = None
    edge_id: int | None = None
    children: tuple[int, ...] | None = field(default=None, compare=False, repr=False)

    @property
    def is_plain(self) -> bool:
        """Whether it ends no edge, but the root."""
        return self.ack_val is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTimeout:
    """A root gets its full message timeout again, from now on."""

    root_id: int
    component: str | None = None


Operation = Init | Ack | Fail | ResetTimeout
"""One operation on one root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRecord:
    """The end of a root, as its spout task gets it. Times are Unix milliseconds by the clock of Redis.

    ``last_component``, ``last_ack_ms`` and ``outstanding`` say where a root hung that timed out: the component of its
    last ack, the time of that ack, and the number of edges that were not acked. None where that is unknown, or the
    topology keeps no details of roots. ``failures`` is how many edges failed, None for a root that ends at its first
    fail. ``dropped`` is how many edges were acked as dropped.
    """

    root_id: int
    spout_task: str
    outcome: Outcome
    message_id: str | None
    reason: str | None
    component: str | None
    started_ms: int
    at_ms: int
    traceparent: str | None = None
    last_component: str | None = None
    last_ack_ms: int | None = None
    outstanding: int | None = None
    failures: int | None = None
    dropped: int = 0

    @property
    def complete_latency_ms(self) -> int:
        """Time from the root's first operation to its end; never negative, even if the clock of Redis was set back."""
        return max(0, self.at_ms - self.started_ms)
