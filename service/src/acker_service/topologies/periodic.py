"""Goes through all topologies again and again."""

import asyncio
import logging
from collections.abc import Iterable

from acker_protocol.errors import ServiceError, UnknownTopology

from acker_service.background import cancel_and_wait
from acker_service.metrics.registry import Metrics
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stamp import Topology

_log = logging.getLogger(__name__)


class PeriodicTask:
    """Runs a step for every topology, every ``interval`` seconds. Any number of replicas may do the same.

    ``label`` is its value in the metrics.
    """

    def __init__(self, *, registry: TopologyRegistry, metrics: Metrics, interval: float, label: str) -> None:
        self.registry, self._interval, self._label = registry, interval, label
        self._meters = metrics.periodic
        self._task: asyncio.Task[None] | None = None
        self._runs: dict[str, asyncio.Task[None]] = {}

    async def run_for(self, topology: Topology) -> None:
        """Do what is to be done in a topology."""
        raise NotImplementedError

    async def before_pass(self) -> None:
        """Do what is to be done once a round, before the visits."""

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the rounds; a step under way is atomic and needs no waiting for."""
        if self._task is not None:
            await cancel_and_wait(self._task, *self._runs.values())

    async def _run(self) -> None:
        while True:
            try:
                await self.before_pass()
                self._start_runs(await self.registry.names())
            except ServiceError as problem:
                _log.warning("%s waits: %s", type(self).__name__, problem.detail)
            except Exception:  # noqa: BLE001 - the rounds go on whatever happens
                _log.exception("a round of %s failed", type(self).__name__)
            await self._sleep()

    def _start_runs(self, names: Iterable[str]) -> None:
        """Visit all topologies; where the last visit still goes on, none is begun, and no other waits for it."""
        going_on = {name: visit for name, visit in self._runs.items() if not visit.done()}
        self._runs = {name: going_on.get(name) or asyncio.create_task(self._run_measured(name)) for name in names}
        self._runs |= going_on

    async def _sleep(self) -> None:
        """Sleep until the next round; how much longer that takes than asked for is how busy the event loop is."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._interval
        await asyncio.sleep(self._interval)
        self._meters.loop_lag.observe(max(0.0, loop.time() - until))

    async def _run_measured(self, name: str) -> None:
        kind = type(self).__name__
        with self._meters.run_seconds[self._label].time():
            result = await self._run_guarded(kind, name)
        self._meters.runs[self._label, result].inc()

    async def _run_guarded(self, kind: str, name: str) -> str:
        """Visit a topology; says how that went."""
        try:
            await self.run_for(await self.registry.get(name))
        except UnknownTopology:
            _log.debug("topology %s went meanwhile", name)
            return "waiting"
        except ServiceError as problem:
            _log.warning("%s of topology %s waits: %s", kind, name, problem.detail)
            return "waiting"
        except Exception:  # noqa: BLE001 - what is wrong with one topology does not end the rounds
            _log.exception("%s of topology %s failed", kind, name)
            return "failed"
        return "done"
