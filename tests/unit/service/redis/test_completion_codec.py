"""Completions are read as the library packs them, and written as the contract has them."""

import json
import struct
from dataclasses import replace

import msgspec
import pytest
from acker_protocol.operations import CompletionRecord, Outcome
from acker_protocol.wire.completions import encode_completion
from acker_service.mailboxes.runs import CompletionRun
from acker_service.redis.codec import encode_traceparent
from acker_service.redis.completion_codec import (
    ASCII,
    EPOCH_MS,
    UNICODE,
    CompletionDocuments,
    PackedCompletions,
    decode_completions,
)
from acker_service.redis.functions.mailboxes import ReadEntry
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.strategies import ids, names, texts, traceparents

INCARNATION = "0123456789abcdef"

# Written by hand from the head of lua/completions.lua.
ACKED = "00000000000000a10000000001000000000d00"
FAILED = "ffffffffffffffff000000000001000000001d0002c3a900026e6f000162"
TRACED = "00000000000000a10000000001000000000d200019" + "4bf92f3577b34da6a3ce929d0e0e4736" + "00f067aa0ba902b7" + "01"
HUNG = "00000000000000a10000000001000000000d12000f" + "03" + "00000002" + "000000000c" + "7072696365"
COUNTED = "00000000000000a10000000001000000000d410004" + "00000102"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_completions_are_unpacked_as_the_library_writes_them() -> None:
    assert list(decode_completions(bytes.fromhex(ACKED + FAILED), "orders")) == [
        CompletionRecord(
            root_id=0xA1,
            spout_task="orders",
            outcome=Outcome.ACKED,
            message_id=None,
            reason=None,
            component=None,
            started_ms=1_577_836_800_001,
            at_ms=1_577_836_800_013,
        ),
        CompletionRecord(
            root_id=2**64 - 1,
            spout_task="orders",
            outcome=Outcome.FAILED,
            message_id="é",
            reason="no",
            component="b",
            started_ms=1_577_836_800_000,
            at_ms=1_577_836_800_000 + 2**32,
        ),
    ]


def test_a_completion_gives_the_traceparent_of_its_init() -> None:
    (found,) = decode_completions(bytes.fromhex(TRACED), "orders")
    assert (found.traceparent, found.message_id) == (TRACEPARENT, None)
    (document,) = PackedCompletions(bytes.fromhex(TRACED)).write("1", UNICODE).documents
    assert json.loads(document)["traceparent"] == TRACEPARENT


def test_a_timeout_tells_where_its_root_hung() -> None:
    (found,) = decode_completions(bytes.fromhex(HUNG), "orders")
    assert (found.last_component, found.last_ack_ms, found.outstanding) == ("price", EPOCH_MS + 12, 2)
    assert (found.outcome, found.component) == (Outcome.TIMED_OUT, None)
    (document,) = map(json.loads, PackedCompletions(bytes.fromhex(HUNG)).write("1", UNICODE).documents)
    assert document["component"] is None
    assert (document["last_component"], document["last_ack_at_ms"], document["outstanding"]) == (
        "price",
        EPOCH_MS + 12,
        2,
    )


def test_a_completion_tells_how_many_edges_failed() -> None:
    (found,) = decode_completions(bytes.fromhex(COUNTED), "orders")
    assert (found.failures, found.outcome) == (258, Outcome.FAILED)
    (document,) = PackedCompletions(bytes.fromhex(COUNTED)).write("1", UNICODE).documents
    assert json.loads(document)["failures"] == 258


def test_a_completion_tells_how_many_edges_were_dropped() -> None:
    packed = bytes.fromhex(COUNTED)
    packed = packed[:18] + bytes([packed[18] | 128]) + packed[19:] + bytes.fromhex("0004 00000103")
    (found,) = decode_completions(packed, "orders")
    assert (found.failures, found.dropped) == (258, 259)
    (document,) = PackedCompletions(packed).write("1", UNICODE).documents
    assert json.loads(document)["dropped"] == 259


