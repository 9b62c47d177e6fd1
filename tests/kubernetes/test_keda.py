"""KEDA's ScaledObject: an API server that has KEDA's schema takes it, and a Prometheus answers its query.

KEDA itself does not run here: it takes longer to build than all of Kubernetes.
"""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from acker_protocol import routes

from tests.deploy.chart import CHART, EXAMPLES, one
from tests.deploy.manifests import load
from tests.kubernetes.cluster import Cluster, Failed, warnings
from tests.kubernetes.prometheus import Prometheus, scraping
from tests.kubernetes.releases import Receiver, Release, release, start_receiver
from tests.support.waiting import eventually_true

MODULE, SUM = "github.com/kedacore/keda/v2@v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps="
CRD = "config/crd/bases/keda.sh_scaledobjects.yaml"
WITHIN_S = 300.0
TOPOLOGY, SPOUT = "orders", "hook"
DELIVERED = 'sum(acker_deliveries_total{result="delivered"})'


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[Release]:
    """A release with one replica of each."""
    with release(cluster, "loaded") as made:
        made.upgrade("--set", "api.replicas=1,worker.replicas=1")
        yield made


@pytest.fixture(scope="module")
def scaled(made: Release) -> dict[str, Any]:
    """The ScaledObject of the release, with the example's values for monitoring."""
    files = [word for path in (*made.values, EXAMPLES / "monitoring.yaml") for word in ("--values", str(path))]
    text = made.cluster.output("helm", "template", "acker", str(CHART), "--namespace", made.namespace, *files)
    return one(load(text), "ScaledObject", "acker-worker")


@pytest.fixture(scope="module")
def schema(cluster: Cluster) -> Iterator[None]:
    """KEDA's own definition of a ScaledObject, from its Go module."""
    told = subprocess.run(["go", "mod", "download", "-json", MODULE], capture_output=True, text=True, check=True)
    module = json.loads(told.stdout)
    assert module["Sum"] == SUM
    definition = Path(module["Dir"]) / CRD
    cluster.kubectl("create", "--filename", str(definition))
    try:
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=300s", "--filename", str(definition))
        yield
    finally:
        cluster.kubectl("delete", "--filename", str(definition))


@pytest.mark.usefixtures("schema")
def test_the_api_server_takes_the_scaled_object(made: Release, scaled: dict[str, Any]) -> None:
    asked = ("kubectl", "--namespace", made.namespace, "apply", "--dry-run=server", "--filename", "-")
    ran = made.cluster.ran(*asked, text=json.dumps(scaled))
    assert (ran.returncode, warnings(ran.stderr)) == (0, []), ran.stderr


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(("name", "wrong"), [("maxReplicas", 3), ("minReplicaCount", "two")])
def test_the_api_server_refuses_a_scaled_object_that_is_wrong(
    made: Release, scaled: dict[str, Any], name: str, wrong: object
) -> None:
    text = json.dumps(scaled | {"spec": scaled["spec"] | {name: wrong}})
    with pytest.raises(Failed, match=name):
        made.kubectl("apply", "--dry-run=server", "--filename", "-", text=text)


def test_prometheus_answers_its_query_with_what_waits_for_a_receiver(
    made: Release, scaled: dict[str, Any], tmp_path: Path
) -> None:
    (trigger,) = scaled["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    receives = start_receiver(made)
    set_up(made, receives)
    with scraping(made, made.cluster.tools, tmp_path) as prometheus:
        for times in (1, 2):  # a rate has to see a counter grow
            end_roots(made, 10)
            eventually_true(lambda: prometheus.values(DELIVERED) == [10.0 * times], within=WITHIN_S)  # noqa: B023
        settles(prometheus, query, 0.0)
        made.kubectl("delete", "pod", "receiver", "--now")
        end_roots(made, 7)
        settles(prometheus, query, 7.0)
        assert prometheus.values(query.replace(made.namespace, "another")) == []


def settles(prometheus: Prometheus, query: str, value: float) -> None:
    """Wait until a query gives this value alone."""
    eventually_true(lambda: prometheus.values(query) == [value], within=WITHIN_S)


def set_up(made: Release, receives: Receiver) -> None:
    """Make the topology, and a spout task with a webhook."""
    webhook = {"callback": {"kind": "webhook", "url": receives.url(TOPOLOGY)}}
    with httpx.Client(base_url=made.url, trust_env=False, timeout=60) as http:
        for path, document in ((routes.topology(TOPOLOGY), {}), (routes.spout(TOPOLOGY, SPOUT), webhook)):
            answer = http.put(path, json=document)
            assert answer.is_success, answer.text


def end_roots(made: Release, count: int) -> None:
    """Begin and end so many roots."""
    with httpx.Client(base_url=made.url, trust_env=False, timeout=60) as http:
        for _ in range(count):
            root, edge = secrets.token_hex(8), secrets.token_hex(8)
            init = {"root_id": root, "spout_task": SPOUT, "edges": [edge]}
            assert http.post(routes.operation(TOPOLOGY, "init"), json=init).is_success
            acked = http.post(routes.operation(TOPOLOGY, "ack"), json={"root_id": root, "edge_id": edge})
            assert acked.json()["state"] == "acked", acked.text
