"""Knows the pending roots of a topology as a list that is read page by page while roots come and go.

Each shard lists its small hashes in the order of its deadline index, so the nearest deadlines come first, about. A page
takes from all shards what is nearest. A root that is pending all the while is listed, maybe twice; but not if its small
hash, before the list came to it, took in a root whose deadline the list has passed.
"""

import base64
import binascii
import heapq
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any

from acker_protocol.errors import InvalidRequest

from acker_service.redis.node import Argument
from acker_service.roots.reading import ROOT_FIELDS, RootView, decode_root
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import SpoutRegistry
from acker_service.topologies.stamp import Topology

RECORDS = 2_000
"""About how many records one call looks through: some milliseconds of Redis's time."""

MAX_CALLS = 16
"""A page is made in so many round trips at most; it may stay short, or empty, and yet not be the last."""

OVERFETCH = 16
"""Every shard is asked for twice its share of a page and so many: the nearest are seldom spread evenly."""

_HEAD = struct.Struct(">B8s")
_PLACE = struct.Struct(">BQIQQ")
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPosition:
    """A place in a shard's list: a bucket and its score, the step of the walk through it, the last root told there."""

    score: int = 0
    bucket: int = 0
    hscan_cursor: int = 0
    last_root_id: int = 0


ScanPositions = dict[int, ScanPosition]
"""How far each shard's list is told; a shard that is left out is told to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPage:
    """Some pending roots, and the places behind them (empty: there are no others)."""

    roots: Sequence[RootView]
    positions: ScanPositions


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedRoot:
    shard: int
    position: ScanPosition
    values: Sequence[Any]
    now_ms: int


class PendingRoots:
    """Lists pending roots."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry) -> None:
        self._shards, self._spouts = shards, spouts

    async def page(self, topology: Topology, places: ScanPositions, *, older_than_ms: int, limit: int) -> RootPage:
        """Give pending roots of at least this age, ``limit`` at most, about nearest deadline first."""
        found: list[_ListedRoot] = []
        for _ in range(MAX_CALLS):
            if not places or len(found) == limit:
                break
            room = limit - len(found)
            share = min(room, -(-room // len(places)) * 2 + OVERFETCH)
            args = [_ask(topology, places.get(shard), older_than_ms, share) for shard in range(len(topology.shards))]
            topology, replies = await self._shards.call_many(topology, "acker_list_roots_v1", args)
            listed = {shard: _read(shard, place, replies[shard]) for shard, place in places.items()}
            taken, places = _take(listed, places, room)
            found += taken
        names = await self._spouts.names(topology, {shown.values[5] for shown in found})
        roots = [decode_root(shown.values, "P", shown.now_ms, names) for shown in found]
        return RootPage(roots=sorted(roots, key=lambda root: root.due_ms), positions=places)


def first_positions(topology: Topology) -> ScanPositions:
    """Give the beginning of the list."""
    return dict.fromkeys(range(len(topology.shards)), ScanPosition())


def encode_positions(places: ScanPositions, topology: Topology) -> str | None:
    """Write places as the opaque text that callers hold; None at the end of the list."""
    if not places:
        return None
    packed = _HEAD.pack(_FORMAT, bytes.fromhex(topology.incarnation))
    for shard, place in sorted(places.items()):
        packed += _PLACE.pack(shard, place.score, place.bucket, place.hscan_cursor, place.last_root_id)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_positions(text: str | None, topology: Topology) -> ScanPositions:
    """Read places; none, or those of another incarnation, are the beginning. Raises `Invalid`."""
    if text is None:
        return first_positions(topology)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        kind, incarnation = _HEAD.unpack_from(packed)
        fields = list(_PLACE.iter_unpack(packed[_HEAD.size :]))
    except (ValueError, binascii.Error, struct.error):
        raise InvalidRequest("cursor is not one that was given here") from None
    if kind != _FORMAT or incarnation.hex() != topology.incarnation:
        return first_positions(topology)
    names = ("score", "bucket", "step", "told")
    shards = len(topology.shards)
    return {shard: ScanPosition(**dict(zip(names, rest, strict=True))) for shard, *rest in fields if shard < shards}


def _ask(topology: Topology, place: ScanPosition | None, older_than_ms: int, wanted: int) -> tuple[Argument, ...]:
    at, wanted = place or ScanPosition(), wanted if place else 0
    return topology.settings, at.score, at.bucket, at.hscan_cursor, older_than_ms, wanted, RECORDS


def _read(shard: int, place: ScanPosition, reply: Sequence[Any]) -> tuple[list[_ListedRoot], ScanPosition | None]:
    """Read what a shard listed behind a place, and where it goes on, if it does."""
    now, score, bucket, step, *pieces = reply
    shown: list[_ListedRoot] = []
    for i in range(0, len(pieces), 4):
        piece = ScanPosition(score=int(pieces[i]), bucket=int(pieces[i + 1]), hscan_cursor=int(pieces[i + 2]))
        told = place.last_root_id if (piece.bucket, piece.hscan_cursor) == (place.bucket, place.hscan_cursor) else 0
        shown += _read_piece(shard, replace(piece, last_root_id=told), now, pieces[i + 3])
    return shown, ScanPosition(score=int(score), bucket=int(bucket), hscan_cursor=int(step)) if score else None


def _read_piece(shard: int, piece: ScanPosition, now: int, values: Sequence[Any]) -> Iterator[_ListedRoot]:
    """Give the roots of a piece that were not told yet, in the order of their ids, which lasts while others go."""
    for shown in sorted((values[i : i + ROOT_FIELDS] for i in range(0, len(values), ROOT_FIELDS)), key=itemgetter(0)):
        root_id = int.from_bytes(shown[0], "big")
        if root_id > piece.last_root_id:
            yield _ListedRoot(shard=shard, position=replace(piece, last_root_id=root_id), values=shown, now_ms=now)


def _take(
    listed: dict[int, tuple[list[_ListedRoot], ScanPosition | None]], places: ScanPositions, room: int
) -> tuple[list[_ListedRoot], ScanPositions]:
    """Take what is nearest of all that the shards listed; give it and the places behind it."""
    nearest = heapq.merge(*(shown for shown, _ in listed.values()), key=lambda shown: shown.position.score)
    taken = list(islice(nearest, room))
    behind: dict[int, ScanPosition | None] = {**places, **{shown.shard: shown.position for shown in taken}}
    counts = Counter(shown.shard for shown in taken)
    behind |= {shard: following for shard, (shown, following) in listed.items() if counts[shard] == len(shown)}
    return taken, {shard: place for shard, place in behind.items() if place}
