"""Alerts, dashboard and scaler ask only for what /metrics tells, and each alert is seen to fire."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from acker_protocol.operations import Outcome

from tests.deploy.chart import CASES, CHART, Chart, one
from tests.deploy.conftest import BUILD_S
from tests.deploy.tools import Tools
from tests.integration.monitoring.test_metrics_page import PAGE, listed
from tests.support.exposition import read
from tests.support.pages import DOCS
from tests.support.servers import acker_serve

ALERTS = CHART / "files/alerts.yaml"
DASHBOARD = CHART / "files/dashboard.json"
RUNBOOK = DOCS / "runbook.md"
CLUSTER_PAGE = "http://acker.acker.svc:8700"
OWN_TEST = Path(__file__).parent / "alerts_test.yaml"
NATIVE_TEST = OWN_TEST.with_name("native_histograms_test.yaml")
SELECTED = re.compile(
    r"\b(?P<name>(?:(?:namespace|topology|spout_task):)?(?:acker|process|python)_\w+(?::\w+)?)(?P<selector>\{[^}]*(?:\{topology\}[^}]*)?\})?"
)
PAIR = re.compile(r"(?P<label>\w+)(?P<how>=~|!~|!=|=)\"(?P<value>[^\"]*)\"")
GROUPED = re.compile(r"\b(?:by|on|group_left)\s*\((?P<labels>[^)]*)\)")
OF_PROMETHEUS = {"namespace", "pod", "app_kubernetes_io_instance", "le", "alertname"}


def group() -> list[dict[str, Any]]:
    (only,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(only["rules"])


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    return [rule for rule in group() if "alert" in rule]


def recorded() -> dict[str, str]:
    """Return the queries of the recording rules by the names of their series."""
    return {rule["record"]: rule["expr"] for rule in group() if "record" in rule}


def labels_of(name: str, kinds: dict[str, Any]) -> set[str]:
    """Return the labels of a metric, or of a recorded series: those that its query keeps."""
    if name not in recorded():
        return set(kinds[name][1])
    query = recorded()[name]
    grouped = re.findall(r"(?:max|sum) by \(([^)]*)\)", query)
    kept = {label for labels in grouped for label in re.findall(r"\w+", labels)}
    return kept | {
        label
        for series in SELECTED.finditer(query)
        if series["name"] in recorded()
        for label in labels_of(series["name"], kinds)
    }


def queries(chart: Chart) -> Iterator[tuple[str, str]]:
    """Yield everything that is asked of Prometheus, with where."""
    yield from recorded().items()
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    scaler = one(chart.objects(*CASES["watched"]), "ScaledObject", "acker-worker")
    yield "ScaledObject", scaler["spec"]["triggers"][0]["metadata"]["query"]


def row(metric: str) -> str:
    """Return what the page says of a metric, in its row and in those of its labels' values."""
    lines = PAGE.read_text().splitlines()
    [own] = [line for line in lines if line.startswith(f"| `{metric}` |")]
    return own + "".join(line for line in lines if re.match(rf"\| `\w+` \| [^|]*`{metric}`", line))


