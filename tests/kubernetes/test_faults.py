"""Faults under load: what failed succeeds when it is sent again with its key, and no completion is lost or early."""

from collections.abc import Callable, Iterator

import pytest

from tests.kubernetes import faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.figures import Cost, cost
from tests.kubernetes.load import Load
from tests.kubernetes.releases import LOOK_S, Receiver, Release, load, release, start_receiver, timed
from tests.support.waiting import eventually_true

WITHIN_S = 900.0


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """A release whose store is on node1, and whose replicas are on both nodes."""
    with release(cluster, "loaded", "leaving") as made:
        cluster.kubectl("cordon", "node2")
        try:
            made.upgrade()
        finally:
            cluster.kubectl("uncordon", "node2")
        yield made


@pytest.fixture
def spread(made: Release) -> Release:
    """The same with replicas on both nodes: Kubernetes places a pod when it is made, and never again."""
    if len(made.ready_pods(node="node2")) < 2:
        moved = [*made.pods(node="node1")[:2], *made.pods("worker", node="node1")[:1]]
        made.kubectl("delete", "pods", "--now", *(pod["metadata"]["name"] for pod in moved))
        made.wait_until_settled()
    assert len(made.ready_pods(node="node1")) == len(made.ready_pods(node="node2")) == 2
    return made


@pytest.fixture(scope="module")
def receives(made: Release) -> Receiver:
    """A receiver of webhooks."""
    return start_receiver(made)


def nothing_is_lost(running: Load) -> None:
    assert (running.account.unanswered, running.lost(), running.wrong()) == ([], [], [])
    assert len(running.acked) > 100


def _kill_api(made: Release) -> None:
    faults.signal_process(made.cluster, made.pods(node="node2")[0])


def _kill_worker(made: Release) -> None:
    faults.signal_process(made.cluster, made.pods("worker")[0])


def _delete(made: Release) -> None:
    faults.delete_at_once(made, made.pods(node="node2")[0])


@pytest.mark.parametrize(
    ("fault", "happens"),
    [
        pytest.param("SIGKILL of one of four api processes", _kill_api, id="SIGKILL of an api process"),
        pytest.param("SIGKILL of one of two workers", _kill_worker, id="SIGKILL of a worker"),
        pytest.param("one of four api pods deleted by force", _delete, id="an api pod deleted by force"),
    ],
)
def test_what_a_dead_pod_costs(
    spread: Release, receives: Receiver, costs: list[Cost], fault: str, happens: Callable[[Release], None]
) -> None:
    seen = restarts(spread)
    with load(spread, receives) as running, timed() as took:
        happens(spread)
        eventually_true(lambda: restarts(spread) != seen and spread.is_settled(), within=WITHIN_S, every=LOOK_S)
    costs.append(cost(fault, running, took()))
    nothing_is_lost(running)


def restarts(made: Release) -> dict[str, int]:
    """Return how often each pod's process was started again."""
    pods = made.pods() + made.pods("worker")
    return {
        pod["metadata"]["name"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))
        for pod in pods
    }


def test_no_request_fails_while_a_node_is_drained_of_one_replica_after_the_other(
    cluster: Cluster, spread: Release, receives: Receiver, costs: list[Cost]
) -> None:
    with load(spread, receives) as running, timed() as took, faults.drained(cluster, "node2") as told:
        eventually_true(spread.is_settled, within=WITHIN_S, every=LOOK_S)
    costs.append(cost("`kubectl drain` of one of two nodes", running, took()))
    assert "would violate the pod's disruption budget" in told
    assert spread.pods(node="node2") == []
    assert running.account.failures == {}
    nothing_is_lost(running)


def test_a_restart_of_the_store_is_answered_with_retryable_503s(
    made: Release, receives: Receiver, costs: list[Cost]
) -> None:
    [store] = made.pods("dev-valkey")
    with load(made, receives) as running, timed() as took:
        faults.signal_process(made.cluster, store, "TERM")
        eventually_true(lambda: _has_restarted(made) and made.is_settled(), within=WITHIN_S, every=LOOK_S)
    costs.append(cost("a restart of the only Valkey", running, took()))
    assert running.account.failures
    for kind, failures in running.account.failures.items():
        statuses = {503, 200} if kind == "event stream" else {503}  # a stream that is open says it in an event
        assert {each.status for each in failures} <= statuses
        assert {(each.code, each.retryable) for each in failures} == {("store_unavailable", True)}
    nothing_is_lost(running)


def _has_restarted(made: Release) -> bool:
    [store] = made.pods("dev-valkey")
    [status] = store["status"]["containerStatuses"]
    return bool(status["ready"] and status["restartCount"])


def test_the_death_of_a_node_costs_callers_what_its_replicas_had(
    cluster: Cluster, spread: Release, receives: Receiver, costs: list[Cost]
) -> None:
    with load(spread, receives) as running, faults.dead(cluster, "node2"), timed() as took:
        eventually_true(lambda: _all_are_ready_on(spread, "node1"), within=WITHIN_S, every=LOOK_S)
    costs.append(cost("the death of one of two nodes", running, took()))
    assert running.account.failures
    nothing_is_lost(running)
    eventually_true(spread.is_settled, within=WITHIN_S, every=LOOK_S)


def test_a_node_that_is_cut_off_costs_callers_what_its_replicas_had(
    cluster: Cluster, spread: Release, receives: Receiver, costs: list[Cost]
) -> None:
    with load(spread, receives) as running:
        with faults.cut_off(cluster, "node2"), timed() as took:
            eventually_true(lambda: _all_are_ready_on(spread, "node1"), within=WITHIN_S, every=LOOK_S)
        eventually_true(spread.is_settled, within=WITHIN_S, every=LOOK_S)
    costs.append(cost("one of two nodes cut off from the other", running, took()))
    assert running.account.failures
    nothing_is_lost(running)


def _all_are_ready_on(made: Release, node: str) -> bool:
    return all(
        len(made.ready_pods(each, node=node)) == made.deployment(each)["spec"]["replicas"] for each in ("api", "worker")
    )
