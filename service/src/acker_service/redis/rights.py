"""The rights that the library and the driver need of Redis's login, and the check that the login has them.

Redis runs a function by the rights of its caller. One that lacks a right stops half-way, and what it has written stays.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from acker_protocol.routes import channel

from acker_service.redis import keys
from acker_service.redis.errors import PermissionDenied, RightsUnknown

if TYPE_CHECKING:
    from redis.asyncio import Redis

PATTERN = "acker:*"
"""All keys and channels."""

_ON_CHANNELS = frozenset({"publish", "spublish", "ssubscribe"})
_KEY = f"{keys.shard('default', 0)}:rights"
_TOUCHED = """
append KEY value
del KEY
exists KEY
fcall acker_version 1 KEY
get KEY
hdel KEY field
hget KEY field
hgetall KEY
hincrby KEY field 1
hlen KEY
hmget KEY field
hscan KEY 0
hset KEY field value
hsetnx KEY field value
mget KEY
pexpireat KEY 1
pexpiretime KEY
sadd KEY member
scard KEY
set KEY value
sismember KEY member
smembers KEY
smismember KEY member
srem KEY member
unlink KEY
xadd KEY * field value
xdel KEY 0-0
xinfo stream KEY
xrange KEY - +
xtrim KEY maxlen 0
zadd KEY 1 member
zcount KEY 0 1
zrange KEY 0 1
zrem KEY member
zscan KEY 0
zscore KEY member
"""
"""The commands on keys that the functions and the driver run, each whole.

Redis 8.0 raises an error for one that lacks a word.
"""

_ON_KEYS = (
    *_TOUCHED.replace("KEY", _KEY).strip().splitlines(),
    *(f"hget {keys.TOPOLOGIES} field", f"hset {keys.TOPOLOGIES} field value"),
)

COMMANDS = (*_ON_KEYS, "function load -", "info", "time")
"""What every server is asked about, each command whole, with a key of Acker's if it takes one."""

WAIT = ("wait 1 1",)
"""What durability `replica:n` needs."""

HINTS = (f"spublish {keys.hints('default', 0)} -", f"ssubscribe {keys.hints('default', 0)}")
"""What announces new completions; without it waiting readers poll."""


def delivery(publish_command: str) -> str:
    """Return the command that publishes completions to subscribers."""
    return f"{publish_command.lower()} {channel('default', 'rights')} -"


async def missing(redis: "Redis", commands: Sequence[str]) -> list[str]:
    """Return those of the commands that a server does not let the login run. The library has to be loaded.

    Raises `RightsUnknown` if the server answers the question about one of them with an error.
    """
    status, *reply = await redis.execute_command("FCALL", "acker_rights_v1", 0, *commands)
    if status != b"ok":
        command, error = (word.decode() for word in reply)
        raise RightsUnknown(
            f"Redis does not say whether the login that ACKER_REDIS_URL names may run {command!r}: {error}"
        )
    [allowed] = reply
    return [command for command, flag in zip(commands, allowed, strict=True) if flag != ord("1")]


async def require(redis: "Redis", commands: Sequence[str] = COMMANDS) -> None:
    """Raise `PermissionDenied` if the login may not run one of the commands on a server, or `RightsUnknown`."""
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
