"""The rights that the library and the driver need of Redis's login, and the check that the login has them.

Redis runs a function by the rights of its caller. One that lacks a right stops half-way, and what it has written stays.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from acker_protocol.routes import channel

from acker_service.redis import keys
from acker_service.redis.errors import PermissionDenied

if TYPE_CHECKING:
    from redis.asyncio import Redis

PATTERN = "acker:*"
"""All keys and channels."""

_ON_CHANNELS = frozenset({"publish", "spublish", "ssubscribe"})
_KEY = f"{keys.shard('default', 0)}:rights"
_KEYED = (
    "append del exists get hdel hget hgetall hincrby hlen hmget hscan hset hsetnx mget pexpireat pexpiretime sadd set "
    "sismember smembers smismember srem unlink xadd xdel xrange xtrim zadd zcount zrange zrem zscan zscore"
)
"""The commands on keys that the functions and the driver run, but for XINFO, whose key is its second argument."""

_ON_KEYS = (
    *(f"{name} {_KEY}" for name in _KEYED.split()),
    *(f"xinfo stream {_KEY}", f"fcall acker_version 1 {_KEY}"),
    *(f"hget {keys.TOPOLOGIES}", f"hset {keys.TOPOLOGIES}"),
)

COMMANDS = (*_ON_KEYS, "function load -", "info", "time")
"""What every server is asked about, each command with a key of Acker's if it takes one."""

WAIT = ("wait 1 1",)
"""What durability `replica:n` needs."""

HINTS = (f"spublish {keys.hints('default', 0)} -", f"ssubscribe {keys.hints('default', 0)}")
"""What announces new completions; without it waiting readers poll."""


def delivery(publish_command: str) -> str:
    """Give the command that publishes completions to subscribers."""
    return f"{publish_command.lower()} {channel('default', 'rights')} -"


async def missing(redis: "Redis", commands: Sequence[str]) -> list[str]:
    """Give those of the commands that a server does not let the login run. The library has to be loaded."""
    _, allowed = await redis.execute_command("FCALL", "acker_rights_v1", 0, *commands)
    return [command for command, flag in zip(commands, allowed, strict=True) if flag != ord("1")]


async def require(redis: "Redis", commands: Sequence[str] = COMMANDS) -> None:
    """Raise `PermissionDenied` if the login may not run one of the commands on a server."""
    if lacking := await missing(redis, commands):
        raise PermissionDenied(
            f"the login that ACKER_REDIS_URL names lacks rights, and a function would stop half-way: "
            f"grant it {grants(lacking)} (docs/redis.md lists all)"
        )


def grants(lacking: Collection[str]) -> str:
    """Write the rules of ACL SETUSER that allow these commands on Acker's keys and channels.

    If no command on a key is allowed, the keys are what is missing.
    """
    without_keys = [command for command in lacking if command not in _ON_KEYS]
    if len(lacking) - len(without_keys) == len(_ON_KEYS):
        lacking = without_keys
        rules = {f"~{PATTERN}": None}
    else:
        rules = {}
    for command in lacking:
        name = command.partition(" ")[0]
        if command in _ON_KEYS or name in _ON_CHANNELS:
            rules[f"{'&' if name in _ON_CHANNELS else '~'}{PATTERN}"] = None
        rules[f"+{name}|load" if name == "function" else f"+{name}"] = None
    return " ".join(sorted(rules, key=lambda rule: rule.startswith("+")))
