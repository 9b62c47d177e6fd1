"""Refuses a store whose keys and records have another layout than those of this release's library."""

from typing import TYPE_CHECKING

from redis.exceptions import AskError, MovedError, ResponseError

from acker_service.redis import errors, keys, library

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def require(redis: "Redis") -> None:
    """Raise `LayoutMismatch` if a server has the configuration of a store of another layout.

    An empty store has no number: it gets one in the step that writes its first topology. A server of a cluster that
    does not have the configuration is not asked for it; nor is one whose login may not read, because the check of its
    rights names what is missing.
    """
    try:
        stored = await redis.execute_command("GET", keys.LAYOUT)
    except (MovedError, AskError):
        return
    except ResponseError as error:
        if errors.is_denied(error):
            return
        raise
    own = library.layout(library.source())
    if stored is not None and int(stored) != own:
        raise errors.LayoutMismatch(
            f"the store has layout {int(stored)} of keys and records, and this release of Acker needs layout "
            f"{own}: empty the store (FLUSHALL), or name another one in ACKER_REDIS_URL"
        )
