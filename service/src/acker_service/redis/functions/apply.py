"""The functions of the library that apply requests to the roots of one shard (lua/requests.lua)."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from operator import attrgetter
from typing import Any

from acker_protocol.values import value

from acker_service.redis.calls import Command, ShardCall
from acker_service.redis.codec import Indexes, ShardRequest

_FREE_SLOTS = struct.Struct(">Ii")
_LIMITS = struct.Struct(">BIQQQ")
_SHARDS = struct.Struct(">I")
_NO_LIMIT, _NO_BYTES_LIMIT = 2**32 - 1, 2**40
_NEEDED, _REPLAYED = "?", "="
_ARGS = attrgetter("args")

UNLIMITED = 2**30
"""More slots than a spout task uses: for one without a cap."""

_MAILBOX_FULL = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlots:
    """How many more roots a spout task may have pending; none while its mailbox is full."""

    spout_index: int
    slots: int
    mailbox_full: bool = False


def encode_free_slots(spouts: Iterable[FreeSlots]) -> bytes:
    """Encode the free slots of spout tasks."""
    return b"".join(
        _FREE_SLOTS.pack(spout.spout_index, _MAILBOX_FULL if spout.mailbox_full else spout.slots) for spout in spouts
    )


class SpoutCheck(IntEnum):
    """What a call does with a request whose inits need a spout task that is not registered.

    NONE: there is no such init. IF_NEEDED: such a request is not applied, and answered with `SpoutsNeeded`. ONLY: every
    request is answered so, and none is applied.
    """

    NONE = 0
    IF_NEEDED = 1
    ONLY = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApplyLimits:
    """The limits of an apply call; ``packed`` are they as Lua reads them. Calls with the same object can be one.

    ``max_early`` is the most early roots that the shard may have, ``max_early_bytes`` the most bytes that they may take
    (None: any number). ``max_remembered`` is the most bytes that its remembered edges and requests may take, and
    ``max_remembered_if_full`` those up to which edges are remembered in a full store.
    With ``count_shards`` the free slots of the call are caps: Redis takes off what is pending in so many shards, which
    are all of the topology's and on one server.
    """

    max_early: int | None = None
    max_early_bytes: int | None = None
    max_remembered: int | None = None
    max_remembered_if_full: int | None = None
    spouts: SpoutCheck = SpoutCheck.NONE
    count_shards: int | None = None
    packed: bytes = field(init=False)

    def __post_init__(self) -> None:
        roots = _NO_LIMIT if self.max_early is None else self.max_early
        sizes = (self.max_early_bytes, self.max_remembered, self.max_remembered_if_full)
        packed = _LIMITS.pack(self.spouts, roots, *(_NO_BYTES_LIMIT if size is None else size for size in sizes))
        shards = b"" if self.count_shards is None else _SHARDS.pack(self.count_shards)
        object.__setattr__(self, "packed", packed + shards)


@value
class Applied:
    """The results of one request in one shard: one code per operation; ``replayed`` if it had been applied before."""

    codes: str
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutsNeeded:
    """The reply to a request that was not applied: one mark per operation, in the order of its bytes.

    `REGISTER` marks an init whose spout task has to be registered. `FIND` marks one whose root is pending under a spout
    task that may have been registered since it was looked for.
    """

    marks: str

    def marked(self, mark: str, apply_order: Indexes) -> list[int]:
        """Return the indexes in their batch of the operations with a mark."""
        return [int(index) for index, own in zip(apply_order, self.marks, strict=True) if own == mark]


REGISTER, FIND = "?", "!"

Result = Applied | SpoutsNeeded
"""What a shard answers a request."""


@value
class AppliedRequests:
    """The results of all requests of a call, and the free slots that they left, packed as they were given."""

    free_slots: bytes
    results: list[Result]


def apply(
    settings: bytes, free_slots: bytes, limits: ApplyLimits, requests: Sequence[ShardRequest]
) -> ShardCall[AppliedRequests]:
    """Apply requests, one after the other; Redis refuses the call when its memory is full.

    ``free_slots`` are those of capped spout tasks (`encode_free_slots`), empty without a cap.
    """
    return ShardCall(function="acker_apply_v2", args=_args(settings, free_slots, limits, requests), decode=_applied)


def apply_without_new_roots(
    settings: bytes, free_slots: bytes, limits: ApplyLimits, requests: Sequence[ShardRequest]
) -> ShardCall[AppliedRequests]:
    """Apply requests, but refuse what would begin a root; Redis runs this call even when its memory is full."""
    return ShardCall(
        function="acker_apply_full_v2", args=_args(settings, free_slots, limits, requests), decode=_applied
    )


def _args(settings: bytes, free_slots: bytes, limits: ApplyLimits, requests: Sequence[ShardRequest]) -> Command:
    args: Command = (settings, free_slots, limits.packed)
    return args + requests[0].args if len(requests) == 1 else args + tuple(chain.from_iterable(map(_ARGS, requests)))


ApplyFunction = Callable[[bytes, bytes, ApplyLimits, Sequence[ShardRequest]], ShardCall[AppliedRequests]]
"""`apply` or `apply_without_new_roots`."""


def _applied(reply: list[Any]) -> AppliedRequests:
    return AppliedRequests(free_slots=reply[0], results=[_result(codes.decode()) for codes in reply[1:]])


def _result(codes: str) -> Result:
    if codes[0] == _NEEDED:
        return SpoutsNeeded(marks=codes[1:])
    return Applied(codes=codes[1:], replayed=codes[0] == _REPLAYED)
