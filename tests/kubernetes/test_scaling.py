"""Replicas of the api share its connections; an autoscaler counts them by what they use, and no request fails."""

import json
import math
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from acker_protocol import routes

from tests.kubernetes.calls import RawLink
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import LOOK_S, Receiver, Release, load, release, start_receiver
from tests.support.waiting import eventually_true

WITHIN_S = 900.0
ASKED = 600
PATH = routes.topologies()
COUNTED = f'acker_requests_total{{method="GET",route="{PATH}",status="200"}} '


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """A release that is scaled down soon after it may be."""
    with release(cluster, "scaled") as made:
        made.upgrade("--set", "api.autoscaling.scaleDownStabilizationSeconds=5")
        yield made


@pytest.fixture(scope="module")
def receives(made: Release) -> Receiver:
    """A receiver of webhooks."""
    return start_receiver(made)


def test_the_api_grows_with_its_load_and_shrinks_under_it_once_each_replica_may_do_more(
    made: Release, receives: Receiver
) -> None:
    eventually_true(lambda: is_measured(made), within=WITHIN_S, every=LOOK_S)
    assert len(made.pods()) == 3
    with load(made, receives) as running:
        eventually_true(lambda: len(made.ready_pods()) > 3, within=WITHIN_S, every=LOOK_S)
        allow(made, percent=2000)
        eventually_true(lambda: len(made.ready_pods()) == 3 and made.is_settled(), within=WITHIN_S, every=LOOK_S)
    assert running.account.failures == {}
    assert (running.account.unanswered, running.lost(), running.wrong()) == ([], [], [])


def is_measured(made: Release) -> bool:
    """Whether the autoscaler knows what the replicas use."""
    return bool(made.cluster.get("hpa", "acker-api", namespace=made.namespace)["status"].get("currentMetrics"))


def allow(made: Release, *, percent: int) -> None:
    """Let each replica use more of what it requests before another one is added."""
    path = "/spec/metrics/0/containerResource/target/averageUtilization"
    change = json.dumps([{"op": "replace", "path": path, "value": percent}])
    made.kubectl("patch", "hpa", "acker-api", "--type=json", "--patch", change)


def test_new_connections_are_spread_over_the_replicas_as_chance_has_it_and_a_kept_one_stays(made: Release) -> None:
    assert sorted(shares(made, RawLink(made.url, keeps=True))) == [0, 0, ASKED]
    spread = shares(made, RawLink(made.url, keeps=False))
    assert sum(spread) == ASKED
    deviation = math.sqrt(ASKED * 1 / 3 * 2 / 3)
    assert [share for share in spread if abs(share - ASKED / 3) > 6 * deviation] == []


def shares(made: Release, link: RawLink) -> list[int]:
    """Return how many of so many requests each of three replicas answered."""
    pods = made.ready_pods()
    assert len(pods) == 3
    before = [answered(pod) for pod in pods]
    for _ in range(ASKED):
        status, _ = link.send("GET", PATH, None, {})
        assert status == 200
    link.close()
    return [answered(pod) - earlier for pod, earlier in zip(pods, before, strict=True)]


def answered(pod: dict[str, Any]) -> int:
    """Return how many such requests a replica has answered."""
    text = httpx.get(f"http://{pod['status']['podIP']}:8700/metrics", trust_env=False, timeout=20).text
    found = [line.removeprefix(COUNTED) for line in text.splitlines() if line.startswith(COUNTED)]
    return int(float(found[0])) if found else 0
