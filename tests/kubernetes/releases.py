"""Releases of the chart in a cluster, each in a namespace of its own."""

import contextlib
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.chart import CHART
from tests.kubernetes import pods, receiver
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.load import Load
from tests.support.waiting import eventually_true

VALUES = Path(__file__).with_name("values")
RELEASE = "acker"
READY_S = 600.0
LOOK_S = 0.5
"""Between two looks at what a cluster does, each of which starts kubectl."""

PATIENCE = f"--timeout={READY_S:.0f}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The release ``acker`` in a namespace."""

    cluster: Cluster
    namespace: str
    values: tuple[Path, ...]

    def upgrade(self, *options: str, helm: str = "helm", waits: bool = True) -> str:
        """Install it, or upgrade it; return what Helm complains about. Raises `Failed`."""
        files = [word for path in self.values for word in ("--values", str(path))]
        wait = ["--wait", PATIENCE] if waits else []
        return self.helm("upgrade", "--install", RELEASE, str(CHART), *files, *wait, *options, helm=helm).stderr

    def helm(self, *arguments: str, helm: str = "helm") -> "subprocess.CompletedProcess[str]":
        """Run a Helm in its namespace. Raises `AssertionError` with what it complains about."""
        ran = self.ran(*arguments, helm=helm)
        assert ran.returncode == 0, f"{helm} {' '.join(arguments)}: {ran.stdout}{ran.stderr}"
        return ran

    def ran(self, *arguments: str, helm: str = "helm") -> "subprocess.CompletedProcess[str]":
        """Run a Helm in its namespace, however it ends."""
        return self.cluster.ran(helm, "--namespace", self.namespace, *arguments)

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl in its namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, text=text)

    def deployment(self, component: str = "api") -> dict[str, Any]:
        """Return a Deployment of it."""
        return self.cluster.get("deployment", f"{RELEASE}-{component}", namespace=self.namespace)

    def all_pods(self, component: str) -> list[dict[str, Any]]:
        """Return the pods of a component, also those that are ending."""
        return self.cluster.list("pods", f"app.kubernetes.io/component={component}", namespace=self.namespace)

    def pods(self, component: str = "api", *, node: str | None = None) -> list[dict[str, Any]]:
        """Return the pods of a component that are not ending, those of one node if that is given."""
        return [
            pod
            for pod in self.all_pods(component)
            if "deletionTimestamp" not in pod["metadata"] and node in {None, pod["spec"].get("nodeName")}
        ]

    def ready_pods(self, component: str = "api", *, node: str | None = None) -> list[dict[str, Any]]:
        """Return those that are ready."""
        return [pod for pod in self.pods(component, node=node) if _is_ready(pod)]

    def is_settled(self) -> bool:
        """Whether every replica that there should be is ready, and no other pod is left."""
        return all(
            len(self.all_pods(each)) == len(self.ready_pods(each)) == self.deployment(each)["spec"]["replicas"]
            for each in ("api", "worker")
        )

    def wait_until_settled(self) -> None:
        """Wait for the end of a rollout: also until the pods of before have ended."""
        for component in ("api", "worker"):
            self.kubectl("rollout", "status", f"deployment/{RELEASE}-{component}", PATIENCE)
        eventually_true(self.is_settled, within=READY_S, every=LOOK_S)

    @property
    def url(self) -> str:
        """Where its Service is, for callers on this machine too."""
        found = self.cluster.get("service", RELEASE, namespace=self.namespace)
        return f"http://{found['spec']['clusterIP']}:8700"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@contextlib.contextmanager
def namespace(cluster: Cluster, *, name: str | None = None) -> Iterator[str]:
    """A namespace that enforces Pod Security's level `restricted`; all in it is gone in the end."""
    name = name or f"acks-{secrets.token_hex(3)}"
    cluster.kubectl("create", "namespace", name)
    try:
        cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        # Pods are refused until their account is there, which a controller makes.
        account = ("kubectl", "--namespace", name, "get", "serviceaccount", "default")
        eventually_true(lambda: cluster.ran(*account).returncode == 0, within=READY_S, every=LOOK_S)
        yield name
    finally:
        _delete(cluster, name)


def _delete(cluster: Cluster, name: str) -> None:
    """Delete a namespace, in which no pod takes its grace period: nobody calls it any longer."""
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    cluster.kubectl("--namespace", name, "delete", "pods", "--all", "--now", "--wait=false")
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=300s")


@contextlib.contextmanager
def release(cluster: Cluster, *values: str) -> Iterator[Release]:
    """A release with values of tests/kubernetes/values, not installed yet, in a namespace of its own."""
    with namespace(cluster) as name:
        yield Release(cluster=cluster, namespace=name, values=tuple(VALUES / f"{each}.yaml" for each in values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A receiver of webhooks in a pod."""

    release: Release

    def url(self, topology: str) -> str:
        """Return where the acker posts the completions of a topology."""
        found = self.release.cluster.get("service", "receiver", namespace=self.release.namespace)
        return f"http://{found['spec']['clusterIP']}:{receiver.PORT}/{topology}"

    def delivered(self, topology: str) -> list[tuple[str, str, float]]:
        """Return what it got of a topology."""
        ask = f"http://127.0.0.1:{receiver.PORT}/{topology}"
        told: list[tuple[str, str, float]] = json.loads(
            self.release.kubectl("exec", "receiver", "--", "curl", "-sS", ask)
        )
        return told


def start_receiver(made: Release) -> Receiver:
    """Start a receiver beside a release, on the node with the control plane."""
    program = Path(receiver.__file__).read_text(encoding="utf-8")
    pod = pods.pod("receiver", "python3", "-u", "-c", program, node="node1")
    pod["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"path": "/", "port": receiver.PORT}}
    made.cluster.apply(pod, pods.service("receiver", receiver.PORT), namespace=made.namespace)
    made.kubectl("wait", "--for=condition=Ready", "pod/receiver", PATIENCE)
    return Receiver(release=made)


@contextlib.contextmanager
def load(made: Release, receives: Receiver, *, token: str = "", ackers: int = 2) -> Iterator[Load]:
    """Callers of a release, from the block's beginning until every completion has come after its end."""
    running = Load(url=made.url, topology=f"load-{secrets.token_hex(3)}", token=token, ackers=ackers)
    running.start(receives.url(running.topology))
    try:
        eventually_true(lambda: len(running.completed) > 100, within=READY_S)
        yield running
        running.stop(lambda: receives.delivered(running.topology))
    finally:
        running.end()


@contextlib.contextmanager
def timed() -> Iterator[Callable[[], float]]:
    """Yield what returns the seconds that the block took."""
    began, ended = time.monotonic(), 0.0
    yield lambda: ended - began
    ended = time.monotonic()
