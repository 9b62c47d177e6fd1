"""What happens to the pods and nodes of a cluster: killed, deleted, drained, dead, cut off."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.kubernetes import layout
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import LOOK_S, PATIENCE, Release
from tests.support.namespaces import ip
from tests.support.waiting import eventually_true

WITHIN_S = 900.0


def signal_process(cluster: Cluster, pod: dict[str, Any], signal: str = "KILL") -> None:
    """Send the first process of a pod's only container a signal, behind the back of Kubernetes."""
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].removeprefix("containerd://")
    kill = ("ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", signal, container)
    cluster.node(pod["spec"]["nodeName"]).inside(*kill)


def delete_at_once(made: Release, pod: dict[str, Any]) -> None:
    """Delete a pod without a grace period."""
    made.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")


@contextlib.contextmanager
def drained(cluster: Cluster, name: str) -> Iterator[str]:
    """Drain a node, and let it take pods again in the end; yields what kubectl told."""
    drain = ("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", PATIENCE)
    try:
        ran = cluster.ran("kubectl", *drain)
        assert ran.returncode == 0, ran.stderr
        yield ran.stdout + ran.stderr
    finally:
        cluster.kubectl("uncordon", name)


@contextlib.contextmanager
def dead(cluster: Cluster, name: str) -> Iterator[None]:
    """Kill all that runs on a node at once, and start it again in the end."""
    running = cluster.node(name)
    running.kill()
    try:
        yield
    finally:
        running.start()
        eventually_true(lambda: is_ready(cluster, name), within=WITHIN_S, every=LOOK_S)


@contextlib.contextmanager
def cut_off(cluster: Cluster, name: str) -> Iterator[None]:
    """Let nothing reach a node or leave it, while all on it goes on."""
    link = cluster.node(name).node.link
    ip("link", "set", link, "nomaster")
    try:
        yield
    finally:
        ip("link", "set", link, "master", layout.BRIDGE)
        eventually_true(lambda: is_ready(cluster, name), within=WITHIN_S, every=LOOK_S)


def is_ready(cluster: Cluster, name: str) -> bool:
    """Whether the control plane takes a node for ready."""
    conditions = cluster.get("node", name)["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
