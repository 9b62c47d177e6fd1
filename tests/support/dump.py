"""Copies what a store holds, to see whether a call changed anything."""

from acker_service.components import Components

from tests.support.redis_side import everywhere

_READ_ALL = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  found[#found + 1] = { key, redis.call('DUMP', key), redis.call('PEXPIRETIME', key) }
end
return found
"""


async def dump(parts: Components) -> dict[bytes, tuple[bytes, int]]:
    """Return every key of the store with its value, serialized, and the time when it expires (-1: never)."""
    found = await everywhere(parts, "EVAL", _READ_ALL, 0)
    return {key: (value, expires) for part in found for key, value, expires in part}
