"""Decodes a packed batch into columns: its records become one array without a copy."""

from typing import Any

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
    check_unpacked_size,
    read_header,
)
from numpy.typing import NDArray

from acker_service.operations.column_batch import RECORDS, ColumnBatch
from acker_service.operations.trace_fields import take_trace_fields
from acker_service.redis.column_codec import EncodedStrings

_WORD = 4
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
    check_unpacked_size(at + _copied_bytes(records, strings.lengths), max_bytes=max_bytes)
    _check_characters(strings)
    records, trace_fields = take_trace_fields(records, strings)
    _check_fields(records, strings=count)
    batch = ColumnBatch(_with_reasons(records), strings, trace_fields)
    batch.check()
    return batch


def _copied_bytes(records: NDArray[np.void], lengths: NDArray[Any]) -> int:
    """Compute the bytes of the texts, reasons, components and names of all records, as often as records point to them.

    ``lengths`` are those of the strings by their numbers; that of number 0, which is none, is zero.
    """
    columns = [records["text"], records["component"]]
    columns.append(records["spout_task"][records["op"] == FAIL])
    names_edges = records["flags"] & NAMED != 0
    if names_edges.any():
        columns.append(records["edge_id"][names_edges & (records["op"] == INIT)])
    total = 0
    for pointers in columns:
        if pointers.max(initial=0) >= len(lengths):
            raise ValueError("a string is not in the table")
        total += int(lengths[pointers].sum())
    return total


def _with_reasons(records: NDArray[np.void]) -> NDArray[np.void]:
    """Return packed records with the reasons of fails where other operations have their text."""
    fails = records["op"] == FAIL
    if not fails.any():
        return records
    moved = records.copy()
    moved["text"][fails], moved["spout_task"][fails] = records["spout_task"][fails], 0
    return moved


def _zeros() -> NDArray[np.uint32]:
    """Give, by op and flags, the bits of a record that have to be zero; all of them where an op has no such flags."""
    bits = np.full(((RESET_TIMEOUT + 1) * _FLAGS, RECORDS.itemsize // _WORD), 2**32 - 1, np.uint32)
    for (op, flags), own in _OWN.items():
        given = {field for field, flag in GIVEN if flags & flag}
        for field in own | given:
            bits[op * _FLAGS + flags, _words(field)] = 0
    return bits


def _words(field: str) -> slice:
    """Return the 32-bit words of a record that a field is in; op and flags share one."""
    assert RECORDS.fields is not None
    kind, offset = RECORDS.fields[field][:2]
    return slice(offset // _WORD, (offset + kind.itemsize - 1) // _WORD + 1)


_ZEROS = _zeros()


def _check_characters(strings: EncodedStrings) -> None:
    """Raise ``ValueError`` where a string is not UTF-8."""
    raw, ends = strings.raw, strings.ends
    if not raw.isascii():
        raw.decode()
        starts = ends[ends < len(raw)]
        if (np.frombuffer(raw, np.uint8)[starts] & 0xC0 == 0x80).any():
            raise ValueError("a string ends within a character")


def _check_fields(records: NDArray[np.void], *, strings: int) -> None:
    """Raise ``ValueError`` where an operation has a field that is not one of its kind, or an unknown spout task."""
    ops, flags = records["op"].astype(np.intp), records["flags"]
    if (ops > RESET_TIMEOUT).any() or (flags >= _FLAGS).any():
        raise ValueError("an op or a flag is unknown")
    words, kinds = records.view(np.uint32).reshape(-1, _ZEROS.shape[1]), ops * _FLAGS + flags
    is_one_kind = (kinds == kinds[:1]).all()  # then nothing has to be gathered
    if (words & _ZEROS[kinds[:1] if is_one_kind else kinds]).any():
        raise ValueError("a field has to be zero")
    if records["spout_task"].max(initial=0) > strings:
        raise ValueError("a string is not in the table")
