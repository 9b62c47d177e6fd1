"""Knows how often the operations of a request were answered each word, without taking up any by itself."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from acker_protocol.messages import Ack, Fail, Init, ResetTimeout
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.domain.columns import Columns, Operations
from acker_service.domain.routing import Part
from acker_service.store import packing
from acker_service.store.turns import Applied
from acker_service.telemetry.work import WorkMeters

KINDS = {packed.INIT: "init", packed.ACK: "ack", packed.FAIL: "fail", packed.RESET_TIMEOUT: "reset_timeout"}
FORCED_FAIL = "forced_fail"

_KINDS = {Init: "init", Ack: "ack", Fail: "fail", ResetTimeout: "reset_timeout"}
_LETTERS = 128
_STATES = {letter: answer.word.value for letter, answer in packing.ANSWERS.items()}

Tally = Iterable[tuple[str, str, int]]
"""Kinds of operations, words that answered them, and how often."""


def note(meters: WorkMeters, topology: str, operations: Operations, done: Iterable[tuple[Part, Applied]]) -> None:
    """Count what of a request the shards have done; apart, where a shard knew it from before."""
    for part, applied in done:
        for kind, state, count in tally(operations, part, applied.words):
            if applied.repeated:
                meters.repeated[topology, kind].inc(count)
            else:
                meters.operations[topology, kind, state].inc(count)


def tally(operations: Operations, part: Part, letters: str) -> Tally:
    """Count the kinds of a part's operations by the words that the letters stand for."""
    if isinstance(operations, Columns):
        return _tally_columns(operations.records["op"][np.asarray(part.order)], letters)
    if len(letters) == 1:  # a request of its own: the most frequent, and it should cost nothing
        return ((_KINDS[type(operations[part.order[0]])], _STATES[letters], 1),)
    kinds = (_KINDS[type(operations[index])] for index in part.order)
    return [
        (kind, _STATES[letter], count) for (kind, letter), count in Counter(zip(kinds, letters, strict=True)).items()
    ]


def _tally_columns(ops: NDArray[np.integer], letters: str) -> Tally:
    counts = np.bincount(ops.astype(np.intp) * _LETTERS + np.frombuffer(letters.encode(), np.uint8))
    for code in np.flatnonzero(counts).tolist():
        op, letter = divmod(code, _LETTERS)
        yield KINDS[op], _STATES[chr(letter)], int(counts[code])
