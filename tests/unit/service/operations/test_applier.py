"""Tests that a batch becomes requests for shards: parts, bytes and fingerprints, whatever form it came in."""

import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pytest
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.tracing import is_sampled
from acker_protocol.wire.operations import decode_batch, encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.request import ApplyRequest
from acker_service.redis import codec
from acker_service.redis.codec import OPERATION_FIELDS, Layout, OperationFlag, ShardRequest
from acker_service.redis.column_codec import MAX_TEXT_BYTES
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.operations import batches, documents, traced_documents

MOST = 3_000
caps = st.booleans()
keys = st.sampled_from((None, "k"))
shares = st.sampled_from((0, 0.5, 1))
shard_counts = st.sampled_from((1, 2, 3, 4, 7, 128))
MAKERS = (
    partial(Init, spout_task="a", ack_val=1, outstanding=1),
    partial(Ack, ack_val=1, outstanding=1),
    Fail,
    ResetTimeout,
)
FLAGS_AT = struct.calcsize(">" + "".join(code for name, code in OPERATION_FIELDS[:5]))


def decoded(messages: Sequence[Operation]) -> Iterator[ColumnBatch]:
    """The operations from either form; traceparents only JSON has a field for."""
    yield decoding.decode(JSON, encode_batch(messages), max_operations=MOST)
    if not any(isinstance(message, Init) and message.traceparent for message in messages):
        yield decoding.decode(CONTENT_TYPE, encode_packed(messages), max_operations=MOST)


def topology_of(shards: int, trace: float = 0) -> Topology:
    config = TopologyConfig(ackers=shards, buckets=1_009, trace=trace)
    return Topology(name="t", stamp=Stamp("0" * 26), config=config, window_ms=60_000)


def indexes_of(batch: ColumnBatch) -> dict[str, int]:
    return {name: 2**32 - 5 - place for place, name in enumerate(sorted(batch.spout_tasks))}


def requests(
    batch: ColumnBatch, shards: int, key: str | None, *, cap: bool = False, trace: float = 0
) -> dict[int, ShardRequest]:
    """The requests that the batch becomes."""
    topology = topology_of(shards, trace)
    parts = batch.split(topology.layout, capped=cap)
    request = ApplyRequest(endpoint="batch", operations=batch, key=key)
    return request.shard_requests(parts, topology, indexes_of(batch))


def expected(
    messages: Sequence[Operation], batch: ColumnBatch, shards: int, key: str | None, *, cap: bool = False, trace: float
) -> dict[int, ShardRequest]:
    """The requests for the same parts, each operation encoded by itself."""
    topology, requests = topology_of(shards, trace), dict[int, ShardRequest]()
    layout, indexes = topology.layout, indexes_of(batch)
    for part in batch.split(layout, capped=cap):
        operations = encoded(messages, part.apply_order, layout, indexes, threshold=topology.trace_threshold)
        requests[part.shard] = ShardRequest(operations=operations)
        if key is not None:
            hashes = {name: codec.name_hash(name) for name in indexes}
            named = encoded(messages, part.request_order, layout, hashes, with_trace_fields=False)
            requests[part.shard] = ShardRequest(
                operations=operations,
                fingerprint=codec.fingerprint("batch", key, named, sets=topology.seen_sets),
                positions=codec.encode_positions(part.apply_order, part.request_order),
            )
    return requests


def encoded(
    messages: Sequence[Operation],
    order: Iterable[int],
    layout: Layout,
    indexes: Mapping[str, int],
    *,
    with_trace_fields: bool = True,
    threshold: int = 0,
) -> bytes:
    encode = partial(codec.encode_operation, with_trace_fields=with_trace_fields, trace_threshold=threshold)
    return b"".join([encode(messages[index], layout, indexes.__getitem__) for index in order])


def check(messages: Sequence[Operation], shards: int, key: str | None, *, cap: bool = False, trace: float = 0) -> None:
    for batch in decoded(messages):
        own = requests(batch, shards, key, cap=cap, trace=trace)
        assert own == expected(messages, batch, shards, key, cap=cap, trace=trace)
        assert batch.spout_tasks == {message.spout_task for message in messages if isinstance(message, Init)}


