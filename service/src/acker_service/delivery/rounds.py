"""Goes through all topologies again and again."""

import asyncio
import logging

from acker_protocol.problems import Problem

from acker_service.store.store import Store
from acker_service.store.topology import Topology
from acker_service.tasks import end

_log = logging.getLogger(__name__)


class Rounds:
    """Visits every topology every ``every`` seconds. Any number of replicas may do the same."""

    def __init__(self, store: Store, *, every: float) -> None:
        self.store, self._every = store, every
        self._task: asyncio.Task[None] | None = None

    async def visit(self, topology: Topology) -> None:
        """Do what is to be done in a topology."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the rounds; a step under way is atomic and needs no waiting for."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self._visit_all()
            except Problem as problem:
                _log.warning("%s waits: %s", type(self).__name__, problem.detail)
            except Exception:  # noqa: BLE001 - the rounds go on whatever happens
                _log.exception("a round of %s failed", type(self).__name__)
            await asyncio.sleep(self._every)

    async def _visit_all(self) -> None:
        """Visit all topologies; what keeps one from it does not keep the others."""
        names = await self.store.topologies.names()
        results = await asyncio.gather(*(self._visit(name) for name in names), return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                _log.warning("%s of topology %s waits: %s", type(self).__name__, name, result)

    async def _visit(self, name: str) -> None:
        await self.visit(await self.store.topologies.get(name))
