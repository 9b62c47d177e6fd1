"""Knows where a root lives, and in which order the operations of a request go there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from acker_protocol.operations import Init, Operation
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.operations.column_batch import ColumnBatch, Operations

Indexes = Sequence[int] | NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPart:
    """What of a request goes to one shard.

    ``given`` are the indexes of its operations as the caller gave them, ``order`` the same indexes with those of one
    root together, as the store applies them.
    """

    shard: int
    request_order: Indexes
    apply_order: Indexes


def shard_of(root_id: int, shards: int) -> int:
    """The shard of a root."""
    return root_id % shards


def bucket_of(root_id: int, shards: int, buckets: int) -> int:
    """The small hash, within its shard, that a root lies in."""
    return root_id // shards % buckets


def split(operations: Operations, *, shards: int, capped: int | None) -> list[ShardPart]:
    """Divide a request among the shards, roots in the order of their first operation.

    Where pending roots are capped, places go to inits in the order given; so roots without an init come first (they can
    only free places), then the others in the order of their first init.
    """
    if isinstance(operations, ColumnBatch):
        return _split_columns(operations.records, shards, capped)
    roots: dict[int, list[int]] = {}
    for index, message in enumerate(operations):
        roots.setdefault(message.root_id, []).append(index)
    groups = list(roots.items())
    if capped is not None:
        groups.sort(key=lambda group: _first_init(operations, group[1]))
    parts: dict[int, list[int]] = {}
    for root_id, indexes in groups:
        parts.setdefault(shard_of(root_id, shards), []).extend(indexes)
    return [
        ShardPart(shard=shard, request_order=tuple(sorted(order)), apply_order=tuple(order))
        for shard, order in parts.items()
    ]


def _first_init(messages: Sequence[Operation], indexes: list[int]) -> int:
    return next((index for index in indexes if isinstance(messages[index], Init)), -1)


def _split_columns(records: NDArray[np.void], shards: int, capped: int | None) -> list[ShardPart]:
    if not len(records):
        return []
    roots = records["root_id"].astype(np.uint64)
    order = _order(roots, None if capped is None else records["op"] == packed.INIT)
    homes = (roots[order] % np.uint64(shards)).astype(np.uint8)  # at most 128; small ones are sorted fastest
    by_home = np.argsort(homes, kind="stable")
    pieces = np.split(by_home, _starts(homes[by_home])[1:])
    pieces.sort(key=lambda piece: int(piece[0]))
    return [_part(int(homes[piece[0]]), order[piece]) for piece in pieces]


def _part(shard: int, order: NDArray[np.intp]) -> ShardPart:
    """Make a part; where the orders are the same, they are one object."""
    given = np.sort(order)
    return ShardPart(shard=shard, request_order=given, apply_order=given if np.array_equal(given, order) else order)


def _order(roots: NDArray[np.uint64], inits: NDArray[np.bool] | None) -> NDArray[np.intp]:
    """Give the indexes with those of one root together; ``inits``, if places are given to them, says which they are."""
    count = len(roots)
    if inits is None and len(_starts(np.sort(roots))) == count:
        return np.arange(count)
    by_root = np.argsort(roots, kind="stable")
    starts = _starts(roots[by_root])
    ranks = by_root[starts]
    if inits is not None:
        first_inits = np.minimum.reduceat(np.where(inits, np.arange(count), count)[by_root], starts)
        ranks = np.where(first_inits == count, ranks, first_inits + count)
    places = np.argsort(np.argsort(ranks))
    return by_root[np.argsort(np.repeat(places, np.diff(starts, append=count)), kind="stable")]


def _starts(values: NDArray[Any]) -> NDArray[np.intp]:
    """Give where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
