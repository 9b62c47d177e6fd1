"""Has the append-only file of the embedded store rewritten once a full disk has room again.

A server whose disk was full leaves a hole in the file, does not say so, and cannot read the file at its next start
(findings/aof-hole-after-full-disk.sh). A disk that was full between two looks is known by the writes that the server
refused meanwhile; one that was full for less, while nothing was written, is not noticed.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from acker_protocol.errors import StoreUnavailable

from acker_service.metrics.logs import ProblemLog
from acker_service.redis.node import Node

LOOK_INTERVAL_S = 0.2
FIRST_RETRY_S, LAST_RETRY_S = 5.0, 600.0
"""A rewrite that failed is tried again after so long, twice as long each time: each try leaves a small file behind."""

CANNOT_WRITE = (
    "the embedded store cannot write its file: its disk is full, or fails; make room, and do not stop the acker until "
    "it says that the file is rewritten: the store may not start again before"
)
CANNOT_REWRITE = (
    "the embedded store cannot rewrite its file: there is too little room for a new one beside it; make more room"
)
REWRITTEN = "the embedded store has rewritten its file"
READ = "the embedded store has started with its file"

_log = logging.getLogger(__name__)


class Step(Enum):
    """What is to be done after a look at the server."""

    NOTHING = auto()
    TELL_UNWRITTEN = auto()
    REWRITE = auto()
    TELL_FAILED = auto()
    TELL_REWRITTEN = auto()


class Damage:
    """Whether the file may have a hole, and what to do about it; it looks at what the server says, and asks nothing."""

    def __init__(self) -> None:
        self.is_there = False
        self._refused_writes = 0
        self._is_asked = False
        self._retry_at_s, self._retry_after_s = 0.0, FIRST_RETRY_S

    def next(self, said: Mapping[str, Any], now_s: float) -> Step:
        """Decide by ``INFO persistence errorstats``; the time is monotonic."""
        before, self._refused_writes = self._refused_writes, said.get("errorstat_MISCONF", {"count": 0})["count"]
        if said["aof_last_write_status"] != "ok" or self._refused_writes > before:
            self.is_there, self._is_asked = True, False
            return Step.TELL_UNWRITTEN
        if not self.is_there or said["aof_rewrite_in_progress"] or said["aof_rewrite_scheduled"]:
            return Step.NOTHING
        if self._is_asked and said["aof_last_bgrewrite_status"] == "ok":
            self.forget()
            return Step.TELL_REWRITTEN
        if self._is_asked:
            self.postpone(now_s)
            return Step.TELL_FAILED
        if now_s < self._retry_at_s:
            return Step.NOTHING
        self._is_asked = True
        return Step.REWRITE

    def postpone(self, now_s: float) -> None:
        """Try again later: the rewrite failed, or was refused."""
        self._is_asked = False
        self._retry_at_s = now_s + self._retry_after_s
        self._retry_after_s = min(2 * self._retry_after_s, LAST_RETRY_S)

    def forget(self) -> None:
        """Note that there is none: the file is rewritten, or the server has read it at a start."""
        self.is_there = self._is_asked = False
        self._retry_at_s, self._retry_after_s = 0.0, FIRST_RETRY_S


class AppendOnlyFile:
    """The append-only file of a server."""

    def __init__(self, url: str) -> None:
        self._node = Node(url, connections=1)
        self._problems = ProblemLog(_log)
        self._damage = Damage()

    def was_read(self) -> None:
        """Note that the server has started with the file: it has no hole."""
        self._damage.forget()
        self._problems.end_all(lambda _: True, READ)

    async def rewrite_if_damaged(self) -> Step:
        """Look once, and do what is to be done next. Raises `StoreUnavailable` where the server does not answer."""
        step = self._damage.next(await self._node.command("INFO", "persistence", "errorstats"), time.monotonic())
        match step:
            case Step.TELL_UNWRITTEN:
                self._problems.begin("not written", CANNOT_WRITE, level=logging.ERROR)
            case Step.TELL_FAILED:
                self._problems.begin("not rewritten", CANNOT_REWRITE, level=logging.ERROR)
            case Step.TELL_REWRITTEN:
                self._problems.end_all(lambda _: True, REWRITTEN)
            case Step.REWRITE:
                await self._rewrite()
            case Step.NOTHING:
                pass
        return step

    async def finish(self, *, within_s: float) -> None:
        """Before the server is stopped, wait for a rewrite that is needed and possible."""
        until_s = time.monotonic() + within_s
        while self._damage.is_there and time.monotonic() < until_s:
            try:
                step = await self.rewrite_if_damaged()
            except StoreUnavailable:
                return
            if step in (Step.TELL_UNWRITTEN, Step.TELL_FAILED):
                return
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def close(self) -> None:
        """Close its connection."""
        await self._node.close()

    async def _rewrite(self) -> None:
        try:
            await self._node.command("BGREWRITEAOF")
        except StoreUnavailable:
            self._damage.postpone(time.monotonic())
            raise
