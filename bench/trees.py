"""Makes trees of two edges as columns of operations: inits, acks that leave them pending, last acks that end them."""

from collections.abc import Iterator, Sequence

import numpy as np
from acker_protocol.wire import packed
from acker_service.operations.column_batch import RECORDS, ColumnBatch
from acker_service.redis.column_codec import EncodedStrings
from numpy.typing import NDArray

from bench.sizes import BATCH

SPOUT_TASK = "bench"
_random = np.random.default_rng()


class Trees:
    """So many trees, each operation of them in a batch of its own kind, in an order of its own kind."""

    def __init__(self, count: int) -> None:
        self.roots = draw_ids(count)
        self._first = draw_ids(count)
        self._last = draw_ids(count)

    def inits(self, *, message_ids: Sequence[str] = (), timeouts_ms: "NDArray[np.int64] | None" = None) -> ColumnBatch:
        """Return the inits, with message ids and timeouts of their own if there are any."""
        records = self._records(packed.INIT, self._first ^ self._last, 2)
        records["spout_task"] = 1
        if message_ids:
            records["text"] = np.arange(len(records)) + 2
        if timeouts_ms is not None:
            records["message_timeout_ms"] = timeouts_ms
        return ColumnBatch(records, EncodedStrings.of([SPOUT_TASK, *message_ids]))

    def acks(self, *, component: str | None = None) -> ColumnBatch:
        """Return the acks after which the trees are still pending, all of one component if it is named."""
        acks = self._shuffled(self._records(packed.ACK, self._first, -1))
        if component is None:
            return acks
        acks.records["component"] = 1
        return ColumnBatch(acks.records, EncodedStrings.of([component]))

    def last_acks(self) -> ColumnBatch:
        """Return the acks that end the trees."""
        return self._shuffled(self._records(packed.ACK, self._last, -1))

    def _records(self, op: int, values: NDArray[np.uint64], outstanding: int) -> NDArray[np.void]:
        records = np.zeros(len(self.roots), RECORDS)
        records["op"], records["flags"] = op, packed.OUTSTANDING_GIVEN
        records["root_id"], records["ack_val"], records["outstanding"] = self.roots, values, outstanding
        return records

    def _shuffled(self, records: NDArray[np.void]) -> ColumnBatch:
        return ColumnBatch(records[_random.permutation(len(records))], EncodedStrings.of([]))


def one_root(count: int) -> tuple[ColumnBatch, ColumnBatch]:
    """Return the init of a root, and so many acks of it, after which it is still pending."""
    root, edges = Trees(1), Trees(count)
    edges.roots[:] = root.roots
    init = root.inits()
    init.records["outstanding"] = count + 1
    return init, edges.acks()


def mixed(new: Trees, old: Trees) -> ColumnBatch:
    """Return inits of new trees and acks of as many old ones, which stay pending, by turns."""
    inits = new.inits()
    records = np.zeros(2 * len(inits), RECORDS)
    records[0::2], records[1::2] = inits.records, old.acks().records
    return ColumnBatch(records, inits.strings)


def batches(columns: ColumnBatch, size: int = BATCH) -> Iterator[ColumnBatch]:
    """Cut operations into batches; each has only the strings it points to."""
    for at in range(0, len(columns), size):
        records = columns.records[at : at + size].copy()
        strings = columns.strings
        if records["text"].any():
            texts = records["text"].tolist()
            strings = EncodedStrings.of([strings[0], *(strings[number - 1] for number in texts)])
            records["text"] = np.arange(len(records)) + 2
        yield ColumnBatch(records, strings)


def packed_body(columns: ColumnBatch, version: int = packed.VERSION) -> bytes:
    """Write a batch in a version of the packed form: what such trees have is the same in all of them."""
    raws = [string.encode() for string in columns.strings]
    head = packed.HEADER.pack(packed.MAGIC, version, len(columns), len(raws))
    lengths = np.array([len(raw) for raw in raws], ">u4").tobytes()
    return b"".join((head, columns.records.tobytes(), lengths, *raws))


def json_body(columns: ColumnBatch) -> bytes:
    """Write a batch of inits without message ids, or of acks, as JSON."""
    return f'{{"ops":[{",".join(json_operations(columns))}]}}'.encode()


def json_operations(columns: ColumnBatch, *, verb: str = '"op":"{}",') -> list[str]:
    """Write each operation as JSON; ``verb`` is how it says what it is."""
    names = {packed.INIT: "init", packed.ACK: "ack"}
    strings = list(columns.strings)
    fields = [columns.records[name].tolist() for name in ("op", "root_id", "ack_val", "outstanding", "spout_task")]
    return [
        f'{{{verb.format(names[op])}"root_id":"{root:016x}","ack_val":"{value:016x}","outstanding":{outstanding}'
        + (f',"spout_task":"{strings[spout - 1]}"}}' if spout else "}")
        for op, root, value, outstanding, spout in zip(*fields, strict=True)
    ]


def draw_ids(count: int) -> NDArray[np.uint64]:
    """Draw ids; none is zero."""
    return _random.integers(1, 2**64, count, dtype=np.uint64, endpoint=False)
