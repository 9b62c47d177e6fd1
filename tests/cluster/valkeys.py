"""Forms a Valkey Cluster of three primaries with a replica each, every one on a host of its own."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import redis
from acker_service.redis.embedded import find_program

from bench.servers import SLOTS, until
from tests.cluster.network import Host, Network

NODE_TIMEOUT_MS = 2_000
"""After so long without a word a primary is taken for gone, and stops answering if it is the one that is cut off."""

PRIMARIES = 3
patiently = partial(until, within=900)
"""Waits until something is so, on a machine with other things to do."""

PORT = 6379
ANSWER_S = 30.0
_OPTIONS = (
    *("--port", str(PORT), "--protected-mode", "no", "--save", "", "--appendonly", "yes"),
    *("--maxmemory-policy", "noeviction", "--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
    *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
    *("--cluster-replica-validity-factor", "450"),  # as long as we are patient, however slow the votes are
)

AGAIN_S = 10.0
"""Nodes that were too slow give up a handshake after 2 s, and a failover after 5 s."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """A Valkey on its host; its data survive a restart."""

    host: Host
    folder: Path
    options: tuple[str, ...] = field(default=())

    def start(self) -> None:
        """Start it with the data it has, and wait until it answers."""
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        self.folder.mkdir(exist_ok=True)
        where = ("--bind", self.host.address, "--cluster-announce-ip", self.host.address, "--dir", str(self.folder))
        self.host.start([find_program(), *_OPTIONS, *where, *self.options], log=self.folder / "log")

    def mend(self) -> None:
        """Cut off what is broken at the end of its append-only file, as one does after a power cut.

        A file system may have given the file its new length without what was written there: Valkey refuses to start.
        (The program of the server is that of `valkey-check-aof` too, if it is called by that name.)
        """
        for file in self.folder.glob("appendonlydir/*.incr.aof"):
            check = [Path(find_program()).name.replace("-server", "-check-aof"), "--fix", str(file)]
            subprocess.run(check, executable=find_program(), input=b"y\n", capture_output=True, check=True)

    def wait_until_it_answers(self) -> None:
        patiently(lambda: self.ask("PING"), f"{self.host.name} answers")

    def ask(self, *command: str | int) -> Any:
        """Ask it something, from its own host."""
        with self._client() as client:
            return client.execute_command(*command)

    def has_rewritten(self) -> bool:
        """Whether it does not rewrite its append-only file, and did so when it was told last."""
        told = self.ask("INFO", "persistence")
        under_way = told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"]
        return not under_way and bool(told["aof_last_bgrewrite_status"] == "ok")

    @contextlib.contextmanager
    def _client(self) -> Iterator["redis.Redis"]:
        """Return a client with one connection."""
        options = {"socket_timeout": ANSWER_S, "decode_responses": True, "single_connection_client": True}
        with self.host.namespace.inside(), redis.Redis(host=self.host.address, port=PORT, **options) as client:
            yield client

    def knows(self, said: str) -> bool:
        """Whether it says this of the cluster."""
        told = self.ask("CLUSTER INFO")
        lines = told.splitlines() if isinstance(told, str) else [f"{name}:{value}" for name, value in told.items()]
        return said in lines

    def peers(self) -> int:
        """How many nodes it knows and has shaken hands with."""
        return sum("handshake" not in node["flags"] for node in self.ask("CLUSTER NODES").values())

    def take_over(self) -> None:
        """Take its primary's place, which loses nothing."""
        _insist(lambda: self.ask("CLUSTER FAILOVER"), self.is_primary, f"{self.host.name} took over")

    def is_primary(self) -> bool:
        return bool(self.ask("ROLE")[0] == "master")

    def follows(self) -> bool:
        """Whether it is a replica that has what its primary has."""
        role = self.ask("ROLE")
        return bool(role[0] == "slave" and role[3] == "connected")

    def has_replica(self) -> bool:
        """Whether it is a primary that a replica keeps up with."""
        role = self.ask("ROLE")
        return bool(role[0] == "master" and role[2])


@dataclass(slots=True, kw_only=True)
class Valkeys:
    """The nodes: three that begin as primaries, then the other of each shard in the same order."""

    nodes: list[Node]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{node.host.address}:{PORT}" for node in self.nodes)

    def pairs(self) -> list[tuple[Node, Node]]:
        """Return the two nodes of each shard, the primary that it has now before its replica."""
        shards = zip(self.nodes[:PRIMARIES], self.nodes[PRIMARIES:], strict=True)
        return [(one, other) if one.is_primary() else (other, one) for one, other in shards]

    def start(self) -> None:
        """Start all at once."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait_until_it_answers()

    def settle(self) -> None:
        """Wait until each shard has a primary with a replica, and all nodes know it."""
        patiently(
            lambda: all(node.knows("cluster_state:ok") for node in self.nodes),
            "the cluster is whole",
        )
        patiently(self._is_paired, "every primary has its replica")

    def flush(self) -> None:
        """Have all that was written so far on the disks: in append-only files that are written, and flushed, anew."""
        for node in self.nodes:
            patiently(node.has_rewritten, f"{node.host.name} rewrites nothing")
            patiently(partial(node.ask, "BGREWRITEAOF"), f"{node.host.name} rewrites")
            patiently(node.has_rewritten, f"{node.host.name} has rewritten")

    def _is_paired(self) -> bool:
        return all(primary.has_replica() and replica.follows() for primary, replica in self.pairs())


def form(network: Network, folder: Path, *, shaped: frozenset[str], options: tuple[str, ...]) -> Valkeys:
    """Start the nodes on hosts of their own, r1 to r6, and form the cluster by its own commands."""
    names = [f"r{number}" for number in range(1, 2 * PRIMARIES + 1)]
    hosts = [network.host(name, shaped=name in shaped) for name in names]
    valkeys = Valkeys(nodes=[Node(host=host, folder=folder / host.name, options=options) for host in hosts])
    nodes = valkeys.nodes
    valkeys.start()
    for index, node in enumerate(nodes[:PRIMARIES]):
        node.ask("CLUSTER ADDSLOTSRANGE", index * SLOTS // PRIMARIES, (index + 1) * SLOTS // PRIMARIES - 1)
    _insist(lambda: _introduce(nodes), lambda: not _strangers(nodes), "the nodes have met")
    for primary, replica in zip(nodes[:PRIMARIES], nodes[PRIMARIES:], strict=True):
        replica.ask("CLUSTER REPLICATE", primary.ask("CLUSTER MYID"))
    valkeys.settle()
    return valkeys


def _introduce(nodes: list[Node]) -> None:
    for node in _strangers(nodes):
        nodes[0].ask("CLUSTER MEET", node.host.address, PORT)


def _strangers(nodes: list[Node]) -> list[Node]:
    """Return the nodes that do not know all, but for the first, who introduces them."""
    return [node for node in nodes[1:] if node.peers() < len(nodes)]


def _insist(do: Callable[[], object], look: Callable[[], object], what: str) -> None:
    """Do something until it had its effect, again after a while."""

    def is_done() -> object:
        if not look():
            do()
            with contextlib.suppress(AssertionError):
                until(look, what, within=AGAIN_S)
        return look()

    patiently(is_done, what)
