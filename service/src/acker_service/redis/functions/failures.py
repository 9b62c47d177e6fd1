"""The functions of the library that read the failures of a shard: its roots that failed or timed out.

Layouts are those of lua/failures.lua; no other Python module spells them.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acker_protocol.operations import CompletionRecord, Outcome

from acker_service.redis.calls import ShardCall
from acker_service.redis.completion_codec import decode_completions

_RUN = struct.Struct(">IHIB")
"""The fields before a run: spout index, failures, bytes of the completions, length of the kind."""
_OUTCOMES = {"F": Outcome.FAILED, "T": Outcome.TIMED_OUT}
_FIRST_SEEN = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """A root that failed or timed out at ``at_ms`` (Unix milliseconds), as the list of failures keeps it.

    ``failures`` is how many of its edges failed, None for a root that ends at its first fail.
    """

    root_id: int
    spout_index: int
    message_id: str | None
    outcome: Outcome
    reason: str | None
    component: str | None
    at_ms: int
    failures: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureChunk:
    """Some failures of a shard at ``now_ms``, oldest first: those with the numbers from ``start`` on.

    The numbers of the next chunk begin with ``end``; the last ones before it may be unused. The shard lists no failure
    with a number below ``lowest``.
    """

    now_ms: int
    lowest: int
    start: int
    end: int
    failures: Sequence[FailureRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSearch:
    """The failure of a root that a chunk has, or None; the list goes on below the number ``before``, 0 at its end."""

    found: FailureRecord | None
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCounts:
    """Counts of failures by outcome and component ("" for none), and when each component failed first."""

    counts: Mapping[tuple[Outcome, str], int] = field(default_factory=dict)
    first_ms: Mapping[str, int] = field(default_factory=dict)


def read_failures(*, settings: bytes, before: int) -> ShardCall[FailureChunk]:
    """Read the chunk of the newest failure with a number below ``before``."""
    args = (settings, before)
    return ShardCall(function="acker_failures_v1", args=args, decode=_chunk, confirm=False)


def find_failure(*, settings: bytes, root_id: int, before: int) -> ShardCall[FailureSearch]:
    """Look for the newest failure of a root in the chunk of the newest failure with a number below ``before``."""
    args = (settings, root_id.to_bytes(8, "big"), before)
    return ShardCall(function="acker_find_failure_v2", args=args, decode=_search, confirm=False)


def decode_failure_counts(flat: Sequence[bytes]) -> FailureCounts:
    """Read the hash of counts of failures."""
    counts: dict[tuple[Outcome, str], int] = {}
    first_ms: dict[str, int] = {}
    for raw_name, value in zip(flat[::2], flat[1::2], strict=True):
        letter, rest = raw_name[:1].decode(), raw_name[1:].decode()
        if letter in _OUTCOMES:
            counts[_OUTCOMES[letter], rest] = int(value)
        elif letter == _FIRST_SEEN:
            first_ms[rest] = int(value)
    return FailureCounts(counts=counts, first_ms=first_ms)


def _search(reply: list[Any]) -> FailureSearch:
    packed, before = reply
    return FailureSearch(found=next(_records(packed), None), before=before)


def _chunk(reply: list[Any]) -> FailureChunk:
    now_ms, lowest, start, end, packed = reply
    return FailureChunk(now_ms=now_ms, lowest=lowest, start=start, end=end, failures=list(_records(packed)))


def _records(packed: bytes) -> Iterator[FailureRecord]:
    at = 0
    while at < len(packed):
        spout_index, _, size, kind_size = _RUN.unpack_from(packed, at)
        begin = at + _RUN.size + kind_size
        component = packed[at + _RUN.size + 1 : begin].decode()
        at = begin + size
        for completion in decode_completions(packed[begin:at], ""):
            yield _record(completion, spout_index, component)


def _record(completion: CompletionRecord, spout_index: int, component: str) -> FailureRecord:
    return FailureRecord(
        root_id=completion.root_id,
        spout_index=spout_index,
        message_id=completion.message_id,
        outcome=completion.outcome,
        reason=completion.reason,
        component=component or None,
        at_ms=completion.at_ms,
        failures=completion.failures,
    )
