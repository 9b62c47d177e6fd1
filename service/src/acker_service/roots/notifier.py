"""Knows who waits for the end of a root, and wakes them.

All roots that are waited for are looked at together, ten times a second, and only while there are some.
"""

import asyncio
import contextlib
import logging
import struct
from collections.abc import Iterator, Sequence

from acker_protocol.errors import NotFound, ServiceError

from acker_service.background import Wakeup, Wakeups, cancel_and_wait
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Topology

POLL_INTERVAL_S = 0.1
MAX_ROOTS = 1_000
"""A call looks at so many at most: about a millisecond of Redis's time."""

_WHERE = struct.Struct(">IQ")

_log = logging.getLogger(__name__)


class RootNotifier:
    """Looks at the roots that are waited for in this process."""

    def __init__(self, topologies: TopologyRegistry, shards: Shards) -> None:
        self._topologies, self._shards = topologies, shards
        self._roots: Wakeups[tuple[str, str, int]] = Wakeups()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def waiting(self, topology: Topology, root_id: int) -> Iterator[Wakeup]:
        """Give one who is woken when a root is neither early nor pending any more."""
        with self._roots.waiting((topology.name, topology.incarnation, root_id)) as waiter:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run())
            yield waiter

    def wake_all(self) -> None:
        """Wake everybody."""
        self._roots.wake_all()

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _run(self) -> None:
        while self._roots:
            waited: dict[tuple[str, str], list[int]] = {}
            for name, incarnation, root_id in self._roots:
                waited.setdefault((name, incarnation), []).append(root_id)
            for topology, roots in waited.items():
                await self._wake_finished(*topology, roots)
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _wake_finished(self, name: str, incarnation: str, roots: Sequence[int]) -> None:
        try:
            for root_id in await self._finished(name, incarnation, roots):
                self._roots.wake((name, incarnation, root_id))
        except ServiceError as problem:
            _log.debug("roots of %s are not looked at for now: %s", name, problem.detail)
        except Exception:  # noqa: BLE001 - those who wait for others count on it to go on
            _log.exception("looking at roots of %s failed", name)

    async def _finished(self, name: str, incarnation: str, roots: Sequence[int]) -> list[int]:
        """Find the roots that are over; all of them if their topology is."""
        try:
            topology = await self._topologies.get(name)
            if topology.incarnation != incarnation:
                return list(roots)
            return await self._find_finished(topology, roots)
        except NotFound:
            return list(roots)

    async def _find_finished(self, topology: Topology, roots: Sequence[int]) -> list[int]:
        layout = topology.layout
        own: list[list[int]] = [[] for _ in range(layout.shards)]
        for root_id in roots:
            own[layout.shard_of(root_id)].append(root_id)
        ended: list[int] = []
        for start in range(0, max(map(len, own)), MAX_ROOTS):
            some = [mine[start : start + MAX_ROOTS] for mine in own]
            packed = [(b"".join(_WHERE.pack(layout.bucket_of(r), r) for r in mine),) for mine in some]
            topology, replies = await self._shards.call_many(topology, "acker_ended_v1", packed)
            for mine, (reply,) in zip(some, replies, strict=True):
                ended += [root_id for root_id, over in zip(mine, reply, strict=True) if over == ord("1")]
        return ended
