"""More replicas of the api, and more servers of Valkey: what an operation takes; nothing is refused or lost."""

import json
import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import redis
from acker_client import Acker
from acker_protocol import routes

from bench.load import post, send
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.figures import Cost, Usage, cost
from tests.kubernetes.releases import READY_S, Release, load, release, start_receiver, timed
from tests.kubernetes.valkey_cluster import NAME, PORT, SECRET, ValkeyCluster
from tests.support.waiting import eventually_true

SHARDS = 64
"""So many that servers have some of them each, whatever the name of their topology is."""

CONNECTIONS = 16
"""For each replica: callers come with them."""

ROOTS = 20_000
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
    """Begin roots, then end them, over as many kept connections for each replica; none of the requests fails."""
    topology, at = f"flood-{secrets.token_hex(3)}", urlsplit(url)
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        assert http.put(routes.topology(topology), json={"ackers": SHARDS}).is_success
    ids = [(secrets.token_hex(8), secrets.token_hex(8)) for _ in range(roots)]
    inits = [{"root_id": root, "spout_task": "reader", "edges": [edge]} for root, edge in ids]
    acks = [{"root_id": root, "edge_id": edge} for root, edge in ids]
    assert at.hostname is not None
    assert at.port is not None
    for verb, bodies, state in (("init", inits, b'"pending"'), ("ack", acks, b'"acked"')):
        path = routes.operation(topology, verb)
        requests = [post(path, json.dumps(body).encode(), "application/json", host=at.netloc) for body in bodies]
        send(at.port, requests, connections=replicas * CONNECTIONS, expected=state, host=at.hostname)


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
