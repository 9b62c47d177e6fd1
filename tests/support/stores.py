"""Starts stores of every kind that people run: one server, a cluster with replicas, a primary with sentinels."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from acker_service.store.embedded import find_program

from tests.support.proxy import Proxy, proxied
from tests.support.servers import free_port

NODE_TIMEOUT_MS = 1_500
SLOTS = 16_384
NAME = "acker"
KINDS = ("valkey", "redis7", "valkey-cluster", "redis7-cluster", "valkey-sentinel", "redis7-sentinel")


@dataclass
class Member:
    """One server of a store."""

    program: str
    port: int
    folder: Path
    options: tuple[str, ...]
    shown: int = 0

    def __post_init__(self) -> None:
        """Be reached at its own port, unless a proxy stands before it."""
        self.shown = self.shown or self.port

    def start(self) -> None:
        """Start it, or start it again with the data it had."""
        self.folder.mkdir(parents=True, exist_ok=True)
        own = self.folder / "conf"  # a sentinel writes what it knows there
        own.touch()
        with (self.folder / "log").open("ab") as log:
            command = [self.program, str(own), *self.options, "--port", str(self.port), "--dir", str(self.folder)]
            if "--cluster-enabled" in self.options:
                command += ["--cluster-announce-port", str(self.shown)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self.ask("PING"), f"{self.program} on port {self.port} answers")

    def ask(self, *command: str | int) -> Any:
        """Ask it something, on a connection of its own."""
        with redis.Redis(port=self.port, socket_timeout=2, decode_responses=True) as client:
            return client.execute_command(*command)

    def info(self, *section: str) -> str:
        """Give what it says of itself, as text."""
        said = self.ask(*section)
        return said if isinstance(said, str) else "\n".join(f"{name}:{value}" for name, value in said.items())

    def stop(self) -> None:
        """kill -9: nothing is kept of it."""
        self.process.kill()
        self.process.wait()


@dataclass
class Running:
    """A store that runs: its address in the settings, and its servers, the primaries first."""

    url: str
    members: list[Member]


def find_redis7(folder: Path) -> str:
    """Find a Redis 7.0; Debian's redis-tools holds the whole server, which goes by the name it is called by."""
    for name in ("redis-server", "redis-check-rdb"):
        if found := shutil.which(name):
            program = folder / "redis-server"
            if not program.exists():
                program.symlink_to(found)
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
            if "v=7.0." in said:
                return str(program)
    missing = "no Redis 7.0 here: apt-get install redis-tools (Debian 12), or have redis-server 7.0 on the PATH"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


@contextlib.contextmanager
def running(kind: str, folder: Path, *, proxies: list[Proxy] | None = None) -> Iterator[Running]:
    """Run a store of a kind of `KINDS` until the block is left.

    With ``proxies``, which are added to, there is one before each server, and the store's address leads to them.
    """
    name, _, form = kind.partition("-")
    program = find_redis7(folder) if name == "redis7" else find_program()
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Member:
            port = free_port()
            member = Member(program=program, port=port, folder=folder / str(port), options=options)
            if proxies is not None:
                proxies.append(stack.enter_context(proxied(port)))
                member.shown = proxies[-1].port
            stack.callback(member.stop)
            member.start()
            return member

        form_store = {"": _alone, "cluster": _cluster, "sentinel": _sentinels}[form]
        yield form_store(start)


COMMON = ("--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--bind", "127.0.0.1")
FAST_SYNC = ("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
Start = Callable[..., Member]


def _alone(start: Start) -> Running:
    member = start(*COMMON)
    return Running(url=f"redis://127.0.0.1:{member.shown}", members=[member])


def _cluster(start: Start, primaries: int = 3) -> Running:
    """Form a cluster by its own commands: so many primaries, and a replica for each."""
    timeout = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS))
    buses = [free_port() for _ in range(2 * primaries)]
    nodes = [start(*COMMON, *FAST_SYNC, *timeout, "--cluster-port", str(bus)) for bus in buses]
    for node, bus in zip(nodes[1:], buses[1:], strict=True):
        nodes[0].ask("CLUSTER MEET", "127.0.0.1", node.port, bus)
    for index, node in enumerate(nodes[:primaries]):
        first, last = index * SLOTS // primaries, (index + 1) * SLOTS // primaries - 1
        node.ask("CLUSTER ADDSLOTSRANGE", first, last)
    met = f"cluster_known_nodes:{len(nodes)}"
    until(lambda: all(met in node.info("CLUSTER INFO") for node in nodes), "the nodes have met")
    for primary, replica in zip(nodes, nodes[primaries:], strict=False):
        replica.ask("CLUSTER REPLICATE", primary.ask("CLUSTER MYID"))
    until(lambda: all("cluster_state:ok" in node.info("CLUSTER INFO") for node in nodes), "the cluster is formed")
    until(lambda: all(_follows(node) for node in nodes[primaries:]), "the replicas follow")
    addresses = ",".join(f"127.0.0.1:{node.shown}" for node in nodes[:2])
    return Running(url=f"redis+cluster://{addresses}", members=nodes)


def _sentinels(start: Start) -> Running:
    """One primary, two replicas, three sentinels."""
    primary = start(*COMMON, *FAST_SYNC)
    replicas = [start(*COMMON, *FAST_SYNC, "--replicaof", "127.0.0.1", str(primary.port)) for _ in range(2)]
    until(lambda: all(_follows(replica) for replica in replicas), "the replicas follow")
    sentinels = [start("--sentinel") for _ in range(3)]
    for sentinel in sentinels:
        sentinel.ask("SENTINEL MONITOR", NAME, "127.0.0.1", primary.shown, 2)
        sentinel.ask("SENTINEL SET", NAME, "down-after-milliseconds", NODE_TIMEOUT_MS)
        sentinel.ask("SENTINEL SET", NAME, "failover-timeout", 3_000)
    known = "num-other-sentinels"
    until(lambda: all(_of(s.ask("SENTINEL MASTER", NAME), known) == 2 for s in sentinels), "the sentinels have met")
    addresses = ",".join(f"127.0.0.1:{sentinel.shown}" for sentinel in sentinels)
    return Running(url=f"redis+sentinel://{addresses}/{NAME}", members=[primary, *replicas, *sentinels])


def _follows(member: Member) -> bool:
    return "master_link_status:up" in member.info("INFO", "replication")


def _of(flat: Any, name: str) -> int:
    """Read one number of a reply of names and values."""
    said = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    return int(said[name])


def until(look: Callable[[], object], what: str, *, within: float = 30.0) -> None:
    """Wait until something is so. Fails after ``within`` seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        with contextlib.suppress(redis.RedisError, OSError):
            if look():
                return
        time.sleep(0.05)
    raise AssertionError(f"not within {within} s: {what}")
