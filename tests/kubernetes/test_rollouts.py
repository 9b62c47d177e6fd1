"""A release that changes under load: no request of any caller fails, and no completion is lost, early or wrong."""

from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.figures import Cost, cost
from tests.kubernetes.load import KINDS, Load
from tests.kubernetes.releases import Receiver, Release, load, release, start_receiver, timed


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """A release with three replicas of the api, and two workers."""
    with release(cluster, "loaded") as made:
        made.upgrade("--set", "api.replicas=3")
        yield made


@pytest.fixture(scope="module")
def receives(made: Release) -> Receiver:
    """A receiver of webhooks."""
    return start_receiver(made)


def names(made: Release) -> set[str]:
    return {pod["metadata"]["name"] for pod in made.pods() + made.pods("worker")}


def no_completion_is_lost_or_early(running: Load) -> None:
    assert (running.account.unanswered, running.lost(), running.wrong()) == ([], [], [])
    assert all(running.account.requests[kind] for kind in KINDS)


@pytest.mark.parametrize(
    ("helm", "change"),
    [
        pytest.param("helm", "image.tag=0.1.1", id="another image, by Helm 4"),
        pytest.param("helm3", "config.ACKER_TICK_MS=700", id="another setting, by Helm 3"),
    ],
)
def test_no_request_fails_in_a_rollout(
    made: Release, receives: Receiver, costs: list[Cost], helm: str, change: str
) -> None:
    before = names(made)
    with load(made, receives) as running, timed() as took:
        made.upgrade("--reuse-values", "--set", change, helm=helm)
        made.wait_until_settled()
    costs.append(cost("a rollout of api and workers", running, took()))
    assert before.isdisjoint(names(made))
    assert running.account.failures == {}
    no_completion_is_lost_or_early(running)


def test_no_request_fails_in_a_restart_that_kubectl_asks_for(made: Release, receives: Receiver) -> None:
    with load(made, receives) as running:
        restart(made)
    assert running.account.failures == {}
    no_completion_is_lost_or_early(running)


def restart(made: Release) -> None:
    """Replace all pods, as after a new address of Redis."""
    made.kubectl("rollout", "restart", "deployment/acker-api", "deployment/acker-worker")
    made.wait_until_settled()


def test_replicas_that_do_not_drain_cut_kept_connections_and_lose_no_completion(
    made: Release, receives: Receiver
) -> None:
    """What the tests above prove is the drain's doing, and seen by them."""
    made.upgrade("--reuse-values", "--set", "config.ACKER_SHUTDOWN_DRAIN_S=0,api.preStopSleepSeconds=0")
    made.wait_until_settled()
    with load(made, receives) as running:
        restart(made)
    assert running.account.failed().get("kept")
    no_completion_is_lost_or_early(running)
