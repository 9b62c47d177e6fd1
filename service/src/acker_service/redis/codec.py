"""Encodes what operations send to Redis and decodes what Redis returns.

The layouts are those of lua/requests.lua; no other Python module spells them.
"""

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from acker_protocol import tracing
from acker_protocol.operations import (
    REFUSED,
    Ack,
    Fail,
    Init,
    Operation,
    OperationState,
    Outcome,
)
from acker_protocol.values import value
from acker_protocol.wire import packed
from acker_protocol.wire.operations import names_of
from numpy.typing import NDArray

IntOrArray = TypeVar("IntOrArray", int, NDArray[Any])

Indexes = Sequence[int] | NDArray[np.intp]
"""Indexes of operations in their batch."""

_BITS_64 = 2**64 - 1


class OperationFlag(IntEnum):
    """Flags of an operation.

    Each bit but the first says that an optional field follows the fixed fields; the fields follow in the order of the
    bits.

    An ``IntEnum``: an ``IntFlag`` makes a new object of every ``|``, which the hot path pays for.
    """

    OUTSTANDING_UNKNOWN = 1
    MESSAGE_TIMEOUT = 2
    PROGRESS_TIMEOUT = 4
    TEXT = 8
    COMPONENT = 16
    EDGE_HASH = 32
    TRACEPARENT = 32  # of an init, which has no edge hash
    NAMES = 64
    TRACED = 128  # no field follows


OPERATION_FIELDS = (
    ("op", "B"),
    ("bucket", "I"),
    ("root_id", "Q"),
    ("ack_val", "Q"),
    ("outstanding", "i"),
    ("flags", "B"),
    ("spout_index", "I"),
)
"""The fixed fields of an operation, big-endian: names, and type codes that `struct` and numpy share."""

_OPERATION = struct.Struct(">" + "".join(code for _, code in OPERATION_FIELDS))
_NUMBER = struct.Struct(">I")
_TEXT_LENGTH = struct.Struct(">H")
MAX_NAMES = 8_192
"""The most names of edges that are passed on with an operation; the trace of a root misses those of a longer list."""

OUTCOMES = {"A": Outcome.ACKED, "F": Outcome.FAILED, "T": Outcome.TIMED_OUT}
"""The outcomes by the codes in which Redis keeps them."""

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
REFUSED_CODES = frozenset(code for code, state in _STATES.items() if state in REFUSED)
"""The codes of refused operations."""


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The result of one operation; ``outcome`` is that of a root that had finished before."""

    state: OperationState
    outcome: Outcome | None = None


RESULTS = {code: CodeResult(state) for code, state in _STATES.items()} | {
    code: CodeResult(OperationState.FINISHED, outcome) for code, outcome in OUTCOMES.items()
}
"""The results by the codes in which Redis gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a topology's roots are spread: over ``shards``, and within each shard over ``buckets``, small hashes."""

    shards: int
    buckets: int

    def shard_of(self, root_id: IntOrArray) -> IntOrArray:
        """The shards of roots, of one or of an array of them."""
        return root_id % self.shards

    def bucket_of(self, root_id: IntOrArray) -> IntOrArray:
        """The buckets of roots within their shards, of one root or of an array of them."""
        return root_id // self.shards % self.buckets


@value
class Fingerprint:
    """What a shard remembers a request by: ``set`` is the set that remembers it, ``hash`` its even hash.

    The set holds ``partial_hash`` instead where the request's first run refused operations.
    """

    set: int
    hash: int
    partial_hash: int


@value
class ShardRequest:
    """A request's part for one shard: encoded operations, and under an idempotency key its fingerprint.

    ``positions`` are those of the operations in the request (`encode_positions`). ``is_single`` marks a request of one
    operation, which is not remembered if it is refused: its caller may send it again under the same key.
    ``may_be_joined`` marks one without a key whose operation needs no spout task that is not registered.
    """

    operations: bytes
    fingerprint: Fingerprint | None = None
    positions: bytes = b""
    is_single: bool = False
    may_be_joined: bool = False

    @property
    def args(self) -> tuple[str, str, str, bytes, bytes]:
        """The part as arguments of an apply function."""
        if (known := self.fingerprint) is None:
            return "", "", "", b"", self.operations
        partial_hash = "" if self.is_single else str(known.partial_hash)
        return str(known.set), str(known.hash), partial_hash, self.positions, self.operations


def encode_positions(apply_order: Indexes, request_order: Indexes) -> bytes:
    """Encode the position of each operation in the request, 4 bytes each, from 0; empty if it is applied in that order.

    ``request_order`` is sorted; it is the same object if the orders are equal.
    """
    if apply_order is request_order:
        return b""
    return np.searchsorted(request_order, apply_order).astype(">u4").tobytes()


def encode_operation(
    operation: Operation,
    layout: Layout,
    index_of: Callable[[str], int],
    *,
    with_trace_fields: bool = True,
    trace_threshold: int = 0,
) -> bytes:
    """Encode one operation; ``index_of`` gives the index of a spout task.

    ``with_trace_fields``: with what only explains the root, the names of edges and whether it is traced, by hand or
    because its sample is below ``trace_threshold``. A fingerprint leaves that out, for the share of traced roots may
    change.
    """
    op, ack_val, outstanding, text = _kind_and_sums(operation)
    spout_index, flags, extras = 0, 0, b""
    if isinstance(operation, Init):
        spout_index = index_of(operation.spout_task)
        flags, extras = _encode_timeouts(operation)
    for flag, given in ((OperationFlag.TEXT, text), (OperationFlag.COMPONENT, operation.component)):
        if given is not None:
            flags, extras = flags | flag, extras + encode_text(given)
    if own := _encode_edge_or_traceparent(operation):
        flags, extras = flags | own[0], extras + own[1]
    if with_trace_fields and (trace_fields := _encode_trace_fields(operation, trace_threshold)):
        flags, extras = flags | trace_fields[0], extras + trace_fields[1]
    if outstanding is None:
        flags, outstanding = flags | OperationFlag.OUTSTANDING_UNKNOWN, 0
    bucket = layout.bucket_of(operation.root_id)
    return _OPERATION.pack(op, bucket, operation.root_id, ack_val, outstanding, flags, spout_index) + extras


