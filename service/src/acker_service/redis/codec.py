"""Knows the bytes in which operations go to Redis, and what comes back (see lua/requests.lua, lua/completions.lua)."""

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from acker_protocol import operations
from acker_protocol.operations import Ack, CompletionRecord, Fail, Init, Operation, OperationState, Outcome
from numpy.typing import NDArray

from acker_service.operations.routing import bucket_of

IntOrArray = TypeVar("IntOrArray", int, NDArray[Any])

EPOCH_MS = 1_577_836_800_000

_BITS_64 = 2**64 - 1
_OP = struct.Struct(">BIQQiBI")
_DONE = struct.Struct(">Q5s5sB")
_OUTCOMES = (Outcome.ACKED, Outcome.FAILED, Outcome.TIMED_OUT)
_STATES = {
    "p": OperationState.PENDING,
    "a": OperationState.ACKED,
    "f": OperationState.FAILED,
    "e": OperationState.EARLY,
    "d": OperationState.DUPLICATE,
    "u": OperationState.UNKNOWN,
    "c": OperationState.CONFLICT,
    "m": OperationState.MAX_SPOUT_PENDING,
    "b": OperationState.MAILBOX_FULL,
    "s": OperationState.STORE_FULL,
}
REFUSED_CODES = frozenset(letter for letter, word in _STATES.items() if word in operations.REFUSED)
"""The letters that tell of a refusal."""

OUTCOMES = {"A": Outcome.ACKED, "F": Outcome.FAILED, "T": Outcome.TIMED_OUT}
"""The outcomes by the letters in which Redis keeps them."""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What one operation is answered."""

    state: OperationState
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a topology's roots are laid out: so many shards of so many buckets."""

    shards: int
    buckets: int

    def shard_of(self, root_id: int) -> int:
        """Give the shard of a root."""
        return root_id % self.shards

    def bucket_of(self, root_id: int) -> int:
        """Give the bucket of a root: the small hash, within its shard, that keeps it."""
        return root_id // self.shards % self.buckets


def encode_operation(message: Operation, layout: Layout, index_of: Callable[[str], int]) -> bytes:
    """Write one operation; ``index_of`` gives the index of a spout task."""
    bucket = bucket_of(message.root_id, layout.shards, layout.buckets)
    match message:
        case Init():
            flags, extras = _init_extras(message)
            spout = index_of(message.spout_task)
            return _pack(1, bucket, message, message.ack_val, message.outstanding, flags, spout, extras)
        case Ack():
            flags, extras = _ack_extras(message)
            return _pack(2, bucket, message, message.ack_val, message.outstanding, flags, 0, extras)
        case Fail():
            flags, extras = _texts(0, b"", message.reason, message.component)
            return _pack(3, bucket, message, 0, 0, flags, 0, extras)
        case _:
            flags, extras = _texts(0, b"", None, message.component)
            return _pack(4, bucket, message, 0, 0, flags, 0, extras)


def name_hash(name: str) -> int:
    """Give 32 bits that stand for a name wherever its index must not: in what a request is known by."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")


def edge_hash(root_id: IntOrArray, edge_id: IntOrArray) -> IntOrArray:
    """Hash a root and an edge into 64 bits, of integers or of arrays of them.

    Edges of one root never meet: every step can be undone. (The steps are the finalizer of SplitMix64.)
    """
    return _mix(_mix(root_id) ^ edge_id)


def fingerprint(endpoint: str, key: str, operations: bytes, *, sets: int) -> tuple[str, str, str]:
    """Name a request in a shard: the set that remembers it, its hash, and the hash if inits were refused a place.

    ``operations`` are all that go to the shard, in the order in which the caller gave them. The hash has 61 bits; it is
    even and small enough that its successor is a 64-bit integer too.
    """
    digest = hashlib.blake2b(f"{endpoint}\0{key}\0".encode() + operations, digest_size=12).digest()
    whole = int.from_bytes(digest[4:], "big") >> 2 & ~1
    return str(int.from_bytes(digest[:4], "big") % sets), str(whole), str(whole + 1)


def decode_results(words: str) -> list[OperationResult]:
    """Read the words that answer a request's operations."""
    return [RESULTS[letter] for letter in words]


def decode_completions(packed: bytes, spout_task: str) -> Iterator[CompletionRecord]:
    """Read the completions of one entry in the mailbox of a spout task."""
    at = 0
    while at < len(packed):
        root_id, started, ended, flags = _DONE.unpack_from(packed, at)
        message_id, at = _read_text(packed, at + _DONE.size, flags & 4)
        reason, at = _read_text(packed, at, flags & 8)
        component, at = _read_text(packed, at, flags & 16)
        yield CompletionRecord(
            root_id=root_id,
            spout_task=spout_task,
            outcome=_OUTCOMES[flags & 3],
            message_id=message_id,
            reason=reason,
            component=component,
            started_ms=EPOCH_MS + int.from_bytes(started, "big"),
            at_ms=EPOCH_MS + int.from_bytes(ended, "big"),
        )


RESULTS = {letter: OperationResult(word) for letter, word in _STATES.items()} | {
    letter: OperationResult(OperationState.FINISHED, outcome) for letter, outcome in OUTCOMES.items()
}
"""The answers by the letters in which Redis gives them."""


def split_completions(packed: bytes) -> Iterator[bytes]:
    """Divide an entry into its completions, each as it is packed."""
    start = 0
    while start < len(packed):
        at, flags = start + _DONE.size, packed[start + _DONE.size - 1]
        for flag in (4, 8, 16):
            if flags & flag:
                at += 2 + int.from_bytes(packed[at : at + 2], "big")
        yield packed[start:at]
        start = at


def _mix(value: IntOrArray) -> IntOrArray:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _BITS_64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _BITS_64
    value ^= value >> 31
    return value


def _pack(
    op: int, bucket: int, message: Operation, value: int, outstanding: int | None, flags: int, spout: int, extras: bytes
) -> bytes:
    if outstanding is None:
        flags, outstanding = flags | 1, 0
    return _OP.pack(op, bucket, message.root_id, value, outstanding, flags, spout) + extras


def _init_extras(init: Init) -> tuple[int, bytes]:
    flags, extras = 0, b""
    if init.message_timeout_ms is not None:
        flags, extras = 2, struct.pack(">I", init.message_timeout_ms)
    if init.progress_timeout_ms is not None:
        flags, extras = flags | 4, extras + struct.pack(">I", init.progress_timeout_ms)
    return _texts(flags, extras, init.message_id, init.component)


def _ack_extras(ack: Ack) -> tuple[int, bytes]:
    flags, extras = _texts(0, b"", None, ack.component)
    if ack.edge_id is not None:
        flags, extras = flags | 32, extras + edge_hash(ack.root_id, ack.edge_id).to_bytes(8, "big")
    return flags, extras


def _texts(flags: int, extras: bytes, first: str | None, second: str | None) -> tuple[int, bytes]:
    for flag, text in ((8, first), (16, second)):
        if text is not None:
            raw = text.encode()
            flags, extras = flags | flag, extras + struct.pack(">H", len(raw)) + raw
    return flags, extras


def _read_text(packed: bytes, at: int, present: int) -> tuple[str | None, int]:
    if not present:
        return None, at
    (length,) = struct.unpack_from(">H", packed, at)
    return packed[at + 2 : at + 2 + length].decode(), at + 2 + length
