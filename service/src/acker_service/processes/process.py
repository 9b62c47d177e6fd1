"""One process of a supervisor: started, followed by its messages, and passed connections."""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Callable

from acker_service.background import cancel_and_wait
from acker_service.processes.messages import (
    Channel,
    Closed,
    Collect,
    Failed,
    Open,
    Ready,
    Scrape,
    Snapshot,
    Start,
    ToProcess,
    ToSupervisor,
)
from acker_service.processes.plan import ProcessPlan
from acker_service.settings import Settings
from acker_service.signals import be_stopped_by_parent_only

CHECK_INTERVAL_S = 5.0
HANGS_AFTER_S = 30.0
"""How long a process may answer nothing; then it is killed, to be started again."""

_log = logging.getLogger(__name__)


class SupervisedProcess:
    """A process of the plan, which may run many times. ``on_scrape`` is called when it asks for all metrics.

    ``metrics`` is the latest snapshot of its own, None before the first, ``error`` why it could not start,
    ``open_connections`` how many it has, and ``passed`` belongs to the dispatcher.
    """

    def __init__(
        self, plan: ProcessPlan, settings: Settings, on_scrape: "Callable[[SupervisedProcess, int], None]"
    ) -> None:
        self.plan = plan
        self._on_scrape = on_scrape
        self._start = Start(plan=plan, settings=settings.model_dump_json(), shown=settings.public())
        self.ready = asyncio.Event()
        self.open_connections = self.passed = 0
        self.metrics: bytes | None = None
        self.error: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel[ToSupervisor] | None = None
        self._connections: socket.socket | None = None
        self._url: str | None = None
        self._total = 0
        self._collected = asyncio.Event()

    @property
    def description(self) -> str:
        """The name of the process, and the process id of its latest run."""
        return self.plan.name if self._process is None else f"{self.plan.name} (pid {self._process.pid})"

    async def run(self) -> int:
        """Run the process until it ends, and return its exit code."""
        self._total = self.open_connections = 0
        self.error = None
        control = self._spawn()
        channel: Channel[ToSupervisor] = await Channel.open(control, ToSupervisor)
        self._channel = channel
        channel.send(self._start)
        if self._url is not None:
            channel.send(Open(self._url))
        check = asyncio.create_task(self._kill_if_it_hangs())
        try:
            async for message in channel.messages():
                self._handle(message)
        finally:
            self._channel = None
            self.ready.clear()
            self._collected.set()
            await cancel_and_wait(check)
            await channel.close()
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait)

    def open(self, url: str) -> None:
        """Let the process serve, now and whenever it is started again."""
        self._url = url
        self.send(Open(url))

    def send(self, message: ToProcess) -> None:
        """Send the process a message, if it runs."""
        if self._channel is not None:
            self._channel.send(message)

    def pass_on(self, connection: socket.socket) -> bool:
        """Pass a connection to the process, and return whether it could take it."""
        assert self._connections is not None
        try:
            socket.send_fds(self._connections, [b"\0"], [connection.fileno()])
        except OSError:  # it has ended, or hangs and many wait for it
            return False
        self._total += 1
        return True

    async def collect(self, within: float) -> bool:
        """Renew ``metrics``, and return whether the process answered within some seconds."""
        if not self.ready.is_set():
            return False
        self._collected.clear()
        self.send(Collect())
        try:
            await asyncio.wait_for(self._collected.wait(), within)
        except TimeoutError:
            return False
        return True

    def kill(self) -> None:
        """Kill the process, if it runs, and wait until it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _spawn(self) -> socket.socket:
        """Start the process, in a session of its own, and return our end of its control socket."""
        if self._connections is not None:
            self._connections.close()
        control, its_control = socket.socketpair()
        self._connections, its_connections = socket.socketpair()
        self._connections.settimeout(0)
        with its_control, its_connections:
            descriptors = (its_control.fileno(), its_connections.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "acker_service.processes.child", *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                preexec_fn=be_stopped_by_parent_only,  # noqa: PLW1509 - calls libc and sets signals only
            )
        return control

    def _handle(self, message: ToSupervisor) -> None:
        match message:
            case Ready():
                self.ready.set()
                _log.info("%s is ready", self.description)
            case Failed(error):
                self.error = error
            case Closed(total):
                self.open_connections = self._total - total
            case Snapshot(metrics):
                self.metrics = metrics
                self._collected.set()
            case Scrape(number, metrics):
                self.metrics = metrics
                self._on_scrape(self, number)

    async def _kill_if_it_hangs(self) -> None:
        await self.ready.wait()
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            if not await self.collect(HANGS_AFTER_S):
                _log.error("%s has not answered for %g s, and is killed", self.description, HANGS_AFTER_S)
                assert self._process is not None
                self._process.kill()
