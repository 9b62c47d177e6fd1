"""Claims the completions that a callback is to be sent, under a lease, and settles them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from acker_protocol import routes

from acker_service.delivery.retry import MailboxEntry, Rest, Settlement, by_age, select_batch
from acker_service.redis import functions
from acker_service.redis.calls import Argument, ShardCall
from acker_service.redis.client import RedisClient
from acker_service.redis.completion_codec import ASCII
from acker_service.redis.functions.mailboxes import CallbackOutdated, Claimed, ClaimedEntry, ClaimReply, LeaseHeld
from acker_service.topologies.callback import RegisteredCallback
from acker_service.topologies.cursors import Cursor, Position, completion_list
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology


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
    documents: Sequence[str]
    """The completions as JSON."""


class LeaseStore:
    """Claims, settles and publishes entries of mailboxes, and releases their leases."""

    def __init__(self, redis: RedisClient, shards: Shards) -> None:
        self._redis = redis
        self._shards = shards

    async def claim(self, lease: Lease, now_ms: int) -> ClaimedBatch:
        """Acquire or renew the lease and claim the next batch: the retry that is due longest, else untried entries.

        Raises `TopologyChanged`, `CallbackSuperseded`, `StoreUnavailable`, `UnknownTopology`.
        """
        calls = [_claim_call(lease, shard, now_ms) for shard in range(len(lease.topology.shards))]
        topology, replies = await self._shards.call_each(lease.topology, calls)
        if topology.stamp != lease.topology.stamp:
            raise TopologyChanged
        for reply in replies:
            if isinstance(reply, CallbackOutdated):
                raise CallbackSuperseded(reply.callback_epoch_ms)
        held = replies[lease.lease_shard]
        if isinstance(held, LeaseHeld):
            return ClaimedBatch(leased_for_ms=held.for_ms)
        claimed = {shard: reply for shard, reply in enumerate(replies) if isinstance(reply, Claimed)}
        return _read(lease, topology.incarnation, claimed)

    async def settle(
        self,
        lease: Lease,
        claimed: ClaimedBatch,
        settlements: Sequence[Settlement],
        *,
        success: bool | None,
        error: str = "",
        rest: Rest | None = None,
    ) -> None:
        """Settle a claimed batch, atomically in each shard. Idempotent.

        ``success`` is whether the receiver took at least one completion; None if there is no receiver that says so.
        With a rest, the lease is released when all is settled: in the same round trip, if one server has all shards.
        """
        by_shard: dict[int, list[Argument]] = {shard: [] for shard in claimed.failing} if success else {}
        for settlement in settlements:
            by_shard.setdefault(settlement.entry.shard, []).extend(_settlement_args(settlement))
        settle = partial(
            functions.mailboxes.settle,
            spout_index=lease.spout.index,
            callback_epoch_ms=lease.callback.callback_epoch_ms,
            success=success,
            error=error,
        )
        calls = [(shard, settle(settlements=args)) for shard, args in by_shard.items()]
        then = None if rest is None else (lease.lease_shard, _release_call(lease, rest.backoff_s))
        await self._shards.call_at(lease.topology, calls, then=then)

    async def publish(self, lease: Lease, messages: Iterable[PubSubMessage]) -> None:
        """Publish messages on the channel of the spout task, in their order and in one round trip."""
        published, documents = completion_list(lease.topology, lease.spout), list[bytes]()
        for message in messages:
            cursor = Cursor(of=published, positions={message.shard: message.position}).encode()
            documents.append(f'{{"completions":[{",".join(message.documents)}],"cursor":"{cursor}"}}'.encode())
        await self._redis.publish(routes.channel(lease.topology.name, lease.spout.name), *documents)

    async def release_lease(self, lease: Lease, *, backoff_s: float = 0.0) -> None:
        """Release the lease; no worker may acquire it for ``backoff_s``. Does nothing if another worker holds it."""
        await self._shards.call(lease.topology, lease.lease_shard, _release_call(lease, backoff_s))


def pubsub_messages(entries: Iterable[MailboxEntry], max_completions: int) -> Iterator[PubSubMessage]:
    """Divide entries into messages of at most ``max_completions``; each message holds parts of one entry only."""
    for entry in entries:
        (ms, seq), offset, rest = entry.entry_id, entry.skipped, entry.completions
        while rest:
            some, rest = rest.split(max_completions)
            offset += len(some)
            documents = some.write(entry.incarnation, ASCII).documents
            yield PubSubMessage(
                shard=entry.shard, position=Position(ms=ms, seq=seq, offset=offset), documents=documents
            )


def round_trips(messages: Iterable[PubSubMessage], max_completions: int) -> Iterator[list[PubSubMessage]]:
    """Group messages: each group is published when it has so many completions, so it has less than twice as many."""
    group, count = list[PubSubMessage](), 0
    for message in messages:
        group.append(message)
        count += len(message.documents)
        if count >= max_completions:
            yield group
            group, count = [], 0
    if group:
        yield group


def _claim_call(lease: Lease, shard: int, now_ms: int) -> ShardCall[ClaimReply]:
    return functions.mailboxes.claim(
        spout_index=lease.spout.index,
        callback_epoch_ms=lease.callback.callback_epoch_ms,
        worker=lease.worker if shard == lease.lease_shard else "",
        lease_ms=lease.lease_ms,
        now_ms=now_ms,
        max_completions=lease.max_batch,
        max_per_entry=lease.max_batch if lease.splits_entries else 0,
    )


def _release_call(lease: Lease, backoff_s: float) -> ShardCall[None]:
    return functions.mailboxes.release_lease(
        spout_index=lease.spout.index, worker=lease.worker, rest_ms=round(backoff_s * 1_000)
    )


def _read(lease: Lease, incarnation: str, replies: Mapping[int, Claimed]) -> ClaimedBatch:
    next_dues = [reply.next_due_ms for reply in replies.values() if reply.next_due_ms is not None]
    failing = {shard: it.failing_since_ms for shard, it in replies.items() if it.failing_since_ms is not None}
    now = min((reply.due_ms for reply in replies.values() if reply.due_ms is not None), default=None)
    found = [
        _mailbox_entry(shard, incarnation, entry)
        for shard, reply in replies.items()
        if reply.due_ms == now
        for entry in reply.entries
    ]
    entries = select_batch(found, lease.max_batch) if now is None else by_age(found)
    return ClaimedBatch(
        entries=entries,
        is_retry=now is not None,
        due_ms=min(next_dues, default=None),
        more=any(reply.more for reply in replies.values()) or len(found) > len(entries),
        failing=failing.keys(),
        failing_ms=min(failing.values(), default=None),
    )


def _mailbox_entry(shard: int, incarnation: str, claimed: ClaimedEntry) -> MailboxEntry:
    return MailboxEntry(
        shard=shard,
        entry_id=claimed.entry_id,
        attempts=claimed.attempts,
        completions=claimed.completions,
        incarnation=incarnation,
        skipped=claimed.skipped,
    )


def _settlement_args(settlement: Settlement) -> tuple[Argument, ...]:
    entry = settlement.entry
    positions = functions.mailboxes.pack_positions(_remaining_positions(settlement))
    return entry.name, settlement.result.value, settlement.at_ms, entry.attempts + 1, positions


def _remaining_positions(settlement: Settlement) -> list[int]:
    """Return the positions of the remaining completions in the stored entry; none if all of them remain."""
    if not settlement.remaining:
        return []
    entry, ids = settlement.entry, frozenset(settlement.remaining)
    positions = [at for at, name in enumerate(entry.write().ids, entry.skipped) if name in ids]
    return positions if len(positions) < len(entry.completions) else []
