"""Describes calls to Redis without making them: the command, and how its reply is decoded."""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from acker_protocol.values import value

from acker_service.redis import keys
from acker_service.redis.stamp import Stamp, unwrap

R = TypeVar("R")

Argument = str | bytes | int
Command = tuple[Argument, ...]


@value
class Call(Generic[R]):
    """One command and its decoder; `RedisClient.execute` sends it and gives the decoded reply.

    ``key`` decides which server gets the command; ``name`` is that of the function or command, as metrics show it.
    With ``confirm``, the reply counts only once enough replicas have what it is based on (see `Durability`).
    """

    key: str
    name: str
    command: Command
    decode: Callable[[Any], R]
    confirm: bool = True


@value
class ShardCall(Generic[R]):
    """A function of the library without the shard's key and stamp, which `Shards` adds."""

    function: str
    args: Command = ()
    decode: Callable[[list[Any]], R]
    confirm: bool = True

    def at(self, key: str, stamp: Stamp) -> Call[R]:
        """Address the call to one shard by its key; decoding raises `StaleStamp` if the shard has another stamp."""
        command = ("FCALL", self.function, 1, key, stamp.text, *self.args)
        decode = partial(unwrap, key, self.decode)
        return Call(key=key, name=self.function, command=command, decode=decode, confirm=self.confirm)


def fcall(
    function: str,
    function_keys: tuple[str, ...],
    *args: Argument,
    decode: Callable[[Any], R],
    confirm: bool = True,
    name: str | None = None,
) -> Call[R]:
    """Describe a call of a function of the library on keys that are known; metrics show ``name``, if it is given."""
    command = ("FCALL", function, len(function_keys), *function_keys, *args)
    return Call(key=function_keys[0], name=name or function, command=command, decode=decode, confirm=confirm)


def read(command: str, key: str, *args: Argument, decode: Callable[[Any], R]) -> Call[R]:
    """Describe a plain command that only reads or publishes; no replica has to confirm it."""
    return Call(key=key, name=command, command=(command, key, *args), decode=decode, confirm=False)


def nothing(_: object) -> None:
    """Decode a reply that holds nothing of use."""


def shard_keys(topology: str, count: int) -> list[str]:
    """Return the keys that hold the stamps of a topology's shards."""
    return [keys.shard(topology, number) for number in range(count)]


def hint_channels(topology: str, shards: int) -> list[str]:
    """Return the shard channels on which the shards of a topology announce new completions."""
    return [keys.hints(topology, number) for number in range(shards)]


def decode_hint(message: bytes) -> tuple[str, int] | None:
    """Read the incarnation and the spout index from a hint; None if the message is no hint."""
    incarnation, _, index = message.decode(errors="replace").partition(" ")
    return (incarnation, int(index)) if index.isdecimal() else None
