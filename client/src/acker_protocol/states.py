"""The states of a root, the rules of its topology, and a transition of the state machine."""

from dataclasses import dataclass

from acker_protocol.operations import CompletionRecord, EndOn, Fail, Init, OperationState, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRules:
    """The settings of a topology that the state machine depends on; durations in milliseconds, 0 for none.

    ``tracked`` is False for a topology without ackers: its inits are acked at once and no tree is stored.
    ``root_details``: whether a tree keeps when its last ack came and which component that named. ``end_on`` is what
    ends a root whose init does not say it. ``grace_ms`` is what a root that was due in a `Gap` gets at most.
    """

    message_timeout_ms: int = 30_000
    progress_timeout_ms: int = 0
    dedupe_window_ms: int = 0
    retention_ms: int = 60_000
    tracked: bool = True
    root_details: bool = True
    end_on: EndOn = EndOn.FIRST_FAIL
    grace_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time without ticks, in Unix milliseconds: from the tick before it on, and up to the one after it."""

    from_ms: int
    to_ms: int

    def __contains__(self, deadline_ms: int) -> bool:
        return self.from_ms <= deadline_ms < self.to_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """An unfinished root: early without a spout task, pending with one.

    ``outstanding`` is None if unknown. ``edges`` are the remembered edges that ended, each with the time of its ack or
    fail. ``failure`` is the first fail, ``failures`` the number of edges that failed, ``dropped`` of those that were
    acked as dropped, and ``has_plain_fail`` says that a fail came without an edge. ``end_on`` is None until the init
    came. ``last_ack_ms`` and ``last_component`` are the time of the last ack and the component that it named, of a tree
    that ``has_details``; a fail that ends an edge counts as an ack here. Times are Unix milliseconds.
    """

    root_id: int
    started_ms: int
    deadline_ms: int
    ack_val: int = 0
    outstanding: int | None = 0
    spout_task: str | None = None
    message_id: str | None = None
    message_timeout_ms: int | None = None
    progress_timeout_ms: int = 0
    idle_deadline_ms: int | None = None
    failure: Fail | None = None
    failures: int = 0
    dropped: int = 0
    has_plain_fail: bool = False
    end_on: EndOn | None = None
    traceparent: str | None = None
    edges: frozenset[tuple[int, int]] = frozenset()
    has_details: bool = False
    last_ack_ms: int | None = None
    last_component: str | None = None

    @property
    def due_ms(self) -> int:
        """The last moment at which the tree is in time: the message deadline or, if nearer, the idle deadline."""
        if self.idle_deadline_ms is None:
            return self.deadline_ms
        return min(self.deadline_ms, self.idle_deadline_ms)

    @property
    def is_failed(self) -> bool:
        """Whether a fail ends the tree, whatever edges are left: any, but that of an edge where all have to end."""
        if self.end_on is EndOn.ALL_ENDED:
            return self.has_plain_fail
        return self.failure is not None

    def emitted_by(self, init: Init) -> bool:
        """Whether this init is the one that made the tree pending: the same spout task and the same message id."""
        return (self.spout_task, self.message_id) == (init.spout_task, init.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A root that ended less than a retention ago."""

    outcome: Outcome
    at_ms: int


State = Tree | Finished | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The effect of one operation: the next state of the root, and the state that answers the operation.

    ``completion`` is set if the operation ended the root, ``outcome`` if the root has ended, now or before.
    ``unbalanced`` means that the ack val is zero while edges are outstanding: a tuple was acked more often than
    sent, or edge ids are not random.
    """

    state: State
    operation_state: OperationState
    completion: CompletionRecord | None = None
    outcome: Outcome | None = None
    unbalanced: bool = False
