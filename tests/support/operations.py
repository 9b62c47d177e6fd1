"""Draws batches: valid operations, often on the same roots and at the limits, as messages and as JSON documents."""

import struct
from dataclasses import replace
from typing import Any

from acker_protocol.ids import format_id
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_service.operations.column_batch import ColumnBatch
from hypothesis import strategies as st

from tests.support import strategies

Document = dict[str, Any]

DAYS_7 = 7 * 86_400_000
unicode = st.characters(codec="utf-8")
few_ids = st.integers(1, 4) | st.sampled_from((2**63, 2**64 - 1))
ids = few_ids | st.integers(1, 2**64 - 1)
ack_vals = st.just(0) | ids
counts = st.none() | st.sampled_from((-(2**31), -1, 0, 1, 2**31 - 1))
names = st.sampled_from(("orders-1", "orders-2", "a", "n" * 128, "0.A_z-"))
parts = st.none() | names
message_ids = st.none() | st.text(unicode, max_size=4) | st.sampled_from(("", "42", "x" * 1_024, "ü" * 512, "😀" * 256))
reasons = st.none() | st.text(unicode, max_size=4) | st.sampled_from(("", "x" * 1_024, "😀" * 1_024))
timeouts = st.none() | st.sampled_from((100, 30_000, DAYS_7))

messages: st.SearchStrategy[Operation] = st.one_of(
    st.builds(
        Init,
        root_id=ids,
        spout_task=names,
        ack_val=ack_vals,
        outstanding=counts,
        message_id=message_ids,
        message_timeout_ms=timeouts,
        progress_timeout_ms=timeouts | st.just(0),
        component=parts,
        trace=strategies.traces,
        end_on=strategies.ends,
    ),
    st.builds(
        Ack,
        root_id=ids,
        ack_val=ack_vals,
        outstanding=counts,
        edge_id=st.none() | ids,
        component=parts,
        dropped=strategies.drops,
    ),
    st.builds(Fail, root_id=ids, reason=reasons, component=parts),
    st.builds(
        Fail,
        root_id=ids,
        ack_val=ack_vals,
        outstanding=counts,
        edge_id=st.none() | ids,
        reason=reasons,
        component=parts,
    ),
    st.builds(ResetTimeout, root_id=ids, component=parts),
)
acks = st.builds(Ack, root_id=ids, ack_val=ack_vals, outstanding=counts)
acks_of_edges = st.builds(Ack, root_id=ids, ack_val=ack_vals, outstanding=counts, edge_id=ids)
batches = st.one_of(*(st.lists(some, max_size=8) for some in (messages, strategies.messages, acks, acks_of_edges)))


def _documents(op: str, given: Document, more: Document) -> st.SearchStrategy[Document]:
    optional = {name: st.none() | values for name, values in more.items()}
    return st.fixed_dictionaries({"op": st.just(op)} | given, optional=optional)


hexes, hex_vals = ids.map(format_id), ack_vals.map(format_id)
edges = st.sampled_from(((), (1,), (1, 2), (2, 5, 9), (2**64 - 1, 7))).map(lambda some: [format_id(i) for i in some])
some_edge = st.sampled_from((16, 32, 2**63)).map(format_id)
_root: Document = {"root_id": hexes}
_any: Document = {"component": names}
_init: Document = _any | {"message_id": message_ids, "message_timeout_ms": timeouts,
                          "progress_timeout_ms": timeouts | st.just(0), "trace": strategies.traces,
                          "end_on": strategies.ends}  # fmt: skip
_ack: Document = _any | {"outstanding": counts, "edge_id": hexes, "dropped": strategies.drops}
documents = st.one_of(
    _documents("init", _root | {"spout_task": names, "edges": edges}, _init),
    _documents("init", _root | {"spout_task": names, "ack_val": hex_vals}, _init | {"outstanding": counts}),
    _documents("ack", _root | {"edge_id": some_edge}, _any | {"children": edges, "dropped": strategies.drops}),
    _documents("ack", _root | {"ack_val": hex_vals}, _ack),
    _documents("fail", _root, _any | {"reason": reasons}),
    _documents("fail", _root | {"edge_id": some_edge}, _any | {"children": edges, "reason": reasons}),
    _documents("fail", _root | {"ack_val": hex_vals}, _any | {"outstanding": counts, "edge_id": hexes}),
    _documents("reset-timeout", _root, _any),
)
"""Lawful operations: the edges of one never XOR to zero."""
traced_documents = _documents(
    "init", _root | {"spout_task": names, "edges": edges, "traceparent": strategies.traceparents}, _init
)
"""Inits with a traceparent, which JSON has a field for and the packed form has not."""


def read(batch: ColumnBatch, *, most: int = 10_000) -> list[Operation]:
    """Return the operations of a batch, without the names of edges."""
    raws = [string.encode() for string in batch.strings]
    records = batch.records.copy()
    records["flags"][list(batch.trace_fields.traced)] |= packed.TRACED
    fails = records["op"] == packed.FAIL
    records["spout_task"][fails], records["text"][fails] = records["text"][fails], 0
    header = packed.HEADER.pack(packed.MAGIC, packed.VERSION, len(batch), len(raws))
    lengths = struct.pack(f">{len(raws)}I", *map(len, raws))
    found = packed.decode_packed(b"".join((header, records.tobytes(), lengths, *raws)), max_operations=most)
    for row, raw in batch.traceparents.items():
        init = found[row]
        assert isinstance(init, Init)
        found[row] = replace(init, traceparent=f"00-{raw[:16].hex()}-{raw[16:24].hex()}-{raw[24:].hex()}")
    return found
