"""What docs/kubernetes.md says of a first installation, and of what follows it, is so on a real cluster."""

import contextlib
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from examples.support.ports import free_port
from tests.kubernetes.cluster import Cluster, warnings
from tests.kubernetes.page import blocks, paste
from tests.kubernetes.releases import LOOK_S, Release, namespace, release
from tests.support.waiting import eventually_true

HELMS = ("helm", "helm3")
WITHIN_S = 600.0


@contextlib.contextmanager
def one_small_node(cluster: Cluster) -> Iterator[None]:
    """Let pods find node1 alone, which has two cores."""
    cluster.kubectl("cordon", "node2")
    try:
        yield
    finally:
        cluster.kubectl("uncordon", "node2")


@pytest.fixture
def forgotten(cluster: Cluster) -> Iterator[None]:
    """Remove the namespace that the page makes."""
    yield
    cluster.kubectl("delete", "namespace", "acker", "--ignore-not-found", "--timeout=300s")


@pytest.mark.usefixtures("forgotten")
def test_try_it_runs_as_the_page_says_on_one_small_node(cluster: Cluster) -> None:
    install, remove = blocks("Try it")
    commands, _, forward = install.rpartition("\n")
    assert " port-forward " in forward
    with one_small_node(cluster):
        paste(cluster, commands)
        port = free_port()
        command = forward.replace("8700:8700", f"{port}:8700").split()
        with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.DEVNULL) as forwards:
            eventually_true(lambda: _is_ready(f"http://127.0.0.1:{port}"), within=60)
            forwards.terminate()
        paste(cluster, remove)
        eventually_true(lambda: not cluster.list("pods", namespace="acker"), within=WITHIN_S, every=LOOK_S)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def scaled(cluster: Cluster) -> Iterator[Release]:
    """A release whose number of replicas an autoscaler sets; not installed yet."""
    with release(cluster, "scaled") as made:
        yield made


@pytest.mark.parametrize("helm", HELMS)
def test_an_install_waits_for_the_least_replicas_and_a_rollback_to_it_keeps_them(scaled: Release, helm: str) -> None:
    assert warnings(scaled.upgrade(helm=helm)) == []
    assert scaled.deployment()["status"]["readyReplicas"] == 3
    scaled.upgrade("--set", "image.tag=0.1.1", helm=helm)
    with replicas(scaled) as seen:
        scaled.helm("rollback", "acker", "1", "--wait", "--timeout=600s", helm=helm)
    assert min(seen) == 3


@contextlib.contextmanager
def replicas(made: Release) -> Iterator[list[int]]:
    """Collect each number of replicas that the api's Deployment is set to while the block runs."""
    seen: list[int] = []
    shown = r"jsonpath={.spec.replicas} {.metadata.annotations.test/over}{'\n'}"
    command = ["kubectl", "--namespace", made.namespace, "get", "deployment", "acker-api", "--watch", "--output", shown]
    with subprocess.Popen(command, env=made.cluster.environment, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        seen.append(int(watch.stdout.readline()))
        yield seen
        made.kubectl("annotate", "deployment", "acker-api", "test/over=yes")
        for line in watch.stdout:
            number, *over = line.split()
            seen.append(int(number))
            if over:
                break
        watch.terminate()


@pytest.fixture
def too_large(cluster: Cluster) -> Iterator[Release]:
    """A release of which one api pod finds no place on one node, not installed yet."""
    with release(cluster, "too-large") as made:
        yield made


def test_helm_test_fails_for_a_replica_that_is_pending_and_passes_once_it_has_found_a_node(
    cluster: Cluster, too_large: Release
) -> None:
    with one_small_node(cluster):
        too_large.upgrade(waits=False)
        eventually_true(lambda: _phases(too_large) == ["Pending", "Running", "Running"], within=WITHIN_S, every=LOOK_S)
        ran = too_large.ran("test", "acker", "--logs", "--timeout=600s")
    assert ran.returncode != 0
    assert "acker-api-replicas: 2 of 3 replicas are ready" in ran.stdout + ran.stderr
    eventually_true(lambda: len(too_large.ready_pods()) == 3, within=WITHIN_S, every=LOOK_S)
    too_large.helm("test", "acker", "--logs", "--timeout=600s")


def _phases(made: Release) -> list[str]:
    return sorted(pod["status"]["phase"] for pod in made.pods())


def test_a_pod_that_is_not_confined_is_refused_where_the_chart_is_admitted(cluster: Cluster) -> None:
    with namespace(cluster) as name:
        plain = ("run", "plain", "--image=localhost/tools:1", "--restart=Never", "--", "true")
        ran = cluster.ran("kubectl", "--namespace", name, *plain)
    assert 'violates PodSecurity "restricted' in ran.stderr