@given(batches, shard_counts, caps, keys, shares)
def test_a_batch_becomes_the_bytes_and_the_fingerprints_of_its_operations(messages, shards, cap, key, trace):
    check(messages, shards, key, cap=cap, trace=trace)


@given(st.lists(documents | traced_documents, max_size=8), shard_counts, caps, keys, shares)
def test_named_edges_and_traceparents_become_the_bytes_of_their_operations(ops, shards, cap, key, trace):
    check(decode_batch({"ops": ops}, max_operations=8), shards, key, cap=cap, trace=trace)


@pytest.mark.parametrize("optional", ["nothing", "always", "sometimes"])
@pytest.mark.parametrize("makes", ["inits", "traced inits", "acks", "fails", "all"])
@given(st.integers(1, MOST), shard_counts, st.integers(0, 2**32))
@settings(max_examples=4, deadline=None)
def test_a_large_batch_becomes_the_bytes_of_its_operations(makes, optional, count, shards, seed):
    rng = random.Random(seed)
    check([drawn(rng, root, makes, optional) for root in rng.sample(range(1, 2**48), count)], shards, "k")


def drawn(rng: random.Random, root_id: int, makes: str, optional: str) -> Operation:
    def given() -> bool:
        return optional == "always" or (optional == "sometimes" and rng.random() < 0.5)

    kind = makes if makes != "all" else rng.choice(("inits", "acks", "acks", "fails", "resets"))
    component = rng.choice(("split", "count")) if given() else None
    if kind == "resets":
        return ResetTimeout(root_id=root_id, component=component)
    if kind == "fails":
        reason = rng.choice(("no", "ünï ☃", "", "r" * MAX_TEXT_BYTES, "r" * (MAX_TEXT_BYTES + 1), "☃" * 1_024))
        return Fail(root_id=root_id, reason=reason if given() else None, component=component)
    ack_val, outstanding = rng.getrandbits(64), rng.choice((None, -1, 2, 0))
    if kind == "acks":
        edge_id = rng.randrange(1, 2**64) if given() else None
        return Ack(root_id=root_id, ack_val=ack_val, outstanding=outstanding, edge_id=edge_id, component=component)
    return Init(
        root_id=root_id,
        spout_task=rng.choice(("a", "b")),
        ack_val=ack_val,
        outstanding=outstanding,
        message_id=f"order {rng.randrange(10_000)}" if given() else None,
        message_timeout_ms=rng.randrange(100, 10_000) if given() else None,
        progress_timeout_ms=rng.choice((0, 100)) if given() else None,
        component=component,
        trace=rng.choice((None, True)) if given() else None,
        traceparent=f"00-{root_id:032x}-{root_id:016x}-01" if kind == "traced inits" and given() else None,
    )


INIT, ACK = Init(root_id=1, spout_task="s", ack_val=2), Ack(root_id=2, ack_val=2)
LONG, LONGEST = "m" * (MAX_TEXT_BYTES + 1), "☃" * 1_024
BATCHES: dict[str, list[Operation]] = {
    "nothing": [],
    "a root twice": [ACK, INIT, ACK],
    "a long message id": [INIT, Init(root_id=3, spout_task="s", ack_val=1, message_id=LONG), ACK],
    "long message ids": [Init(root_id=root, spout_task="s", ack_val=1, message_id=LONG) for root in (1, 2)],
    "a long reason": [Fail(root_id=3, reason="no"), Fail(root_id=4, reason=LONGEST), Fail(root_id=5, component="c")],
    "a long message id behind timeouts": [
        Init(root_id=root, spout_task="s", ack_val=1, message_id=LONG, message_timeout_ms=timeout_ms, component="c")
        for root, timeout_ms in ((1, None), (2, 100), (3, 200))
    ],
    "a long message id and names": [
        Init(root_id=3, spout_task="s", ack_val=3, outstanding=2, message_id=LONG, edges=(1, 2)),
        Ack(root_id=4, ack_val=7, outstanding=1, edge_id=4, children=(1, 2)),
    ],
    "many spout tasks": [Init(root_id=n + 1, spout_task=f"s{n}", ack_val=1) for n in range(300)],
    "many components": [Ack(root_id=n + 1, component=f"c{n}", ack_val=1) for n in range(300)],
    "a component that is a spout task": [INIT, Init(root_id=3, spout_task="s", ack_val=1, component="s")],
}


