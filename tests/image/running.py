"""Runs pods of the chart by `podman kube play`, each on a host of its own that has no way out."""

import contextlib
import http.client
import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from acker_service.redis.embedded import find_program

from tests.image.engine import Engine
from tests.image.kubelet import Kept, Pod
from tests.support.namespaces import Namespace
from tests.support.waiting import eventually_true

URL = "http://127.0.0.1:8700"
PATIENCE_S = 300
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container of a pod that runs."""

    engine: Engine
    name: str
    host: Namespace

    def run(self, *command: str) -> str:
        """Run a program in the container, by no shell."""
        # A container on its host's network has none of its own to enter, so podman has to be there already.
        return self.engine.podman("exec", self.name, *command, through=self.host.command(()))

    def terminate(self) -> None:
        """Tell its first process to end; at once, while what it may take is counted from then on."""
        os.kill(int(self.engine.podman("inspect", "--format={{.State.Pid}}", self.name)), signal.SIGTERM)

    def ended(self) -> int:
        """Wait until it has ended, and return its exit code."""
        return int(self.engine.podman("wait", self.name))

    def log(self) -> str:
        """Return what it wrote, to standard output and to standard error."""
        return self.engine.podman("logs", self.name, through=("sh", "-c", '"$@" 2>&1', "sh"))


@contextlib.contextmanager
def played(engine: Engine, pod: Pod, host: Namespace, kept: Kept, folder: Path) -> Iterator[Container]:
    """Play a pod on a host; in the end nothing of it is left."""
    manifest = folder / f"{pod.name}.yaml"
    manifest.write_text(pod.playable(kept, folder))
    try:
        engine.podman("kube", "play", "--network=host", str(manifest), through=host.command(()))
        yield Container(engine=engine, name=f"{pod.name}-{pod.container['name']}", host=host)
    finally:
        engine.podman("pod", "rm", "--force", "--ignore", "--time=0", pod.name)
        engine.podman("volume", "prune", "--force")


@contextlib.contextmanager
def running(engine: Engine, pod: Pod, kept: Kept, folder: Path, *, ready: bool = True) -> Iterator[Container]:
    """Play a pod of the service beside a Valkey. The block is entered once it lives, or is ready.

    In the block, sockets of this thread are made on its host.
    """
    host = Namespace(f"acker-test-{os.getpid()}-{next(_numbers)}")
    with contextlib.ExitStack() as stack:
        stack.callback(host.close)
        stack.enter_context(_valkey(host, folder))
        container = stack.enter_context(played(engine, pod, host, kept, folder))
        stack.enter_context(host.inside())
        wait_for(pod, container, *([] if ready else ["startupProbe", "livenessProbe"]))
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


def wait_for(pod: Pod, container: Container, *kinds: str, address: str = "127.0.0.1") -> None:
    """Wait until the probes of a pod pass: those of some kinds, else all. The kubelet has less patience."""
    try:
        for kind, probe in pod.probes.items():
            if not kinds or kind in kinds:
                eventually_true(lambda probe=probe: passes(probe, container, address), within=PATIENCE_S)
    except AssertionError as fault:
        raise AssertionError(f"{kind} of {pod.name}: {container.log()}") from fault


def passes(probe: dict[str, Any], container: Container, address: str = "127.0.0.1") -> bool:
    """Ask a probe once."""
    match probe:
        case {"httpGet": {"path": path, "port": port}}:
            return answers(path, url=f"http://{address}:{port}")
        case {"tcpSocket": {"port": port}}:
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=10):
                return True
        case {"exec": {"command": command}}:
            with contextlib.suppress(AssertionError):
                container.run(*command)
                return True
    return False


def answers(path: str, *, url: str = URL) -> bool:
    """Whether the acker answers 2xx there."""
    try:
        return httpx.get(f"{url}{path}", timeout=10).is_success
    except httpx.HTTPError:
        return False


def connection() -> http.client.HTTPConnection:
    """Connect later to the acker: one sends now and reads the answer afterwards."""
    return http.client.HTTPConnection(URL.removeprefix("http://"), timeout=60)
