"""Knows the states of a root, the rules of its topology, and what one step of the law gives."""

from dataclasses import dataclass

from acker_protocol.operations import CompletionRecord, Fail, Init, OperationState, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRules:
    """What the law needs to know of a topology; durations in milliseconds, 0 meaning none.

    ``tracked`` is False for a topology without ackers: its inits are acked at once and nothing is remembered of a tree.
    """

    message_timeout_ms: int = 30_000
    progress_timeout_ms: int = 0
    dedupe_window_ms: int = 0
    retention_ms: int = 60_000
    tracked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """An early or pending root. ``edges`` are the acked edges that are remembered, each with the time of its ack."""

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
    edges: frozenset[tuple[int, int]] = frozenset()

    @property
    def due_ms(self) -> int:
        """The last moment at which the tree is in time: the message deadline or, if nearer, the idle one."""
        if self.idle_deadline_ms is None:
            return self.deadline_ms
        return min(self.deadline_ms, self.idle_deadline_ms)

    def emitted_by(self, init: Init) -> bool:
        """Whether this init is the one that made the tree pending: the same spout task and the same message id."""
        return (self.spout_task, self.message_id) == (init.spout_task, init.message_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A root that has ended, while it is remembered."""

    outcome: Outcome
    at_ms: int


State = Tree | Finished | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What came of a message: the state after it, the word that answers it, and the completion if it ended the root.

    ``outcome`` is set where the root has ended. ``unbalanced`` says that the ack val is zero while edges are
    outstanding: somebody uses ids that are not random.
    """

    state: State
    operation_state: OperationState
    completion: CompletionRecord | None = None
    outcome: Outcome | None = None
    unbalanced: bool = False
