"""Starts real servers: a Valkey, and the acker as a process of its own."""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from acker_service.redis.embedded import EmbeddedServer

from examples.support.ports import free_port

PROGRAM = ("-m", "acker_service")

TOLD = 20_000
"""So much of its log is shown with a test that failed, in characters."""


@dataclass
class AckerProcess:
    """A running ``acker serve``."""

    url: str
    command: list[str]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Speak to it on a new connection each time: one that was kept open may be closed by a server that stops."""
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=self.url, limits=limits, verify=False, timeout=20)
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out, env=_environment() | self.environment)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def terminate(self, *, within: float = 40.0) -> int:
        """SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def wait_until_ready(self, *, within: float = 90.0, asked: str = "/readyz") -> None:
        until = time.monotonic() + within
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.HTTPError):
                if self.http.get(asked).is_success:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready within {within} s:\n{self.log.read_text()}")


def run_acker(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the command line until it ends."""
    command = [sys.executable, "-c", "from acker_client._cli.main import main; main()", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=_environment() | environment
    )


@contextlib.contextmanager
def valkey(folder: Path, *, port: int = 0) -> Iterator[EmbeddedServer]:
    """Run a Valkey with its data in ``folder`` until the block is left."""
    embedded = EmbeddedServer(folder, port=port)
    asyncio.run(embedded.start())
    try:
        yield embedded
    finally:
        asyncio.run(embedded.stop())


def is_in_use(folder: Path) -> bool:
    """Whether an embedded store still lives in this folder: it holds the lock as long as it does."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def acker_serve(
    folder: Path,
    *options: str,
    port: int | None = None,
    until: str = "/readyz",
    within: float = 90.0,
    program: Sequence[str] = PROGRAM,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Iterator[AckerProcess]:
    """Run ``acker serve`` with these options until the block is left; its log lies in ``folder``.

    The block is entered once the acker answers at ``until``, ``within`` so many seconds. ``python`` is the interpreter
    that has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    log = folder / f"acker-{port}.log"
    command = [python, *program, "serve", "--port", str(port), *options]
    scheme = "https" if "--tls-cert" in options else "http"
    acker = AckerProcess(f"{scheme}://127.0.0.1:{port}", command, log, dict(environment or {}))
    try:
        acker.wait_until_ready(asked=until, within=within)
        yield acker
    except BaseException:
        sys.stderr.write(log.read_text()[-TOLD:])
        raise
    finally:
        acker.http.close()
        if acker.process.poll() is None:
            acker.terminate(within=30)


def _environment() -> dict[str, str]:
    """Return the environment without settings, but that an acker which is told to stop does not drain first."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("ACKER_")}
    return others | {"ACKER_SHUTDOWN_DRAIN_S": "0"}
