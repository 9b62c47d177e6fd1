"""Runs the service on hosts of its own: on each a process that answers, and one that works."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.cluster.network import Host
from tests.cluster.valkeys import patiently

ROOT = Path(__file__).parents[2]
PORTS = {"api": 8700, "worker": 8701}
STOP_S = 900
RELEASE = ("-m", "acker_service")
NEXT_RELEASE = ("-m", "tests.cluster.upgraded")


@dataclass(slots=True, kw_only=True, eq=False)
class Replica:
    """A host of the service."""

    host: Host
    folder: Path
    options: tuple[str, ...]
    _processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host.address}:{PORTS['api']}"

    def start(self, program: tuple[str, ...] = RELEASE) -> None:
        """Start both processes; `wait_until_ready` says when they are."""
        for role, port in PORTS.items():
            where = ("--role", role, "--host", self.host.address, "--port", str(port), "--open")
            command = [*_env(), sys.executable, *program, "serve", *where, *self.options]
            log = self.folder / f"{self.host.name}-{role}.log"
            self._processes.append(self.host.start(command, log=log, folder=ROOT))

    def wait_until_ready(self) -> None:
        patiently(
            lambda: all(self._is_ready(port) for port in PORTS.values()),
            f"{self.host.name} is ready",
        )

    def stop(self) -> None:
        """Tell both to stop, as a rolling restart does, and wait until they have."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            assert process.wait(STOP_S) == 0, f"{self.host.name}: it did not end well; see its log"
        self._processes.clear()

    @contextlib.contextmanager
    def http(self) -> Iterator[httpx.Client]:
        """Speak to it from its own host."""
        with self.host.namespace.inside(), httpx.Client(base_url=self.url, timeout=20) as client:
            yield client

    def _is_ready(self, port: int) -> bool:
        assert all(process.poll() is None for process in self._processes), f"{self.host.name} ended; see its log"
        with self.http() as http:
            try:
                return http.get(f"http://{self.host.address}:{port}/readyz").is_success
            except httpx.HTTPError:
                return False


def _env() -> list[str]:
    """Return the words that run a program without settings of this shell."""
    return ["env", *(word for name in os.environ if name.startswith("ACKER_") for word in ("-u", name))]
