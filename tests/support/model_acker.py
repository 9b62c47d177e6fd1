"""An acker in plain Python: requests, caps, idempotency keys and mailboxes over `acker_protocol.tree`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from acker_protocol.idempotency import replay_operation
from acker_protocol.operations import NOT_ADMITTED, Ack, CompletionRecord, Init, Operation, OperationState, Outcome
from acker_protocol.states import Finished, State, Tree
from acker_protocol.tree import apply_operation, expire, forget_expired
from acker_service.operations.batch import ListBatch
from acker_service.redis.codec import Layout
from acker_service.topologies.config import TopologyConfig

Answers = list[tuple[OperationState, Outcome | None]]
_CHANGING = {OperationState.PENDING, OperationState.ACKED, OperationState.FAILED, OperationState.EARLY}


@dataclass
class ModelAcker:
    """What the store has to do. ``window_ms`` is how long requests are remembered."""

    configuration: TopologyConfig
    window_ms: int
    now_ms: int
    roots: dict[int, State] = field(default_factory=dict)
    mailbox: list[CompletionRecord] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    requests: dict[object, tuple[int, int]] = field(default_factory=dict)

    def apply(self, messages: Sequence[Operation], key: str | None) -> tuple[Answers, bool]:
        """Apply a request; gives its answers and whether every shard knew it."""
        answers: dict[int, tuple[OperationState, Outcome | None]] = {}
        configuration = self.configuration
        layout = Layout(shards=configuration.shards, buckets=configuration.buckets)
        parts = ListBatch(messages).split(layout, capped=configuration.max_spout_pending is not None)
        repeated = []
        for part in parts:
            identity = (part.shard, key, tuple(messages[index] for index in part.request_order))
            seen = self._seen(identity) if key else None
            repeated.append(seen is not None)
            for index in part.apply_order:
                answers[index] = self._one(messages[index], seen)
            if key and seen is None:
                self._remember(identity, messages, {index: answers[index] for index in part.apply_order})
        return [answers[index] for index in range(len(messages))], bool(parts) and all(repeated)

    def tick(self) -> None:
        """End all that is overdue."""
        for root_id, state in list(self.roots.items()):
            self.roots[root_id], completion = expire(state, now_ms=self.now_ms)
            if completion:
                self._tell(completion)
            elif state is not None and self.roots[root_id] is None:
                self.counts["dropped"] += 1

    def state(self, root_id: int) -> State:
        """A root as it stands now."""
        return forget_expired(self.roots.get(root_id), now_ms=self.now_ms, rules=self.configuration.rules)

    def pending(self, spout_task: str) -> int:
        """How many roots of a spout task are pending."""
        return sum(isinstance(state, Tree) and state.spout_task == spout_task for state in self.roots.values())

    def _one(self, message: Operation, seen: tuple[int, int] | None) -> tuple[OperationState, Outcome | None]:
        state = self.state(message.root_id)
        if seen is not None:
            word = replay_operation(state, message, refused_inits=seen[1])
            return word, state.outcome if isinstance(state, Finished) else None
        step = apply_operation(
            state, message, now_ms=self.now_ms, rules=self.configuration.rules, free_slots=self._room(message)
        )
        self.roots[message.root_id] = step.state
        self.counts["unbalanced"] += step.unbalanced
        if step.completion:
            self._tell(step.completion)
        return step.operation_state, step.outcome if step.operation_state is OperationState.FINISHED else None

    def _room(self, message: Operation) -> int | None:
        cap = self.configuration.max_spout_pending
        return cap - self.pending(message.spout_task) if cap is not None and isinstance(message, Init) else None

    def _tell(self, completion: CompletionRecord) -> None:
        self.mailbox.append(completion)
        self.counts[completion.outcome] += 1

    def _seen(self, identity: object) -> tuple[int, int] | None:
        found = self.requests.get(identity)
        if found and self.now_ms // self.window_ms - found[0] // self.window_ms <= 1:
            return found
        return None

    def _remember(
        self, identity: object, messages: Sequence[Operation], answers: dict[int, tuple[OperationState, object]]
    ) -> None:
        refused = sum(word in NOT_ADMITTED for word, _ in answers.values())
        changed = [
            index
            for index, (word, _) in answers.items()
            if word in _CHANGING and not (isinstance(ack := messages[index], Ack) and ack.ack_val == 0)
        ]
        if changed:
            self.requests[identity] = (self.now_ms, refused)
