"""Knows what is to be delivered to the callback of a spout task, and what has become of it."""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acker_protocol import routes
from acker_protocol.wire.completions import encode_completion

from acker_service.domain.batches import Entry, Piece, Settlement, choose, in_order
from acker_service.domain.registration import Registered
from acker_service.store.cursors import Cursor, Position
from acker_service.store.node import Argument
from acker_service.store.packing import split_completions, unpack_completions
from acker_service.store.server import Server
from acker_service.store.shards import Shards
from acker_service.store.spouts import Spout
from acker_service.store.topology import Topology

TAKEN_HEAD = 4


class Outdated(Exception):
    """The callback is another by now, or one that began at ``begun_ms``, later than the one that is delivered to."""

    def __init__(self, begun_ms: int) -> None:
        super().__init__(begun_ms)
        self.begun_ms = begun_ms


class Changed(Exception):
    """The topology was changed meanwhile: the callback may be another, or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A worker and a spout task that it delivers for. ``most`` is how many completions go together.

    With ``divides``, entries of more than so many are divided; without, they stay as they are.
    """

    topology: Topology
    spout: Spout
    worker: str
    lease_ms: int
    most: int
    divides: bool = True

    @property
    def callback(self) -> Registered:
        """The callback that is delivered to."""
        assert self.spout.callback is not None
        return self.spout.callback

    @property
    def home(self) -> int:
        """The shard that keeps the lease."""
        return self.spout.index % len(self.topology.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What is to be delivered now, together; nothing of it has left the mailbox.

    ``held_ms`` is for how long another worker has the lease, if one has. Without entries, ``due_ms`` is when some are
    due again. ``again`` is whether these failed before, ``more`` whether there may be others now. ``failing`` are the
    shards that know of no success since ``failing_ms``.
    """

    entries: Sequence[Entry] = ()
    again: bool = False
    held_ms: int | None = None
    due_ms: int | None = None
    more: bool = False
    failing: Collection[int] = ()
    failing_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Completions of one shard that are published together, and the position behind the last."""

    shard: int
    position: Position
    pieces: Sequence[Piece]


class Deliveries:
    """Takes and settles what is delivered."""

    def __init__(self, server: Server, shards: Shards) -> None:
        self._server, self._shards = server, shards

    async def take(self, post: Post, now_ms: int) -> Taken:
        """Take what is to be delivered at this time: what failed together, longest due, else what was never tried.

        Holds the lease, if it could be had. Raises `Changed`, `Outdated`, `StoreUnavailable`, `UnknownTopology`.
        """
        args = [_ask(post, shard, now_ms) for shard in range(len(post.topology.shards))]
        topology, replies = await self._shards.ask_shards(post.topology, "acker_take_v1", args)
        if topology.pair != post.topology.pair:
            raise Changed
        for word, *rest in replies:
            if word == b"old":
                raise Outdated(int(rest[0]))
        word, *rest = replies[post.home]
        if word == b"held":
            return Taken(held_ms=int(rest[0]))
        return _read(post, topology.incarnation, [reply[1:] for reply in replies])

    async def settle(
        self, post: Post, taken: Taken, settlements: Sequence[Settlement], *, success: bool | None, error: str = ""
    ) -> None:
        """Settle what was taken, in one step for each shard. Repeating it changes nothing.

        ``success`` is whether the receiver took anything, None if it cannot be told.
        """
        by_shard: dict[int, list[Argument]] = {shard: [] for shard in taken.failing} if success else {}
        for it in settlements:
            by_shard.setdefault(it.entry.shard, []).extend(_write(it))
        word = "" if success is None else str(int(success))
        head = (post.spout.index, post.callback.since_ms, word, error)
        calls = [
            self._shards.ask(post.topology, "acker_settle_v1", shard, *head, *args) for shard, args in by_shard.items()
        ]
        await asyncio.gather(*calls)

    async def publish(self, post: Post, message: Message) -> None:
        """Publish completions on the channel of the spout task."""
        cursor = Cursor(incarnation=post.topology.incarnation, positions={message.shard: message.position})
        document = {"completions": [piece.told for piece in message.pieces], "cursor": cursor.encode()}
        channel = routes.channel(post.topology.name, post.spout.name)
        await self._server.publish(channel, json.dumps(document, separators=(",", ":")).encode())

    async def leave(self, post: Post, *, rest_s: float = 0.0) -> None:
        """Give the lease back; for so long nobody shall have it. Changes nothing if it is another worker's."""
        args = (post.spout.index, post.worker, round(rest_s * 1_000))
        await self._shards.ask(post.topology, "acker_leave_v1", post.home, *args)


def messages(entries: Iterable[Entry], most: int) -> Iterator[Message]:
    """Make messages of entries: each of completions of one entry, ``most`` at most."""
    for entry in entries:
        ms, seq = entry.stamp
        for first in range(0, len(entry.pieces), most):
            pieces = entry.pieces[first : first + most]
            position = Position(ms=ms, seq=seq, taken=entry.skipped + first + len(pieces))
            yield Message(shard=entry.shard, position=position, pieces=pieces)


def _ask(post: Post, shard: int, now_ms: int) -> tuple[Argument, ...]:
    worker = post.worker if shard == post.home else ""
    divided = post.most if post.divides else 0
    return post.spout.index, post.callback.since_ms, worker, post.lease_ms, now_ms, post.most, divided


def _read(post: Post, incarnation: str, replies: Sequence[Sequence[Any]]) -> Taken:
    dues = {shard: int(due) for shard, (due, *_) in enumerate(replies) if due}
    next_dues = [int(due) for _, _, due, *_ in replies if due]
    failing = {shard: int(since) for shard, (_, _, _, since, *_) in enumerate(replies) if since}
    now = min(dues.values(), default=None)
    found = [
        entry
        for shard, reply in enumerate(replies)
        if dues.get(shard) == now
        for entry in _read_entries(post, incarnation, shard, reply[TAKEN_HEAD:])
    ]
    entries = choose(found, post.most) if now is None else in_order(found)
    return Taken(
        entries=entries,
        again=now is not None,
        due_ms=min(next_dues, default=None),
        more=any(more for _, more, *_ in replies) or len(found) > len(entries),
        failing=failing.keys(),
        failing_ms=min(failing.values(), default=None),
    )


def _read_entries(post: Post, incarnation: str, shard: int, items: Sequence[Sequence[Any]]) -> Iterator[Entry]:
    for name, tried, skip, packed in items:
        ms, seq = map(int, name.split(b"-"))
        pieces = list(read_pieces(packed, post.spout.name, incarnation))[int(skip) :]
        yield Entry(shard=shard, stamp=(ms, seq), tried=tried, pieces=pieces, skipped=int(skip))


def read_pieces(packed: bytes, spout_task: str, incarnation: str) -> Iterator[Piece]:
    """Read the completions of an entry, each by itself."""
    for piece in split_completions(packed):
        [completion] = unpack_completions(piece, spout_task)
        yield Piece(told=encode_completion(completion, incarnation=incarnation), packed=piece)


def _write(it: Settlement) -> tuple[Argument, ...]:
    rest = b"".join(piece.packed for piece in it.left)
    return it.entry.name, it.word.value, it.at_ms, len(it.left), rest
