"""Runs the image as the chart does, on a host of its own that has a Valkey and no way out."""

import contextlib
import http.client
import itertools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from acker_service.store.embedded import find_program

from tests.image.engine import Engine
from tests.image.pod import Pod
from tests.support.namespaces import Namespace
from tests.support.waiting import eventually_true

URL = "http://127.0.0.1:8700"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of the image."""

    engine: Engine
    name: str

    def run(self, *command: str) -> str:
        """Run a program in the container, by no shell."""
        return self.engine.podman("exec", self.name, *command)

    def signal(self, name: str) -> None:
        self.engine.podman("kill", f"--signal={name}", self.name)

    def ended(self) -> int:
        """Wait until it has ended; gives its exit code."""
        return int(self.engine.podman("wait", self.name))

    def log(self) -> str:
        return self.engine.podman("logs", self.name)


@contextlib.contextmanager
def running(
    engine: Engine, image: str, pod: Pod, folder: Path, *options: str, ready: bool = True
) -> Iterator[Container]:
    """Run the image as the chart does, beside a Valkey. The block is entered once it lives, or is ready.

    In the block, sockets of this thread are made on its host; in the end nothing of it is left.
    """
    name = f"acker-test-{os.getpid()}-{next(_numbers)}"
    with contextlib.ExitStack() as stack:
        host = Namespace(name)
        stack.callback(host.close)
        stack.enter_context(_valkey(host, folder))
        (folder / "secret").mkdir()
        chart = (*pod.options(folder / "secret"), "--network=host", "--no-healthcheck")
        stack.callback(engine.podman, "rm", "--force", "--ignore", "--time=0", name)
        engine.podman("run", "--detach", f"--name={name}", *chart, *options, image, *pod.args, through=host.command(()))
        container = Container(engine=engine, name=name)
        stack.enter_context(host.inside())
        try:
            eventually_true(lambda: answers("/readyz" if ready else "/livez"), within=180)
        except AssertionError as fault:
            raise AssertionError(container.log()) from fault
        yield container


@contextlib.contextmanager
def _valkey(host: Namespace, folder: Path) -> Iterator[None]:
    """Run a Valkey on port 6379 of a host."""
    command = [find_program(), *("--bind", "127.0.0.1", "--port", "6379", "--dir", str(folder), "--save", "")]
    log = (folder / "log").open("wb")
    with log, subprocess.Popen(host.command([*command, "--appendonly", "yes"]), stdout=log) as valkey:
        try:
            yield
        finally:
            valkey.kill()


def answers(path: str) -> bool:
    """Whether the acker answers 2xx there."""
    try:
        return httpx.get(f"{URL}{path}", timeout=10).is_success
    except httpx.HTTPError:
        return False


def connection() -> http.client.HTTPConnection:
    """Connect later to the acker: one sends now and reads the answer afterwards."""
    return http.client.HTTPConnection(URL.removeprefix("http://"), timeout=60)
