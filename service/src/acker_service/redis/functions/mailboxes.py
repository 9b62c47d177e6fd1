"""The functions of the library that read, deliver and release the completions of spout tasks in one shard.

Each function describes a call of one Lua function and names what its reply holds. An ``entry`` is the id of a stream
entry, which holds several completions; ``offset`` is how many of them are taken.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from acker_service.redis.calls import Argument, ShardCall, nothing
from acker_service.redis.completion_codec import PackedCompletions

E = TypeVar("E")

_READ_FIELDS = 3
_DEAD_FIELDS = 6

EntryId = tuple[int, int]
"""The milliseconds and the sequence number of a stream entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """Completions of one entry, and how many of the entry come before them."""

    entry_id: EntryId
    skipped: int
    completions: PackedCompletions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntry(ReadEntry):
    """Dead letters of one entry: how often it was tried, the last error, and when it was given up."""

    attempts: int
    error: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries(Generic[E]):
    """Entries as one shard gave them, oldest first, and whether it has more."""

    more: bool
    entries: list[E]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntries(Entries[DeadEntry]):
    """Entries of dead letters that match, and the last entry of which all was looked at (None: none)."""

    passed: EntryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters are meant: a text that the error contains, and times (both included); None: any."""

    error: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """How the functions of the library take it."""
        return tuple("" if value is None else value for value in (self.error, self.from_ms, self.to_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedEntry(ReadEntry):
    """Completions of one entry to deliver, and how often it was tried."""

    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """How many completions one step moved or released, and whether there may be more for another step."""

    count: int
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadStep(StepResult):
    """A step through the dead letters; the next one begins behind the entry ``last``."""

    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackOutdated:
    """The shard already delivers to a later callback, which began at this time."""

    callback_epoch_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeld:
    """Another worker holds the lease for so long."""

    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Entries to deliver.

    ``due_ms`` is when entries that failed before were due (None: these were never tried), ``next_due_ms`` when the
    next such are due, ``failing_since_ms`` since when no delivery succeeded. ``more`` says whether there may be others.
    """

    due_ms: int | None
    more: bool
    next_due_ms: int | None
    failing_since_ms: int | None
    entries: list[ClaimedEntry]


ClaimReply = CallbackOutdated | LeaseHeld | Claimed


def read(
    *, spout_index: int, entry: str, offset: int, max_completions: int, max_bytes: int, peek: bool = False
) -> ShardCall[Entries[ReadEntry]]:
    """Read completions after a position ("" is the beginning), oldest first; with ``peek`` it is not noted as a read.

    Reading ends with the completion that reaches ``max_completions`` or ``max_bytes``.
    """
    args = (spout_index, entry, offset, max_completions, max_bytes)
    return ShardCall(function="acker_peek_v1" if peek else "acker_read_v2", args=args, decode=_entries)


def release(*, spout_index: int, entry: str, offset: int, max_entries: int) -> ShardCall[StepResult]:
    """Release all completions up to a position, ``max_entries`` entries a step. Idempotent."""
    args = (spout_index, entry, offset, max_entries)
    return ShardCall(function="acker_release_v1", args=args, decode=_step)


def discard(*, spout_index: int) -> ShardCall[int]:
    """Discard all completions of a spout task, and return how many were unread. Cursors stay valid."""
    return ShardCall(function="acker_discard_v1", args=(spout_index,), decode=_count)


def last_entries(spout_indexes: Sequence[int]) -> ShardCall[list[bytes | None]]:
    """Read the id of the newest entry of each mailbox; None where there never was one."""
    return ShardCall(function="acker_tips_v1", args=tuple(spout_indexes), decode=list, confirm=False)


def claim(
    *,
    spout_index: int,
    callback_epoch_ms: int,
    worker: str,
    lease_ms: int,
    now_ms: int,
    max_completions: int,
    max_per_entry: int,
) -> ShardCall[ClaimReply]:
    """Claim what is to be delivered: entries that failed together and are due again, else entries never tried.

    ``worker`` takes the lease; it is "" on a shard that does not keep the lease. Entries stay in the mailbox. An entry
    of more than ``max_per_entry`` completions is split; 0 splits none.
    """
    args = (spout_index, callback_epoch_ms, worker, lease_ms, now_ms, max_completions, max_per_entry)
    return ShardCall(function="acker_take_v1", args=args, decode=_claimed)


