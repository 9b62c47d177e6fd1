"""Everything that is rendered is what Kubernetes takes, whichever Helm renders it."""

import functools
import json
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest

from tests.deploy.chart import CASES, CHART, DEPLOY, Chart
from tests.deploy.lint import lint
from tests.deploy.manifests import load
from tests.deploy.tools import NODE, Tools

VERSIONS = ("1.30", "1.35", "1.36", "1.37")
OTHERS = ("monitoring.coreos.com/", "keda.sh/", "gateway.networking.k8s.io/")
"""Groups whose kinds have types of their own; any other that the schemas do not know is a fault."""


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Path, ...]:
    """Values that the chart is rendered with."""
    return CASES[request.param]


def test_helm_finds_nothing_to_complain_about(tools: Tools, case: tuple[Path, ...]) -> None:
    ran = tools.run("helm", "lint", "--strict", CHART, *(option for path in case for option in ("-f", path)))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_helm_3_and_4_render_the_same(chart: Chart, case: tuple[Path, ...]) -> None:
    assert chart.text(*case) == chart.text(*case, helm="helm3")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_hold(chart: Chart, case: tuple[Path, ...], version: str) -> None:
    objects = chart.objects(*case, flags=("--kube-version", version))
    plain = [some for some in objects if not some["apiVersion"].startswith(OTHERS)]
    for some in plain:
        _validate(json.dumps(some, sort_keys=True), version)
    assert len(plain) >= 6


@functools.cache
def _validate(some: str, version: str) -> None:
    """Hold an object to the schemas; what several cases have in common only once."""
    kubernetes_validate.validate(json.loads(some), version, strict=True)


def test_nothing_refers_to_what_is_not_there(chart: Chart, case: tuple[Path, ...]) -> None:
    assert list(lint(chart.objects(*case, flags=("--is-upgrade",)))) == []


def test_an_install_differs_from_an_upgrade_only_in_the_replicas_of_what_is_scaled(
    chart: Chart, case: tuple[Path, ...]
) -> None:
    install, upgrade = chart.objects(*case), chart.objects(*case, flags=("--is-upgrade",))
    scaled = {some["spec"]["scaleTargetRef"]["name"] for some in install if "scaleTargetRef" in some.get("spec", {})}
    for some in install:
        if some["kind"] == "Deployment" and some["metadata"]["name"] in scaled:
            assert some["spec"].pop("replicas") >= 2
    assert install == upgrade


def test_every_object_says_whose_it_is(chart: Chart, case: tuple[Path, ...]) -> None:
    for some in chart.objects(*case):
        assert some["metadata"]["namespace"] == "acks"
        assert some["metadata"]["labels"]["app.kubernetes.io/part-of"] == "acker"


def test_custom_resources_are_what_their_operators_know(tools: Tools, chart: Chart, tmp_path: Path) -> None:
    for name, values in CASES.items():
        (tmp_path / f"{name}.yaml").write_text(chart.text(*values))
    ran = _typed(tools, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 0 custom resources" not in ran.stdout


WRONG = [
    ("ScaledObject", "maxReplicaCount: 10", "maxReplicas: 10"),
    ("ScaledObject", "cooldownPeriod: 300", 'cooldownPeriod: "soon"'),
    ("PodMonitor", "podMetricsEndpoints:", "podMetricEndpoints:"),
    ("HTTPRoute", "type: PathPrefix", "type: Prefix"),
    ("PrometheusRule", "alert: AckerGone", "alerts: AckerGone"),
]


def test_each_fault_in_a_custom_resource_is_found(tools: Tools, chart: Chart, tmp_path: Path) -> None:
    documents = chart.text(*CASES["full"]).split("\n---\n")
    for number, (kind, right, wrong) in enumerate(WRONG):
        document = next(part for part in documents if f"\nkind: {kind}\n" in part)
        assert right in document
        (tmp_path / f"wrong-{number}.yaml").write_text(document.replace(right, wrong))
    ran = _typed(tools, tmp_path)
    assert [number for number in range(len(WRONG)) if f"wrong-{number}.yaml" not in ran.stdout] == [], ran.stdout


def _typed(tools: Tools, folder: Path) -> "subprocess.CompletedProcess[str]":
    return tools.node(NODE / "crdcheck.mjs", *sorted(folder.glob("*.yaml")))


def test_install_yaml_is_what_the_chart_renders_now(tools: Tools) -> None:
    values = DEPLOY / "install-values.yaml"
    ran = tools.run("helm", "template", "acker", CHART, "-n", "acker", "--no-hooks", "-f", values)
    golden = DEPLOY / "install.yaml"
    assert load(golden.read_text()) == load(ran.stdout), (
        "write it anew: helm template acker deploy/helm/acker -n acker --no-hooks"
        " -f deploy/install-values.yaml > deploy/install.yaml"
    )
    assert golden.read_text() == ran.stdout
