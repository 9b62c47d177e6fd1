"""Finds in a batch what only explains roots: names of edges, and roots that are traced by hand."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from acker_protocol.errors import InvalidRequest
from acker_protocol.wire.edge_names import check_names, read_names
from acker_protocol.wire.packed import ACK, FAIL, INIT, NAMED, OUTSTANDING_GIVEN, TRACED
from numpy.typing import NDArray

from acker_service.redis.codec import encode_names
from acker_service.redis.column_codec import TraceFields

_POINTERS = {INIT: "edge_id", ACK: "text", FAIL: "text"}
"""The field by which a record points to the names of edges."""


def encode_lists(lists: Iterable[tuple[int, Sequence[str]]]) -> dict[int, bytes]:
    """Return the encoded names of edges by row, where there are several; ``lists`` are checked, each with its row."""
    encoded = ((row, encode_names(bytes.fromhex("".join(edges)))) for row, edges in lists if len(edges) > 1)
    return {row: names for row, names in encoded if names}


def take_trace_fields(records: NDArray[np.void], strings: Sequence[str]) -> tuple[NDArray[np.void], TraceFields]:
    """Return packed records without that, and what it is. Raises ``ValueError`` where the reference codec does."""
    flags = records["flags"]
    rows = np.flatnonzero(flags & (NAMED | TRACED))
    taken, names, traced = records.copy(), dict[int, bytes](), list[int]()
    for row, op, own in zip(rows.tolist(), records["op"][rows].tolist(), flags[rows].tolist(), strict=True):
        if own & TRACED:
            if op != INIT:
                raise ValueError("only an init traces a root")
            traced.append(row)
        if own & NAMED:
            if op not in _POINTERS or not own & OUTSTANDING_GIVEN:
                raise ValueError("only an init, an ack or a fail with outstanding names edges")
            encoded = _read(records[row], op, strings)
            names |= {row: encoded} if encoded else {}
            taken[_POINTERS[op]][row] = 0
    taken["flags"] = flags & ~np.uint16(NAMED | TRACED)
    return taken, TraceFields(names=names, traced=traced)


def _read(record: Any, op: int, strings: Sequence[str]) -> bytes:
    """Read and check the names that a record points to, and encode them for Redis."""
    number, edge_id = int(record[_POINTERS[op]]), int(record["edge_id"])
    if number > len(strings) or (op != INIT and not edge_id):
        raise ValueError("a string is not in the table, or what names its children has no edge id")
    text = strings[number - 1] if number else ""
    acked = None if op == INIT else edge_id
    try:
        check_names(
            read_names(text), acked=acked, ack_val=int(record["ack_val"]), outstanding=int(record["outstanding"])
        )
    except InvalidRequest as error:
        raise ValueError(error.detail) from None
    return encode_names(bytes.fromhex(text))
