"""Tests that columns of operations are taken to Redis like the messages they stand for: the same parts and bytes."""

import pytest
from acker_protocol.operations import Ack, Init
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.http.bodies import JSON
from acker_service.operations import decoding
from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.request import ApplyRequest
from acker_service.operations.routing import split
from acker_service.redis.codec import edge_hash
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig, first_timeout_over_dedupe_window
from acker_service.topologies.stamp import Topology
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.operations import batches

caps = st.sampled_from((None, 3))


def decoded(messages):
    """The operations as columns, from either form."""
    bodies = {JSON: encode_batch(messages), CONTENT_TYPE: encode_packed(messages)}
    columns = [decoding.decode(kind, body, max_operations=100) for kind, body in bodies.items()]
    assert all(isinstance(some, ColumnBatch) for some in columns)
    return columns


def both_forms(messages):
    return [messages, *decoded(messages)]


def packed(operations, ackers, cap, key):
    topology = Topology(name="t", stamp=Stamp("0" * 26), config=TopologyConfig(ackers=ackers), window_ms=60_000)
    parts = split(operations, shards=topology.layout.shards, capped=cap)
    request = ApplyRequest(endpoint="batch", operations=operations, key=key)
    indexes = {name: 2**32 - 1 - place for place, name in enumerate(sorted(request.spout_tasks))}
    return list(request.shard_requests(parts, topology, indexes).items())


@given(batches, st.sampled_from((0, 1, 3, 128)), caps)
def test_columns_go_to_the_same_shards_in_the_same_order(messages, shards, cap):
    shards = max(1, shards)
    expected = split(messages, shards=shards, capped=cap)
    for columns in decoded(messages):
        parts = split(columns, shards=shards, capped=cap)
        assert [(part.shard, tuple(part.request_order), tuple(part.apply_order)) for part in parts] == [
            (part.shard, part.request_order, part.apply_order) for part in expected
        ]


@given(batches, st.sampled_from((0, 1, 3)), caps, st.sampled_from((None, "k")))
def test_columns_become_the_same_bytes_under_the_same_digest(messages, ackers, cap, key):
    expected = packed(messages, ackers, cap, key)
    for columns in decoded(messages):
        assert packed(columns, ackers, cap, key) == expected


@given(batches, st.sampled_from((0, 100, 30_000)))
def test_columns_are_asked_the_same_questions(messages, window):
    configuration = TopologyConfig(dedupe_window_ms=window)
    for columns in decoded(messages):
        of_columns, of_messages = (ApplyRequest(endpoint="batch", operations=form) for form in (columns, messages))
        assert of_columns.spout_tasks == of_messages.spout_tasks
        assert of_columns.repeatable == of_messages.repeatable
        assert first_timeout_over_dedupe_window(columns, configuration) == first_timeout_over_dedupe_window(
            messages, configuration
        )


ALONE = ({}, {"outstanding": 0}, {"message_id": ""}, {"message_timeout_ms": 100}, {"progress_timeout_ms": 0},
         {"component": "c"})  # fmt: skip


@pytest.mark.parametrize("fields", ALONE, ids=lambda fields: next(iter(fields), "none"))
def test_columns_become_the_same_bytes_whatever_alone_is_given(fields):
    messages = [Init(root_id=root, spout_task="a", ack_val=1, **fields) for root in (1, 2)]
    for columns in decoded(messages):
        assert packed(columns, 1, None, None) == packed(messages, 1, None, None)


def test_a_timeout_may_be_as_long_as_the_window():
    messages = [Init(root_id=1, spout_task="a", ack_val=1, message_timeout_ms=ms) for ms in (100, 101)]
    for operations in both_forms(messages):
        assert first_timeout_over_dedupe_window(operations, TopologyConfig(dedupe_window_ms=100)) == 1
        assert first_timeout_over_dedupe_window(operations, TopologyConfig(dedupe_window_ms=101)) is None


def test_the_order_given_tells_requests_apart_that_are_applied_alike():
    one, two, other = (Ack(root_id=root, ack_val=val) for root, val in ((1, 1), (1, 2), (2, 1)))
    for together, apart in zip(*map(both_forms, ([one, two, other], [one, other, two])), strict=True):
        [[_, first]], [[_, second]] = (packed(operations, 1, None, "k") for operations in (together, apart))
        assert first.operations == second.operations
        assert first.fingerprint != second.fingerprint


def test_roots_under_a_cap_come_in_the_order_of_their_first_init():
    def init(root):
        return Init(root_id=root, spout_task="a", ack_val=1)

    messages = [Ack(root_id=3, ack_val=1), init(2), Ack(root_id=1, ack_val=1), init(3), Ack(root_id=2, ack_val=1)]
    for operations in both_forms(messages):
        [part] = split(operations, shards=1, capped=1)
        assert list(part.apply_order) == [2, 1, 4, 0, 3]
        [part] = split(operations, shards=1, capped=None)
        assert list(part.apply_order) == [0, 3, 1, 4, 2]


@given(st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
@example(1, 1, 2)
def test_edges_of_one_root_never_have_the_same_hash(root, edge, other):
    assert (edge_hash(root, edge) == edge_hash(root, other)) == (edge == other)
    assert 0 <= edge_hash(root, edge) < 2**64


def test_a_pair_is_hashed_by_the_finalizer_of_splitmix64():
    """From zero, SplitMix64 gives this number first: the finalizer of its first step."""
    assert edge_hash(0, 0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert edge_hash(1, 2) == edge_hash(0, edge_hash(0, 1) ^ 2)


def test_pairs_that_are_alike_differ_in_about_half_of_all_bits():
    hashes = [edge_hash(root, edge) for root in range(1, 65) for edge in range(1, 65)]
    hashes += [edge_hash(root, root) for root in range(65, 129)]
    assert len(set(hashes)) == len(hashes)
    for bit in range(64):
        ones = sum(value >> bit & 1 for value in hashes)
        assert 0.4 < ones / len(hashes) < 0.6
