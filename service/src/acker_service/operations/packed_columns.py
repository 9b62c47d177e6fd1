"""Decodes a packed batch into columns: its records become one array without a copy."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from acker_protocol.wire.packed import (
    ACK,
    ALL_ENDED,
    DROPPED,
    ENDS_EDGE,
    FAIL,
    FIRST_FAIL,
    FORMS,
    GIVEN,
    HEADER,
    INIT,
    LENGTH_BYTES,
    NAMED,
    OUTSTANDING_GIVEN,
    PROGRESS_GIVEN,
    RESET_TIMEOUT,
    TRACED,
    check_unpacked_size,
    read_header,
)

from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch
from acker_service.operations.trace_fields import take_trace_fields
from acker_service.redis.column_codec import EncodedStrings, Overview

_FLAGS = FORMS + OUTSTANDING_GIVEN + PROGRESS_GIVEN + 1
"""Flags are below this: two say that a number is given which otherwise has to be zero, the others are forms."""

_ANY = {"op", "root_id", "component"}
_OWN = {
    **{
        (INIT, form + flags): _ANY | {"ack_val", "message_timeout_ms", "spout_task", "text"}
        for form in (0, ALL_ENDED, FIRST_FAIL)
        for flags in range(4)
    },
    **{(ACK, form + flags): _ANY | {"ack_val", "edge_id"} for form in (0, DROPPED) for flags in range(2)},
    (FAIL, 0): _ANY | {"spout_task"},
    **{(FAIL, ENDS_EDGE + flags): _ANY | {"spout_task", "ack_val", "edge_id"} for flags in range(2)},
    (RESET_TIMEOUT, 0): _ANY,
}
"""The fields that may be other than zero, by op and flags, besides those of the flags themselves."""

_ZEROS = {
    (op, flags): set(RECORDS.names or ()) - own - {"flags"} - {field for field, flag in GIVEN if flags & flag}
    for (op, flags), own in _OWN.items()
}
"""The fields that have to be zero, by op and flags."""


def decode(body: bytes, *, max_operations: int, max_bytes: int) -> ColumnBatch:
    """Decode a batch of ``max_operations`` operations at most, which unpacks to ``max_bytes`` at most.

    Raises ``ValueError`` where the reference codec refuses an operation or the table of strings, and the error of the
    reference codec where that refuses the header or the size.
    """
    operations, count = read_header(body, max_operations=max_operations)
    records = np.frombuffer(body, RECORDS, operations, HEADER.size)
    at = HEADER.size + records.nbytes
    strings = EncodedStrings(body[at + count * LENGTH_BYTES :], np.frombuffer(body, ">u4", count, at))
    if strings.ends[-1] != len(strings.raw):
        raise ValueError("the strings do not fill the body")
    batch = ColumnBatch(records, strings)
    check_unpacked_size(at + _copied_bytes(batch), max_bytes=max_bytes)
    _check_characters(strings)
    if batch.overview.bits["flags"] & (NAMED | TRACED):
        records, trace_fields = take_trace_fields(records, strings)
        batch = replace(batch, records=records, trace_fields=trace_fields)
    _check_fields(batch)
    batch = _with_reasons(batch)
    batch.check()
    return batch


def _may_have_fails(batch: ColumnBatch) -> bool:
    """Whether any operation may be a fail: the op of a fail has all bits of those of inits and acks together."""
    return batch.overview.bits["op"] & FAIL == FAIL


def _copied_bytes(batch: ColumnBatch) -> int:
    """Compute the bytes of the texts, reasons, components and names of all records, as often as records point to them.

    The length of string number 0, which is none, is zero.
    """
    records, bits, lengths = batch.records, batch.overview.bits, batch.strings.lengths
    columns = [records[pointer] for pointer in ("text", "component") if bits[pointer]]
    if _may_have_fails(batch):
        columns.append(records["spout_task"][records["op"] == FAIL])
    if bits["flags"] & NAMED:
        names_edges = records["flags"] & NAMED != 0
        columns.append(records["edge_id"][names_edges & (records["op"] == INIT)])
    total = 0
    for pointers in columns:
        if pointers.max(initial=0) >= len(lengths):
            raise ValueError("a string is not in the table")
        total += int(lengths[pointers].sum())
    return total


def _with_reasons(batch: ColumnBatch) -> ColumnBatch:
    """Return the batch with the reasons of fails where other operations have their text."""
    records = batch.records
    if not _may_have_fails(batch) or not (fails := records["op"] == FAIL).any():
        return batch
    moved = records.copy()
    moved["text"][fails], moved["spout_task"][fails] = records["spout_task"][fails], 0
    return replace(batch, records=moved)


def _check_characters(strings: EncodedStrings) -> None:
    """Raise ``ValueError`` where a string is not UTF-8."""
    raw, ends = strings.raw, strings.ends
    if not raw.isascii():
        raw.decode()
        starts = ends[ends < len(raw)]
        if (np.frombuffer(raw, np.uint8)[starts] & 0xC0 == 0x80).any():
            raise ValueError("a string ends within a character")


def _check_fields(batch: ColumnBatch) -> None:
    """Raise ``ValueError`` where an operation has a field that is not one of its kind, or an unknown spout task."""
    for seen in _by_kind(batch):
        zeros = _ZEROS.get((seen.bits["op"], seen.bits["flags"]))
        if zeros is None or any(seen.bits[field] for field in zeros):
            raise ValueError("an op or a flag is unknown, or a field has to be zero")
    if batch.overview.bits["spout_task"] and batch.records["spout_task"].max() > len(batch.strings):
        raise ValueError("a string is not in the table")


def _by_kind(batch: ColumnBatch) -> Iterator[Overview]:
    """Look at the records of each op with each flags, kind by kind. Raises ``ValueError`` for unknown ones."""
    if batch.overview.is_one_kind and len(batch):
        yield batch.overview
        return
    records = batch.records
    ops, flags = records["op"].astype(np.intp), records["flags"]
    if (ops > RESET_TIMEOUT).any() or (flags >= _FLAGS).any():
        raise ValueError("an op or a flag is unknown")
    kinds, raw = ops * _FLAGS + flags, records.view(RAW_RECORD)
    for kind in np.flatnonzero(np.bincount(kinds)):
        yield Overview.of(raw[kinds == kind].view(RECORDS))
