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

from acker_protocol.problems import Invalid

from acker_service.store.node import Argument
from acker_service.store.roots import SHOWN, Root, read_shown
from acker_service.store.shards import Shards
from acker_service.store.spouts import Spouts
from acker_service.store.topology import Topology

RECORDS = 2_000
"""About how many records one call looks through: some milliseconds of Redis's time."""

ROUNDS = 16
"""A page is made in so many round trips at most; it may stay short, or empty, and yet not be the last."""

SLACK = 16
"""Every shard is asked for twice its share of a page and so many: the nearest are seldom spread evenly."""

_HEAD = struct.Struct(">B8s")
_PLACE = struct.Struct(">BQIQQ")
_FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a shard's list: a bucket and its score, the step of the walk through it, the last root told there."""

    score: int = 0
    bucket: int = 0
    step: int = 0
    told: int = 0


Places = dict[int, Place]
"""How far each shard's list is told; a shard that is left out is told to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some pending roots, and the places behind them (empty: there are no others)."""

    roots: Sequence[Root]
    places: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    shard: int
    place: Place
    values: Sequence[Any]
    now_ms: int


class Listing:
    """Lists pending roots."""

    def __init__(self, shards: Shards, spouts: Spouts) -> None:
        self._shards, self._spouts = shards, spouts

    async def page(self, topology: Topology, places: Places, *, older_than_ms: int, limit: int) -> Page:
        """Give pending roots of at least this age, ``limit`` at most, about nearest deadline first."""
        found: list[_Shown] = []
        for _ in range(ROUNDS):
            if not places or len(found) == limit:
                break
            room = limit - len(found)
            share = min(room, -(-room // len(places)) * 2 + SLACK)
            args = [_ask(topology, places.get(shard), older_than_ms, share) for shard in range(len(topology.shards))]
            topology, replies = await self._shards.ask_shards(topology, "acker_list_roots_v1", args)
            listed = {shard: _read(shard, place, replies[shard]) for shard, place in places.items()}
            taken, places = _take(listed, places, room)
            found += taken
        names = await self._spouts.names(topology, {shown.values[5] for shown in found})
        roots = [read_shown(shown.values, "P", shown.now_ms, names) for shown in found]
        return Page(roots=sorted(roots, key=lambda root: root.due_ms), places=places)


def first_places(topology: Topology) -> Places:
    """Give the beginning of the list."""
    return dict.fromkeys(range(len(topology.shards)), Place())


def encode_places(places: Places, topology: Topology) -> str | None:
    """Write places as the opaque text that callers hold; None at the end of the list."""
    if not places:
        return None
    packed = _HEAD.pack(_FORMAT, bytes.fromhex(topology.incarnation))
    for shard, place in sorted(places.items()):
        packed += _PLACE.pack(shard, place.score, place.bucket, place.step, place.told)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_places(text: str | None, topology: Topology) -> Places:
    """Read places; none, or those of another incarnation, are the beginning. Raises `Invalid`."""
    if text is None:
        return first_places(topology)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        kind, incarnation = _HEAD.unpack_from(packed)
        fields = list(_PLACE.iter_unpack(packed[_HEAD.size :]))
    except (ValueError, binascii.Error, struct.error):
        raise Invalid("cursor is not one that was given here") from None
    if kind != _FORMAT or incarnation.hex() != topology.incarnation:
        return first_places(topology)
    names = ("score", "bucket", "step", "told")
    shards = len(topology.shards)
    return {shard: Place(**dict(zip(names, rest, strict=True))) for shard, *rest in fields if shard < shards}


def _ask(topology: Topology, place: Place | None, older_than_ms: int, wanted: int) -> tuple[Argument, ...]:
    at, wanted = place or Place(), wanted if place else 0
    return topology.settings, at.score, at.bucket, at.step, older_than_ms, wanted, RECORDS


def _read(shard: int, place: Place, reply: Sequence[Any]) -> tuple[list[_Shown], Place | None]:
    """Read what a shard listed behind a place, and where it goes on, if it does."""
    now, score, bucket, step, *pieces = reply
    shown: list[_Shown] = []
    for i in range(0, len(pieces), 4):
        piece = Place(score=int(pieces[i]), bucket=int(pieces[i + 1]), step=int(pieces[i + 2]))
        told = place.told if (piece.bucket, piece.step) == (place.bucket, place.step) else 0
        shown += _read_piece(shard, replace(piece, told=told), now, pieces[i + 3])
    return shown, Place(score=int(score), bucket=int(bucket), step=int(step)) if score else None


def _read_piece(shard: int, piece: Place, now: int, values: Sequence[Any]) -> Iterator[_Shown]:
    """Give the roots of a piece that were not told yet, in the order of their ids, which lasts while others go."""
    for shown in sorted((values[i : i + SHOWN] for i in range(0, len(values), SHOWN)), key=itemgetter(0)):
        root_id = int.from_bytes(shown[0], "big")
        if root_id > piece.told:
            yield _Shown(shard=shard, place=replace(piece, told=root_id), values=shown, now_ms=now)


def _take(
    listed: dict[int, tuple[list[_Shown], Place | None]], places: Places, room: int
) -> tuple[list[_Shown], Places]:
    """Take what is nearest of all that the shards listed; give it and the places behind it."""
    nearest = heapq.merge(*(shown for shown, _ in listed.values()), key=lambda shown: shown.place.score)
    taken = list(islice(nearest, room))
    behind: dict[int, Place | None] = {**places, **{shown.shard: shown.place for shown in taken}}
    counts = Counter(shown.shard for shown in taken)
    behind |= {shard: following for shard, (shown, following) in listed.items() if counts[shard] == len(shown)}
    return taken, {shard: place for shard, place in behind.items() if place}