def encode_text(text: str) -> bytes:
    """Encode a text: its length in bytes, then UTF-8."""
    raw = text.encode()
    return _TEXT_LENGTH.pack(len(raw)) + raw


def encode_traceparent(traceparent: str) -> bytes:
    """Encode a traceparent of version 00 in 25 bytes: trace id, span id, flags."""
    return bytes.fromhex(traceparent[3:].replace("-", ""))


def encode_names(names: bytes) -> bytes:
    """Encode the names of edges, 8 bytes each: their number, then they; nothing for one, which the ack val gives."""
    count = len(names) // 8
    return _TEXT_LENGTH.pack(count) + names if 1 < count <= MAX_NAMES else b""


def name_hash(name: str) -> int:
    """Return 32 bits that replace a spout task's index in a fingerprint: its index may change between two tries."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big")


def edge_hash(root_id: IntOrArray, edge_id: IntOrArray) -> IntOrArray:
    """Hash a root and an edge into 64 bits, of integers or of arrays of them.

    Two edges of one root never collide: every step can be undone. (The steps are the finalizer of SplitMix64.)
    """
    return _mix(_mix(root_id) ^ edge_id)


def edge_of_hash(root_id: int, hashed: int) -> int:
    """Return the edge whose hash with this root `edge_hash` gives."""
    return _unmix(hashed) ^ _mix(root_id)


def fingerprint(endpoint: str, key: str, operations: bytes, *, sets: int) -> Fingerprint:
    """Hash a request's part for a shard, which spreads its fingerprints over so many ``sets``.

    ``operations`` are all that go to the shard, in the order of the request. The hash has 61 bits; it is even, and its
    successor is a signed 64-bit integer too.
    """
    digest = hashlib.blake2b(f"{endpoint}\0{key}\0".encode() + operations, digest_size=12).digest()
    even = int.from_bytes(digest[4:], "big") >> 2 & ~1
    return Fingerprint(set=int.from_bytes(digest[:4], "big") % sets, hash=even, partial_hash=even + 1)


def decode_results(codes: str) -> list[CodeResult]:
    """Decode the results of operations."""
    return [RESULTS[code] for code in codes]


def _mix(value: IntOrArray) -> IntOrArray:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _BITS_64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _BITS_64
    value ^= value >> 31
    return value


def _unmix(value: int) -> int:
    """Undo `_mix`: multiply by the inverse modulo 2**64 of each of its factors, in the opposite order."""
    value ^= value >> 31 ^ value >> 62
    value = value * 0x319642B2D24D8EC3 & _BITS_64
    value ^= value >> 27 ^ value >> 54
    value = value * 0x96DE1B173F119089 & _BITS_64
    return value ^ value >> 30 ^ value >> 60


def _kind_and_sums(operation: Operation) -> tuple[int, int, int | None, str | None]:
    """Return the kind of an operation and its form in one number, its ack val and count, and its text."""
    match operation:
        case Init(end_on=end_on):
            op = packed.INIT | (packed.END_ON_FLAGS[end_on] if end_on else 0)
            return op, operation.ack_val, operation.outstanding, operation.message_id
        case Ack(dropped=dropped):
            op = packed.ACK | (packed.DROPPED if dropped else 0)
            return op, operation.ack_val, operation.outstanding, None
        case Fail(ack_val=int() as ack_val):
            return packed.FAIL | packed.ENDS_EDGE, ack_val, operation.outstanding, operation.reason
        case Fail():
            return packed.FAIL, 0, 0, operation.reason
        case _:  # ResetTimeout
            return packed.RESET_TIMEOUT, 0, 0, None


def _encode_edge_or_traceparent(operation: Operation) -> tuple[int, bytes] | None:
    match operation:
        case Ack(edge_id=int() as edge_id) | Fail(edge_id=int() as edge_id):
            return OperationFlag.EDGE_HASH, edge_hash(operation.root_id, edge_id).to_bytes(8, "big")
        case Init(traceparent=str() as traceparent):
            return OperationFlag.TRACEPARENT, encode_traceparent(traceparent)
        case _:
            return None


def _encode_trace_fields(operation: Operation, trace_threshold: int) -> tuple[int, bytes] | None:
    """Encode what only explains a root: its flags and the names of edges; None for most operations."""
    names, is_traced = names_of(operation), isinstance(operation, Init) and bool(operation.trace)
    # rule: a single operation says that its root is in the share
    if trace_threshold:
        is_traced = is_traced or tracing.sample(operation.root_id) < trace_threshold
    if not names and not is_traced:
        return None
    encoded = encode_names(b"".join([name.to_bytes(8, "big") for name in names or ()]))
    return bool(encoded) * OperationFlag.NAMES + is_traced * OperationFlag.TRACED, encoded


def _encode_timeouts(init: Init) -> tuple[int, bytes]:
    flags, extras = 0, b""
    if init.message_timeout_ms is not None:
        flags, extras = OperationFlag.MESSAGE_TIMEOUT, _NUMBER.pack(init.message_timeout_ms)
    if init.progress_timeout_ms is not None:
        flags, extras = flags | OperationFlag.PROGRESS_TIMEOUT, extras + _NUMBER.pack(init.progress_timeout_ms)
    return flags, extras
