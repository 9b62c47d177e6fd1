"""Values that contradict themselves are refused with words, before anything is applied."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CASES, CHART, EXAMPLES, Chart
from tests.deploy.manifests import load

DIGEST = "sha256:" + "0" * 64
SENTINELS = "redis.url=redis+sentinel://a:26379\\,b:26379/trees?sentinel_password=x"
REFUSED: list[tuple[str, tuple[str, ...], str]] = [
    ("plain", ("redis.url=",), "exactly one of redis.url"),
    ("plain", ("devValkey.enabled=true",), "exactly one of redis.url"),
    ("plain", ("redis.existingSecret=x",), "exactly one of redis.url"),
    ("plain", ("redis.url=redis://u:p@store",), "must not hold a login"),
    ("plain", ("redis.url=redis://store?password=p",), "must not hold a login"),
    ("plain", ("redis.url=redis://store?db=1&password=p",), "must not hold a login"),
    ("plain", (SENTINELS,), "must not hold a login"),
    ("plain", ("redis.url=http://store",), "url"),
    ("plain", ("redis.url=rediss://store?ssl_ca_certs=/etc/acker/redis-tls/ca.crt",), "no redis.tlsSecret"),
    ("plain", ("redis.tlsSecret=t", "redis.url=rediss://store?ssl_ca_certs=/ca.crt"), "must lie in /etc/acker"),
    ("plain", ("redis.tlsSecret=t",), "begins with rediss"),
    ("plain", ("networkPolicy.enabled=true", "redis.url=redis://store:6380"), "redisPorts lacks 6380"),
    ("plain", ("networkPolicy.enabled=true", "redis.url=redis+cluster://a:6379\\,b:7000"), "redisPorts lacks 7000"),
    ("plain", ("networkPolicy.enabled=true", "redis.url=redis+sentinel://a/trees"), "redisPorts lacks 26379"),
    ("plain", ("networkPolicy.enabled=true", "networkPolicy.redisPorts=[6390]"), "redisPorts lacks 6379"),
    ("try", ("networkPolicy.enabled=true", "networkPolicy.redisPorts=[6390]"), "redisPorts lacks 6379"),
    ("try", ("config.ACKER_DURABILITY=replica:1",), "devValkey has neither"),
    ("try", ("config.ACKER_DURABILITY=fsync",), "devValkey has neither"),
    ("plain", ("config.ACKER_FSYNC_ASSERTED=true",), "only with ACKER_DURABILITY fsync"),
    ("plain", ("config.ACKER_FSYNC_ASSERTED=true", "config.ACKER_DURABILITY=replica:1"), "only with ACKER_DURABILITY"),
    ("plain", ("config.ACKER_DURABILITY=replica:0",), "ACKER_DURABILITY"),
    ("plain", ("config.ACKER_CALLBACK_ALLOW_CIDRS=banana",), "ACKER_CALLBACK_ALLOW_CIDRS"),
    ("plain", ("config.ACKER_CALLBACK_ALLOW_CIDRS=10.20.0.0",), "ACKER_CALLBACK_ALLOW_CIDRS"),
    ("plain", ("config.ACKER_CALLBACK_ALLOW_CIDRS=10.20.0.0/33",), "ACKER_CALLBACK_ALLOW_CIDRS"),
    ("plain", ("config.ACKER_CALLBACK_ALLOW_CIDRS=10.0.0.0/8\\,banana",), "ACKER_CALLBACK_ALLOW_CIDRS"),
    ("plain", ("auth.open=true",), "exactly one of auth.existingSecret"),
    ("plain", ("auth.existingSecret=",), "exactly one of auth.existingSecret"),
    ("try", ("ingress.enabled=true", "ingress.host=a.example"), "would let the world in"),
    ("try", ("httpRoute.enabled=true", 'httpRoute.parentRefs=[{"name":"g"}]'), "would let the world in"),
    ("try", ("service.type=LoadBalancer",), "of type LoadBalancer"),
    ("try", ("test.existingSecret=k",), "asks for no key"),
    ("plain", ("ingress.enabled=true",), "ingress needs ingress.host"),
    ("plain", ("httpRoute.enabled=true",), "httpRoute needs httpRoute.parentRefs"),
    ("plain", ("api.terminationGracePeriodSeconds=34",), "must be at least 35"),
    ("plain", ("config.ACKER_SHUTDOWN_DRAIN_S=11",), "must be at least 36"),
    ("plain", ("config.ACKER_SHUTDOWN_DRAIN_S=0", "api.terminationGracePeriodSeconds=24"), "must be at least 25"),
    ("plain", ("config.ACKER_SHUTDOWN_DRAIN_S=null", "api.terminationGracePeriodSeconds=29"), "must be at least 30"),
    ("plain", ("api.preStopSleepSeconds=30",), "must be at least 60"),
    ("plain", ("worker.terminationGracePeriodSeconds=19",), "must be at least 20"),
    ("plain", ("api.autoscaling.enabled=true", "api.autoscaling.minReplicas=20"), "more than maxReplicas"),
    ("plain", ("api.autoscaling.enabled=true", "api.resources.requests.cpu=null"), "reckons from"),
    ("plain", ("worker.keda.enabled=true",), "say podMonitor.enabled"),
    ("plain", ("worker.keda.enabled=true", "podMonitor.enabled=true", "roles=all"), "only if roles is split"),
    ("plain", ("worker.keda.enabled=true", "podMonitor.enabled=true", "worker.keda.minReplicas=99"), "more than max"),
    ("plain", ("worker.keda.minReplicas=0",), "minReplicas"),
    ("plain", ("worker.replicas=0",), "replicas"),
    ("plain", ("prometheusRule.enabled=true",), "say podMonitor.enabled"),
    ("plain", ("image.tag=v1", f"image.digest={DIGEST}"), "not both"),
    ("plain", ("image.digest=sha256:12",), "digest"),
    ("plain", ("fullnameOverride=Acker",), "fullnameOverride"),
    ("plain", ("fullnameOverride=1st",), "fullnameOverride"),
    ("plain", ("fullnameOverride=a.b",), "fullnameOverride"),
    ("plain", (f"fullnameOverride={'a' * 46}",), "fullnameOverride"),
    ("plain", ("extraEnv.ACKER_ROLE=all",), "extraEnv"),
    ("plain", ("extraEnv.ACKER_TICKMS=100",), "extraEnv"),
    ("plain", ("extraEnv.acker_role=all",), "extraEnv"),
    ("plain", ("config.ACKER_TICKMS=100",), "ACKER_TICKMS"),
    ("plain", ("config.ACKER_ROLE=all",), "ACKER_ROLE"),
    ("plain", ("config.ACKER_REDIS_URL=redis://x",), "ACKER_REDIS_URL"),
    ("plain", ("config.ACKER_TICK_MS=9",), "ACKER_TICK_MS"),
    ("plain", ("config.ACKER_MAX_BATCH=10001",), "ACKER_MAX_BATCH"),
    ("plain", ("config.ACKER_TICK_MS=soon",), "ACKER_TICK_MS"),
    ("plain", ("config.ACKER_LOG_LEVEL=loud",), "ACKER_LOG_LEVEL"),
    ("plain", ('api.podLabels={"app.kubernetes.io/name":"x"}',), "podLabels"),
    ("plain", ('commonLabels={"helm.sh/chart":"x"}',), "commonLabels"),
    ("plain", ('commonLabels={"a":"x"}', 'api.podLabels={"a":"y"}'), "in commonLabels already"),
    ("plain", ("api.replica=2",), "replica"),
    ("plain", ("apis.replicas=2",), "apis"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "sets", "why"), REFUSED, ids=lambda part: " ".join(part) if isinstance(part, tuple) else part
)
def test_a_contradiction_is_refused_with_words(chart: Chart, case: str, sets: tuple[str, ...], why: str) -> None:
    said = chart.refusal(*CASES[case], sets=sets)
    assert why in said
    assert "nil pointer" not in said


OPEN = {"nodeSelector", "podSecurityContext", "resources", "config", "labels"}
"""What is not closed: a key taken out of these is just not there."""


def _nothing_at(depth: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that put null in place of each value at a depth."""
    if depth == 0:
        return dict.fromkeys(values)
    inner = {key: value for key, value in values.items() if isinstance(value, dict) and key not in OPEN}
    return {key: _nothing_at(depth - 1, value) for key, value in inner.items()}