def test_an_empty_entry_has_no_completions() -> None:
    assert list(decode_completions(b"", "orders")) == []


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def progress(done: CompletionRecord) -> bytes | None:
    """Where a root hung that timed out; None where nothing of that is known."""
    if (done.last_component, done.last_ack_ms, done.outstanding) == (None, None, None):
        return None
    flags = (done.outstanding is not None) + 2 * (done.last_ack_ms is not None)
    last_ack = 0 if done.last_ack_ms is None else done.last_ack_ms - EPOCH_MS
    head = struct.pack(">Bi", flags, done.outstanding or 0) + last_ack.to_bytes(5, "big")
    return head + (done.last_component or "").encode()


def of_its_outcome(done: CompletionRecord) -> CompletionRecord:
    """Leave out what completions of this outcome do not have."""
    if done.outcome is Outcome.TIMED_OUT:
        return replace(done, component=None)
    return replace(done, last_component=None, last_ack_ms=None, outstanding=None)


def written(done: CompletionRecord) -> bytes:
    """A completion as lua/completions.lua writes it."""
    flags, tail = [Outcome.ACKED, Outcome.FAILED, Outcome.TIMED_OUT].index(done.outcome), b""
    named = progress(done) if done.outcome is Outcome.TIMED_OUT else encoded(done.component)
    for flag, text in ((4, encoded(done.message_id)), (8, encoded(done.reason)), (16, named)):
        if text is not None:
            flags, tail = flags | flag, tail + struct.pack(">H", len(text)) + text
    if done.traceparent is not None:
        flags, tail = flags | 32, tail + struct.pack(">H", 25) + encode_traceparent(done.traceparent)
    if done.failures is not None:
        flags, tail = flags | 64, tail + struct.pack(">HI", 4, done.failures)
    if done.dropped:
        flags, tail = flags | 128, tail + struct.pack(">HI", 4, done.dropped)
    times = b"".join((at - EPOCH_MS).to_bytes(5, "big") for at in (done.started_ms, done.at_ms))
    return done.root_id.to_bytes(8, "big") + times + bytes([flags]) + tail


times = st.integers(EPOCH_MS, EPOCH_MS + 2**40 - 1)
completions = st.builds(
    CompletionRecord,
    root_id=ids,
    spout_task=st.just("orders"),
    outcome=st.sampled_from(Outcome),
    message_id=st.none() | texts,
    reason=st.none() | texts,
    component=st.none() | names,
    started_ms=times,
    at_ms=times,
    traceparent=st.none() | traceparents,
    last_component=st.none() | names,
    last_ack_ms=st.none() | times,
    outstanding=st.none() | st.integers(-(2**31), 2**31 - 1),
    failures=st.none() | st.integers(0, 2**32 - 1),
    dropped=st.just(0) | st.integers(1, 2**32 - 1),
).map(of_its_outcome)


def split(completions: PackedCompletions) -> list[PackedCompletions]:
    """Divide completions into single ones."""
    found = []
    while completions:
        one, completions = completions.split(1)
        found.append(one)
    return found


@given(st.lists(completions, max_size=5))
def test_whatever_stands_in_an_entry_is_read_back_in_its_order(entry: list[CompletionRecord]) -> None:
    assert list(decode_completions(b"".join(map(written, entry)), "orders")) == entry
    assert [one.data for one in split(PackedCompletions(b"".join(map(written, entry))))] == [*map(written, entry)]


def test_times_have_room_for_decades() -> None:
    assert EPOCH_MS == 1_577_836_800_000
    assert EPOCH_MS + 2**40 > 2_600_000_000_000


# The JSON of the contract ---------------------------------------------------------------------------------------------

ESCAPED = '"\\/\b\f\n\r\t\x00\x1f\x7f\x80é\u2028\ud7ff\ue000\uffff😀'
"""A text with all that JSON escapes, or may escape."""

