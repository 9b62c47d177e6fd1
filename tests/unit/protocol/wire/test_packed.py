"""Tests the packed form as the reference codec reads and writes it, and the page that others write it by."""

import json
import re
import struct
from pathlib import Path

import pytest
from acker_protocol.errors import InvalidRequest, TooLarge
from acker_protocol.operations import Ack, Fail, Init, ResetTimeout
from acker_protocol.wire.operations import decode_batch
from acker_protocol.wire.packed import (
    HEADER,
    MAGIC,
    RECORD,
    VERSION,
    NotPackable,
    decode_packed,
    encode_packed,
    fits,
    unpacked_size,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.operations import batches

PAGE = Path(__file__).parents[4] / "docs" / "packed.md"
VECTORS = re.findall(r"### ([^\n]+)\n\n```json\n(.*?)```\n```hex\n(.*?)```", PAGE.read_text(), re.DOTALL)
MOST = 10_000


def batch(*records: tuple[int, ...], strings: tuple[bytes, ...] = (), head: bytes | None = None) -> bytes:
    """A body of these records (op, flags, outstanding, root, ack val, edge, two timeouts, three strings)."""
    head = HEADER.pack(MAGIC, VERSION, len(records), len(strings)) if head is None else head
    lengths = struct.pack(f">{len(strings)}I", *map(len, strings))
    return b"".join((head, *(RECORD.pack(*record) for record in records), lengths, *strings))


ACK = (2, 0, 0, 7, 5, 0, 0, 0, 0, 0, 0)
INIT = (1, 0, 0, 7, 5, 0, 0, 0, 1, 0, 0)
FAIL = (3, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)
RESET = (4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)
FIELDS = ("op", "flags", "outstanding", "root", "val", "edge", "timeout", "progress", "spout", "text", "component")


def but(record: tuple[int, ...], **changed: int) -> tuple[int, ...]:
    """A record with other values."""
    return tuple(changed.get(name, value) for name, value in zip(FIELDS, record, strict=True))


@given(batches)
def test_what_is_written_is_read_again(messages):
    assert decode_packed(encode_packed(messages), max_operations=MOST) == messages


def test_an_init_may_point_to_a_string_for_each_of_its_four_texts():
    init = Init(
        root_id=1, spout_task="orders", ack_val=3, outstanding=2, edges=(1, 2), message_id="42", component="reader"
    )
    assert decode_packed(encode_packed([init]), max_operations=1) == [init]


def test_equal_strings_are_written_once():
    once = encode_packed([Fail(root_id=1, reason="no", component="no")])
    assert len(encode_packed([Fail(root_id=1, reason="no", component="no")] * 2)) == len(once) + RECORD.size


def test_a_record_holds_each_kind_of_operation():
    assert decode_packed(batch(INIT, ACK, FAIL, RESET, strings=(b"a",)), max_operations=4) == [
        Init(root_id=7, ack_val=5, spout_task="a"),
        Ack(root_id=7, ack_val=5),
        Fail(root_id=7),
        ResetTimeout(root_id=7),
    ]


def test_flags_tell_a_zero_from_what_is_left_out():
    body = batch(but(INIT, flags=3), but(INIT, flags=1), but(INIT, flags=2), but(ACK, flags=1), strings=(b"a",))
    inits = [operation for operation in decode_packed(body, max_operations=4) if isinstance(operation, Init)]
    assert [(init.outstanding, init.progress_timeout_ms) for init in inits] == [(0, 0), (0, None), (None, 0)]
    assert decode_packed(body, max_operations=4)[3] == Ack(root_id=7, ack_val=5, outstanding=0)


def test_a_string_nobody_points_to_is_not_looked_at():
    assert decode_packed(batch(ACK, strings=(b"not a name", b"")), max_operations=1) == [Ack(root_id=7, ack_val=5)]


HEADERS = {
    "nothing": (b"", "shorter than the header"),
    "half a header": (encode_packed([])[:15], "shorter than the header"),
    "another magic": (b"ACKQ" + encode_packed([])[4:], "begin with ACKP"),
    "another version": (HEADER.pack(MAGIC, 1, 0, 0), "version 2"),
    "a record too few": (batch(ACK, head=HEADER.pack(MAGIC, VERSION, 2, 0)), "too short for 2 records"),
    "half a record": (batch(ACK)[:-1], "too short for 1 records"),
    "a length too few": (batch(ACK, head=HEADER.pack(MAGIC, VERSION, 1, 1)), "the lengths of 1 strings"),
    "more strings than four a record": (batch(ACK, strings=(b"a",) * 5), "1 operations cannot point to 5 strings"),
    "a byte too many": (batch(ACK) + b"\0", "the strings end at byte 68 and the body at 69"),
    "a string that is cut": (batch(INIT, strings=(b"abc",))[:-1], "the strings end at byte 75 and the body at 74"),
    "a string after the last": (batch(INIT, strings=(b"abc",)) + b"d", "the strings end at byte 75"),
    "a string that is not UTF-8": (batch(INIT, strings=(b"a", b"\xff")), "string 2 must be UTF-8"),
    "a string of a surrogate": (batch(INIT, strings=(b"a", b"\xed\xa0\x80")), "string 2 must be UTF-8"),
    "a character cut between strings": (batch(INIT, strings=(b"\xc3", b"\xbc")), "string 1 must be UTF-8"),
}


@pytest.mark.parametrize(("body", "says"), HEADERS.values(), ids=HEADERS.keys())
def test_a_body_of_another_layout_is_refused(body, says):
    with pytest.raises(InvalidRequest, match=says) as fault:
        decode_packed(body, max_operations=MOST)
    assert fault.value.extra == {}


RECORDS = {
    "op 0": (but(ACK, op=0), "op must be from 1 to 4"),
    "op 5": (but(ACK, op=5), "op must be from 1 to 4"),
    "an unknown flag": (but(INIT, flags=64), "flags"),
    "both ends of an init": (but(INIT, flags=48), "flags 16 and 32 are for an init, not both"),
    "an end of an ack": (but(ACK, flags=32), "flags 16 and 32 are for an init"),
    "two forms of an ack": (but(ACK, flags=48), "flags 16 and 32 are for an init"),
    "an end of a fail": (but(FAIL, flags=48), "flags 16 and 32 are for an init"),
    "an end of a reset": (but(RESET, flags=16), "flags 16 and 32 are for an init"),
    "a trace of an ack": (but(ACK, flags=4), "flag 4 is for an init"),
    "a trace of a fail": (but(FAIL, flags=4), "flag 4 is for an init"),
    "names of a plain fail's edges": (but(FAIL, flags=9), "a fail has other flags only with flag 16"),
    "names of a fail's children without the edge": (but(FAIL, flags=25, outstanding=1), "needs its edge id"),
    "names of a reset's edges": (but(RESET, flags=9), "flag 8 is for an init, an ack or a fail"),
    "a progress flag on a fail": (but(FAIL, flags=18), "'progress_timeout_ms' is not a field"),
    "a fail with a text": (but(FAIL, text=1), "'text' is not a field"),
    "names of edges without their count": (
        but(ACK, flags=8, edge=5),
        "flag 8 is for an init, an ack or a fail with",
    ),
    "names of children without the edge": (but(ACK, flags=9, outstanding=1), "needs its edge id"),
    "all flags": (but(INIT, flags=0xFFFF), "flags"),
    "a progress flag on an ack": (but(ACK, flags=2), "'progress_timeout_ms' is not a field"),
    "a flag on a fail": (but(FAIL, flags=1), "a fail has other flags only with flag 16"),
    "a flag on a reset": (but(RESET, flags=1), "'outstanding' is not a field"),
    "outstanding without its flag": (but(ACK, outstanding=-1), "outstanding must be 0 without its flag"),
    "a progress timeout without its flag": (but(INIT, progress=100), "progress_timeout_ms must be 0 without"),
    "a root id of zero": (but(ACK, root=0), "root_id must not be zero"),
    "an init with an edge id": (but(INIT, edge=1), "'edge_id' is not a field"),
    "an ack with a message timeout": (but(ACK, timeout=100), "'message_timeout_ms' is not a field"),
    "an ack with a spout task": (but(ACK, spout=1), "'spout_task' is not a field"),
    "an ack with a text": (but(ACK, text=1), "'text' is not a field"),
    "a fail with an ack val": (but(FAIL, val=1), "ack_val must be 0 without its flag"),
    "a fail with an edge id": (but(FAIL, edge=1), "edge_id must be 0 without its flag"),
    "a reset with an ack val": (but(RESET, val=1), "'ack_val' is not a field"),
    "a reset with a text": (but(RESET, text=1), "'text' is not a field"),
    "an init without spout task": (but(INIT, spout=0), "spout_task is missing"),
    "a spout task beyond the table": (but(INIT, spout=4), "there is no string 4, only 3"),
    "a message id beyond the table": (but(INIT, text=2**32 - 1), "there is no string 4294967295"),
    "a component beyond the table": (but(RESET, component=4), "there is no string 4"),
    "a spout task that is no name": (but(INIT, spout=2), "spout_task must be a name"),
    "a component that is no name": (but(ACK, component=2), "component must be a name"),
    "a message id that is too long": (but(INIT, text=3), "message_id must be at most 1024 bytes"),
    "a reason that is too long": (but(FAIL, spout=3), "reason must be at most 1024 characters"),
    "a message timeout of 99 ms": (but(INIT, timeout=99), "message_timeout_ms must be an integer from 100"),
    "a message timeout of eight days": (but(INIT, timeout=691_200_000), "message_timeout_ms must be an integer"),
    "a progress timeout of 99 ms": (but(INIT, flags=2, progress=99), "progress_timeout_ms must be an integer"),
    "a progress timeout of 2**32 - 1": (but(INIT, flags=2, progress=2**32 - 1), "progress_timeout_ms must be"),
}
TABLE = (b"orders", b"no name", b"x" * 1_025)


@pytest.mark.parametrize(("record", "says"), RECORDS.values(), ids=RECORDS.keys())
def test_a_malformed_record_is_refused_and_pointed_at(record, says):
    with pytest.raises(InvalidRequest, match=says) as fault:
        decode_packed(batch(INIT, record, record, strings=TABLE), max_operations=MOST)
    assert fault.value.extra == {"index": 1}
    assert fault.value.detail.startswith("ops[1]: ")


def test_more_records_than_are_taken_are_too_large_whether_they_are_there_or_not():
    for body in (batch(*[ACK] * 3), HEADER.pack(MAGIC, VERSION, 3, 0)):
        with pytest.raises(TooLarge, match="3 operations; at most 2"):
            decode_packed(body, max_operations=2)


TEXT, NAME = but(FAIL, spout=1), but(FAIL, component=1)
SIZES = {
    "nothing": (batch(), 16),
    "an ack": (batch(ACK), 68),
    "a spout task": (batch(INIT, INIT, strings=(b"orders",)), 120),
    "a text": (batch(TEXT, strings=(b"no",)), 70),
    "a shared text": (batch(*[TEXT] * 3, strings=(b"no",)), 178),
    "a shared component": (batch(*[NAME] * 3, strings=(b"no",)), 178),
    "both in one": (batch(but(FAIL, spout=1, component=1), strings=(b"no",)), 72),
    "bytes, not characters": (batch(*[TEXT] * 2, strings=("😀".encode(),)), 128),
    "a string that is not used": (batch(TEXT, strings=(b"no", b"more")), 70),
    "a pointer beyond the table": (batch(TEXT, NAME, but(FAIL, spout=2), strings=(b"no",)), 176),
}
"""Batches, and the bytes that they unpack to."""


@pytest.mark.parametrize(("body", "size"), SIZES.values(), ids=SIZES.keys())
def test_what_is_shared_counts_once_for_each_record(body, size):
    assert unpacked_size(body) == size


def test_a_batch_in_which_nothing_is_shared_unpacks_to_no_more_than_its_bytes():
    fails = [Fail(root_id=root, reason=f"reason {root}", component=f"part-{root}") for root in range(1, 100)]
    inits = [Init(root_id=root, ack_val=1, spout_task="a", message_id=f"message {root}") for root in range(1, 100)]
    for messages in (fails, inits, fails + inits):
        body = encode_packed(messages)
        assert unpacked_size(body) <= len(body)


def test_a_batch_that_unpacks_to_more_than_is_taken_is_too_large():
    body = batch(*[TEXT] * 3, strings=(b"no",))
    assert len(decode_packed(body, max_operations=3, max_bytes=178)) == 3
    with pytest.raises(TooLarge, match="unpacks to 178 bytes; at most 177"):
        decode_packed(body, max_operations=3, max_bytes=177)


@given(batches, st.integers(-200, 200))
def test_a_batch_fits_if_it_is_not_too_large_to_be_decoded(messages, more):
    body = encode_packed(messages)
    size = max(len(body), unpacked_size(body))
    assert fits(body, max_bytes=size + more) == (more >= 0)
    assert fits(body)


@given(batches, st.data())
def test_whatever_the_bytes_they_are_read_or_refused(messages, data):
    body = bytearray(encode_packed(messages))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.just(len(body)) | st.integers(0, len(body)))]
    try:
        decoded = decode_packed(bytes(body), max_operations=MOST)
    except (InvalidRequest, TooLarge):
        return
    assert decode_packed(encode_packed(decoded), max_operations=MOST) == decoded


@pytest.mark.parametrize(("_title", "document", "digits"), VECTORS, ids=[title for title, *_ in VECTORS])
def test_the_vectors_of_the_page_are_read_and_written(_title, document, digits):
    messages = decode_batch(json.loads(document), max_operations=MOST)
    assert decode_packed(bytes.fromhex(digits), max_operations=MOST) == messages
    assert encode_packed(messages) == bytes.fromhex(digits)


def test_the_page_has_six_vectors():
    assert len(VECTORS) == 6


def test_an_init_with_a_traceparent_is_not_packed() -> None:
    init = Init(root_id=1, spout_task="s", ack_val=2, traceparent=f"00-{1:032x}-{2:016x}-01")
    with pytest.raises(NotPackable, match="send the batch as JSON"):
        encode_packed([Ack(root_id=1, ack_val=2), init])
