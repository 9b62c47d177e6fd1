"""An acker in plain Python: requests, caps, idempotency keys and mailboxes over `acker_protocol.tree`."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import REFUSED, CompletionRecord, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State, Tree
from acker_protocol.tree import apply_operation, expire, forget_expired
from acker_service.operations.batch import ListBatch
from acker_service.redis.codec import Layout
from acker_service.topologies.config import TopologyConfig

Answers = list[tuple[OperationState, Outcome | None]]
Remembered = tuple[int, Set[int]]
"""When a request was applied, in milliseconds, and the indexes of its operations that were refused."""


@dataclass
class ModelAcker:
    """What the store has to do. ``window_ms`` is how long requests are remembered."""

    configuration: TopologyConfig
    window_ms: int
    now_ms: int
    roots: dict[int, State] = field(default_factory=dict)
    mailbox: list[CompletionRecord] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    requests: dict[object, Remembered] = field(default_factory=dict)

    def apply(self, operations: Sequence[Operation], key: str | None) -> tuple[Answers, bool]:
        """Apply a request; gives its answers and whether every shard knew it."""
        answers: dict[int, tuple[OperationState, Outcome | None]] = {}
        configuration = self.configuration
        layout = Layout(shards=configuration.shards, buckets=configuration.buckets)
        parts = ListBatch(operations).split(layout, capped=configuration.max_spout_pending is not None)
        repeated = []
        for part in parts:
            identity = (part.shard, key, tuple(operations[index] for index in part.request_order))
            seen = self._seen(identity) if key else None
            repeated.append(seen is not None)
            for index in part.apply_order:
                refused = index in seen[1] if seen else None
                answers[index] = self._apply_one(operations[index], was_refused=refused)
            if key and seen is None:
                refused_now = {index for index in part.apply_order if answers[index][0] in REFUSED}
                self.requests[identity] = (self.now_ms, refused_now)
        return [answers[index] for index in range(len(operations))], bool(parts) and all(repeated)

    def tick(self) -> None:
        """End all that is overdue."""
        for root_id, state in list(self.roots.items()):
            self.roots[root_id], completion = expire(state, now_ms=self.now_ms)
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

    def _apply_one(self, operation: Operation, *, was_refused: bool | None) -> tuple[OperationState, Outcome | None]:
        """Apply an operation; answer it without effect if its request was applied before (``was_refused`` is set)."""
        root = self.state(operation.root_id)
        if was_refused is not None:
            answer = replay_operation(root, operation, refused=was_refused)
            return answer, root.outcome if isinstance(root, Finished) else None
        rules, free_slots = self.configuration.rules, self._free_slots(operation)
        transition = apply_operation(root, operation, now_ms=self.now_ms, rules=rules, free_slots=free_slots)
        self.roots[operation.root_id] = transition.state
        self.counts["unbalanced"] += transition.unbalanced
        if transition.completion:
            self._append(transition.completion)
        finished = transition.operation_state is OperationState.FINISHED
        return transition.operation_state, transition.outcome if finished else None

    def _free_slots(self, operation: Operation) -> int | None:
        cap = self.configuration.max_spout_pending
        return cap - self.pending(operation.spout_task) if cap is not None and isinstance(operation, Init) else None

    def _append(self, completion: CompletionRecord) -> None:
        self.mailbox.append(completion)
        self.counts[completion.outcome] += 1

    def _seen(self, identity: object) -> Remembered | None:
        found = self.requests.get(identity)
        if found and self.now_ms // self.window_ms - found[0] // self.window_ms <= 1:
            return found
        return None
