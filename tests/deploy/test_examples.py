"""The examples are what their operators take, fit each other, and add only what they say."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2SparkApplication

from tests.deploy.chart import CASES, CHART, EXAMPLES, Chart, one
from tests.deploy.manifests import load

SPARK = EXAMPLES / "spark-word-count"
VALKEY = EXAMPLES / "valkey-cluster"
ROOT = EXAMPLES.parents[1]


def unknown(said: Any, known: Any, path: str = "") -> Iterator[str]:
    """Yield what a model did not take over: it drops the fields that it does not know."""
    if isinstance(said, dict) and isinstance(known, dict):
        for key, value in said.items():
            if key in known:
                yield from unknown(value, known[key], f"{path}/{key}")
            else:
                yield f"{path}/{key}"
    elif isinstance(said, list) and isinstance(known, list):
        for index, (one_said, one_known) in enumerate(zip(said, known, strict=True)):
            yield from unknown(one_said, one_known, f"{path}/{index}")


def strange(application: Any) -> list[str]:
    model = SparkV1beta2SparkApplication.from_dict(application)
    assert model is not None
    said = {key: value for key, value in application.items() if key != "metadata"}
    return list(unknown(said, model.to_dict()))


def test_the_spark_application_is_one() -> None:
    (application,) = load((SPARK / "application.yaml").read_text())
    assert strange(application) == []


@pytest.mark.parametrize("part", ["driver", "executor"])
def test_a_misspelt_field_of_a_spark_application_is_found(part: str) -> None:
    (application,) = load((SPARK / "application.yaml").read_text())
    application["spec"][part]["memmory"] = "1g"
    assert strange(application) == [f"/spec/{part}/memmory"]


def test_the_spark_application_calls_the_service_of_the_chart(chart: Chart) -> None:
    (application,) = load((SPARK / "application.yaml").read_text())
    url = next(said["value"] for said in application["spec"]["driver"]["env"] if said["name"] == "ACKER_URL")
    service = one(chart.objects(*CASES["production"]), "Service", "acker")
    assert url == f"http://acker.acker.svc:{service['spec']['ports'][0]['port']}"


def test_the_job_is_where_the_application_looks_for_it() -> None:
    (application,) = load((SPARK / "application.yaml").read_text())
    target = application["spec"]["mainApplicationFile"].removeprefix("local://")
    copies = re.findall(r"^COPY (\S+) (\S+)$", (SPARK / "Dockerfile").read_text(), re.MULTILINE)
    assert target in {into for _, into in copies}
    assert all((ROOT / source).exists() for source, _ in copies)


def test_all_that_the_dockerfile_of_the_example_copies_reaches_the_builder() -> None:
    copied = re.findall(r"^COPY (\S+) \S+$", (SPARK / "Dockerfile").read_text(), re.MULTILINE)
    let_through = re.findall(r"^!(\S+)$", (SPARK / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert let_through == copied


def test_the_valkey_cluster_is_called_as_its_operator_calls_its_service() -> None:
    (cluster,) = load((VALKEY / "cluster.yaml").read_text())
    name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    text = (VALKEY / "values.yaml").read_text()
    assert f"@valkey-{name}.{namespace}.svc:6379'" in text
    (peer,) = yaml.safe_load(text)["networkPolicy"]["redisTo"]
    assert peer["podSelector"]["matchLabels"] == {"valkey.io/cluster": name}


def test_every_primary_of_the_valkey_cluster_has_as_many_replicas_as_writes_wait_for() -> None:
    (cluster,) = load((VALKEY / "cluster.yaml").read_text())
    values = yaml.safe_load((VALKEY / "values.yaml").read_text())
    assert values["config"]["ACKER_DURABILITY"] == f"replica:{cluster['spec']['replicas']}"
    assert cluster["spec"]["config"]["maxmemory-policy"] == "noeviction"
    assert cluster["spec"]["config"]["appendonly"] == "yes"


def test_the_login_of_the_valkey_cluster_may_do_what_the_documentation_says() -> None:
    (cluster,) = load((VALKEY / "cluster.yaml").read_text())
    (block,) = re.findall(r"(~acker:\*[^`]*)`", (ROOT / "docs/redis.md").read_text())
    assert cluster["spec"]["users"][0]["permissions"].split() == block.split()


def test_monitoring_says_only_what_it_adds() -> None:
    values = yaml.safe_load((EXAMPLES / "monitoring.yaml").read_text())
    assert set(values) == {"podMonitor", "prometheusRule", "dashboard", "worker"}
    assert set(values["worker"]) == {"keda"}


@pytest.mark.parametrize("path", sorted((EXAMPLES).glob("*.yaml")), ids=lambda path: path.name)
def test_no_example_repeats_a_default(path: Path) -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    secrets = {"redis.existingSecret", "auth.existingSecret"}
    same = [where for where, value in _leaves(yaml.safe_load(path.read_text())) if _at(defaults, where) == value]
    told_anyway = {"api.replicas", "api.autoscaling.minReplicas", "worker.keda.prometheusAddress"}
    assert set(same) - secrets - told_anyway - {"api.resources.requests.memory"} == set()


def _leaves(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


@pytest.mark.parametrize("path", [ROOT / "Dockerfile", SPARK / "Dockerfile"], ids=["service", "spark"])
def test_hadolint_finds_nothing_in_the_dockerfiles(path: Path) -> None:
    assert _hadolint(path.read_text()) == ""


def test_hadolint_finds_a_fault() -> None:
    assert "DL3" in _hadolint("FROM debian\nRUN cd /tmp && apt-get install curl\n")


def _hadolint(dockerfile: str) -> str:
    program = Path(sys.executable).with_name("hadolint")
    ran = subprocess.run([program, "-"], input=dockerfile, capture_output=True, text=True, timeout=300, check=False)
    return ran.stdout


def test_a_look_at_it_fits_a_small_node_beside_what_a_cluster_needs_itself(chart: Chart) -> None:
    """Two cores and 2 GB, 0.85 cores for Kubernetes itself; with the pods of a rollout and the test."""
    objects = chart.objects(*CASES["one-node"])
    asked = [(0.05, 64)]
    for some in objects:
        if some["kind"] in {"Deployment", "StatefulSet"}:
            (container,) = some["spec"]["template"]["spec"]["containers"]
            requests = container["resources"]["requests"]
            surge = some["kind"] == "Deployment"
            each = (int(requests["cpu"].removesuffix("m")) / 1_000, int(requests["memory"].removesuffix("Mi")))
            asked += [each] * (some["spec"]["replicas"] + surge)
    assert sum(cores for cores, _ in asked) <= 1
    assert sum(megabytes for _, megabytes in asked) <= 1_000


def test_the_development_store_is_found_while_it_starts(chart: Chart) -> None:
    assert one(chart.objects(*CASES["one-node"]), "Service", "acker-valkey")["spec"]["publishNotReadyAddresses"] is True
