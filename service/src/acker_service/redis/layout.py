"""Refuses a store whose keys and records have another layout than those of this release's library."""

from typing import TYPE_CHECKING

from redis.exceptions import AskError, MovedError, ResponseError

from acker_service.redis import errors, keys, library

if TYPE_CHECKING:
    from redis.asyncio import Redis

FIRST = 1
"""The layout of a store that states none: the number is written since the second."""


async def require(redis: "Redis") -> None:
    """Raise `LayoutMismatch` if a server has the configuration of a store of another layout.

    A server of a cluster that does not have the configuration is not asked for it; nor is one whose login may not
    read, because the check of its rights names what is missing.
    """
    try:
        stored = await _stored(redis)
    except (MovedError, AskError):
        return
    except ResponseError as error:
        if errors.is_denied(error):
            return
        raise
    if stored not in {None, library.layout(library.source())}:
        raise errors.LayoutMismatch(
            f"the store has layout {stored} of keys and records, and this release of Acker needs layout "
            f"{library.layout(library.source())}: empty the store (FLUSHALL), or name another one in ACKER_REDIS_URL"
        )


async def _stored(redis: "Redis") -> int | None:
    """Give the layout that a store has; None for an empty one.

    The topologies are looked for first: another process may begin this store in between, and it writes the number of
    the layout in the same step as the first topology.
    """
    has_topologies = await redis.execute_command("EXISTS", keys.TOPOLOGIES)
    if stored := await redis.execute_command("GET", keys.LAYOUT):
        return int(stored)
    return FIRST if has_topologies else None