def _names(values: dict[str, Any]) -> set[str]:
    return {name for key, value in values.items() for name in ({key} if value is None else _names(value))}


@pytest.mark.parametrize("helm", ["helm", "helm3"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_null_in_place_of_a_value_is_refused_with_words(chart: Chart, tmp_path: Path, helm: str, depth: int) -> None:
    nothing = _nothing_at(depth, yaml.safe_load((CHART / "values.yaml").read_text()))
    (tmp_path / "nothing.yaml").write_text(yaml.safe_dump(nothing))
    said = chart.refusal(tmp_path / "nothing.yaml", helm=helm)
    assert "nil pointer" not in said
    assert [name for name in sorted(_names(nothing)) if name not in said] == []


EMPTY = {
    "config": "config:\n  # ACKER_TICK_MS: 500\n",
    "resources": "api:\n  resources:\n    # requests: {cpu: 1}\n  replicas: 2\n",
    "keda": "worker:\n  keda:\n",
    "auth": "auth:\n  # existingSecret: keys\n",
    "extraEnv": "extraEnv: ~\n",
}
"""Values files in which one key has nothing below it, by that key."""


@pytest.mark.parametrize("helm", ["helm", "helm3"])
@pytest.mark.parametrize(("key", "values"), EMPTY.items(), ids=EMPTY)
def test_a_key_with_only_comments_below_is_refused_with_the_cause(
    chart: Chart, tmp_path: Path, helm: str, key: str, values: str
) -> None:
    (tmp_path / "empty.yaml").write_text(values)
    said = chart.refusal(*CASES["plain"], tmp_path / "empty.yaml", helm=helm)
    assert key in said
    assert "only comments below it is null" in said


def test_wherever_the_schema_requires_a_key_of_the_chart_it_names_that_cause() -> None:
    causes = [node.get("else") for node in _closed(json.loads((CHART / "values.schema.json").read_text()))]
    assert len(causes) > 15
    assert causes == [{"$ref": "#/definitions/null"}] * len(causes)


def _closed(node: Any) -> Iterator[dict[str, Any]]:
    """Find the parts that require several keys, and hold their conditions to these."""
    if isinstance(node, dict):
        if len(node.get("required", ())) > 1 and "properties" in node:
            assert node.get("if") == {"required": node["required"]}
            yield node
        node = [*node.values()]
    if isinstance(node, list):
        for inner in node:
            yield from _closed(inner)


@pytest.mark.parametrize(("release", "why"), [("1st", "fullnameOverride"), ("a.b", "fullnameOverride")])
def test_a_release_whose_name_names_no_service_is_refused(chart: Chart, release: str, why: str) -> None:
    assert why in Chart(tools=chart.tools, release=release).refusal(*CASES["plain"])


def test_a_long_name_of_the_release_is_cut(chart: Chart) -> None:
    longest = "r" * 53
    for some in Chart(tools=chart.tools, release=longest).objects(*CASES["full"]):
        assert len(some["metadata"]["name"]) <= 63


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_no_example_says_a_key_twice(path: Path) -> None:
    assert load(path.read_text())
