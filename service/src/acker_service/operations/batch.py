"""The interface of the operations of a request, and the request of a single one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.values import value
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


@value
class ShardPart:
    """The part of a batch that goes to one shard.

    ``request_order`` are the indexes of its operations in the order of the batch; ``apply_order`` groups them by root,
    as Redis applies them. Two equal orders are one object.
    """

    shard: int
    request_order: Indexes
    apply_order: Indexes


class OperationBatch(ABC):
    """Operations that came together in one request, as columns or a single one."""

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

    @property
    @abstractmethod
    def has_inits(self) -> bool:
        """Whether any operation is an init."""

    @property
    @abstractmethod
    def ends_edges(self) -> bool:
        """Whether any operation is an ack, or a fail that ends an edge: repeated it undoes itself."""

    @abstractmethod
    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards, roots in the order of their first operation.

        Where pending roots are capped, slots go to inits in the order of the batch; so roots without an init come first
        (they can only free slots), then the others in the order of their first init.
        """

    @property
    @abstractmethod
    def has_trace_fields(self) -> bool:
        """Whether operations have what only explains roots: names of edges, or a root that is traced by hand."""

    @abstractmethod
    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        with_trace_fields: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis, and return the function that joins some of them.

        ``with_trace_fields``: with what only explains roots, which a fingerprint leaves out: names of edges, roots
        traced by hand, and those whose sample is below ``trace_threshold`` (`acker_protocol.tracing`).
        """

    @abstractmethod
    def first_timeout_over(self, window_ms: int) -> int | None:
        """Return the index of the first init whose message timeout exceeds a dedupe window (0: there is no window)."""

    @abstractmethod
    def count_by_kind_and_state(self, parts: Sequence[tuple[ShardPart, str]]) -> KindStateCounts:
        """Count the operations of parts by kind and by the state that their codes stand for."""


_FIRST = (0,)
"""The order of a single operation."""


@dataclass(frozen=True, slots=True)
class SingleOperation(OperationBatch):
    """The one operation of a request that is not a batch."""

    operation: Operation

    def __len__(self) -> int:
        return 1

    @property
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""
        return {self.operation.spout_task} if isinstance(self.operation, Init) else set()

    def spout_tasks_of(self, inits: Iterable[int]) -> Set[str]:
        """The spout tasks that the inits of these indexes name."""
        return self.spout_tasks if any(True for _ in inits) else set()

    @property
    def has_inits(self) -> bool:
        """Whether any operation is an init."""
        return isinstance(self.operation, Init)

    @property
    def ends_edges(self) -> bool:
        """Whether any operation is an ack, or a fail that ends an edge."""
        return isinstance(self.operation, Ack) or (isinstance(self.operation, Fail) and not self.operation.is_plain)

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:  # noqa: ARG002 - there is one order
        """Divide the batch among the shards."""
        shard = layout.shard_of(self.operation.root_id)
        return [ShardPart(shard=shard, request_order=_FIRST, apply_order=_FIRST)]

    @property
    def has_trace_fields(self) -> bool:
        """Whether operations have what only explains roots."""
        operation = self.operation
        return bool(names_of(operation) or (isinstance(operation, Init) and operation.trace))

    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        with_trace_fields: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis."""
        index_of = spout_indexes.__getitem__
        encoded = codec.encode_operation(
            self.operation, layout, index_of, with_trace_fields=with_trace_fields, trace_threshold=trace_threshold
        )
        return lambda order: encoded * len(order)

    def first_timeout_over(self, window_ms: int) -> int | None:
        """Return the index of the first init whose message timeout exceeds a dedupe window."""
        timeout_ms = self.operation.message_timeout_ms if isinstance(self.operation, Init) else None
        return 0 if window_ms and (timeout_ms or 0) > window_ms else None

    def count_by_kind_and_state(self, parts: Sequence[tuple[ShardPart, str]]) -> KindStateCounts:
        """Count the operations of parts by kind and state."""
        return ((KINDS[type(self.operation)], STATES[code], 1) for _, code in parts)
