"""The interface of a batch of operations, and the batch that is a list of them."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire.operations import names_of

from acker_service.redis import codec
from acker_service.redis.codec import Indexes, Layout

KINDS: Mapping[type[Operation], str] = {Init: "init", Ack: "ack", Fail: "fail", ResetTimeout: "reset_timeout"}
"""The kinds of operations as metrics name them."""

STATES = {code: result.state.value for code, result in codec.RESULTS.items()}
"""The states as metrics name them, by the codes in which Redis gives them."""

KindStateCounts = Iterable[tuple[str, str, int]]
"""Kinds of operations, the states that they resulted in, and how often."""

Encode = Callable[[Indexes], bytes]
"""Encodes the operations of these indexes, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPart:
    """The part of a batch that goes to one shard.

    ``request_order`` are the indexes of its operations in the order of the batch; ``apply_order`` groups them by root,
    as Redis applies them. Two equal orders are one object.
    """

    shard: int
    request_order: Indexes
    apply_order: Indexes


class OperationBatch(ABC):
    """Operations that came together in one request. All forms of a batch give the same results and the same bytes."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """The number of operations."""

    @property
    @abstractmethod
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""

    @abstractmethod
    def spout_tasks_of(self, inits: Iterable[int]) -> Set[str]:
        """The spout tasks that the inits of these indexes name."""

    @abstractmethod
    def contains(self, kind: type[Init] | type[Ack]) -> bool:
        """Say whether any operation is of this kind."""

    @abstractmethod
    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards, roots in the order of their first operation.

        Where pending roots are capped, slots go to inits in the order of the batch; so roots without an init come first
        (they can only free slots), then the others in the order of their first init.
        """

    @property
    @abstractmethod
    def is_explained(self) -> bool:
        """Whether operations have what only explains roots: names of edges, or a root that is traced by hand."""

    @abstractmethod
    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        is_explained: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis; gives the function that joins some of them.

        ``is_explained``: with what only explains roots, which a fingerprint leaves out: names of edges, roots traced by
        hand, and those whose sample is below ``trace_threshold`` (`acker_protocol.tracing`).
        """

    @abstractmethod
    def first_timeout_over(self, window_ms: int) -> int | None:
        """Give the index of the first init whose message timeout exceeds a dedupe window (0: there is no window)."""

    @abstractmethod
    def count_by_kind_and_state(self, part: ShardPart, codes: str) -> KindStateCounts:
        """Count the operations of a part by kind and by the state that their codes stand for."""


@dataclass(frozen=True, slots=True)
class ListBatch(OperationBatch):
    """A batch as a list: of single operations, and of batches that only the reference codec decodes."""

    operations: Sequence[Operation]

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""
        return {operation.spout_task for operation in self.operations if isinstance(operation, Init)}

    def spout_tasks_of(self, inits: Iterable[int]) -> Set[str]:
        """The spout tasks that the inits of these indexes name."""
        named = (self.operations[index] for index in inits)
        return {operation.spout_task for operation in named if isinstance(operation, Init)}

    def contains(self, kind: type[Init] | type[Ack]) -> bool:
        """Say whether any operation is of this kind."""
        return any(isinstance(operation, kind) for operation in self.operations)

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards."""
        roots: dict[int, list[int]] = {}
        for index, operation in enumerate(self.operations):
            roots.setdefault(operation.root_id, []).append(index)
        groups = list(roots.items())
        if capped:
            groups.sort(key=lambda group: self._first_init(group[1]))
        parts: dict[int, list[int]] = {}
        for root_id, indexes in groups:
            parts.setdefault(layout.shard_of(root_id), []).extend(indexes)
        return [_part(shard, order) for shard, order in parts.items()]

    @property
    def is_explained(self) -> bool:
        """Whether operations have what only explains roots."""
        return any(names_of(each) or (isinstance(each, Init) and each.trace) for each in self.operations)

    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        is_explained: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis."""
        index_of = spout_indexes.__getitem__
        encoded = [
            codec.encode_operation(each, layout, index_of, is_explained=is_explained, trace_threshold=trace_threshold)
            for each in self.operations
        ]
        return lambda order: b"".join([encoded[index] for index in order])

    def first_timeout_over(self, window_ms: int) -> int | None:
        """Give the index of the first init whose message timeout exceeds a dedupe window."""
        if not window_ms:
            return None
        inits = ((index, each) for index, each in enumerate(self.operations) if isinstance(each, Init))
        return next((index for index, init in inits if (init.message_timeout_ms or 0) > window_ms), None)

    def count_by_kind_and_state(self, part: ShardPart, codes: str) -> KindStateCounts:
        """Count the operations of a part by kind and state."""
        if len(codes) == 1:  # a single operation: the most frequent request, which should not pay for a Counter
            return ((KINDS[type(self.operations[part.apply_order[0]])], STATES[codes], 1),)
        kinds = (KINDS[type(self.operations[index])] for index in part.apply_order)
        counts = Counter(zip(kinds, codes, strict=True))
        return [(kind, STATES[code], count) for (kind, code), count in counts.items()]

    def _first_init(self, indexes: Sequence[int]) -> int:
        return next((index for index in indexes if isinstance(self.operations[index], Init)), -1)


def _part(shard: int, order: list[int]) -> ShardPart:
    by_index, as_applied = tuple(sorted(order)), tuple(order)
    # rule: equal orders are one object
    return ShardPart(
        shard=shard, request_order=by_index, apply_order=by_index if by_index == as_applied else as_applied
    )
