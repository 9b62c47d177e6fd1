"""Keeps time: again and again lets every topology end what is overdue."""

import asyncio
import logging

from acker_protocol.problems import Problem

from acker_service.store.store import Store

_log = logging.getLogger(__name__)


class Tick:
    """Ticks every ``every`` seconds. Any number of replicas may; a root is told once."""

    def __init__(self, store: Store, *, every: float) -> None:
        self._store, self._every = store, every
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to tick."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End ticking; a step under way is atomic and needs no waiting for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._tick()
            except Problem as problem:
                _log.warning("the tick waits: %s", problem.detail)
            except Exception:  # noqa: BLE001 - the tick goes on whatever happens
                _log.exception("a tick failed")
            await asyncio.sleep(self._every)

    async def _tick(self) -> None:
        """Tick all topologies; what keeps one from it does not keep the others."""
        names = await self._store.topologies.names()
        results = await asyncio.gather(*(self._tick_topology(name) for name in names), return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                _log.warning("the tick of topology %s waits: %s", name, result)

    async def _tick_topology(self, name: str) -> int:
        return await self._store.ticks.tick(await self._store.topologies.get(name))
