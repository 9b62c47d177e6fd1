"""Tests that both forms of a batch become the same requests: the same parts, bytes and fingerprints."""

import struct
from functools import partial

import pytest
from acker_protocol.operations import Ack, Fail, Init, ResetTimeout
from acker_protocol.tracing import is_sampled
from acker_protocol.wire.operations import encode_batch
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed
from acker_service.http.parameters import JSON
from acker_service.operations import decoding
from acker_service.operations.batch import ListBatch
from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.request import ApplyRequest
from acker_service.redis.codec import OPERATION_FIELDS, Layout, OperationFlag
from acker_service.redis.stamp import Stamp
from acker_service.topologies.config import TopologyConfig
from acker_service.topologies.topology import Topology
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operations import batches

caps = st.booleans()
MAKERS = (
    partial(Init, spout_task="a", ack_val=1, outstanding=1),
    partial(Ack, ack_val=1, outstanding=1),
    Fail,
    ResetTimeout,
)
FLAGS_AT = struct.calcsize(">" + "".join(code for name, code in OPERATION_FIELDS[:5]))


def decoded(messages):
    """The operations as columns, from either form."""
    bodies = {JSON: encode_batch(messages), CONTENT_TYPE: encode_packed(messages)}
    columns = [decoding.decode(kind, body, max_operations=100) for kind, body in bodies.items()]
    assert all(isinstance(some, ColumnBatch) for some in columns)
    return columns


def both_forms(messages):
    return [ListBatch(messages), *decoded(messages)]


def packed(operations, ackers, key, *, cap, trace=0):
    config = TopologyConfig(ackers=ackers, trace=trace)
    topology = Topology(name="t", stamp=Stamp("0" * 26), config=config, window_ms=60_000)
    parts = operations.split(topology.layout, capped=cap)
    request = ApplyRequest(endpoint="batch", operations=operations, key=key)
    indexes = {name: 2**32 - 1 - place for place, name in enumerate(sorted(request.operations.spout_tasks))}
    return list(request.shard_requests(parts, topology, indexes).items())


@given(batches, st.sampled_from((0, 1, 3, 128)), caps)
def test_columns_go_to_the_same_shards_in_the_same_order(messages, shards, cap):
    layout = Layout(shards=max(1, shards), buckets=4_096)
    expected = ListBatch(messages).split(layout, capped=cap)
    for columns in decoded(messages):
        parts = columns.split(layout, capped=cap)
        assert [(part.shard, tuple(part.request_order), tuple(part.apply_order)) for part in parts] == [
            (part.shard, part.request_order, part.apply_order) for part in expected
        ]


@given(batches, st.sampled_from((0, 1, 3)), caps, st.sampled_from((None, "k")), st.sampled_from((0, 0.5, 1)))
def test_columns_become_the_same_bytes_under_the_same_digest(messages, ackers, cap, key, trace):
    expected = packed(ListBatch(messages), ackers, key, cap=cap, trace=trace)
    for columns in decoded(messages):
        assert packed(columns, ackers, key, cap=cap, trace=trace) == expected


@pytest.mark.parametrize("trace", [0, 0.25, 1])
def test_operations_say_that_their_root_is_in_the_sample_and_their_fingerprint_does_not(trace):
    messages = [make(root_id=root) for root in range(1, 26) for make in MAKERS]
    traced = [is_sampled(message.root_id, trace) for message in messages]
    assert trace in {0, 1} or 10 < sum(traced) < 60
    for operations in both_forms(messages):
        [[_, own]] = packed(operations, 1, "k", cap=False, trace=trace)
        [[_, untraced]] = packed(operations, 1, "k", cap=False)
        size = len(own.operations) // len(messages)
        flags = [own.operations[at + FLAGS_AT] for at in range(0, len(own.operations), size)]
        assert [bool(flag & OperationFlag.TRACED) for flag in flags] == traced
        assert own.fingerprint == untraced.fingerprint


@given(batches, st.sampled_from((0, 100, 30_000)))
def test_columns_are_asked_the_same_questions(messages, window):
    listed = ListBatch(messages)
    for columns in decoded(messages):
        of_columns, of_list = (ApplyRequest(endpoint="batch", operations=form) for form in (columns, listed))
        assert columns.spout_tasks == listed.spout_tasks
        assert of_columns.is_repeatable == of_list.is_repeatable
        assert columns.first_timeout_over(window) == listed.first_timeout_over(window)


ALONE = ({}, {"outstanding": 0}, {"message_id": ""}, {"message_timeout_ms": 100}, {"progress_timeout_ms": 0},
         {"component": "c"})  # fmt: skip


@pytest.mark.parametrize("fields", ALONE, ids=lambda fields: next(iter(fields), "none"))
def test_columns_become_the_same_bytes_whatever_alone_is_given(fields):
    messages = [Init(root_id=root, spout_task="a", ack_val=1, **fields) for root in (1, 2)]
    for columns in decoded(messages):
        assert packed(columns, 1, None, cap=False) == packed(ListBatch(messages), 1, None, cap=False)


def test_a_timeout_may_be_as_long_as_the_window():
    messages = [Init(root_id=1, spout_task="a", ack_val=1, message_timeout_ms=ms) for ms in (100, 101)]
    for operations in both_forms(messages):
        assert operations.first_timeout_over(100) == 1
        assert operations.first_timeout_over(101) is None


def test_the_order_given_tells_requests_apart_that_are_applied_alike():
    one, two, other = (Ack(root_id=root, ack_val=val) for root, val in ((1, 1), (1, 2), (2, 1)))
    for together, apart in zip(*map(both_forms, ([one, two, other], [one, other, two])), strict=True):
        [[_, first]], [[_, second]] = (packed(operations, 1, "k", cap=False) for operations in (together, apart))
        assert first.operations == second.operations
        assert first.fingerprint != second.fingerprint


def test_roots_under_a_cap_come_in_the_order_of_their_first_init():
    def init(root):
        return Init(root_id=root, spout_task="a", ack_val=1)

    messages = [Ack(root_id=3, ack_val=1), init(2), Ack(root_id=1, ack_val=1), init(3), Ack(root_id=2, ack_val=1)]
    for operations in both_forms(messages):
        [part] = operations.split(Layout(shards=1, buckets=1), capped=True)
        assert list(part.apply_order) == [2, 1, 4, 0, 3]
        [part] = operations.split(Layout(shards=1, buckets=1), capped=False)
        assert list(part.apply_order) == [0, 3, 1, 4, 2]
