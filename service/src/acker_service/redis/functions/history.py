"""The functions of the library that keep the history of topologies: samples of their totals.

Layouts are those of lua/history.lua. The totals of a sample are a list in MessagePack: failed and timed-out roots,
pending roots, unread completions, then the exponents of complete latencies of acked roots and how many each counts.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from acker_protocol.operations import Outcome

from acker_service.redis import keys
from acker_service.redis.calls import Call, fcall, nothing
from acker_service.redis.functions.monitoring import NAME
from acker_service.redis.functions.roots import by_name
from acker_service.redis.stamp import Stamp

_HEAD = struct.Struct(">BIH")
"""The number of the step in five bytes, and the steps since the last claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a topology counted since its creation, and what it has: pending roots and unread completions.

    ``latencies`` are the numbers of acked roots by the exponent of their complete latency.
    """

    failed: int = 0
    timed_out: int = 0
    pending: int = 0
    unread: int = 0
    latencies: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The totals of a topology in a step of time; ``since`` is how many steps before the last one was claimed."""

    step: int
    since: int
    totals: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The reply to a claim of the present step at ``now_ms``: ``step`` is None if another worker has it."""

    now_ms: int
    step: int | None
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """The samples of a level at ``now_ms``, the oldest first; ``last_step`` is the last that a worker claimed."""

    now_ms: int
    last_step: int
    samples: list[Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTotals:
    """What a shard has and has counted (see `StatsReader`)."""

    pending: int
    unread: int
    counts: dict[str, int]


def claim_step(step_ms: int) -> Call[Claim]:
    """Claim the present step, of a length in milliseconds, for this worker."""

    def decode(reply: list[Any]) -> Claim:
        _, now_ms, step, before = reply
        return Claim(now_ms=now_ms, step=step or None, since=step - before)

    return fcall("acker_claim_step_v1", (keys.SAMPLED,), step_ms, decode=decode, confirm=False, name=NAME)


def read_totals(shards: Sequence[tuple[str, Stamp]]) -> Call[list[ShardTotals | None]]:
    """Read the totals of shards by their keys and stamps, all on one server; None where the stamp is another."""
    stamps = [stamp.text for _, stamp in shards]

    def decode(reply: list[Any]) -> list[ShardTotals | None]:
        return [None if found is None else _shard_totals(*found) for found in reply[1:]]

    shard_keys = tuple(key for key, _ in shards)
    return fcall("acker_all_totals_v1", shard_keys, *stamps, decode=decode, confirm=False, name=NAME)


def note_samples(claim: Claim, totals: Sequence[tuple[str, str, Totals]]) -> Call[None]:
    """Note the totals of topologies, with their names and incarnations, in the step that was claimed."""
    assert claim.step is not None
    args = [part for name, incarnation, own in totals for part in (name, incarnation, encode_totals(own))]
    function, target = "acker_note_samples_v1", (keys.TOPOLOGIES,)
    return fcall(function, target, claim.step, claim.since, *args, decode=nothing, confirm=False, name=NAME)


def read_samples(topology: str, incarnation: str, level: int) -> Call[StoredHistory]:
    """Read the samples of a level of a topology."""

    def decode(reply: list[Any]) -> StoredHistory:
        _, now_ms, last_step, samples = reply
        return StoredHistory(now_ms=now_ms, last_step=last_step, samples=[_sample(packed) for packed in samples])

    target = (keys.SAMPLED, keys.history(topology, incarnation, level))
    return fcall("acker_samples_v1", target, decode=decode, confirm=False, name=NAME)


def add_totals(shards: Sequence[ShardTotals]) -> Totals:
    """Add the totals of all shards of a topology."""
    counts: dict[str, int] = {}
    for shard in shards:
        for name, count in shard.counts.items():
            counts[name] = counts.get(name, 0) + count
    by_exponent = {outcome: _by_exponent(counts, outcome) for outcome in Outcome}
    return Totals(
        failed=sum(by_exponent[Outcome.FAILED].values()),
        timed_out=sum(by_exponent[Outcome.TIMED_OUT].values()),
        pending=sum(shard.pending for shard in shards),
        unread=sum(shard.unread for shard in shards),
        latencies=by_exponent[Outcome.ACKED],
    )


def encode_totals(totals: Totals) -> bytes:
    """Write totals as a sample has them; equal totals are equal bytes."""
    flat = [number for pair in sorted(totals.latencies.items()) for number in pair]
    return msgspec.msgpack.encode([totals.failed, totals.timed_out, totals.pending, totals.unread, *flat])


def _sample(packed: bytes) -> Sample:
    high, low, since = _HEAD.unpack_from(packed)
    failed, timed_out, pending, unread, *flat = msgspec.msgpack.decode(packed[_HEAD.size :])
    latencies = dict(zip(flat[::2], flat[1::2], strict=True))
    totals = Totals(failed=failed, timed_out=timed_out, pending=pending, unread=unread, latencies=latencies)
    return Sample(step=high << 32 | low, since=since, totals=totals)


def _shard_totals(pending: int, unread: int, counts: Sequence[bytes]) -> ShardTotals:
    return ShardTotals(pending=pending, unread=unread, counts=by_name(counts))


def _by_exponent(counts: Mapping[str, int], outcome: Outcome) -> dict[int, int]:
    head = f"{outcome.value}:"
    return {int(name.removeprefix(head)): count for name, count in counts.items() if name.startswith(head)}