def settle(
    *,
    spout_index: int,
    callback_epoch_ms: int,
    success: bool | None,
    error: str,
    settlements: Sequence[Argument],
) -> ShardCall[None]:
    """Settle what was claimed, all in one step. Idempotent.

    ``success`` says whether the receiver took anything, None if that is unknown. ``settlements`` has five arguments
    per entry: its id, the result (done, retry, dead or sent), when it is tried again, how often it was tried with this
    try, and the positions of the completions that remain (`pack_positions`; "" for all of the entry).
    """
    status = "" if success is None else str(int(success))
    args = (spout_index, callback_epoch_ms, status, error, *settlements)
    return ShardCall(function="acker_settle_v2", args=args, decode=nothing)


def pack_positions(positions: Sequence[int]) -> bytes:
    """Pack positions of completions in an entry as it is stored, from 0, in rising order."""
    return struct.pack(f">{len(positions)}I", *positions)


def release_lease(*, spout_index: int, worker: str, rest_ms: int) -> ShardCall[None]:
    """Return a worker's lease back; for ``rest_ms`` milliseconds no worker gets it. Idempotent."""
    return ShardCall(function="acker_leave_v1", args=(spout_index, worker, rest_ms), decode=nothing, confirm=False)


def read_dead(
    *, spout_index: int, entry: str, offset: int, max_completions: int, max_bytes: int, wanted: DeadLetterFilter
) -> ShardCall[DeadEntries]:
    """Read dead letters that match after a position, as `read` does completions; it may give none and know of more."""
    args = (spout_index, entry, offset, max_completions, max_bytes, *wanted.arguments)
    return ShardCall(function="acker_read_dead_v3", args=args, decode=_dead_entries)


def replay_dead(*, spout_index: int, max_entries: int, after: str, wanted: DeadLetterFilter) -> ShardCall[DeadStep]:
    """Move dead letters that match, of so many behind an entry, back into the mailbox, as if never tried."""
    args = (spout_index, max_entries, after, *wanted.arguments)
    return ShardCall(function="acker_replay_dead_v2", args=args, decode=_dead_step)


def discard_dead(*, spout_index: int, max_entries: int, after: str, wanted: DeadLetterFilter) -> ShardCall[DeadStep]:
    """Discard dead letters that match, of so many behind an entry."""
    args = (spout_index, max_entries, after, *wanted.arguments)
    return ShardCall(function="acker_discard_dead_v2", args=args, decode=_dead_step)


def remove_spout(*, spout_index: int) -> ShardCall[int]:
    """Remove the mailbox of a spout task for good, and return how many completions and dead letters were discarded."""
    return ShardCall(function="acker_remove_spout_v1", args=(spout_index,), decode=_count)


def _entries(reply: list[Any]) -> Entries[ReadEntry]:
    more, *rest = reply
    entries = [
        ReadEntry(entry_id=_entry_id(entry), skipped=int(skipped), completions=PackedCompletions(packed))
        for entry, skipped, packed in _chunks(rest, _READ_FIELDS)
    ]
    return Entries(more=bool(more), entries=entries)


def _dead_entries(reply: list[Any]) -> DeadEntries:
    more, passed, *rest = reply
    entries = [
        DeadEntry(
            entry_id=_entry_id(entry),
            skipped=skipped,
            completions=PackedCompletions(packed),
            attempts=attempts,
            error=error.decode(),
            at_ms=at_ms,
        )
        for entry, skipped, packed, attempts, error, at_ms in _chunks(rest, _DEAD_FIELDS)
    ]
    return DeadEntries(more=bool(more), entries=entries, passed=_entry_id(passed) if passed else None)


def _claimed(reply: list[Any]) -> ClaimReply:
    status, *rest = reply
    if status == b"old":
        return CallbackOutdated(callback_epoch_ms=_count(rest))
    if status == b"held":
        return LeaseHeld(for_ms=_count(rest))
    due, more, next_due, failing_since, *items = rest
    return Claimed(
        due_ms=_optional(due),
        more=bool(more),
        next_due_ms=_optional(next_due),
        failing_since_ms=_optional(failing_since),
        entries=[
            ClaimedEntry(
                entry_id=_entry_id(entry),
                attempts=attempts,
                skipped=int(skip),
                completions=PackedCompletions(packed, skip=int(skip)),
            )
            for entry, attempts, skip, packed in items
        ],
    )


def _step(reply: list[Any]) -> StepResult:
    count, more = reply
    return StepResult(count=count, more=bool(more))


def _dead_step(reply: list[Any]) -> DeadStep:
    count, more, last = reply
    return DeadStep(count=count, more=bool(more), last=last.decode())


def _count(reply: list[Any]) -> int:
    [count] = reply
    return int(count)


def _entry_id(entry: bytes) -> EntryId:
    ms, seq = entry.split(b"-")
    return int(ms), int(seq)


def _optional(value: bytes | int) -> int | None:
    return int(value) if value != b"" else None


def _chunks(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (values[i : i + size] for i in range(0, len(values), size))
