"""The functions of the library that read roots and counts of one shard.

Each function describes a call of one Lua function (see lua/) and names what its reply holds.
``settings`` are the packed rules of a topology (`pack_settings`), ``bucket`` is the number of a root's bucket.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from acker_protocol.operations import EndOn, Outcome
from acker_protocol.states import TopologyRules

from acker_service.redis.calls import Call, ShardCall, fcall
from acker_service.redis.functions.failures import FailureCounts, decode_failure_counts
from acker_service.redis.stamp import Stamp

_BUCKET_AND_ROOT = struct.Struct(">IQ")
_SETTINGS = struct.Struct(">IIIIIBH")
_ROOT_FIELDS = 10
_OUTCOMES = {b"A": Outcome.ACKED, b"F": Outcome.FAILED, b"T": Outcome.TIMED_OUT}
_OVER = ord("1")


class RootState(Enum):
    """The state of a root, by the letter that Redis gives for it."""

    UNKNOWN = "N"
    EARLY = "E"
    PENDING = "P"
    FINISHED = "F"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootRecord:
    """An early or pending root as Redis keeps it; times in Unix milliseconds.

    ``outstanding`` is None while it is unknown; ``spout_index`` counts for a pending root only. ``last_ack_ms``,
    ``last_component`` and ``acks`` are its details; ``acks`` is None for a root without details.
    """

    root_id: int
    ack_val: int
    outstanding: int | None
    started_ms: int
    due_ms: int
    spout_index: int
    message_id: str | None
    last_ack_ms: int | None = None
    last_component: str | None = None
    acks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFilter:
    """The pending roots that a list asks for: of at least an age, without an ack for so long; None is any.

    ``text`` is a part of the message id, or of the name of the component that acked last.
    """

    older_than_ms: int = 0
    no_ack_for_ms: int = 0
    spout_index: int | None = None
    message_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootReply:
    """A root's state at ``now_ms``: ``outcome`` of a finished root, ``record`` of an early or pending one."""

    now_ms: int
    state: RootState
    outcome: Outcome | None = None
    record: RootRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReply:
    """The state of one of many roots, and the outcome of a finished one."""

    state: RootState
    outcome: Outcome | None = None


