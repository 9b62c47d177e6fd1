"""The Valkey of a trial keeps its roots on a volume, and without one forgets them with its pod."""

import secrets
from collections.abc import Iterator

import httpx
import pytest
from acker_protocol import routes

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.releases import PATIENCE, Release, release
from tests.support.waiting import eventually_true

WITHIN_S = 600.0
PLACE = "/var/lib/kubelet/volume-of-a-test"
TOPOLOGY = "stored"


@pytest.fixture
def made(cluster: Cluster) -> Iterator[Release]:
    """A release; not installed yet."""
    with release(cluster, "loaded") as made:
        yield made


@pytest.fixture
def volume(cluster: Cluster) -> Iterator[None]:
    """A volume that any user may write to, on node1; whoever claims one without a class gets it."""
    name = f"volume-{secrets.token_hex(3)}"
    cluster.node("node1").inside("mkdir", "--mode=777", PLACE)
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}]
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": PLACE},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield
    cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
    cluster.node("node1").inside("rm", "-r", PLACE)


@pytest.mark.usefixtures("volume")
def test_roots_on_a_volume_outlive_the_pod_of_the_store(made: Release) -> None:
    made.upgrade("--set", "devValkey.storage=1Gi")
    assert state_after_a_new_pod(made) == "acked"


def test_roots_without_a_volume_are_gone_with_the_pod_of_the_store(made: Release) -> None:
    made.upgrade()
    assert state_after_a_new_pod(made) != "acked"


def state_after_a_new_pod(made: Release) -> str:
    """Begin a root, delete the store's pod, and return what an ack says to that root."""
    root, edge = secrets.token_hex(8), secrets.token_hex(8)
    with httpx.Client(base_url=made.url, trust_env=False, timeout=60) as http:
        assert http.put(routes.topology(TOPOLOGY), json={"ackers": 1}).is_success
        init = {"root_id": root, "spout_task": "some", "edges": [edge]}
        assert http.post(routes.operation(TOPOLOGY, "init"), json=init).is_success
        # With appendfsync everysec a write reaches the file a second later; a Valkey that is told to end writes all.
        made.kubectl("delete", "pod", "acker-valkey-0")
        made.kubectl("wait", "--for=condition=Ready", "pod/acker-valkey-0", PATIENCE)
        eventually_true(lambda: http.get("/readyz").is_success, within=WITHIN_S)
        answer = http.post(routes.operation(TOPOLOGY, "ack"), json={"root_id": root, "edge_id": edge})
    return str(answer.json().get("state"))
