"""Sets up what is loaded and broken: the cluster, three replicas of the service, and a client on the host of each."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import httpx
from acker_protocol import routes
from redis.crc import key_slot

from bench.servers import SLOTS
from tests.cluster.disk import Disk, disk
from tests.cluster.load import TIMEOUT_MS, Client, Load
from tests.cluster.network import Network, network
from tests.cluster.replicas import RELEASE, Replica
from tests.cluster.settings import Setting
from tests.cluster.valkeys import PRIMARIES, Valkeys, form, patiently

SHARDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """All that a fault may break."""

    network: Network
    valkeys: Valkeys
    replicas: list[Replica]
    load: Load
    disk: Disk | None

    def anew(self, topology: str) -> "Lab":
        """Return it with another load: on a topology of its own, which nothing has happened to."""
        with self.replicas[0].http() as http:
            wanted = {"ackers": SHARDS, "message_timeout_ms": TIMEOUT_MS}
            patiently(lambda: _is_put(http, routes.topology(topology), wanted), f"{topology} is made")
            for path in (routes.spout(topology, one.host.name) for one in self.replicas):
                patiently(partial(_is_put, http, path, {}), f"{path} is made")
        clients = [Client(host=one.host, url=one.url, topology=topology, shards=SHARDS) for one in self.replicas]
        return replace(self, load=Load(clients=clients))


@contextlib.contextmanager
def lab(folder: Path, setting: Setting, *, shaped: frozenset[str], power: bool) -> Iterator[Lab]:
    """Set it all up, and in the end take it away.

    ``shaped`` names the hosts whose links can be slow; with ``power`` the data lie on a disk that can lose it.
    """
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(disk(folder)) if power else None
        net = stack.enter_context(network())
        valkeys = form(net, store.folder if store else folder, shaped=shaped, options=setting.options)
        options = ("--redis-url", valkeys.url, "--durability", setting.durability)
        hosts = [net.host(name, shaped=name in shaped) for name in ("s1", "s2", "s3")]
        replicas = [Replica(host=host, folder=folder, options=options) for host in hosts]
        start(replicas)
        yield Lab(network=net, valkeys=valkeys, replicas=replicas, load=Load(clients=[]), disk=store)


def _is_put(http: httpx.Client, path: str, document: dict[str, int]) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.put(path, json=document).is_success
    return False


def start(replicas: list[Replica], program: tuple[str, ...] = RELEASE) -> None:
    """Start replicas, and wait until they are ready."""
    for replica in replicas:
        replica.start(program)
    for replica in replicas:
        replica.wait_until_ready()


def topologies() -> Iterator[str]:
    """Yield names under which each primary has as many shards as the others."""
    for number in itertools.count():
        name = f"t{number}"
        primaries = [key_slot(f"{name}/{shard}".encode()) * PRIMARIES // SLOTS for shard in range(SHARDS)]
        if all(primaries.count(primary) == SHARDS // PRIMARIES for primary in range(PRIMARIES)):
            yield name
