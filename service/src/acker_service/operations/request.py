"""A request to apply operations, and the reply to it."""

from collections.abc import Iterable, Mapping

from acker_protocol.errors import ServiceError, StoreUnavailable
from acker_protocol.operations import REFUSED, Init, Operation, OperationState
from acker_protocol.values import value
from acker_protocol.wire.operations import names_of

from acker_service.operations.batch import OperationBatch, ShardPart, SingleOperation
from acker_service.redis import codec
from acker_service.redis.codec import CodeResult, ShardRequest
from acker_service.redis.errors import is_denied
from acker_service.topologies.topology import Topology


@value
class ApplyRequest:
    """Operations that came to one endpoint, under one idempotency key (None: without one)."""

    endpoint: str
    operations: OperationBatch
    key: str | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether the request may be sent again when its result is unknown: it has a key, or ends no edge."""
        return self.key is not None or not self.operations.ends_edges

    def result_unknown(self, error: ServiceError) -> StoreUnavailable:
        """Make the error of a request that may have been applied; says whether it may be sent again."""
        return StoreUnavailable(error.detail, retryable=self.is_repeatable and not is_denied(error))

    @property
    def is_single(self) -> bool:
        """Whether it came to the endpoint of one operation, where a refusal is an error and not a result."""
        return self.endpoint != "batch"

    def shard_requests(
        self, parts: Iterable[ShardPart], topology: Topology, spout_indexes: Mapping[str, int]
    ) -> dict[int, ShardRequest]:
        """Encode parts of the request, by shard.

        A fingerprint hashes the names of spout tasks and not their indexes, which may differ when the request is
        sent again.
        """
        encode = self.operations.encoder(topology.layout, spout_indexes, trace_threshold=topology.trace_threshold)
        if self.key is None:
            return {part.shard: ShardRequest(operations=encode(part.apply_order)) for part in parts}
        hashes = {name: codec.name_hash(name) for name in spout_indexes}
        encode_named = encode
        if hashes or self.operations.has_trace_fields or topology.trace_threshold:
            encode_named = self.operations.encoder(topology.layout, hashes, with_trace_fields=False)
        requests: dict[int, ShardRequest] = {}
        for part in parts:
            named = encode_named(part.request_order)
            known_by = codec.fingerprint(self.endpoint, self.key, named, sets=topology.seen_sets)
            requests[part.shard] = ShardRequest(
                operations=encode(part.apply_order),
                fingerprint=known_by,
                positions=codec.encode_positions(part.apply_order, part.request_order),
                is_single=self.is_single,
            )
        return requests

    @property
    def single(self) -> Operation:
        """The operation of a single request."""
        operations = self.operations
        assert isinstance(operations, SingleOperation)
        return operations.operation

    def single_shard_request(self, topology: Topology, spout_index: int) -> ShardRequest:
        """Encode the operation of a single request; an init is that of the spout task of this index."""
        operation, layout = self.single, topology.layout
        encoded = codec.encode_operation(
            operation, layout, lambda _: spout_index, trace_threshold=topology.trace_threshold
        )
        if self.key is None:
            return ShardRequest(operations=encoded, may_be_joined=True)
        named = encoded
        # An index may be another when it is sent again, and the share of the roots that are traced.
        # rule: a single ack is known again under another share
        if isinstance(operation, Init) or names_of(operation) or topology.trace_threshold:
            named = codec.encode_operation(operation, layout, codec.name_hash, with_trace_fields=False)
        known_by = codec.fingerprint(self.endpoint, self.key, named, sets=topology.seen_sets)
        return ShardRequest(operations=encoded, fingerprint=known_by, is_single=True)


@value
class Reply:
    """The results of a request, one code per operation; ``replayed`` if every shard had applied it before."""

    codes: str
    replayed: bool

    @property
    def results(self) -> list[CodeResult]:
        """The result of each operation."""
        return codec.decode_results(self.codes)

    @property
    def refused(self) -> list[tuple[int, OperationState]]:
        """The indexes and states of the operations that were refused."""
        if codec.REFUSED_CODES.isdisjoint(self.codes):
            return []
        return [(index, result.state) for index, result in enumerate(self.results) if result.state in REFUSED]
