"""Knows what is to be delivered to the callback of a spout task, and what has become of it."""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from acker_protocol import routes
from acker_protocol.wire.completions import encode_completion

from acker_service.delivery.retry import MailboxEntry, PackedCompletion, Settlement, by_age, select_batch
from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.redis import mailbox_functions
from acker_service.redis.calls import Argument, ShardCall
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import decode_completions, split_completions
from acker_service.redis.mailbox_functions import CallbackOutdated, Claimed, ClaimedEntry, ClaimReply, LeaseHeld
from acker_service.topologies.callback import RegisteredCallback
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology


class CallbackSuperseded(Exception):
    """The callback is another by now, or one that began at ``begun_ms``, later than the one that is delivered to."""

    def __init__(self, begun_ms: int) -> None:
        super().__init__(begun_ms)
        self.callback_epoch_ms = begun_ms


class TopologyChanged(Exception):
    """The topology was changed meanwhile: the callback may be another, or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker and a spout task that it delivers for. ``most`` is how many completions go together.

    With ``divides``, entries of more than so many are divided; without, they stay as they are.
    """

    topology: Topology
    spout: Spout
    worker: str
    lease_ms: int
    max_batch: int
    splits_entries: bool = True

    @property
    def callback(self) -> RegisteredCallback:
        """The callback that is delivered to."""
        assert self.spout.callback is not None
        return self.spout.callback

    @property
    def lease_shard(self) -> int:
        """The shard that keeps the lease."""
        return self.spout.index % len(self.topology.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedBatch:
    """What is to be delivered now, together; nothing of it has left the mailbox.

    ``held_ms`` is for how long another worker has the lease, if one has. Without entries, ``due_ms`` is when some are
    due again. ``again`` is whether these failed before, ``more`` whether there may be others now. ``failing`` are the
    shards that know of no success since ``failing_ms``.
    """

    entries: Sequence[MailboxEntry] = ()
    is_retry: bool = False
    leased_for_ms: int | None = None
    due_ms: int | None = None
    more: bool = False
    failing: Collection[int] = ()
    failing_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubMessage:
    """Completions of one shard that are published together, and the position behind the last."""

    shard: int
    position: Position
    pieces: Sequence[PackedCompletion]


class LeaseStore:
    """Takes and settles what is delivered."""

    def __init__(self, server: RedisClient, shards: Shards) -> None:
        self._server, self._shards = server, shards

    async def claim(self, post: Lease, now_ms: int) -> ClaimedBatch:
        """Take what is to be delivered at this time: what failed together, longest due, else what was never tried.

        Holds the lease, if it could be had. Raises `Changed`, `Outdated`, `StoreUnavailable`, `UnknownTopology`.
        """
        calls = [_ask(post, shard, now_ms) for shard in range(len(post.topology.shards))]
        topology, replies = await self._shards.call_each(post.topology, calls)
        if topology.stamp != post.topology.stamp:
            raise TopologyChanged
        for reply in replies:
            if isinstance(reply, CallbackOutdated):
                raise CallbackSuperseded(reply.callback_epoch_ms)
        held = replies[post.lease_shard]
        if isinstance(held, LeaseHeld):
            return ClaimedBatch(leased_for_ms=held.for_ms)
        claimed = {shard: reply for shard, reply in enumerate(replies) if isinstance(reply, Claimed)}
        return _read(post, topology.incarnation, claimed)

    async def settle(
        self,
        post: Lease,
        taken: ClaimedBatch,
        settlements: Sequence[Settlement],
        *,
        success: bool | None,
        error: str = "",
    ) -> None:
        """Settle what was taken, in one step for each shard. Repeating it changes nothing.

        ``success`` is whether the receiver took anything, None if it cannot be told.
        """
        by_shard: dict[int, list[Argument]] = {shard: [] for shard in taken.failing} if success else {}
        for it in settlements:
            by_shard.setdefault(it.entry.shard, []).extend(_write(it))
        settle = partial(
            mailbox_functions.settle,
            spout_index=post.spout.index,
            callback_epoch_ms=post.callback.callback_epoch_ms,
            success=success,
            error=error,
        )
        calls = [self._shards.call(post.topology, shard, settle(settlements=args)) for shard, args in by_shard.items()]
        await asyncio.gather(*calls)

    async def publish(self, post: Lease, message: PubSubMessage) -> None:
        """Publish completions on the channel of the spout task."""
        cursor = Cursor(incarnation=post.topology.incarnation, positions={message.shard: message.position})
        document = {"completions": [piece.document for piece in message.pieces], "cursor": cursor.encode()}
        channel = routes.channel(post.topology.name, post.spout.name)
        await self._server.publish(channel, json.dumps(document, separators=(",", ":")).encode())

    async def release_lease(self, post: Lease, *, rest_s: float = 0.0) -> None:
        """Give the lease back; for so long nobody shall have it. Changes nothing if it is another worker's."""
        call = mailbox_functions.release_lease(
            spout_index=post.spout.index, worker=post.worker, rest_ms=round(rest_s * 1_000)
        )
        await self._shards.call(post.topology, post.lease_shard, call)


def messages(entries: Iterable[MailboxEntry], most: int) -> Iterator[PubSubMessage]:
    """Make messages of entries: each of completions of one entry, ``most`` at most."""
    for entry in entries:
        ms, seq = entry.entry_id
        for first in range(0, len(entry.completions), most):
            pieces = entry.completions[first : first + most]
            position = Position(ms=ms, seq=seq, offset=entry.skipped + first + len(pieces))
            yield PubSubMessage(shard=entry.shard, position=position, pieces=pieces)


def _ask(post: Lease, shard: int, now_ms: int) -> ShardCall[ClaimReply]:
    return mailbox_functions.claim(
        spout_index=post.spout.index,
        callback_epoch_ms=post.callback.callback_epoch_ms,
        worker=post.worker if shard == post.lease_shard else "",
        lease_ms=post.lease_ms,
        now_ms=now_ms,
        max_completions=post.max_batch,
        max_per_entry=post.max_batch if post.splits_entries else 0,
    )


def _read(post: Lease, incarnation: str, replies: Mapping[int, Claimed]) -> ClaimedBatch:
    next_dues = [reply.next_due_ms for reply in replies.values() if reply.next_due_ms is not None]
    failing = {shard: it.failing_since_ms for shard, it in replies.items() if it.failing_since_ms is not None}
    now = min((reply.due_ms for reply in replies.values() if reply.due_ms is not None), default=None)
    found = [
        entry
        for shard, reply in replies.items()
        if reply.due_ms == now
        for entry in _read_entries(post, incarnation, shard, reply.entries)
    ]
    entries = select_batch(found, post.max_batch) if now is None else by_age(found)
    return ClaimedBatch(
        entries=entries,
        is_retry=now is not None,
        due_ms=min(next_dues, default=None),
        more=any(reply.more for reply in replies.values()) or len(found) > len(entries),
        failing=failing.keys(),
        failing_ms=min(failing.values(), default=None),
    )


def _read_entries(post: Lease, incarnation: str, shard: int, entries: Sequence[ClaimedEntry]) -> Iterator[MailboxEntry]:
    for it in entries:
        pieces = list(decode_pieces(it.packed, post.spout.name, incarnation))[it.skip :]
        yield MailboxEntry(shard=shard, entry_id=it.entry_id, attempts=it.attempts, completions=pieces, skipped=it.skip)


def decode_pieces(packed: bytes, spout_task: str, incarnation: str) -> Iterator[PackedCompletion]:
    """Read the completions of an entry, each by itself."""
    for piece in split_completions(packed):
        [completion] = decode_completions(piece, spout_task)
        yield PackedCompletion(document=encode_completion(completion, incarnation=incarnation), packed=piece)


def _write(it: Settlement) -> tuple[Argument, ...]:
    rest = b"".join(piece.packed for piece in it.remaining)
    return it.entry.name, it.result.value, it.at_ms, len(it.remaining), rest
