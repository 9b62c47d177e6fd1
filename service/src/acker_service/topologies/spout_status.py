"""Reads how spout tasks are used, and how the delivery to their callbacks goes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from acker_service.redis import functions
from acker_service.redis.functions.spouts import MAX_SPOUTS, ShardSpout
from acker_service.topologies.callback import CallbackStatus, RegisteredCallback
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """How the delivery to a webhook goes, since it was set or resumed; times in Unix milliseconds, None for never.

    ``attempt`` counts the tries of the oldest unread completion; ``error`` is the last one, until a later delivery
    leaves nothing to be tried again.
    """

    error: str | None = None
    attempt: int | None = None
    next_attempt_at_ms: int | None = None
    last_delivered_at_ms: int | None = None

    def public(self) -> dict[str, Any]:
        """Write what callers see of it."""
        return {
            "error": self.error,
            "attempt": self.attempt,
            "next_attempt_at_ms": self.next_attempt_at_ms,
            "last_delivered_at_ms": self.last_delivered_at_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutStatus:
    """How a spout task is used; times in Unix milliseconds, None for never."""

    oldest_unread_at_ms: int | None
    last_read_at_ms: int | None
    last_emit_at_ms: int | None
    delivery: DeliveryStatus

    def public(self) -> dict[str, Any]:
        """Write what callers see of it, but for the delivery."""
        return {
            "oldest_unread_at_ms": self.oldest_unread_at_ms,
            "last_read_at_ms": self.last_read_at_ms,
            "last_emit_at_ms": self.last_emit_at_ms,
        }


class SpoutStatusReader:
    """Reads the status of spout tasks from all shards."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def read(self, topology: Topology, spouts: Sequence[Spout]) -> list[SpoutStatus]:
        """Read the status of some spout tasks, in their order; many take several calls on each shard."""
        found: list[SpoutStatus] = []
        for first in range(0, len(spouts), MAX_SPOUTS):
            some = spouts[first : first + MAX_SPOUTS]
            call = functions.spouts.read_spouts([spout.index for spout in some])
            topology, shards = await self._shards.call_all(topology, call)
            found += [_status(spout, of_spout) for spout, of_spout in zip(some, zip(*shards, strict=True), strict=True)]
        return found


def _status(spout: Spout, shards: Sequence[ShardSpout]) -> SpoutStatus:
    return SpoutStatus(
        oldest_unread_at_ms=_earliest(shard.oldest_unread_ms for shard in shards),
        last_read_at_ms=_latest(shard.read_ms for shard in shards),
        last_emit_at_ms=_latest(shard.emitted_ms for shard in shards),
        delivery=_delivery(spout.callback, shards),
    )


def _delivery(callback: RegisteredCallback | None, shards: Sequence[ShardSpout]) -> DeliveryStatus:
    """Put together what the shards know of a callback; one that knows only an earlier callback is left out."""
    if callback is None or not callback.owns_mailbox:
        return DeliveryStatus()
    known = [shard for shard in shards if shard.epoch_ms == callback.callback_epoch_ms]
    oldest = min(known, key=lambda shard: (shard.oldest_unread_ms is None, shard.oldest_unread_ms), default=None)
    attempt = 0 if oldest is None else oldest.tries
    delivered_ms = _latest(shard.delivered_ms for shard in known)
    is_on = callback.state is CallbackStatus.ON
    return DeliveryStatus(
        error=callback.error or _last_error(known, attempt=attempt, delivered_ms=delivered_ms),
        attempt=attempt,
        next_attempt_at_ms=_earliest(shard.next_try_ms for shard in known) if is_on else None,
        last_delivered_at_ms=delivered_ms,
    )


def _last_error(shards: Iterable[ShardSpout], *, attempt: int, delivered_ms: int | None) -> str | None:
    errors = [(shard.error_ms, shard.error) for shard in shards if shard.error_ms is not None]
    at_ms, error = max(errors, default=(0, None), key=lambda found: found[0])
    is_over = not attempt and delivered_ms is not None and delivered_ms > at_ms
    return None if is_over else error


def _earliest(times_ms: Iterable[int | None]) -> int | None:
    return min((ms for ms in times_ms if ms is not None), default=None)


def _latest(times_ms: Iterable[int | None]) -> int | None:
    return max((ms for ms in times_ms if ms is not None), default=None)