def plain(name: str, kinds: dict[str, Any]) -> str:
    """Return the metric of a series: a histogram has three."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in kinds and kinds[base][0] == "histogram" else name


def test_every_query_names_metrics_and_labels_that_there_are(chart: Chart) -> None:
    kinds = listed()
    for where, query in queries(chart):
        found = list(SELECTED.finditer(query))
        assert found, where
        known = set(OF_PROMETHEUS)
        for metric in found:
            name = plain(metric["name"], kinds)
            assert name in kinds or name in recorded(), f"{where}: {metric['name']}"
            known |= labels_of(name, kinds)
            for pair in PAIR.finditer(metric["selector"] or ""):
                labels = labels_of(name, kinds) | OF_PROMETHEUS
                assert pair["label"] in labels, f"{where}: {name} has no {pair['label']}"
        for grouped in GROUPED.finditer(query):
            assert set(re.findall(r"\w+", grouped["labels"])) <= known, f"{where}: {grouped[0]}"


def test_every_query_names_values_that_there_are(chart: Chart) -> None:
    kinds = listed()
    for where, query in queries(chart):
        for metric in SELECTED.finditer(query):
            for pair in PAIR.finditer(metric["selector"] or ""):
                if pair["label"] in {"kind", "result", "outcome"}:
                    [source, *_] = SELECTED.finditer(recorded().get(metric["name"], metric[0]))
                    words = row(plain(source["name"], kinds)) + " ".join(Outcome)
                    assert all(value in words for value in pair["value"].split("|")), f"{where}: {pair[0]}"


def test_a_real_acker_tells_these_metrics(chart: Chart, tmp_path: Path) -> None:
    kinds = listed()
    asked = {plain(found["name"], kinds) for _, query in queries(chart) for found in SELECTED.finditer(query)}
    asked -= set(recorded())
    with acker_serve(tmp_path, "--data-dir", str(tmp_path / "data")) as acker:
        told = read(acker.http.get("/metrics").text).families
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in told.values()}
    assert asked <= names


def test_every_query_is_valid(tools: Tools, chart: Chart, tmp_path: Path) -> None:
    def filled(query: str) -> str:
        return re.sub(r"\$__rate_interval", "5m", re.sub(r"\$(namespace|topology)", "x", query))

    asked = [{"record": f"q:{number}", "expr": filled(query)} for number, (_, query) in enumerate(queries(chart))]
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": asked}]}))
    ran = tools.run("promtool", "check", "rules", tmp_path / "queries.yaml")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_fires_when_it_should_and_not_otherwise(tools: Tools, tmp_path: Path) -> None:
    for path in (ALERTS, OWN_TEST):
        shutil.copy(path, tmp_path)
    ran = tools.run("promtool", "test", "rules", tmp_path / OWN_TEST.name)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.timeout(2 * BUILD_S)
@pytest.mark.parametrize("test", [OWN_TEST, NATIVE_TEST], ids=["classic histograms", "native histograms"])
def test_prometheus_3_fires_the_alerts_likewise(promtool3: Path, test: Path, tmp_path: Path) -> None:
    for path in (ALERTS, test):
        shutil.copy(path, tmp_path)
    run_promtool(promtool3, tmp_path / test.name)


def histograms_of(query: str) -> set[str]:
    """Return the histograms that a query takes a quantile of."""
    return {
        found["name"].removesuffix("_bucket") for found in SELECTED.finditer(query) if found["name"] not in recorded()
    }


def series_of(histogram: str, kinds: dict[str, Any], *, native: bool) -> list[dict[str, str]]:
    """Return what Prometheus has of a histogram in one form: a hundred values a minute, half below a second."""
    labels = "".join(f',{label}="acked"' for label in kinds[histogram][1])
    selected = f'namespace="acker",pod="api-0"{labels}'
    if native:
        step = "{{schema:-53 sum:90 count:100 custom_values:[1 2] buckets:[50 50]}}"
        values = "{{schema:-53 custom_values:[1 2]}}+" + f"{step}x20"
        return [{"series": f"{histogram}{{{selected}}}", "values": values}]
    counts = {"1": 50, "2": 100, "+Inf": 100}
    buckets = ((f'{histogram}_bucket{{{selected},le="{le}"}}', f"0+{count}x20") for le, count in counts.items())
    return [{"series": series, "values": values} for series, values in buckets]


@pytest.mark.timeout(2 * BUILD_S)
@pytest.mark.parametrize("native", [False, True], ids=["classic histograms", "native histograms"])
def test_every_quantile_is_there_in_both_forms_of_a_histogram(
    promtool3: Path, chart: Chart, tmp_path: Path, *, native: bool
) -> None:
    kinds = listed()
    filled = {"$__rate_interval": "5m", "$namespace": "acker", "$topology": "acked"}
    asked = [query for _, query in queries(chart) if "histogram_quantile" in query]
    for name, value in filled.items():
        asked = [query.replace(name, value) for query in asked]
    histograms = sorted(set().union(*map(histograms_of, asked)))
    test = {
        "interval": "1m",
        "input_series": [series for name in histograms for series in series_of(name, kinds, native=native)],
        "promql_expr_test": [
            {"expr": f"count({query}) > 0", "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for query in asked
        ],
    }
    path = tmp_path / "quantiles.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    assert len(asked) == 11
    run_promtool(promtool3, path)


def run_promtool(program: Path, test: Path) -> None:
    ran = subprocess.run([program, "test", "rules", test], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_there_is_a_test_in_which_each_alert_fires() -> None:
    tests = yaml.safe_load(OWN_TEST.read_text())["tests"]
    samples = [told for test in tests for asked in test["promql_expr_test"] for told in asked.get("exp_samples", [])]
    fired = {name for told in samples for name in re.findall(r'alertname="(\w+)"', told["labels"])}
    assert fired == {rule["alert"] for rule in rules()}


def test_the_chart_puts_its_own_namespace_into_the_rules(tools: Tools, chart: Chart, tmp_path: Path) -> None:
    spec = one(chart.objects(*CASES["full"]), "PrometheusRule", "acker")["spec"]
    rendered = spec["groups"][0]["rules"]
    names = [rule.get("alert") or rule["record"] for rule in rendered]
    assert names == [rule.get("alert") or rule["record"] for rule in group()]
    for rule in rendered:
        assert rule["expr"].count('namespace="acks"') == len(SELECTED.findall(rule["expr"]))
        assert rule.get("labels", {}).get("namespace", "acks") == "acks"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    assert tools.run("promtool", "check", "rules", tmp_path / "rules.yaml").returncode == 0


def test_alerts_say_what_is_wrong_and_what_to_do(chart: Chart) -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_every_alert_leads_to_its_entry_of_the_runbook() -> None:
    entries = re.findall(r"^## (.*)$((?:\n(?!## ).*)*)", RUNBOOK.read_text(), re.MULTILINE)
    told = {title.lower().replace(" ", "-"): set(re.findall(r"`(Acker\w+)`", text)) for title, text in entries}
    for rule in rules():
        entry = rule["annotations"]["runbook_url"].removeprefix(f"{CLUSTER_PAGE}/ui/#/runbook").removeprefix("/")
        assert rule["alert"] in told[entry] if entry else f"`{rule['alert']}`" in RUNBOOK.read_text(), rule["alert"]
    assert set().union(*told.values()) <= {rule["alert"] for rule in rules()}


def test_the_runbook_links_of_a_release_lead_to_its_own_page(chart: Chart) -> None:
    for case, page in (("full", "https://acker.example"), ("watched", "http://acker.acks.svc:8700")):
        spec = one(chart.objects(*CASES[case]), "PrometheusRule", "acker")["spec"]
        links = [rule["annotations"]["runbook_url"] for rule in spec["groups"][0]["rules"] if "alert" in rule]
        assert len(links) == len(rules())
        assert all(link.startswith(f"{page}/ui/#/runbook") for link in links), links


@pytest.mark.parametrize(
    ("sets", "expected"), [((), ["/v1/", "/ui/"]), (("ingress.ui=false", "httpRoute.ui=false"), ["/v1/"])]
)
def test_the_page_is_routed_if_the_values_say_so(chart: Chart, sets: tuple[str, ...], expected: list[str]) -> None:
    objects = chart.objects(*CASES["full"], sets=sets)
    [rule] = one(objects, "Ingress", "acker")["spec"]["rules"]
    [routed] = one(objects, "HTTPRoute", "acker")["spec"]["rules"]
    assert [path["path"] for path in rule["http"]["paths"]] == expected
    assert [match["path"]["value"] for match in routed["matches"]] == expected


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        x, y, w, h = (panel["gridPos"][side] for side in "xywh")
        own = {(column, line) for column in range(x, x + w) for line in range(y, y + h)}
        assert x + w <= 24
        assert not own & taken
        taken |= own


def test_the_pods_that_are_scraped_are_those_of_the_acker(chart: Chart) -> None:
    objects = chart.objects(*CASES["full"])
    (endpoint,) = one(objects, "PodMonitor", "acker")["spec"]["podMetricsEndpoints"]
    for name in ("acker-api", "acker-worker"):
        (served,) = one(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert served["name"] == endpoint["port"]
