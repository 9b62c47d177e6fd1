"""Claims the completions that a callback is to be sent, under a lease, and settles them."""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acker_protocol import routes
from acker_protocol.wire.completions import encode_completion

from acker_service.delivery.retry import MailboxEntry, PackedCompletion, Settlement, by_age, select_batch
from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import decode_completions, split_completions
from acker_service.redis.node import Argument
from acker_service.topologies.registration import RegisteredCallback
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology

TAKEN_HEAD = 4


class CallbackSuperseded(Exception):
    """A shard knows a later epoch of the callback than the worker does: the callback was replaced or restarted."""

    def __init__(self, callback_epoch_ms: int) -> None:
        super().__init__(callback_epoch_ms)
        self.callback_epoch_ms = callback_epoch_ms


class TopologyChanged(Exception):
    """The topology changed meanwhile: the callback may have been replaced or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease of a worker on the mailbox of a spout task, as each claim asks for it."""

    topology: Topology
    spout: Spout
    worker: str
    """The id of the worker's process."""
    lease_ms: int
    max_batch: int
    """Completions in one batch."""
    splits_entries: bool = True
    """Whether an entry with more than ``max_batch`` completions is split; otherwise it is claimed whole."""

    @property
    def callback(self) -> RegisteredCallback:
        """The callback that the worker delivers to."""
        assert self.spout.callback is not None
        return self.spout.callback

    @property
    def lease_shard(self) -> int:
        """The shard that holds the lease."""
        return self.spout.index % len(self.topology.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedBatch:
    """The entries of one delivery. They stay in the mailbox until they are settled."""

    entries: Sequence[MailboxEntry] = ()
    is_retry: bool = False
    """Whether the entries failed before."""
    leased_for_ms: int | None = None
    """How much longer another worker holds the lease; None if this one has it."""
    due_ms: int | None = None
    """When the next retry is due, if any."""
    more: bool = False
    """Whether further entries may be due now."""
    failing: Collection[int] = ()
    """The shards that recorded failures and no success since."""
    failing_ms: int | None = None
    """When the first of these failures was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubMessage:
    """Completions of one shard in one publication, and the cursor position after the last."""

    shard: int
    position: Position
    completions: Sequence[PackedCompletion]


class LeaseStore:
    """Claims, settles and publishes entries of mailboxes, and releases their leases."""

    def __init__(self, redis: RedisClient, shards: Shards) -> None:
        self._redis, self._shards = redis, shards

    async def claim(self, lease: Lease, now_ms: int) -> ClaimedBatch:
        """Acquire or renew the lease and claim the next batch: the retry that is due longest, else untried entries.

        Raises `TopologyChanged`, `CallbackSuperseded`, `StoreUnavailable`, `UnknownTopology`.
        """
        args = [_claim_args(lease, shard, now_ms) for shard in range(len(lease.topology.shards))]
        topology, replies = await self._shards.call_many(lease.topology, "acker_take_v1", args)
        if topology.stamp != lease.topology.stamp:
            raise TopologyChanged
        for word, *rest in replies:
            if word == b"old":
                raise CallbackSuperseded(int(rest[0]))
        word, *rest = replies[lease.lease_shard]
        if word == b"held":
            return ClaimedBatch(leased_for_ms=int(rest[0]))
        return _read(lease, topology.incarnation, [reply[1:] for reply in replies])

    async def settle(
        self,
        lease: Lease,
        claimed: ClaimedBatch,
        settlements: Sequence[Settlement],
        *,
        success: bool | None,
        error: str = "",
    ) -> None:
        """Settle a claimed batch, atomically in each shard. Idempotent.

        ``success`` is whether the receiver took at least one completion; None if there is no receiver that says so.
        """
        by_shard: dict[int, list[Argument]] = {shard: [] for shard in claimed.failing} if success else {}
        for settlement in settlements:
            by_shard.setdefault(settlement.entry.shard, []).extend(_settlement_args(settlement))
        word = "" if success is None else str(int(success))
        head = (lease.spout.index, lease.callback.callback_epoch_ms, word, error)
        calls = [
            self._shards.call(lease.topology, "acker_settle_v1", shard, *head, *args)
            for shard, args in by_shard.items()
        ]
        await asyncio.gather(*calls)

    async def publish(self, lease: Lease, message: PubSubMessage) -> None:
        """Publish a message on the channel of the spout task."""
        cursor = Cursor(incarnation=lease.topology.incarnation, positions={message.shard: message.position})
        document = {
            "completions": [completion.document for completion in message.completions],
            "cursor": cursor.encode(),
        }
        channel = routes.channel(lease.topology.name, lease.spout.name)
        await self._redis.publish(channel, json.dumps(document, separators=(",", ":")).encode())

    async def release_lease(self, lease: Lease, *, backoff_s: float = 0.0) -> None:
        """Release the lease; no worker may acquire it for ``backoff_s``. Does nothing if another worker holds it."""
        args = (lease.spout.index, lease.worker, round(backoff_s * 1_000))
        await self._shards.call(lease.topology, "acker_leave_v1", lease.lease_shard, *args)


def pubsub_messages(entries: Iterable[MailboxEntry], max_completions: int) -> Iterator[PubSubMessage]:
    """Divide entries into messages of at most ``max_completions``; each message holds parts of one entry only."""
    for entry in entries:
        ms, seq = entry.entry_id
        for first in range(0, len(entry.completions), max_completions):
            completions = entry.completions[first : first + max_completions]
            position = Position(ms=ms, seq=seq, offset=entry.skipped + first + len(completions))
            yield PubSubMessage(shard=entry.shard, position=position, completions=completions)


def _claim_args(lease: Lease, shard: int, now_ms: int) -> tuple[Argument, ...]:
    worker = lease.worker if shard == lease.lease_shard else ""
    max_entry = lease.max_batch if lease.splits_entries else 0
    return (
        lease.spout.index,
        lease.callback.callback_epoch_ms,
        worker,
        lease.lease_ms,
        now_ms,
        lease.max_batch,
        max_entry,
    )


def _read(lease: Lease, incarnation: str, replies: Sequence[Sequence[Any]]) -> ClaimedBatch:
    dues = {shard: int(due) for shard, (due, *_) in enumerate(replies) if due}
    next_dues = [int(due) for _, _, due, *_ in replies if due]
    failing = {shard: int(since) for shard, (_, _, _, since, *_) in enumerate(replies) if since}
    now = min(dues.values(), default=None)
    found = [
        entry
        for shard, reply in enumerate(replies)
        if dues.get(shard) == now
        for entry in _read_entries(lease, incarnation, shard, reply[TAKEN_HEAD:])
    ]
    entries = select_batch(found, lease.max_batch) if now is None else by_age(found)
    return ClaimedBatch(
        entries=entries,
        is_retry=now is not None,
        due_ms=min(next_dues, default=None),
        more=any(more for _, more, *_ in replies) or len(found) > len(entries),
        failing=failing.keys(),
        failing_ms=min(failing.values(), default=None),
    )


def _read_entries(lease: Lease, incarnation: str, shard: int, items: Sequence[Sequence[Any]]) -> Iterator[MailboxEntry]:
    for name, attempts, skipped, packed in items:
        ms, seq = map(int, name.split(b"-"))
        completions = list(_decode_packed(packed, lease.spout.name, incarnation))[int(skipped) :]
        yield MailboxEntry(
            shard=shard, entry_id=(ms, seq), attempts=attempts, completions=completions, skipped=int(skipped)
        )


def _decode_packed(packed: bytes, spout_task: str, incarnation: str) -> Iterator[PackedCompletion]:
    for one in split_completions(packed):
        [completion] = decode_completions(one, spout_task)
        yield PackedCompletion(document=encode_completion(completion, incarnation=incarnation), packed=one)


def _settlement_args(settlement: Settlement) -> tuple[Argument, ...]:
    packed = b"".join(completion.packed for completion in settlement.remaining)
    return settlement.entry.name, settlement.result.value, settlement.at_ms, len(settlement.remaining), packed
