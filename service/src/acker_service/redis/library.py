"""The function library: its text, its version, and loading it into Redis."""

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from redis.asyncio import Redis

FILES = (
    "acker",
    "buckets",
    "details",
    "traces",
    "memory",
    "early",
    "remembered",
    "record",
    "failures",
    "completions",
    "delays",
    "transitions",
    "operations",
    "fast_path",
    "requests",
    "sweep",
    "grace",
    "tick",
    "mailboxes",
    "delivery",
    "dead",
    "spouts",
    "roots",
    "failure_list",
    "oldest",
    "topologies",
    "removal",
    "monitoring",
    "history",
)


@cache
def source() -> str:
    """Return the text of the library: its files, joined."""
    folder = files("acker_service.redis") / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in FILES)


def version(text: str) -> int:
    """Return the version that the text of a library states."""
    found = re.search(r"^local VERSION = (\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1))


def layout(text: str) -> int:
    """Return the number of the layout of keys and records that the text of a library states."""
    found = re.search(r"^local LAYOUT = (\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found.group(1))


async def load(redis: "Redis", text: str | None = None) -> None:
    """Load the library unless Redis has this or a newer version: replicas of two releases may run at once."""
    text = text or source()
    if await _loaded_version(redis) < version(text):
        await redis.execute_command("FUNCTION LOAD", "REPLACE", text)


def is_missing(error: object) -> bool:
    """Whether Redis lacks a function: it was emptied, or never had the library."""
    return isinstance(error, ResponseError) and "function not found" in str(error).lower()


async def _loaded_version(redis: "Redis") -> int:
    try:
        return int(await redis.execute_command("FCALL", "acker_version", 0))
    except ResponseError as error:
        if is_missing(error):
            return 0
        raise
