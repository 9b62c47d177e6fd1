"""Runs the image as the chart does, on a host of its own that has a Valkey and no way out."""

import contextlib
import http.client
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from acker_service.store.embedded import find_program

from tests.image.engine import Engine
from tests.support.namespaces import Namespace
from tests.support.waiting import eventually_true

URL = "http://127.0.0.1:8700"
CONFINED = (
    *("--user=65532:65532", "--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp:rw,nosuid,nodev,noexec,size=64m"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=512m", "--pids-limit=256"),
)
"""What the securityContext of the chart comes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of the image; ``host`` is the namespace it runs in."""

    engine: Engine
    host: Namespace
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
def host_with_valkey(folder: Path) -> Iterator[Namespace]:
    """A namespace with a Valkey on its port 6379; in the block, sockets of this thread are made in it."""
    host = Namespace(f"acker-image-{os.getpid()}")
    command = [find_program(), *("--bind", "127.0.0.1", "--port", "6379", "--dir", str(folder), "--save", "")]
    valkey = subprocess.Popen(host.command([*command, "--appendonly", "yes"]), stdout=subprocess.DEVNULL)
    try:
        with host.inside():
            yield host
    finally:
        valkey.kill()
        valkey.wait()
        host.close()


@contextlib.contextmanager
def started(engine: Engine, host: Namespace, image: str, *options: str, ready: bool = True) -> Iterator[Container]:
    """Run the image as the chart does until the block is left, which is entered once it lives, or is ready."""
    name = f"acker-test-{os.getpid()}"
    confined = (*CONFINED, "--network=host", "--no-healthcheck", "--env=ACKER_REDIS_URL=redis://127.0.0.1:6379/0")
    engine.podman("run", "--detach", f"--name={name}", *confined, *options, image, through=host.command(()))
    container = Container(engine=engine, host=host, name=name)
    try:
        eventually_true(lambda: answers("/readyz" if ready else "/livez"), within=60)
        yield container
    except BaseException:
        print(container.log())  # noqa: T201 - pytest shows it where the test fails
        raise
    finally:
        engine.podman("rm", "--force", "--time=0", name)


def answers(path: str) -> bool:
    """Whether the acker answers 2xx there."""
    try:
        return httpx.get(f"{URL}{path}", timeout=10).is_success
    except httpx.HTTPError:
        return False


def connection() -> http.client.HTTPConnection:
    """Connect later to the acker: one sends now and reads the answer afterwards."""
    return http.client.HTTPConnection(URL.removeprefix("http://"), timeout=60)
