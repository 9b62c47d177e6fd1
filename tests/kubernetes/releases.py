"""Releases of the chart in a cluster, each in a namespace of its own."""

import contextlib
import json
import secrets
import subprocess
from collections.abc import Iterator
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

    @property
    def url(self) -> str:
        """Where its Service is, for callers on this machine too."""
        found = self.cluster.get("service", RELEASE, namespace=self.namespace)
        return f"http://{found['spec']['clusterIP']}:8700"


@contextlib.contextmanager
def namespace(cluster: Cluster, *, name: str | None = None) -> Iterator[str]:
    """A namespace that enforces Pod Security's level `restricted`; all in it is gone in the end."""
    name = name or f"acks-{secrets.token_hex(3)}"
    cluster.kubectl("create", "namespace", name)
    try:
        cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        # Pods are refused until their account is there, which a controller makes.
        account = ("kubectl", "--namespace", name, "get", "serviceaccount", "default")
        eventually_true(lambda: cluster.ran(*account).returncode == 0, within=READY_S)
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--timeout=300s")


@contextlib.contextmanager
def release(cluster: Cluster, *values: str) -> Iterator[Release]:
    """A release with values of tests/kubernetes/values, not installed yet, in a namespace of its own."""
    with namespace(cluster) as name:
        yield Release(cluster=cluster, namespace=name, values=tuple(VALUES / f"{each}.yaml" for each in values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A receiver of webhooks in a pod."""

    release: Release

    @property
    def url(self) -> str:
        """Where the acker posts."""
        found = self.release.cluster.get("service", "receiver", namespace=self.release.namespace)
        return f"http://{found['spec']['clusterIP']}:{receiver.PORT}/"

    def delivered(self) -> list[tuple[str, str, float]]:
        """Return what it got."""
        ask = f"http://127.0.0.1:{receiver.PORT}/"
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
def load(made: Release, receives: Receiver, *, token: str = "") -> Iterator[Load]:
    """Callers of a release, from the block's beginning until every completion has come after its end."""
    running = Load(url=made.url, topology=f"load-{secrets.token_hex(3)}", token=token)
    running.start(receives.url)
    try:
        eventually_true(lambda: len(running.completed) > 100, within=READY_S)
        yield running
        running.stop(receives.delivered)
    finally:
        running.end()
