"""Starts single Redis or Valkey processes, and forms clusters of them; the tests' stores are made of these too."""

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from acker_service.redis.embedded import find_program

from examples.support.ports import free_port

NODE_TIMEOUT_MS = 3_000
"""A node that has sent nothing for so long is taken for gone; less, and one that gets no processor is."""

PATIENT_MS = 60_000
"""Likewise, where nobody could take over."""

ESCAPE = "surrogateescape"
SLOTS = 16_384
COMMON = ("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--bind", "127.0.0.1")
FAST_SYNC = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")


@dataclass
class Member:
    """One server of a store."""

    program: str
    port: int
    folder: Path
    options: tuple[str, ...]
    shown: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Be reached at its own port, unless a proxy stands before it."""
        self.shown = self.shown or self.port

    @property
    def url(self) -> str:
        """Its address in the settings."""
        return f"redis://127.0.0.1:{self.shown}"

    def start(self) -> None:
        """Start it, or start it again with the data it had."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = self.folder / "conf"  # a sentinel writes what it knows there
        own.touch()
        with (self.folder / "log").open("ab") as log:
            command = [self.program, str(own), *self.options, "--port", str(self.port), "--dir", str(self.folder)]
            if "--cluster-enabled" in self.options:
                # the default for its bus, the port plus 10,000, is of those that the system gives to connections
                bus = () if "--cluster-port" in self.options else ("--cluster-port", str(free_port()))
                command += ["--cluster-announce-port", str(self.shown), *bus]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **self.environment})
        until(self._answers, f"{self.program} on port {self.port} answers")

    def _answers(self) -> object:
        """Whether it answers. Fails at once where it has ended, with the last that it wrote."""
        if self.process.poll() is not None:
            lines = (self.folder / "log").read_text(errors="replace").splitlines()
            raise AssertionError(f"{self.program} ended with {self.process.returncode}: {lines[-5:]}")
        return self.ask("PING")

    def ask(self, *command: str | int) -> Any:
        """Ask it something, on a connection of its own. Bytes that are no UTF-8, as in keys of buckets, are escaped."""
        name, *rest = command
        arguments = [each.encode(errors=ESCAPE) if isinstance(each, str) else each for each in rest]
        with redis.Redis(port=self.port, socket_timeout=2, decode_responses=True, encoding_errors=ESCAPE) as client:
            return client.execute_command(name, *arguments)

    def info(self, *section: str) -> str:
        """Return what it says of itself, as text."""
        said = self.ask(*section)
        return said if isinstance(said, str) else "\n".join(f"{name}:{value}" for name, value in said.items())

    def known(self) -> set[str]:
        """Return the ids of the nodes of its cluster that it knows, but for those it still shakes hands with."""
        nodes = self.ask("CLUSTER NODES").values()
        return {node["node_id"] for node in nodes if "handshake" not in node["flags"]}

    def cpu_s(self) -> float:
        """Return how many seconds of processor time it has taken."""
        return sum(float(taken) for taken in re.findall(r"used_cpu_(?:user|sys):([\d.]+)", self.info("INFO", "cpu")))

    def used_memory(self) -> int:
        """Return how many bytes it uses."""
        with redis.Redis(port=self.port, socket_timeout=2) as client:
            return int(client.info("memory")["used_memory"])

    def stop(self) -> None:
        """kill -9: nothing is kept of it."""
        self.process.kill()
        self.process.wait()


Start = Callable[..., Member]
"""Starts a server with options."""


@contextlib.contextmanager
def one(folder: Path, *options: str, program: str = "") -> Iterator[Member]:
    """Run one Valkey, or another program, until the block is left; later options win over the common ones."""
    with _starting(folder, program=program) as start:
        yield start(*COMMON, *options)


def find_redis7(folder: Path) -> str | None:
    """Find a Redis 7.0; Debian's redis-tools holds the whole server, which goes by the name it is called by."""
    for name in ("redis-server", "redis-check-rdb"):
        if found := shutil.which(name):
            program = folder / f"from-{name}" / "redis-server"
            if not program.exists():
                program.parent.mkdir()
                program.symlink_to(found)
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if "v=7.0." in said:
                return str(program)
    return None


@contextlib.contextmanager
def three(folder: Path) -> Iterator[list[Member]]:
    """Run a cluster of three without replicas until the block is left."""
    with _starting(folder) as start:
        yield form_cluster(start, primaries=3, replicas=0)


def form_cluster(start: Start, *, primaries: int, replicas: int) -> list[Member]:
    """Form a cluster by its own commands: so many primaries, and as many replicas, of the first ones first."""
    patience_ms = NODE_TIMEOUT_MS if replicas else PATIENT_MS
    timeout = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(patience_ms))
    buses = [free_port() for _ in range(primaries + replicas)]
    nodes = [start(*COMMON, *FAST_SYNC, *timeout, "--cluster-port", str(bus)) for bus in buses]
    for node, bus in zip(nodes[1:], buses[1:], strict=True):
        nodes[0].ask("CLUSTER MEET", "127.0.0.1", node.port, bus)
    for index, node in enumerate(nodes[:primaries]):
        first, last = index * SLOTS // primaries, (index + 1) * SLOTS // primaries - 1
        node.ask("CLUSTER ADDSLOTSRANGE", first, last)
    ids = [node.ask("CLUSTER MYID") for node in nodes]  # one that is only counted may go by a name of the moment
    until(lambda: all(set(ids) <= node.known() for node in nodes), "the nodes have met")
    for primary, replica in zip(ids, nodes[primaries:], strict=False):
        replica.ask("CLUSTER REPLICATE", primary)
    until(lambda: all("cluster_state:ok" in node.info("CLUSTER INFO") for node in nodes), "the cluster is formed")
    until(lambda: all(follows(node) for node in nodes[primaries:]), "the replicas follow")
    return nodes


def cluster_url(nodes: list[Member]) -> str:
    """Write the address of a cluster."""
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.shown}" for node in nodes[:2])


def follows(member: Member) -> bool:
    """Whether a replica has what its primary has."""
    return "master_link_status:up" in member.info("INFO", "replication")


def until(look: Callable[[], object], what: str, *, within: float = 90.0) -> None:
    """Wait until something is so. Fails after ``within`` seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        with contextlib.suppress(redis.RedisError, OSError):
            if look():
                return
        time.sleep(0.05)
    raise AssertionError(f"not within {within} s: {what}")


@contextlib.contextmanager
def _starting(folder: Path, *, program: str = "") -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Member:
            port = free_port()
            member = Member(program=program or find_program(), port=port, folder=folder / str(port), options=options)
            stack.callback(member.stop)
            member.start()
            return member

        yield start
