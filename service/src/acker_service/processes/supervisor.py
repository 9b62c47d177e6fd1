"""Runs several processes behind one address, starts one again that ended, and stops them all together."""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Iterable

from acker_service.background import cancel_and_wait
from acker_service.claims import address, in_use
from acker_service.components import make_components, running, store_url
from acker_service.metrics.snapshots import process_snapshot, retain_counts
from acker_service.processes.dispatcher import Dispatcher
from acker_service.processes.messages import Drain, End, Gathered
from acker_service.processes.plan import describe_end, plan_processes, restart_delay
from acker_service.processes.process import SupervisedProcess
from acker_service.settings import Settings
from acker_service.signals import cancel_start_on_signals, handled, stop_line

COLLECT_TIMEOUT_S = 1.0
"""How long a scrape waits for a process; one that is late is counted as it was last."""

_log = logging.getLogger(__name__)


class Supervisor:
    """The processes of the plan, their common address, and what ended ones have counted."""

    def __init__(self, settings: Settings, sockets: list[socket.socket]) -> None:
        self._settings = settings
        self._address = address(settings, sockets)
        self._processes = [SupervisedProcess(plan, settings, self._answer_scrape) for plan in plan_processes(settings)]
        self._tasks: dict[SupervisedProcess, asyncio.Task[None]] = {}
        self._dispatcher = Dispatcher(sockets, self._receivers)
        self._retained = retain_counts()
        self._answers: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._is_open = False

    def start(self) -> None:
        """Start all processes; they wait for the store."""
        for process in self._processes:
            self._tasks[process] = asyncio.create_task(self._keep_running(process))

    async def open(self, url: str) -> None:
        """Let all processes serve, then take connections. Raises ``RuntimeError`` if one cannot start."""
        for process in self._processes:
            process.open(url)
        ready = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait([ready, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(ready)
        _raise_errors(self._tasks.values())
        try:
            self._dispatcher.start(self._settings.backlog)
        except OSError as error:
            raise RuntimeError(in_use(self._settings.host, self._settings.port)) from error
        self._is_open = True
        _log.info("takes requests at %s", self._address)

    async def run(self) -> None:
        """Run until a signal, and until all processes have ended; the worker ends last."""
        async with running(self._end_worker_last()):
            with handled(self._stop):
                await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        _raise_errors(self._tasks.values())

    async def kill(self) -> None:
        """Kill the processes that still run."""
        await cancel_and_wait(*self._tasks.values(), *self._answers)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)  # one error is raised already, and suffices
        for process in self._processes:
            process.kill()

    def _answer_scrape(self, asking: SupervisedProcess, number: int) -> None:
        """Collect the metrics of all processes, and send them to one."""
        task = asyncio.create_task(self._gather(asking, number))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _gather(self, asking: SupervisedProcess, number: int) -> None:
        others = [process for process in self._processes if process is not asking]
        await asyncio.gather(*(process.collect(COLLECT_TIMEOUT_S) for process in others))
        known = [process.metrics for process in (asking, *others) if process.metrics is not None]
        asking.send(Gathered(number, [*known, self._retained, process_snapshot()]))

    async def _all_ready(self) -> None:
        for process in self._processes:
            await process.ready.wait()

    async def _end_worker_last(self) -> None:
        await asyncio.wait([task for process, task in self._tasks.items() if process.plan.serves])
        self._send_end(signal.SIGTERM, serving=False)

    def _receivers(self) -> list[SupervisedProcess]:
        return [process for process in self._processes if process.plan.serves and process.ready.is_set()]

    async def _keep_running(self, process: SupervisedProcess) -> None:
        """Run a process again whenever it ends. Raises ``RuntimeError`` if it ends before all have started."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                end = describe_end(await process.run())
            except OSError as error:
                end = f"cannot be started: {error}"
            self._retain(process)
            if self._stopping.is_set():
                if end != describe_end(0):
                    _log.warning("%s %s while it stopped", process.description, end)
                return
            if not self._is_open:
                raise RuntimeError(process.error or f"{process.description} {end} before it was ready")
            failures, delay = restart_delay(failures, time.monotonic() - began)
            what = f"{end}: {process.error}" if process.error else end
            _log.error("%s %s; it is started again in %g s", process.description, what, delay)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)
                return

    def _retain(self, process: SupervisedProcess) -> None:
        if process.metrics is not None:
            self._retained, process.metrics = retain_counts(self._retained, process.metrics), None

    def _stop(self, number: int) -> None:
        """Drain at the first SIGTERM; end at SIGINT, or at any further signal."""
        drain_s, is_first = self._settings.shutdown_drain_s, not self._stopping.is_set()
        drains = number == signal.SIGTERM and drain_s > 0 and is_first
        _log.info("%s", stop_line(number, drain_s if drains else 0.0))
        self._stopping.set()
        if drains:
            for process in self._processes:
                if process.plan.serves:
                    process.send(Drain())
            asyncio.get_running_loop().call_later(drain_s, self._end, number)
        else:
            self._end(number)
            if not is_first:
                self._send_end(number, serving=False)

    def _end(self, number: int) -> None:
        self._dispatcher.close()
        self._send_end(number, serving=True)

    def _send_end(self, number: int, *, serving: bool) -> None:
        for process in self._processes:
            if process.plan.serves == serving:
                process.send(End(number))


async def supervise(settings: Settings, sockets: list[socket.socket]) -> None:
    """Serve on bound sockets by several processes until SIGINT or SIGTERM, and close the sockets.

    Raises ``RuntimeError`` or ``ValueError`` with advice if they cannot start.
    """
    cancel_start_on_signals()
    supervisor = Supervisor(settings, sockets)
    try:
        supervisor.start()  # they import while the store starts and is checked
        async with store_url(settings) as url:
            await _check_store(url, settings)
            await supervisor.open(url)
            await supervisor.run()
    finally:
        await supervisor.kill()
    _log.info("stopped")


async def _check_store(url: str, settings: Settings) -> None:
    """Check the store once for all processes, and load the library. Raises ``ValueError``."""
    parts = make_components(url, settings)
    try:
        await parts.open()
    finally:
        await parts.close()


def _raise_errors(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """Raise what one of the tasks has raised."""
    for task in tasks:
        if task.done():
            task.result()
