"""Knows how often the operations of a request were answered each word, without taking up any by itself."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from acker_protocol.operations import Ack, Fail, Init, ResetTimeout
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.metrics.operations import OperationMetrics
from acker_service.operations.column_batch import ColumnBatch, Operations
from acker_service.operations.routing import ShardPart
from acker_service.redis import codec
from acker_service.redis.functions import Applied

KINDS = {packed.INIT: "init", packed.ACK: "ack", packed.FAIL: "fail", packed.RESET_TIMEOUT: "reset_timeout"}

_KINDS = {Init: "init", Ack: "ack", Fail: "fail", ResetTimeout: "reset_timeout"}
_CODES = 128
_STATES = {letter: answer.state.value for letter, answer in codec.RESULTS.items()}

KindStateCounts = Iterable[tuple[str, str, int]]
"""Kinds of operations, words that answered them, and how often."""


def record(
    meters: OperationMetrics, topology: str, operations: Operations, done: Iterable[tuple[ShardPart, Applied]]
) -> None:
    """Count what of a request the shards have done; apart, where a shard knew it from before."""
    for part, applied in done:
        for kind, state, count in count_by_kind_and_state(operations, part, applied.codes):
            if applied.replayed:
                meters.repeated[topology, kind].inc(count)
            else:
                meters.operations[topology, kind, state].inc(count)


def count_by_kind_and_state(operations: Operations, part: ShardPart, letters: str) -> KindStateCounts:
    """Count the kinds of a part's operations by the words that the letters stand for."""
    if isinstance(operations, ColumnBatch):
        return _count_columns(operations.records["op"][np.asarray(part.apply_order)], letters)
    if len(letters) == 1:  # a request of its own: the most frequent, and it should cost nothing
        return ((_KINDS[type(operations[part.apply_order[0]])], _STATES[letters], 1),)
    kinds = (_KINDS[type(operations[index])] for index in part.apply_order)
    return [
        (kind, _STATES[letter], count) for (kind, letter), count in Counter(zip(kinds, letters, strict=True)).items()
    ]


def _count_columns(ops: NDArray[np.integer], letters: str) -> KindStateCounts:
    counts = np.bincount(ops.astype(np.intp) * _CODES + np.frombuffer(letters.encode(), np.uint8))
    for code in np.flatnonzero(counts).tolist():
        op, letter = divmod(code, _CODES)
        yield KINDS[op], _STATES[chr(letter)], int(counts[code])
