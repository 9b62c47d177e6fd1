"""`helm test` takes a root from its init to its completion, and fails if that does not work."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.servers import free_port
from tests.deploy.chart import CASES, CHART, Chart, one
from tests.support.keys import keys_file
from tests.support.servers import AckerProcess, acker_serve, valkey

PROGRAM = CHART / "files/roundtrip.py"


def roundtrip(url: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run it as the pod does, which has no other variables."""
    command = [sys.executable, str(PROGRAM)]
    told = {"URL": url, "TOPOLOGY": "default", "KEYS_ASKED_FOR": "", "PATIENCE_S": "60"} | environment
    return subprocess.run(command, env=told, capture_output=True, text=True, timeout=300, check=False)


def test_it_works_on_an_open_acker_again_and_again(tmp_path: Path) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        for _ in range(2):
            ran = roundtrip(acker.url)
            assert ran.returncode == 0, ran.stderr
            assert "was acked, and its completion read" in ran.stdout
        assert unread(acker) == []


def unread(acker: AckerProcess) -> list[Any]:
    page = acker.http.get("/v1/topologies/default/spouts/helm-test/completions").json()
    return list(page["completions"])


def test_with_keys_it_needs_one_of_scope_spout(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, "spout", "ack")
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data"), "--keys-file", str(keys)) as acker:
        ran = roundtrip(acker.url, KEYS_ASKED_FOR="yes", KEY="spout\n")
        assert ran.returncode == 0, ran.stderr
        refused = roundtrip(acker.url, KEYS_ASKED_FOR="yes", KEY="ack")
        assert (refused.returncode, "403" in refused.stderr) == (1, True), refused.stderr
        nameless = roundtrip(acker.url, KEYS_ASKED_FOR="yes")
        assert (nameless.returncode, "test.existingSecret" in nameless.stderr) == (1, True)


def test_it_fails_where_no_worker_lets_time_pass(tmp_path: Path) -> None:
    port = free_port()
    with (
        valkey(tmp_path / "store", port=port),
        acker_serve(tmp_path, "--redis-url", f"redis://127.0.0.1:{port}", "--role", "api") as acker,
    ):
        ran = roundtrip(acker.url, PATIENCE_S="0")
        assert (ran.returncode, "no worker lets time pass" in ran.stderr) == (1, True), ran.stderr


def test_it_fails_where_writes_are_not_confirmed_and_so_no_replica_is_ready(tmp_path: Path) -> None:
    port = free_port()
    options = ("--redis-url", f"redis://127.0.0.1:{port}", "--durability", "replica:1")
    with valkey(tmp_path / "store", port=port), acker_serve(tmp_path, *options, until="/livez") as acker:
        ran = roundtrip(acker.url, PATIENCE_S="5")
        assert (ran.returncode, "503" in ran.stderr) == (1, True), ran.stderr


@pytest.mark.parametrize(
    ("wanted", "code"), [("localhost=1", 0), ("localhost=1 localhost=2", 1), ("nobody.invalid=1", 1)]
)
def test_it_fails_where_fewer_replicas_are_ready_than_there_should_be(tmp_path: Path, wanted: str, code: int) -> None:
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        ran = roundtrip(acker.url, REPLICAS=wanted, PATIENCE_S="1")
        assert (ran.returncode, "replicas are ready" in ran.stderr) == (code, code == 1), ran.stderr


@pytest.mark.parametrize(
    ("case", "sets", "wanted"),
    [
        ("try", (), {"acker-api-replicas": "3", "acker-worker-replicas": "2"}),
        ("one-node", (), {"acker-api-replicas": "2", "acker-worker-replicas": "1"}),
        ("full", ("api.autoscaling.minReplicas=4",), {"acker-api-replicas": "4", "acker-worker-replicas": "2"}),
        ("together", ("api.replicas=5",), {"acker-api-replicas": "5"}),
    ],
)
def test_it_counts_the_replicas_that_the_values_ask_for(
    chart: Chart, case: str, sets: tuple[str, ...], wanted: dict[str, str]
) -> None:
    objects = chart.objects(*CASES[case], sets=sets)
    (pod,) = one(objects, "Pod", "acker-roundtrip")["spec"]["containers"]
    (replicas,) = [variable["value"] for variable in pod["env"] if variable["name"] == "REPLICAS"]
    assert dict(each.split("=") for each in replicas.split()) == wanted
    for name in wanted:
        service = one(objects, "Service", name)["spec"]
        assert (service["clusterIP"], service.get("publishNotReadyAddresses", False)) == ("None", False)
        deployment = one(objects, "Deployment", name.removesuffix("-replicas"))["spec"]["template"]["metadata"]
        assert service["selector"].items() <= deployment["labels"].items()


def test_no_hook_has_another_name_than_the_pod_whose_log_is_shown(chart: Chart) -> None:
    hooks = [some for some in chart.objects(*CASES["try"]) if "helm.sh/hook" in some["metadata"].get("annotations", {})]
    assert [(some["kind"], some["metadata"]["name"]) for some in hooks] == [("Pod", "acker-roundtrip")]


@pytest.mark.parametrize("case", ["try", "full"])
def test_the_pod_runs_it_with_what_every_pod_has(chart: Chart, case: str) -> None:
    objects = chart.objects(*CASES[case])
    pod = one(objects, "Pod", "acker-roundtrip")
    python, option, script = pod["spec"]["containers"][0]["command"]
    assert (python, option, script.strip()) == ("python", "-c", PROGRAM.read_text().strip())
    assert "$(" not in script, "Kubernetes would put a variable in its place"
    assert pod["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation",  # with hook-succeeded there is no log to show
    }
    told = {variable["name"] for variable in pod["spec"]["containers"][0]["env"]}
    assert ("KEY" in told) is (case == "full")


def test_every_pod_goes_where_the_values_say(chart: Chart) -> None:
    tainted = ("nodeSelector.pool=steady", 'tolerations=[{"key":"pool"}]', 'imagePullSecrets=[{"name":"registry"}]')
    objects = chart.objects(*CASES["try"], sets=tainted)
    templates = [some["spec"]["template"] for some in objects if some["kind"] in {"Deployment", "StatefulSet"}]
    specs = [template["spec"] for template in templates] + [one(objects, "Pod", "acker-roundtrip")["spec"]]
    assert len(specs) == 4
    for spec in specs:
        assert spec["nodeSelector"] == {"pool": "steady"}
        assert spec["tolerations"] == [{"key": "pool"}]
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
