"""More replicas of the api, and more servers of Valkey: what an operation takes; nothing is refused or lost."""

import math
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import pytest
import redis
from acker_client import Acker
from acker_protocol import routes

from tests.kubernetes.calls import Account, Caller, RawLink
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.figures import Cost, Usage, cost
from tests.kubernetes.releases import READY_S, Release, load, release, start_receiver, timed
from tests.kubernetes.valkey_cluster import NAME, PORT, SECRET, ValkeyCluster
from tests.support.waiting import eventually_true

SHARDS = 64
"""So many that servers have some of them each, whatever the name of their topology is."""

CONNECTIONS = 16
"""For each replica: callers come with them."""

ROOTS = 3_000
"""Each is two operations."""

EMITTED = 1_600
CPU = "process_cpu_seconds_total "


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A release, and the cluster that it has its roots in."""

    release: Release
    servers: ValkeyCluster


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Made]:
    """A release with one replica, on a Valkey Cluster of three without replicas."""
    with release(cluster, "clustered") as installed:
        servers = ValkeyCluster(cluster=cluster, namespace=installed.namespace, replicas=0)
        password = secrets.token_hex(8)
        for name, literal in ((SECRET, f"acker={password}"), ("acker-redis", f"url={_url(password)}")):
            installed.kubectl("create", "secret", "generic", name, f"--from-literal={literal}")
        servers.make()
        installed.upgrade()
        yield Made(release=installed, servers=servers)


def _url(password: str) -> str:
    return f"redis+cluster://acker:{password}@{NAME}:{PORT}"


def test_what_an_operation_takes_of_the_api_with_one_replica_and_with_three(made: Made, usages: list[Usage]) -> None:
    for replicas in (1, 3):
        made.release.upgrade("--set", f"api.replicas={replicas}")
        made.release.wait_until_settled()
        pods = made.release.ready_pods()
        assert len(pods) == replicas
        flood(made.release.url, replicas, ROOTS // 10)  # the first requests of a process take longer
        before = [used(pod) for pod in pods]
        flood(made.release.url, replicas, ROOTS)
        took = [after - earlier for after, earlier in zip(map(used, pods), before, strict=True)]
        assert min(took) > 0
        operations = 2 * ROOTS
        cpu_us = round(sum(took) / operations * 1e6)
        usages.append(
            Usage(replicas=replicas, connections=replicas * CONNECTIONS, operations=operations, cpu_us=cpu_us)
        )


def used(pod: dict[str, Any]) -> float:
    """Return the processor time that a replica has used."""
    text = httpx.get(f"http://{pod['status']['podIP']}:8700/metrics", trust_env=False, timeout=60).text
    (line,) = [line for line in text.splitlines() if line.startswith(CPU)]
    return float(line.removeprefix(CPU))


def flood(url: str, replicas: int, roots: int) -> None:
    """Begin and end roots, over as many kept connections for each replica; none of the requests fails."""
    account, topology = Account(), f"flood-{secrets.token_hex(3)}"
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        assert http.put(routes.topology(topology), json={"ackers": SHARDS}).is_success
    connections = replicas * CONNECTIONS
    bounds = [roots * number // connections for number in range(connections + 1)]
    with ThreadPoolExecutor(connections) as threads:
        shares = [later - earlier for earlier, later in pairwise(bounds)]
        for done in [threads.submit(take_roots, url, topology, account, count) for count in shares]:
            done.result()
    assert (account.failures, account.requests["kept"]) == ({}, 2 * roots)


def take_roots(url: str, topology: str, account: Account, count: int) -> None:
    """Begin and end so many roots over one connection."""
    link = RawLink(url, keeps=True)
    caller = Caller(kind="kept", link=link, account=account)
    for _ in range(count):
        root, edge = secrets.token_hex(8), secrets.token_hex(8)
        init = {"root_id": root, "spout_task": "reader", "edges": [edge]}
        assert caller.ask("POST", routes.operation(topology, "init"), init)["state"] == "pending"
        ack = {"root_id": root, "edge_id": edge}
        assert caller.ask("POST", routes.operation(topology, "ack"), ack)["state"] == "acked"
    link.close()


def test_roots_are_spread_over_the_shards_as_chance_has_it_and_over_all_servers(made: Made) -> None:
    topology = f"spread-{secrets.token_hex(3)}"
    with Acker(made.release.url, topology=topology) as acker:
        acker.topologies.create(topology, ackers=SHARDS, message_timeout=600)
        spout = acker.spout("reader")
        for number in range(EMITTED):
            with spout.emit(message_id=str(number)) as root:
                root.headers()  # an edge, which nobody acks
    by_server = pending(made.servers, topology)
    spread = [count for counts in by_server for count in counts]
    assert (len(spread), sum(spread)) == (SHARDS, EMITTED)
    share = 1 / SHARDS
    deviation = math.sqrt(EMITTED * share * (1 - share))
    assert [count for count in spread if abs(count - EMITTED * share) > 6 * deviation] == []
    assert all(by_server)


def pending(servers: ValkeyCluster, topology: str) -> list[list[int]]:
    """Return how many roots are pending in each shard, by server."""
    return [
        [sum(map(int, server.hvals(key))) for key in server.scan_iter(f"acker:{{{topology}/*:pending")]
        for server in servers.servers()
    ]


def test_nothing_is_refused_or_lost_while_a_valkey_cluster_grows_by_a_server(made: Made, costs: list[Cost]) -> None:
    receives = start_receiver(made.release)
    with load(made.release, receives, ackers=SHARDS) as running, timed() as took:
        added = made.servers.grow()
        seen = calls(made.servers.server(added))
        eventually_true(lambda: calls(made.servers.server(added)) > seen + 100, within=READY_S)
    costs.append(cost("a Valkey Cluster of three grown to four", running, took()))
    assert running.account.failures == {}
    assert (running.account.unanswered, running.lost(), running.wrong()) == ([], [], [])


def calls(server: redis.Redis) -> int:
    """Return how many calls of the acker a server has answered."""
    found: dict[str, dict[str, int]] = server.info("commandstats")
    return found.get("cmdstat_fcall", {"calls": 0})["calls"]
