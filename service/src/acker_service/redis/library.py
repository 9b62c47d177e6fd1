"""Knows the function library: its text, its version, how it gets into Redis."""

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from redis.asyncio import Redis

FILES = (
    "acker",
    "record",
    "completions",
    "transitions",
    "requests",
    "tick",
    "mailbox",
    "delivery",
    "dead",
    "roots",
    "topologies",
    "removal",
)

NOT_REPLICATED = frozenset(
    f"acker_{name}_v1"
    for name in ("read_counts", "read_used", "list_roots", "ended", "tips", "oldest", "leave", "note_tick")
)
"""The functions whose answers nobody relies on; on what a root or a completion says a message may be deleted."""


@cache
def source() -> str:
    """The library's text: its files, joined."""
    folder = files("acker_service.redis") / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in FILES)


def version(text: str) -> int:
    """The version that a library's text states."""
    found = re.search(r"^local VERSION = (\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1))


async def load(redis: "Redis", text: str | None = None) -> None:
    """Put the library into Redis, unless this or a newer version is there: replicas of two releases may run at once."""
    text = text or source()
    if await _loaded_version(redis) < version(text):
        await redis.execute_command("FUNCTION LOAD", "REPLACE", text)


def is_missing(fault: object) -> bool:
    """Whether Redis said that it does not know a function: it was emptied, or never had the library."""
    return isinstance(fault, ResponseError) and "function not found" in str(fault).lower()


async def _loaded_version(redis: "Redis") -> int:
    try:
        return int(await redis.execute_command("FCALL", "acker_version", 0))
    except ResponseError as fault:
        if is_missing(fault):
            return 0
        raise
