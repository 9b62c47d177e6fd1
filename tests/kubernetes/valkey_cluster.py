"""Makes what the operator of the Valkey project makes of deploy/examples/valkey-cluster/cluster.yaml, on a small scale.

The operator itself is none that a test could fetch: a StatefulSet stands in for it, with the Service, the labels, the
settings and the user that the file asks for.
"""

from typing import Any

from tests.deploy.chart import EXAMPLES
from tests.deploy.manifests import load
from tests.kubernetes import pods
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import valkey
from tests.kubernetes.releases import LOOK_S, READY_S
from tests.support.waiting import eventually_true

PORT = 6379
(_ASKED,) = load((EXAMPLES / "valkey-cluster/cluster.yaml").read_text(encoding="utf-8"))
_SPEC: dict[str, Any] = _ASKED["spec"]
(_USER,) = _SPEC["users"]
NAMESPACE: str = _ASKED["metadata"]["namespace"]
NAME = f"valkey-{_ASKED['metadata']['name']}"
LABELS = {"valkey.io/cluster": _ASKED["metadata"]["name"]}


def make(cluster: Cluster) -> None:
    """Start its servers, and let them be one cluster; the Secret of its user has to be there."""
    cluster.apply(_service(), _servers(), namespace=NAMESPACE)
    count = _SPEC["shards"] * (1 + _SPEC["replicas"])
    eventually_true(lambda: len(addresses(cluster)) == count, within=READY_S, every=LOOK_S)
    servers = [f"{address}:{PORT}" for address in addresses(cluster)]
    _command(cluster, "--cluster", "create", *servers, "--cluster-replicas", str(_SPEC["replicas"]), "--cluster-yes")
    eventually_true(lambda: "cluster_state:ok" in _command(cluster, "cluster", "info"), within=READY_S, every=LOOK_S)


def addresses(cluster: Cluster) -> list[str]:
    """Return the addresses of the servers that are ready."""
    found = cluster.list("pods", ",".join(f"{key}={value}" for key, value in LABELS.items()), namespace=NAMESPACE)
    ready = [each for each in found if any(status["ready"] for status in each["status"].get("containerStatuses", []))]
    return [each["status"]["podIP"] for each in ready]


def _command(cluster: Cluster, *words: str) -> str:
    return cluster.kubectl("--namespace", NAMESPACE, "exec", f"{NAME}-0", "--", "valkey-cli", *words)


def _service() -> dict[str, Any]:
    spec = {"selector": LABELS, "ports": [{"port": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": spec}


def _servers() -> dict[str, Any]:
    """Write the StatefulSet; each key of ``config`` is an argument, and the user is one more."""
    settings = [word for key, value in _SPEC["config"].items() for word in (f"--{key}", str(value))]
    (key,) = _USER["passwordSecret"]["keys"]
    secret = {"secretKeyRef": {"name": _USER["passwordSecret"]["name"], "key": key}}
    user = ["--user", _USER["name"], "on", ">$(PASSWORD)", *_USER["permissions"].split()]
    fixed = ["--cluster-enabled", "yes", "--protected-mode", "no", "--dir", "/data"]
    container = {
        "name": "valkey",
        "image": valkey(),
        "imagePullPolicy": "Never",
        "args": ["valkey-server", *fixed, *settings, *user],
        "env": [{"name": "PASSWORD", "valueFrom": secret}],
        "readinessProbe": {"exec": {"command": ["valkey-cli", "ping"]}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
        "securityContext": pods.CONFINED,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "securityContext": pods.RESTRICTED,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    spec = {
        "replicas": _SPEC["shards"] * (1 + _SPEC["replicas"]),
        "serviceName": NAME,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": NAME, "labels": LABELS}, "spec": spec}
