"""An acker in plain Python: requests, caps, idempotency keys and mailboxes over `acker_protocol.tree`."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import REFUSED, Ack, CompletionRecord, Fail, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, Gap, State, Tree
from acker_protocol.tree import apply_operation, expire, forget_expired, note_tick
from acker_service.redis.codec import Indexes, Layout
from acker_service.topologies.config import TopologyConfig

from tests.support.columns import batch_of

Answers = list[tuple[OperationState, Outcome | None]]
Remembered = tuple[int, Set[int]]
"""When a request was applied, in milliseconds, and the indexes of its operations that were refused."""

EARLY_BYTES, EDGE_BYTES, FAILURE_BYTES = 320, 224, 256
"""What an early root takes (lua/early.lua): without more, for an acked edge, for a failure without its texts."""

SHORT_REASON = 64

_CHANGING = {OperationState.PENDING, OperationState.ACKED, OperationState.FAILED, OperationState.EARLY}


@dataclass
class ModelAcker:
    """What the store has to do.

    ``window_ms`` is how long requests are remembered, ``max_early`` the most early roots of the topology,
    ``early_max_bytes`` the most bytes that they take; a store that ``is_full`` begins no root. ``early_sizes`` are what
    roots took as long as they were early; traces are not counted there.
    """

    configuration: TopologyConfig
    window_ms: int
    now_ms: int
    roots: dict[int, State] = field(default_factory=dict)
    mailbox: list[CompletionRecord] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    requests: dict[object, Remembered] = field(default_factory=dict)
    max_early: int = 1_000_000
    early_max_bytes: int = 67_108_864
    early_sizes: Counter[int] = field(default_factory=Counter)
    is_full: bool = False
    last_tick_ms: int | None = None
    gap: Gap | None = None

    def apply(self, operations: Sequence[Operation], key: str | None) -> tuple[Answers, bool]:
        """Apply a request, and return its answers and whether every shard knew it."""
        answers: dict[int, tuple[OperationState, Outcome | None]] = {}
        configuration = self.configuration
        layout = Layout(shards=configuration.shards, buckets=configuration.buckets)
        parts = batch_of(operations).split(layout, capped=configuration.max_spout_pending is not None)
        repeated = []
        for part in parts:
            identity = (part.shard, key, tuple(_told_apart(operations[index]) for index in part.request_order))
            seen = self._seen(identity) if key else None
            repeated.append(seen is not None)
            for index in part.apply_order:
                refused = index in seen[1] if seen else None
                answers[index] = self._apply_one(operations[index], was_refused=refused)
            if key and seen is None and (not self.is_full or self._changed_any(part.apply_order, operations, answers)):
                refused_now = {index for index in part.apply_order if answers[index][0] in REFUSED}
                self.requests[identity] = (self.now_ms, refused_now)
        return [answers[index] for index in range(len(operations))], bool(parts) and all(repeated)

    def tick(self) -> None:
        """End all that is overdue, but for what gets grace."""
        rules = self.configuration.rules
        self.gap = note_tick(self.last_tick_ms, self.gap, now_ms=self.now_ms, rules=rules)
        self.last_tick_ms = self.now_ms
        for root_id, state in list(self.roots.items()):
            self.roots[root_id], completion = expire(state, now_ms=self.now_ms, rules=rules, gap=self.gap)
            if completion:
                self._append(completion)
            elif state is not None and self.roots[root_id] is None:
                self.counts["dropped"] += 1

    def state(self, root_id: int) -> State:
        """A root as it stands now."""
        return forget_expired(self.roots.get(root_id), now_ms=self.now_ms, rules=self.configuration.rules)

    def pending(self, spout_task: str) -> int:
        """How many roots of a spout task are pending."""
        return sum(isinstance(state, Tree) and state.spout_task == spout_task for state in self.roots.values())

    def early(self, *, shard: int | None = None) -> int:
        """How many roots of a shard, or of all, are early."""
        return len(self._early_roots(shard))

    def early_bytes(self, *, shard: int | None = None) -> int:
        """What the early roots of a shard, or of all, take."""
        return sum(self.early_sizes[root_id] for root_id in self._early_roots(shard))

    def _apply_one(self, operation: Operation, *, was_refused: bool | None) -> tuple[OperationState, Outcome | None]:
        """Apply an operation; answer it without effect if its request was applied before (``was_refused`` is set)."""
        root = self.state(operation.root_id)
        if was_refused is not None:
            answer = replay_operation(root, operation, refused=was_refused)
            return answer, root.outcome if isinstance(root, Finished) else None
        if self.is_full and isinstance(operation, Init) and not isinstance(root, Finished) and not _is_pending(root):
            return OperationState.STORE_FULL, None
        transition = apply_operation(
            root,
            operation,
            now_ms=self.now_ms,
            rules=self.configuration.rules,
            free_slots=self._free_slots(operation),
            free_early=self._free_early(operation.root_id),
            free_edges=self._free_edges(root, operation.root_id),
            is_full=self.is_full,
            max_reason=self._max_reason(root, operation.root_id),
        )
        self._grow(root, transition.state, operation.root_id)
        self.roots[operation.root_id] = transition.state
        self.counts["unbalanced"] += transition.unbalanced
        if transition.completion:
            self._append(transition.completion)
        finished = transition.operation_state is OperationState.FINISHED
        return transition.operation_state, transition.outcome if finished else None

    def _free_slots(self, operation: Operation) -> int | None:
        cap = self.configuration.max_spout_pending
        return cap - self.pending(operation.spout_task) if cap is not None and isinstance(operation, Init) else None

    def _early_roots(self, shard: int | None) -> list[int]:
        return [
            root_id
            for root_id, state in self.roots.items()
            if _is_early(state) and (shard is None or root_id % self.configuration.shards == shard)
        ]

    def _grow(self, before: State, after: State, root_id: int) -> None:
        """Count what a root takes more than before, if it is early."""
        if not isinstance(after, Tree) or not _is_early(after):
            return
        if not isinstance(before, Tree):
            before, self.early_sizes[root_id] = None, EARLY_BYTES
        self.early_sizes[root_id] += EDGE_BYTES * len(after.edges - (before.edges if before else frozenset()))
        if after.failure and after.failure != (failure := before and before.failure):
            self.early_sizes[root_id] += _size_of(after.failure) - (_size_of(failure) if failure else 0)

    def _free_early(self, root_id: int) -> int:
        shards = self.configuration.shards
        if self.is_full or self._is_early_full(root_id):
            return 0
        return math.ceil(self.max_early / shards) - self.early(shard=root_id % shards)

    def _free_edges(self, root: State, root_id: int) -> int | None:
        """How many further acked edges of a root are remembered: of a pending one in a full store, none."""
        has_no_room = self.is_full if _is_pending(root) else self._is_early_full(root_id)
        return 0 if has_no_room else None

    def _is_early_full(self, root_id: int) -> bool:
        """Whether the early roots of a root's shard take as much as they may."""
        shards = self.configuration.shards
        return self.early_bytes(shard=root_id % shards) >= self.early_max_bytes // shards

    def _max_reason(self, root: State, root_id: int) -> int | None:
        shards = self.configuration.shards
        taken, most = self.early_bytes(shard=root_id % shards), self.early_max_bytes // shards
        if not _is_pending(root) and taken * 4 > most * 5:
            return 0
        is_short = self.is_full or (not _is_pending(root) and taken * 2 > most)
        return SHORT_REASON if is_short else None

    def _changed_any(
        self, indexes: Indexes, operations: Sequence[Operation], answers: Mapping[int, tuple[OperationState, object]]
    ) -> bool:
        """Whether any of these operations had an effect: in a full store only such a request is remembered."""
        return any(
            answers[index][0] in _CHANGING and not (isinstance(ack := operations[index], Ack) and ack.ack_val == 0)
            for index in indexes
        )

    def _append(self, completion: CompletionRecord) -> None:
        self.mailbox.append(completion)
        self.counts[completion.outcome] += 1

    def _seen(self, identity: object) -> Remembered | None:
        found = self.requests.get(identity)
        if found and self.now_ms // self.window_ms - found[0] // self.window_ms <= 1:
            return found
        return None


def _told_apart(operation: Operation) -> Operation:
    """Return what tells the operation of a repeat from another: what only explains a root does not."""
    return replace(operation, trace=None) if isinstance(operation, Init) else operation


def _size_of(failure: Fail) -> int:
    """Return what an early root takes for a failure: nothing without texts."""
    texts = [text.encode() for text in (failure.reason, failure.component) if text is not None]
    return FAILURE_BYTES + (1 + sum(2 + len(text) for text in texts)) * 5 // 4 if texts else 0


def _is_early(state: State) -> bool:
    return isinstance(state, Tree) and state.spout_task is None


def _is_pending(state: State) -> bool:
    return isinstance(state, Tree) and state.spout_task is not None
