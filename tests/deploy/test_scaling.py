"""Who scales what: never to nothing, never by what cannot be known, never to one by switching it on."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import cluster
from tests.deploy.chart import CASES, Chart, one
from tests.deploy.tools import Tools


@pytest.mark.parametrize("helm", ["helm", "helm3"])
@pytest.mark.parametrize(
    ("runs", "flags", "keeps"),
    [
        pytest.param((7, 5), (), (7, 5), id="what runs"),
        pytest.param((1, 1), (), (3, 2), id="the least at least"),
        pytest.param(None, (), (3, 2), id="an install says the least, for --wait and for a rollback to it"),
        pytest.param(None, ("--is-upgrade",), (None, None), id="an upgrade that finds nothing says nothing"),
    ],
)
def test_a_running_release_keeps_its_replicas_when_a_scaler_takes_over(
    chart: Chart,
    helm: str,
    runs: tuple[int, int] | None,
    flags: tuple[str, ...],
    keeps: tuple[int | None, int | None],
) -> None:
    kinds: dict[str, set[str]] = {}
    for some in chart.objects(*CASES["full"]):
        kinds.setdefault(some["apiVersion"], set()).add(some["kind"])
    with cluster.running(dict(zip(("acker-api", "acker-worker"), runs or (), strict=False)), kinds) as address:
        asking = ("--dry-run=server", "--disable-openapi-validation", "--kube-apiserver", address)
        rendered = chart.text(*CASES["full"], flags=(*asking, *flags), helm=helm)
    objects = list(yaml.safe_load_all(rendered))
    found = [one(objects, "Deployment", name)["spec"].get("replicas") for name in ("acker-api", "acker-worker")]
    assert tuple(found) == keeps


def test_without_a_scaler_the_values_say_how_many(chart: Chart) -> None:
    objects = chart.objects(*CASES["plain"], sets=("api.replicas=4",))
    assert one(objects, "Deployment", "acker-api")["spec"]["replicas"] == 4


def test_what_prometheus_does_not_know_is_an_error_and_not_a_backlog_of_nothing(chart: Chart) -> None:
    spec = one(chart.objects(*CASES["watched"]), "ScaledObject", "acker-worker")["spec"]
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    assert min(spec["minReplicaCount"], spec["fallback"]["replicas"]) >= 1


def scraped(metric: str, values: str, **labels: str) -> dict[str, str]:
    told = {"namespace": "acks", "app_kubernetes_io_instance": "acker"} | labels
    return {
        "series": metric + "{" + ",".join(f'{key}="{value}"' for key, value in told.items()) + "}",
        "values": values,
    }


def mailbox(task: str, unread: int, *, on: int = 1, topology: str = "t", pod: str = "a") -> list[dict[str, str]]:
    where = {"topology": topology, "spout_task": task, "pod": pod}
    return [
        scraped("acker_callback_unread", f"{unread}x20", **where),
        scraped("acker_callback_on", f"{on}x20", **where),
    ]


UP = [scraped("acker_store_up", "1x20", pod="a")]
DELIVERS = [scraped("acker_deliveries_total", "0+60x20", topology="t", result="delivered", pod="a")]
DEAD = [scraped("acker_deliveries_total", "0+60x20", topology="t", result="retried", pod="a")]


@pytest.mark.parametrize(
    ("series", "backlog"),
    [
        pytest.param([*UP], 0, id="no callbacks"),
        pytest.param([*UP, *DELIVERS, *mailbox("s", 300)], 300, id="a backlog"),
        pytest.param([*UP, *DELIVERS, *mailbox("s", 300), *mailbox("s", 290, pod="b")], 300, id="told by two replicas"),
        pytest.param([*UP, *DELIVERS, *mailbox("s", 300), *mailbox("r", 100)], 400, id="two mailboxes"),
        pytest.param([*UP, *DELIVERS, *mailbox("s", 90_000)], 500, id="one mailbox asks for one worker"),
        pytest.param([*UP, *DELIVERS, *mailbox("s", 300), *mailbox("r", 9_000, on=0)], 300, id="one is paused"),
        pytest.param([*UP, *DEAD, *mailbox("s", 9_000)], 0, id="its receiver takes nothing"),
        pytest.param([], None, id="nothing is scraped"),
        pytest.param([scraped("acker_store_up", "0x20", pod="a")], None, id="the store is away"),
        pytest.param([scraped("acker_store_up", "1x2 stale", pod="a")], None, id="nothing is scraped any more"),
        pytest.param([scraped("acker_store_up", "1x20", namespace="others")], None, id="only another namespace is"),
    ],
)
def test_the_backlog_that_workers_are_scaled_on(
    tools: Tools, chart: Chart, tmp_path: Path, series: list[dict[str, str]], backlog: int | None
) -> None:
    spec = one(chart.objects(*CASES["watched"]), "ScaledObject", "acker-worker")["spec"]
    asked: dict[str, Any] = {"expr": spec["triggers"][0]["metadata"]["query"], "eval_time": "15m"}
    if backlog is not None:
        asked["exp_samples"] = [{"labels": "{}", "value": backlog}]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    ran = tools.run("promtool", "test", "rules", tmp_path / "test.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
