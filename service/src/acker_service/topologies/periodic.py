"""Runs a task for every topology, again and again."""

import asyncio
import logging
from collections.abc import Iterable

from acker_protocol.errors import ServiceError, StoreUnavailable, UnknownTopology

from acker_service.background import cancel_and_wait, periodically
from acker_service.metrics.logs import ProblemLog
from acker_service.metrics.metrics import Metrics
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Topology

_log = logging.getLogger(__name__)


class PeriodicTask:
    """Runs for every topology every ``interval`` seconds; any number of replicas may run the same task.

    ``label`` names the task in metrics and logs.
    """

    def __init__(self, *, registry: TopologyRegistry, metrics: Metrics, interval: float, label: str) -> None:
        self.registry = registry
        self._interval = interval
        self._label = label
        self._run_metrics = metrics.periodic
        self._task: asyncio.Task[None] | None = None
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._due_at: float | None = None
        self._problems = ProblemLog(_log)

    async def run_for(self, topology: Topology) -> None:
        """Do the task for one topology."""
        raise NotImplementedError

    async def select(self) -> list[str]:
        """Return the names of the topologies to run for in a pass: all of them."""
        return await self.registry.names()

    def count_idle(self, topologies: int) -> None:
        """Count the runs of topologies that have nothing to do, which `select` left out."""
        self._run_metrics.runs[self._label, "done"].inc(topologies)

    def start(self) -> None:
        """Start the passes."""
        loop = periodically(self._pass, interval=self._interval, name=f"{self._label} pass", log=_log)
        self._task = asyncio.create_task(loop)

    async def stop(self) -> None:
        """Cancel the passes and the runs; an unfinished step of a run is atomic in Redis."""
        if self._task is not None:
            await cancel_and_wait(self._task, *self._runs.values())

    async def _pass(self) -> None:
        """Start the runs of a pass. The delay of the loop's sleep shows how busy the event loop is."""
        clock = asyncio.get_running_loop().time
        if self._due_at is not None:
            self._run_metrics.loop_lag.observe(max(0.0, clock() - self._due_at))
        try:
            self._start_runs(await self.select())
        finally:
            self._due_at = clock() + self._interval

    def _start_runs(self, names: Iterable[str]) -> None:
        """Start a run for each topology whose previous run has ended; no topology waits for another."""
        unfinished = {name: run for name, run in self._runs.items() if not run.done()}
        self._runs = {name: unfinished.get(name) or asyncio.create_task(self._run_measured(name)) for name in names}
        self._runs |= unfinished

    async def _run_measured(self, name: str) -> None:
        with self._run_metrics.run_seconds[self._label].time():
            result = await self._run_guarded(name)
        self._run_metrics.runs[self._label, result].inc()

    async def _run_guarded(self, name: str) -> str:
        """Run for one topology, and return the result as the metric's label. An error does not end the passes."""
        try:
            await self.run_for(await self.registry.get(name))
        except UnknownTopology:
            _log.debug("topology %s was deleted before its run", name)
            return "waiting"
        except ServiceError as error:
            level = logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING  # the driver logs that
            self._problems.begin(name, "%s of topology %s waits: %s", self._label, name, error.detail, level=level)
            return "waiting"
        except Exception as error:  # noqa: BLE001 - an error in one topology does not end the passes
            message = "%s of topology %s failed"
            self._problems.begin(name, message, self._label, name, level=logging.ERROR, error=error)
            return "failed"
        self._problems.end(name, "%s of topology %s works again", self._label, name)
        return "done"
