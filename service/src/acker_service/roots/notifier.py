"""Wakes callers that wait for the end of a root.

All roots with waiting callers are polled together, ten times a second, and only while there are any.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence

from acker_protocol.errors import NotFound, ServiceError

from acker_service.background import Wakeup, Wakeups, cancel_and_wait
from acker_service.redis import functions
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.shards import Shards
from acker_service.topologies.topology import Topology

POLL_INTERVAL_S = 0.1
MAX_ROOTS = 1_000
"""Roots that one call checks at most: about a millisecond of Redis's time."""

_log = logging.getLogger(__name__)


class RootNotifier:
    """Polls the roots with waiting callers in this process."""

    def __init__(self, registry: TopologyRegistry, shards: Shards) -> None:
        self._registry = registry
        self._shards = shards
        self._roots: Wakeups[tuple[str, str, int]] = Wakeups()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def waiting(self, topology: Topology, root_id: int) -> Iterator[Wakeup]:
        """Return a wakeup that triggers when a root is neither early nor pending."""
        with self._roots.waiting((topology.name, topology.incarnation, root_id)) as wakeup:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run())
            yield wakeup

    def wake_all(self) -> None:
        """Wake all callers."""
        self._roots.wake_all()

    async def stop(self) -> None:
        """Stop polling."""
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
        except ServiceError as error:
            _log.debug("roots of %s are not looked at for now: %s", name, error.detail)
        except Exception:  # noqa: BLE001 - callers that wait for other roots rely on the loop
            _log.exception("looking at roots of %s failed", name)

    async def _finished(self, name: str, incarnation: str, roots: Sequence[int]) -> list[int]:
        """Find the roots that are finished or unknown; all of them if their topology is deleted."""
        try:
            topology = await self._registry.get(name)
            if topology.incarnation != incarnation:
                return list(roots)
            return await self._find_finished(topology, roots)
        except NotFound:
            return list(roots)

    async def _find_finished(self, topology: Topology, roots: Sequence[int]) -> list[int]:
        layout = topology.layout
        by_shard: list[list[int]] = [[] for _ in range(layout.shards)]
        for root_id in roots:
            by_shard[layout.shard_of(root_id)].append(root_id)
        finished: list[int] = []
        for start in range(0, max(map(len, by_shard)), MAX_ROOTS):
            chunks = [own[start : start + MAX_ROOTS] for own in by_shard]
            calls = [
                functions.roots.ended((layout.bucket_of(root_id), root_id) for root_id in chunk) for chunk in chunks
            ]
            topology, replies = await self._shards.call_each(topology, calls)
            for chunk, flags in zip(chunks, replies, strict=True):
                finished += [root_id for root_id, is_over in zip(chunk, flags, strict=True) if is_over]
        return finished