_STATE_REPLIES = {
    **{ord(state.value): StateReply(state=state) for state in RootState if state is not RootState.FINISHED},
    **{ord(code): StateReply(state=RootState.FINISHED, outcome=outcome) for code, outcome in _OUTCOMES.items()},
}
"""What a letter of the reply means; a finished root has that of its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPosition:
    """A position in a shard's list of pending roots: a bucket, its score in the deadline index, a HSCAN cursor."""

    score: int = 0
    bucket: int = 0
    hscan_cursor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRoots:
    """Pending roots by the position of their bucket at ``now_ms``, and the next position (None: the list ends).

    ``scanned`` is the number of records and outcomes that were read.
    """

    now_ms: int
    scanned: int
    next: BucketPosition | None
    parts: list[tuple[BucketPosition, list[RootRecord]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCounts:
    """Pending roots, unread completions and dead letters by spout index, and totals by name (see `StatsReader`).

    ``failures`` are counts of failures by outcome and component.
    """

    pending: dict[int, int]
    unread: dict[int, int]
    dead: dict[int, int]
    totals: dict[str, int]
    failures: FailureCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCounts:
    """Unread completions and dead letters of a shard by spout index."""

    unread: dict[int, int]
    dead: dict[int, int]


def read_root(*, settings: bytes, bucket: int, root_id: int) -> ShardCall[RootReply]:
    """Read one root."""
    return ShardCall(function="acker_read_root_v2", args=(settings, bucket, _id_bytes(root_id)), decode=root_reply)


def force_fail(*, settings: bytes, bucket: int, root_id: int, reason: str) -> ShardCall[str | None]:
    """Fail a root that is early, pending or finished, and return the code of the result, None for an unknown root."""
    args = (settings, bucket, _id_bytes(root_id), reason)
    return ShardCall(function="acker_force_fail_v1", args=args, decode=_forced)


def ended(roots: Iterable[tuple[int, int]]) -> ShardCall[list[bool]]:
    """Check for each root (bucket, root id) that it is neither early nor pending."""
    return ShardCall(function="acker_ended_v1", args=(_pack(roots),), decode=_flags, confirm=False)


def read_states(roots: Iterable[tuple[int, int]], *, settings: bytes) -> ShardCall[list[StateReply]]:
    """Read the state of each root (bucket, root id)."""
    return ShardCall(function="acker_read_states_v1", args=(settings, _pack(roots)), decode=_state_replies)


def list_roots(
    *, settings: bytes, start: BucketPosition, wanted: RootFilter, max_roots: int, max_records: int
) -> ShardCall[ListedRoots]:
    """List pending roots, bucket by bucket, the nearest deadline first.

    The reply holds whole parts of buckets, so ``max_roots`` and ``max_records`` (records read) are exceeded a little.
    """
    place = (start.score, start.bucket, start.hscan_cursor)
    spout_index = "" if wanted.spout_index is None else wanted.spout_index
    filters = (wanted.older_than_ms, wanted.no_ack_for_ms, spout_index, wanted.text or "")
    message_id = () if wanted.message_id is None else (wanted.message_id,)
    args = (settings, *place, max_roots, max_records, *filters, *message_id)
    return ShardCall(function="acker_list_roots_v3", args=args, decode=_listed, confirm=False)


def read_counts() -> ShardCall[ShardCounts]:
    """Read the counts of a shard."""
    return ShardCall(function="acker_read_counts_v2", decode=_counts, confirm=False)


def read_stored() -> ShardCall[StoredCounts]:
    """Read how many completions and dead letters a shard has."""
    return ShardCall(function="acker_stored_v1", decode=_stored, confirm=False)


def read_all_stored(shards: Sequence[tuple[str, Stamp]]) -> Call[list[StoredCounts | None]]:
    """Read how many completions and dead letters shards have, by their keys and stamps; all on one server.

    None for a shard that has another stamp.
    """
    stamps = [stamp.text for _, stamp in shards]

    def decode(reply: list[Any]) -> list[StoredCounts | None]:
        return [None if counts is None else _stored(counts) for counts in reply[1:]]

    return fcall("acker_all_stored_v1", tuple(key for key, _ in shards), *stamps, decode=decode, confirm=False)


def read_pending(spout_indexes: Sequence[int]) -> ShardCall[list[int]]:
    """Read how many roots of each spout task are pending in a shard, in the order of the indexes."""
    return ShardCall(function="acker_pending_v1", args=tuple(spout_indexes), decode=list, confirm=False)


def pack_settings(rules: TopologyRules, window_ms: int, max_failures: int) -> bytes:
    """Pack the rules of a topology for a call, the idempotency window in milliseconds, and the failures of a shard."""
    return _SETTINGS.pack(
        rules.message_timeout_ms,
        rules.progress_timeout_ms,
        rules.dedupe_window_ms,
        rules.retention_ms,
        window_ms,
        rules.tracked | rules.root_details << 1 | (rules.end_on is EndOn.ALL_ENDED) << 2,
        max_failures,
    )


def by_name(flat: Sequence[bytes]) -> dict[str, int]:
    """Read a hash of counts by name."""
    return {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}


def by_index(flat: Sequence[bytes]) -> dict[int, int]:
    """Read a hash of counts by spout index."""
    return {int(index): int(count) for index, count in zip(flat[::2], flat[1::2], strict=True)}


def root_reply(reply: list[Any]) -> RootReply:
    """Read a root's state and its record, as the library replies them."""
    now_ms, letter, *rest = reply
    state = RootState(letter.decode())
    if state is RootState.FINISHED:
        return RootReply(now_ms=now_ms, state=state, outcome=_OUTCOMES[_only(rest)])
    return RootReply(now_ms=now_ms, state=state, record=_record(rest) if rest else None)


def _record(values: Sequence[Any]) -> RootRecord:
    root_id, ack_val, outstanding, started, due, spout, message_id, last_ack, component, acks = values
    return RootRecord(
        root_id=int.from_bytes(root_id, "big"),
        ack_val=int.from_bytes(ack_val, "big"),
        outstanding=None if outstanding == b"" else outstanding,
        started_ms=started,
        due_ms=due,
        spout_index=spout,
        message_id=None if message_id is None else message_id.decode(),
        last_ack_ms=None if last_ack == b"" else last_ack,
        last_component=component.decode() or None,
        acks=None if acks == b"" else acks,
    )


def _forced(reply: list[bytes]) -> str | None:
    code = _only(reply).decode()
    return None if code == RootState.UNKNOWN.value else str(code)


def _flags(reply: list[bytes]) -> list[bool]:
    return [flag == _OVER for flag in _only(reply)]


def _state_replies(reply: list[bytes]) -> list[StateReply]:
    return [_STATE_REPLIES[letter] for letter in _only(reply)]


def _listed(reply: list[Any]) -> ListedRoots:
    now_ms, scanned, score, bucket, hscan_cursor, *rest = reply
    parts = [
        (_position(*rest[i : i + 3]), [_record(values) for values in _chunks(rest[i + 3], _ROOT_FIELDS)])
        for i in range(0, len(rest), 4)
    ]
    following = _position(score, bucket, hscan_cursor) if score else None
    return ListedRoots(now_ms=now_ms, scanned=scanned, next=following, parts=parts)


def _position(score: bytes, bucket: bytes, hscan_cursor: bytes) -> BucketPosition:
    return BucketPosition(score=int(score), bucket=int(bucket), hscan_cursor=int(hscan_cursor))


def _counts(reply: list[Any]) -> ShardCounts:
    pending, unread, dead, totals, failures = reply
    return ShardCounts(
        pending=by_index(pending),
        unread=by_index(unread),
        dead=by_index(dead),
        totals=by_name(totals),
        failures=decode_failure_counts(failures),
    )


def _stored(reply: list[Any]) -> StoredCounts:
    unread, dead = reply
    return StoredCounts(unread=by_index(unread), dead=by_index(dead))


def _pack(roots: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_BUCKET_AND_ROOT.pack(bucket, root_id) for bucket, root_id in roots)


def _id_bytes(root_id: int) -> bytes:
    return root_id.to_bytes(8, "big")


def _only(reply: Sequence[Any]) -> Any:
    [value] = reply
    return value


def _chunks(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (values[i : i + size] for i in range(0, len(values), size))