any_text = st.none() | texts | st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just(ESCAPED)
with_any_texts = st.builds(
    CompletionRecord,
    root_id=ids,
    spout_task=st.just("orders"),
    outcome=st.sampled_from(Outcome),
    message_id=any_text,
    reason=any_text,
    component=any_text,
    started_ms=times,
    at_ms=times,
    traceparent=st.none() | traceparents,
    last_component=st.none() | names,
    last_ack_ms=st.none() | times,
    outstanding=st.none() | st.integers(-(2**31), 2**31 - 1),
    failures=st.none() | st.integers(0, 2**32 - 1),
    dropped=st.just(0) | st.integers(1, 2**32 - 1),
).map(of_its_outcome)
without_texts = st.builds(
    CompletionRecord,
    root_id=ids,
    spout_task=st.just("orders"),
    outcome=st.sampled_from(Outcome),
    message_id=st.none(),
    reason=st.none(),
    component=st.none(),
    started_ms=times,
    at_ms=times,
)
entries = st.lists(without_texts, max_size=6) | st.lists(with_any_texts, max_size=6)
"""An entry without any text is counted and divided in another way than one with some."""
EVERYTHING = [
    CompletionRecord(
        root_id=2**64 - 1 - number,
        spout_task="orders",
        outcome=outcome,
        message_id=message_id,
        reason=reason,
        component=component,
        started_ms=EPOCH_MS + 2**40 - 1,
        at_ms=EPOCH_MS + number,
    )
    for number, (outcome, message_id, reason, component) in enumerate(
        (outcome, message_id, reason, component)
        for outcome in Outcome
        for message_id in (None, "", ESCAPED)
        for reason in (None, ESCAPED)
        for component in ((None,) if outcome is Outcome.TIMED_OUT else (None, ESCAPED))
    )
]
"""All outcomes with and without each text; the clock was set back since they began."""


def by_msgspec(done: CompletionRecord) -> str:
    return msgspec.json.encode(encode_completion(done, incarnation=INCARNATION)).decode()


def by_json(done: CompletionRecord) -> str:
    return json.dumps(encode_completion(done, incarnation=INCARNATION), separators=(",", ":"))


@given(entries)
@example(EVERYTHING)
def test_completions_are_written_byte_for_byte_as_their_objects_are(entry: list[CompletionRecord]) -> None:
    completions = PackedCompletions(b"".join(map(written, entry)))
    assert completions.write(INCARNATION, UNICODE).documents == [*map(by_msgspec, entry)]
    assert completions.write(INCARNATION, ASCII).documents == [*map(by_json, entry)]


@given(entries)
@example(EVERYTHING)
def test_ids_and_ends_are_those_of_the_documents(entry: list[CompletionRecord]) -> None:
    found = PackedCompletions(b"".join(map(written, entry))).write(INCARNATION, UNICODE)
    documents = [json.loads(document) for document in found.documents]
    assert found.ids == [document["id"] for document in documents]
    assert found.ended_ms == [document["at_ms"] for document in documents] == [done.at_ms for done in entry]


@given(entries, st.integers(0, 8), st.integers(0, 8))
def test_a_part_of_an_entry_is_written_as_the_same_part_of_the_whole(
    entry: list[CompletionRecord], skip: int, count: int
) -> None:
    packed = b"".join(map(written, entry))
    whole = PackedCompletions(packed).write(INCARNATION, UNICODE).documents
    part = PackedCompletions(packed, skip=skip)
    assert (len(PackedCompletions(packed)), len(part)) == (len(entry), max(0, len(entry) - skip))
    first, rest = part.split(count)
    assert first.write(INCARNATION, UNICODE).documents == whole[skip:][:count]
    assert rest.write(INCARNATION, UNICODE).documents == whole[skip:][count:]
    assert first.data + rest.data == part.data == b"".join(map(written, entry[skip:]))


def test_completions_are_written_behind_others() -> None:
    found = CompletionDocuments()
    for packed in (ACKED, FAILED):
        PackedCompletions(bytes.fromhex(packed)).write(INCARNATION, UNICODE, found)
    assert found == PackedCompletions(bytes.fromhex(ACKED + FAILED)).write(INCARNATION, UNICODE)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_the_completions_of_a_shard_are_written_in_slices(limit: int) -> None:
    read = [
        ReadEntry(entry_id=(ms, 0), skipped=0, completions=PackedCompletions(bytes.fromhex(ACKED) * count))
        for ms, count in enumerate([1, 0, 7, 2, 1], start=1)
    ]
    slices = [*CompletionRun(read).write(INCARNATION, UNICODE, limit)]
    assert sum(map(len, slices)) == 11
    assert all(limit <= len(some) < 2 * limit for some in slices[:-1])