@pytest.mark.parametrize("messages", BATCHES.values(), ids=BATCHES)
def test_a_batch_of_every_kind_becomes_the_bytes_of_its_operations(messages):
    check(messages, 4, "k")


ALONE = ({}, {"outstanding": 0}, {"message_id": ""}, {"message_timeout_ms": 100}, {"progress_timeout_ms": 0},
         {"component": "c"}, {"traceparent": f"00-{1:032x}-{2:016x}-01"}, {"trace": True})  # fmt: skip


@pytest.mark.parametrize("fields", ALONE, ids=lambda fields: next(iter(fields), "none"))
def test_a_batch_becomes_the_bytes_of_its_operations_whatever_alone_is_given(fields):
    check([Init(root_id=root, spout_task="a", ack_val=1, **fields) for root in (1, 2)], 1, "k")
    check([INIT, Init(root_id=3, spout_task="a", ack_val=1, **fields)], 1, "k")


def test_strings_that_are_equal_are_one_spout_task():
    body = encode_packed([Init(root_id=root, spout_task=name, ack_val=1) for root, name in ((1, "a"), (2, "b"))])
    twice = decoding.decode(CONTENT_TYPE, body[:-1] + b"a", max_operations=2)
    once = [Init(root_id=root, spout_task="a", ack_val=1) for root in (1, 2)]
    assert requests(twice, 1, "k") == expected(once, twice, 1, "k", trace=0)


@pytest.mark.parametrize("trace", [0, 0.25, 1])
def test_operations_say_that_their_root_is_in_the_sample_and_their_fingerprint_does_not(trace):
    messages = [make(root_id=root) for root in range(1, 26) for make in MAKERS]
    traced = [is_sampled(message.root_id, trace) for message in messages]
    assert trace in {0, 1} or 10 < sum(traced) < 60
    for batch in decoded(messages):
        [own] = requests(batch, 1, "k", trace=trace).values()
        [untraced] = requests(batch, 1, "k").values()
        size = len(own.operations) // len(messages)
        flags = [own.operations[at + FLAGS_AT] for at in range(0, len(own.operations), size)]
        assert [bool(flag & OperationFlag.TRACED) for flag in flags] == traced
        assert own.fingerprint == untraced.fingerprint


@given(batches)
def test_a_request_without_a_key_may_be_repeated_where_it_ends_no_edge(messages):
    ends_edge = any(isinstance(message, Ack | Fail) and message.ack_val is not None for message in messages)
    for batch in decoded(messages):
        request = ApplyRequest(endpoint="batch", operations=batch)
        assert request.is_repeatable is not ends_edge


def test_a_timeout_may_be_as_long_as_the_window():
    messages = [Init(root_id=1, spout_task="a", ack_val=1, message_timeout_ms=ms) for ms in (100, 101)]
    for batch in decoded(messages):
        assert batch.first_timeout_over(100) == 1
        assert batch.first_timeout_over(101) is None


def test_the_order_given_tells_requests_apart_that_are_applied_alike():
    one, two, other = (Ack(root_id=root, ack_val=val) for root, val in ((1, 1), (1, 2), (2, 1)))
    for together, apart in zip(decoded([one, two, other]), decoded([one, other, two]), strict=True):
        [first], [second] = (requests(batch, 1, "k").values() for batch in (together, apart))
        assert first.operations == second.operations
        assert first.fingerprint != second.fingerprint
