"""Goes through all topologies again and again."""

import asyncio
import logging
from collections.abc import Iterable

from acker_protocol.problems import Problem, UnknownTopology

from acker_service.store.store import Store
from acker_service.store.topology import Topology
from acker_service.tasks import end

_log = logging.getLogger(__name__)


class Rounds:
    """Visits every topology every ``every`` seconds. Any number of replicas may do the same."""

    def __init__(self, store: Store, *, every: float) -> None:
        self.store, self._every, self._meters = store, every, store.meters.rounds
        self._task: asyncio.Task[None] | None = None
        self._visits: dict[str, asyncio.Task[None]] = {}

    async def visit(self, topology: Topology) -> None:
        """Do what is to be done in a topology."""
        raise NotImplementedError

    async def begin(self) -> None:
        """Do what is to be done once a round, before the visits."""

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the rounds; a step under way is atomic and needs no waiting for."""
        if self._task is not None:
            await end(self._task, *self._visits.values())

    async def _run(self) -> None:
        while True:
            try:
                await self.begin()
                self._begin_visits(await self.store.topologies.names())
            except Problem as problem:
                _log.warning("%s waits: %s", type(self).__name__, problem.detail)
            except Exception:  # noqa: BLE001 - the rounds go on whatever happens
                _log.exception("a round of %s failed", type(self).__name__)
            await self._rest()

    def _begin_visits(self, names: Iterable[str]) -> None:
        """Visit all topologies; where the last visit still goes on, none is begun, and no other waits for it."""
        going_on = {name: visit for name, visit in self._visits.items() if not visit.done()}
        self._visits = {name: going_on.get(name) or asyncio.create_task(self._visit(name)) for name in names}
        self._visits |= going_on

    async def _rest(self) -> None:
        """Sleep until the next round; how much longer that takes than asked for is how busy the event loop is."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._every
        await asyncio.sleep(self._every)
        self._meters.loop_lag.observe(max(0.0, loop.time() - until))

    async def _visit(self, name: str) -> None:
        kind = type(self).__name__
        with self._meters.visit_seconds[kind.lower()].time():
            result = await self._visited(kind, name)
        self._meters.visits[kind.lower(), result].inc()

    async def _visited(self, kind: str, name: str) -> str:
        """Visit a topology; says how that went."""
        try:
            await self.visit(await self.store.topologies.get(name))
        except UnknownTopology:
            _log.debug("topology %s went meanwhile", name)
            return "waiting"
        except Problem as problem:
            _log.warning("%s of topology %s waits: %s", kind, name, problem.detail)
            return "waiting"
        except Exception:  # noqa: BLE001 - what is wrong with one topology does not end the rounds
            _log.exception("%s of topology %s failed", kind, name)
            return "failed"
        return "done"
