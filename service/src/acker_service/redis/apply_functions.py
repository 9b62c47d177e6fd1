"""The functions of the library that apply requests to the roots of one shard (lua/requests.lua)."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from acker_service.redis.calls import ShardCall
from acker_service.redis.codec import ShardRequest

_LIMITS = struct.Struct(">BI")
_NO_LIMIT = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyLimits:
    """The limits of an apply call: the most early roots of the shard (None: any number).

    ``has_unregistered`` says that an init may name a spout task that is not registered.
    """

    max_early: int | None = None
    has_unregistered: bool = False

    @property
    def packed(self) -> bytes:
        """The limits as Lua reads them."""
        return _LIMITS.pack(self.has_unregistered, _NO_LIMIT if self.max_early is None else self.max_early)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The results of one request in one shard: one code per operation; ``replayed`` if it had been applied before."""

    codes: str
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRequests:
    """The results of all requests of a call, and the free slots that they left, packed as they were given."""

    free_slots: bytes
    results: list[Applied]


def apply(
    settings: bytes, free_slots: bytes, limits: ApplyLimits, requests: Sequence[ShardRequest]
) -> ShardCall[AppliedRequests]:
    """Apply requests, one after the other; Redis refuses the call when its memory is full.

    ``free_slots`` are those of capped spout tasks (`encode_free_slots`), empty without a cap.
    """
    args = (settings, free_slots, limits.packed, *(arg for request in requests for arg in request.args))
    return ShardCall(function="acker_apply_v2", args=args, decode=_applied)


def apply_without_inits(
    settings: bytes, free_slots: bytes, limits: ApplyLimits, requests: Sequence[ShardRequest]
) -> ShardCall[AppliedRequests]:
    """Apply requests, but refuse what would begin a root; Redis runs this call even when its memory is full."""
    args = (settings, free_slots, limits.packed, *(arg for request in requests for arg in request.args))
    return ShardCall(function="acker_apply_full_v2", args=args, decode=_applied)


ApplyFunction = Callable[[bytes, bytes, ApplyLimits, Sequence[ShardRequest]], ShardCall[AppliedRequests]]
"""`apply` or `apply_without_inits`."""


def _applied(reply: list[Any]) -> AppliedRequests:
    results = [Applied(codes=codes[1:].decode(), replayed=codes[:1] == b"=") for codes in reply[1:]]
    return AppliedRequests(free_slots=reply[0], results=results)
