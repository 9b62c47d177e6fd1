"""Makes what the operator of the Valkey project makes of deploy/examples/valkey-cluster/cluster.yaml, on a small scale.

The operator itself is none that a test could fetch: a StatefulSet stands in for it, with the Service, the labels, the
settings and the user that the file asks for.
"""

from dataclasses import dataclass
from typing import Any

import redis

from tests.deploy.chart import EXAMPLES
from tests.deploy.manifests import load
from tests.kubernetes import pods
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import valkey
from tests.kubernetes.releases import LOOK_S, READY_S
from tests.support.waiting import eventually_true

PORT = 6379
SLOTS = 16384
(_ASKED,) = load((EXAMPLES / "valkey-cluster/cluster.yaml").read_text(encoding="utf-8"))
_SPEC: dict[str, Any] = _ASKED["spec"]
(_USER,) = _SPEC["users"]
NAMESPACE: str = _ASKED["metadata"]["namespace"]
NAME = f"valkey-{_ASKED['metadata']['name']}"
SECRET: str = _USER["passwordSecret"]["name"]
LABELS = {"valkey.io/cluster": _ASKED["metadata"]["name"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValkeyCluster:
    """The servers in a namespace; without ``replicas`` all of them are primaries."""

    cluster: Cluster
    namespace: str = NAMESPACE
    replicas: int = _SPEC["replicas"]

    def make(self) -> None:
        """Start its servers, and let them be one cluster; the Secret of its user has to be there."""
        count = _SPEC["shards"] * (1 + self.replicas)
        self.cluster.apply(_service(), _servers(count), namespace=self.namespace)
        servers = [f"{address}:{PORT}" for address in self._ready(count)]
        create = ("--cluster", "create", *servers, "--cluster-replicas", str(self.replicas), "--cluster-yes")
        self._kubectl("exec", f"{NAME}-0", "--", "valkey-cli", *create)
        eventually_true(lambda: self._all_know(count), within=READY_S)

    def grow(self) -> str:
        """Add a primary, which takes its share of the slots from the others by atomic migration; return its address."""
        old = self._ready(_SPEC["shards"])
        count = len(old) + 1
        self._kubectl("scale", f"statefulset/{NAME}", f"--replicas={count}")
        (added,) = set(self._ready(count)) - set(old)
        self.server(old[0]).execute_command("CLUSTER", "MEET", added, PORT)
        eventually_true(lambda: self._all_know(count), within=READY_S)
        taker = self.server(added).execute_command("CLUSTER", "MYID")
        for address in old:
            self._move(self.server(address), SLOTS // count // len(old), taker)
        return added

    def server(self, address: str) -> redis.Redis:
        """Return a connection to one server, as its default user."""
        return redis.Redis(host=address, port=PORT, decode_responses=True)

    def servers(self) -> list[redis.Redis]:
        """Return a connection to each server that is ready."""
        return [self.server(address) for address in self._addresses()]

    def _move(self, server: redis.Redis, count: int, taker: str) -> None:
        """Let a server give its first slots away, and wait until it has."""
        first = _first_slot(server)
        server.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, first + count - 1, "NODE", taker)
        eventually_true(lambda: _migration(server)["state"] in {"success", "failed", "cancelled"}, within=READY_S)
        assert _migration(server)["state"] == "success", _migration(server)

    def _ready(self, count: int) -> list[str]:
        """Return the addresses of its servers, once so many are ready."""
        eventually_true(lambda: len(self._addresses()) == count, within=READY_S, every=LOOK_S)
        return self._addresses()

    def _addresses(self) -> list[str]:
        selector = ",".join(f"{key}={value}" for key, value in LABELS.items())
        found = self.cluster.list("pods", selector, namespace=self.namespace)
        return [each["status"]["podIP"] for each in found if _is_ready(each)]

    def _all_know(self, count: int) -> bool:
        """Whether every server knows all, and that they have all slots."""
        told = [server.execute_command("CLUSTER", "INFO") for server in self.servers()]
        return all("cluster_state:ok" in each and f"cluster_known_nodes:{count}\r" in each for each in told)

    def _kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(status["ready"] for status in pod["status"].get("containerStatuses", []))


def _first_slot(server: redis.Redis) -> int:
    own = server.execute_command("CLUSTER", "MYID")
    return next(
        int(shard["slots"][0])
        for shard in server.execute_command("CLUSTER", "SHARDS")
        if own in {node["id"] for node in shard["nodes"]}
    )


def _migration(server: redis.Redis) -> dict[str, Any]:
    """Return the newest one that a server takes part in."""
    newest: dict[str, Any] = server.execute_command("CLUSTER", "GETSLOTMIGRATIONS")[0]
    return newest


def _service() -> dict[str, Any]:
    spec = {"selector": LABELS, "ports": [{"port": PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME}, "spec": spec}


def _servers(count: int) -> dict[str, Any]:
    """Write the StatefulSet; each key of ``config`` is an argument, and the user is one more."""
    settings = [word for key, value in _SPEC["config"].items() for word in (f"--{key}", str(value))]
    (key,) = _USER["passwordSecret"]["keys"]
    secret = {"secretKeyRef": {"name": SECRET, "key": key}}
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
        "replicas": count,
        "serviceName": NAME,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": NAME, "labels": LABELS}, "spec": spec}
