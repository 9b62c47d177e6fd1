import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from acker_protocol.operations import (
    Ack,
    EndOn,
    Fail,
    Init,
    Operation,
    OperationState,
    Outcome,
    ResetTimeout,
)
from acker_service.redis.codec import (
    CodeResult,
    Fingerprint,
    Layout,
    ShardRequest,
    decode_results,
    edge_hash,
    encode_operation,
    encode_positions,
    fingerprint,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.strategies import ids, messages

LAYOUT = Layout(shards=4, buckets=4_096)
ROOT = "00000000000000a1"
BUCKET = "00000028"  # 0xa1 // 4


def index_of(spout_task: str) -> int:
    return {"orders": 7, "refunds": 2**32 - 1}.get(spout_task, 0)


def packed(message: Operation) -> bytes:
    return encode_operation(message, LAYOUT, index_of)


# Where a root is stored -----------------------------------------------------------------------------------------------


@given(root_id=ids, shards=st.integers(1, 128), buckets=st.integers(1, 4_096))
def test_a_root_lives_in_one_of_the_shards_and_one_of_their_buckets(root_id: int, shards: int, buckets: int) -> None:
    layout = Layout(shards=shards, buckets=buckets)
    assert layout.shard_of(root_id) in range(shards)
    assert layout.bucket_of(root_id) in range(buckets)


def test_roots_that_follow_each_other_fill_all_shards_and_all_buckets_alike() -> None:
    layout = Layout(shards=3, buckets=4)
    places = [(layout.shard_of(root), layout.bucket_of(root)) for root in range(12)]
    assert sorted(places) == [(shard, bucket) for shard in range(3) for bucket in range(4)]


@pytest.mark.parametrize(
    ("root_id", "shard", "bucket"), [(1, 1, 0), (4, 0, 1), (0xA1, 1, 40), (2**64 - 1, 3, (2**62 - 1) % 4_096)]
)
def test_a_root_stays_where_it_was_put_by_earlier_releases(root_id: int, shard: int, bucket: int) -> None:
    assert (LAYOUT.shard_of(root_id), LAYOUT.bucket_of(root_id)) == (shard, bucket)


@given(root_id=ids)
def test_an_array_of_roots_lies_where_each_of_them_does(root_id: int) -> None:
    roots = np.array([root_id, 1], np.uint64)
    assert LAYOUT.shard_of(roots).tolist() == [LAYOUT.shard_of(root_id), 1]
    assert LAYOUT.bucket_of(roots).tolist() == [LAYOUT.bucket_of(root_id), 0]


# How operations are written -------------------------------------------------------------------------------------------


# Written by hand from the head of lua/requests.lua; the hash of root and edge with `b2sum -l 64`.
VECTORS: list[tuple[Operation, Sequence[str]]] = [
    (
        Init(root_id=0xA1, spout_task="orders", ack_val=0xB1, outstanding=1),
        ["01", BUCKET, ROOT, "00000000000000b1", "00000001", "00", "00000007"],
    ),
    (
        Init(root_id=0xA1, spout_task="refunds", ack_val=2**64 - 1),
        ["01", BUCKET, ROOT, "ffffffffffffffff", "00000000", "01", "ffffffff"],
    ),
    (
        Init(
            root_id=0xA1,
            spout_task="orders",
            ack_val=0xB1,
            outstanding=-2,
            message_id="é",
            message_timeout_ms=60_000,
            progress_timeout_ms=0,
            component="src",
        ),
        [
            *("01", BUCKET, ROOT, "00000000000000b1", "fffffffe", "1e", "00000007"),
            *("0000ea60", "00000000", "0002", "c3a9", "0003", "737263"),
        ],
    ),
    (
        Init(root_id=0xA1, spout_task="orders", ack_val=0xB1, outstanding=0, message_id="", progress_timeout_ms=100),
        ["01", BUCKET, ROOT, "00000000000000b1", "00000000", "0c", "00000007", "00000064", "0000"],
    ),
    (
        Ack(root_id=0xA1, ack_val=0xB1, outstanding=-1),
        ["02", BUCKET, ROOT, "00000000000000b1", "ffffffff", "00", "00000000"],
    ),
    (
        Ack(root_id=0xA1, ack_val=0, edge_id=0xB1, component="b"),
        ["02", BUCKET, ROOT, "0000000000000000", "00000000", "31", "00000000", "0001", "62", "c4ecda09227941e9"],
    ),
    (Fail(root_id=0xA1), ["03", BUCKET, ROOT, "0000000000000000", "00000000", "00", "00000000"]),
    (
        Fail(root_id=0xA1, reason="no", component="b"),
        ["03", BUCKET, ROOT, "0000000000000000", "00000000", "18", "00000000", "0002", "6e6f", "0001", "62"],
    ),
    (ResetTimeout(root_id=0xA1), ["04", BUCKET, ROOT, "0000000000000000", "00000000", "00", "00000000"]),
    (
        ResetTimeout(root_id=0xA1, component="b"),
        ["04", BUCKET, ROOT, "0000000000000000", "00000000", "10", "00000000", "0001", "62"],
    ),
]


@pytest.mark.parametrize(("message", "parts"), VECTORS)
def test_an_operation_is_packed_as_the_library_reads_it(message: Operation, parts: Sequence[str]) -> None:
    assert packed(message).hex() == "".join(parts)


class Reader:
    """Reads packed operations as lua/requests.lua does."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return found

    def text(self) -> str:
        (length,) = self.take(">H")
        (raw,) = self.take(f">{length}s")
        return str(raw, "utf-8")

    def operation(self) -> dict[str, Any]:
        op, bucket, root, value, outstanding, flags, spout = self.take(">BIQQiBI")
        return {
            "op": op,
            "bucket": bucket,
            "root": root,
            "value": value,
            "outstanding": None if flags & 1 else outstanding,
            "spout": spout,
            "timeout": self.take(">I")[0] if flags & 2 else None,
            "progress": self.take(">I")[0] if flags & 4 else None,
            "first": self.text() if flags & 8 else None,
            "second": self.text() if flags & 16 else None,
            "has_edge": bool(flags & 32 and self.take(">Q")),
        }


def form_of(message: Operation) -> int:
    """The bits of the first byte that say how an init ends, that a fail ends an edge, and that an ack is of a drop."""
    match message:
        case Init(end_on=EndOn.ALL_ENDED):
            return 16
        case Init(end_on=EndOn.FIRST_FAIL):
            return 32
        case Fail(ack_val=int()) | Ack(dropped=True):
            return 16
        case _:
            return 0


def told(message: Operation) -> dict[str, Any]:
    """What the library should read of a message."""
    return {
        "op": {Init: 1, Ack: 2, Fail: 3, ResetTimeout: 4}[type(message)] + form_of(message),
        "bucket": message.root_id // 4 % 4_096,
        "root": message.root_id,
        "value": getattr(message, "ack_val", None) or 0,
        "outstanding": 0 if isinstance(message, Fail) and message.is_plain else getattr(message, "outstanding", 0),
        "spout": 0,
        "timeout": getattr(message, "message_timeout_ms", None),
        "progress": getattr(message, "progress_timeout_ms", None),
        "first": getattr(message, "message_id", None)
        if isinstance(message, Init)
        else getattr(message, "reason", None),
        "second": message.component,
        "has_edge": getattr(message, "edge_id", None) is not None,
    }


@given(st.lists(messages, max_size=4))
def test_operations_one_after_another_are_read_without_a_gap(request: list[Operation]) -> None:
    reader = Reader(b"".join(encode_operation(message, LAYOUT, lambda _: 0) for message in request))
    assert [reader.operation() for _ in request] == [told(message) for message in request]
    assert reader.at == len(reader.raw)


@given(st.tuples(messages, messages))
def test_different_operations_are_packed_differently(pair: tuple[Operation, Operation]) -> None:
    spouts = sorted({message.spout_task for message in pair if isinstance(message, Init)})
    one, other = (encode_operation(message, LAYOUT, spouts.index) for message in pair)
    assert (one == other) == (pair[0] == pair[1])


# How a request is known again -----------------------------------------------------------------------------------------

ACK, FAIL = packed(Ack(root_id=0xA1, ack_val=0xB1)), packed(Fail(root_id=0xA1))


def test_an_identity_is_the_test_vector() -> None:
    # printf 'batch\0key-1\0\x01\x02' | b2sum -l 96: 153ce626 ab46646883453737
    known_by = fingerprint("batch", "key-1", b"\1\2", sets=1_024)
    assert known_by == Fingerprint(set=550, hash=3085415557224287692, partial_hash=3085415557224287693)
    request = ShardRequest(operations=b"\1\2", fingerprint=known_by)
    assert request.args == ("550", "3085415557224287692", "3085415557224287693", b"", b"\1\2")
    assert fingerprint("batch", "key-1", b"\1\2", sets=16).set == 6


def test_a_request_without_a_key_has_no_identity() -> None:
    assert ShardRequest(operations=b"\1\2").args == ("", "", "", b"", b"\1\2")


def test_the_same_request_is_known_again() -> None:
    assert fingerprint("batch", "key-1", ACK + FAIL, sets=16) == fingerprint("batch", "key-1", ACK + FAIL, sets=16)


@pytest.mark.parametrize(
    ("endpoint", "key", "operations"),
    [
        ("batch", "key-2", ACK + FAIL),
        ("ack", "key-1", ACK + FAIL),
        ("batch", "key-1", FAIL + ACK),
        ("batch", "key-1", ACK),
        ("batch", "key-1", ACK + FAIL + FAIL),
        ("batch", "key-1", packed(Ack(root_id=0xA1, ack_val=0xB2)) + FAIL),
        ("batch", "key-1", packed(Ack(root_id=0xA1, ack_val=0xB1, outstanding=0)) + FAIL),
        ("batch", "key-1", ACK + packed(Fail(root_id=0xA1, reason=""))),
        ("batch", "key-", b"1" + ACK + FAIL),
        ("batc", "hkey-1", ACK + FAIL),
    ],
)
def test_another_key_endpoint_content_or_order_is_another_request(endpoint: str, key: str, operations: bytes) -> None:
    one = fingerprint("batch", "key-1", ACK + FAIL, sets=2**32)
    other = fingerprint(endpoint, key, operations, sets=2**32)
    assert {one.set, one.hash, one.partial_hash}.isdisjoint((other.set, other.hash, other.partial_hash))


@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128), sets=st.integers(1, 9)
)
def test_the_hash_of_a_request_is_even_and_its_successor_a_signed_64_bit_integer_too(key: str, sets: int) -> None:
    known_by = fingerprint("batch", key, ACK, sets=sets)
    assert known_by.set in range(sets)
    assert known_by.hash % 2 == 0
    assert known_by.partial_hash == known_by.hash + 1
    assert 0 <= known_by.hash < known_by.partial_hash < 2**63


def test_hashes_spread_over_all_sets_and_all_bits() -> None:
    found = [fingerprint("batch", f"key-{number}", ACK, sets=16) for number in range(400)]
    assert {each.set for each in found} == {*range(16)}
    for bit in range(1, 62):
        assert {each.hash >> bit & 1 for each in found} == {0, 1}


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


# How many slots are free ----------------------------------------------------------------------------------------------


def test_positions_are_those_of_the_operations_in_the_request() -> None:
    assert encode_positions([7, 300, 12], [7, 12, 300]).hex() == "000000000000000200000001"
    order = [1, 2]
    assert encode_positions(order, order) == b"", "they are applied in the order of the request"


def test_a_single_operation_has_no_hash_for_what_was_refused() -> None:
    known_by = fingerprint("ack", "key-1", b"\1\2", sets=16)
    request = ShardRequest(operations=b"\1\2", fingerprint=known_by, is_single=True)
    assert request.args == (str(known_by.set), str(known_by.hash), "", b"", b"\1\2")


# What comes back ------------------------------------------------------------------------------------------------------


def test_the_words_come_back_as_letters() -> None:
    assert decode_results("pafeducmbsAFT") == [
        CodeResult(OperationState.PENDING),
        CodeResult(OperationState.ACKED),
        CodeResult(OperationState.FAILED),
        CodeResult(OperationState.EARLY),
        CodeResult(OperationState.DUPLICATE),
        CodeResult(OperationState.UNKNOWN),
        CodeResult(OperationState.CONFLICT),
        CodeResult(OperationState.MAX_SPOUT_PENDING),
        CodeResult(OperationState.MAILBOX_FULL),
        CodeResult(OperationState.STORE_FULL),
        CodeResult(OperationState.FINISHED, Outcome.ACKED),
        CodeResult(OperationState.FINISHED, Outcome.FAILED),
        CodeResult(OperationState.FINISHED, Outcome.TIMED_OUT),
    ]


def test_every_word_has_a_letter_and_no_words_are_no_answers() -> None:
    assert {answer.state for answer in decode_results("pafeducmbsAFT")} == {*OperationState}
    assert decode_results("") == []


def test_a_letter_that_no_word_has_is_a_fault() -> None:
    with pytest.raises(KeyError):
        decode_results("px")
